"""What kernels are compiled to: those that Python calls to machine code, all others to parts of it."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import register_pass
from numba.core.environment import lookup_environment
from numba.core.lowering import Lower
from numba.core.typed_passes import IRLegalization, NativeLowering

from mlsim._jit.compiler.entries import Draft, draft
from mlsim._jit.compiler.indices import NaturalIndices
from mlsim._jit.kept import Entry

__all__ = ["InnerCompiler", "InnerLibrary", "OuterCompiler"]

_ENVIRONMENT = "_ZN08NumbaEnv"
"""How numba names the variables by which kernels find what they need of Python."""


class _Unused:
    """Stands for the code generator where a kernel gets no machine code of its own: it has no environment."""

    def set_env(self, _name: str, _environment: Any) -> None:
        """Set nothing: the kernels that call it do."""


class _Library(JITCodeLibrary):
    """What kernels compile to."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Optimize each function by itself, with the same passes for all; numba makes them anew for each."""
        ll_module.data_layout = self._codegen._data_layout
        passes, builder = self._codegen._function_pass_manager()
        for function in ll_module.functions:
            if not function.is_declaration:
                passes.run(function, builder)


class InnerLibrary(_Library):
    """What a kernel compiles to that only kernels call: parts of them, and no machine code of its own.

    Numba would optimize each kernel together with all that it calls, and make machine code of it, once for
    the kernel itself and again for everyone who calls it.
    """

    codegen = _Unused()

    def _optimize_final_module(self) -> None:
        """Leave it to the kernels that call it, which are looked at as a whole."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, _name: str) -> int:
        """Return 0: there is nothing that Python could call."""
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        """Keep what it compiled to, as there is no object code."""
        return cast(tuple[str, str, bytes], self.serialize_using_bitcode())


class _OuterLibrary(_Library):
    """What a kernel compiles to that Python calls, with all that it calls and their environments."""

    draft: Draft | None = None
    """How it is called without numba, if it can be."""

    def _finalize_specific(self) -> None:
        super()._finalize_specific()
        codegen: Any = self._codegen
        for variable in self._final_module.global_variables:
            if variable.name.startswith(_ENVIRONMENT):
                environment = lookup_environment(variable.name)
                if environment is not None:
                    codegen.set_env(variable.name, environment)

    @property
    def entry(self) -> Entry | None:
        """What is called without numba, once all is compiled; None if nothing can be."""
        if self.draft is None:
            return None
        module = self._final_module
        names = [item.name for item in (*module.functions, *module.global_variables) if item.is_declaration]
        needs = [name for name in names if not name.startswith("llvm.")]
        return self.draft.entry(needs, self._get_compiled_object())


class _Lower(Lower):
    """Numba's code generator, which adds how a kernel is called without numba."""

    def create_cpython_wrapper(self, release_gil: bool = False) -> None:
        super().create_cpython_wrapper(release_gil)
        self.library.draft = draft(self.context, self.library, self.fndesc)


@register_pass(mutates_CFG=True, analysis_only=False)
class _OuterLowering(NativeLowering):
    """The pass that generates code."""

    _name = "mlsim_outer_lowering"

    @property
    def lowering_class(self) -> type:
        return _Lower


class OuterCompiler(Compiler):
    """Numba's compiler, into a library of ours."""

    library: ClassVar[type] = _OuterLibrary
    lowering: ClassVar[type] = _OuterLowering

    def define_pipelines(self) -> Any:
        state = self.state
        if state.library is None:
            state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
        pipelines = super().define_pipelines()
        for passes in pipelines:
            for place, (one, why) in reversed([*enumerate(passes.passes)]):
                if one is NativeLowering:
                    passes.passes[place] = self.lowering, why
                elif one is IRLegalization:
                    passes.passes.insert(place, (NaturalIndices, "natural indices"))
            passes.finalize()
        return pipelines


class InnerCompiler(OuterCompiler):
    library = InnerLibrary
    lowering = NativeLowering
