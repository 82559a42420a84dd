"""What kernels are compiled to: those that Python calls to machine code, all others to parts of it."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.environment import lookup_environment

__all__ = ["InnerCompiler", "InnerLibrary", "OuterCompiler"]

_ENVIRONMENT = "_ZN08NumbaEnv"
"""How numba names the variables by which kernels find what they need of Python."""


class _Unused:
    """Stands for the code generator where a kernel gets no machine code of its own: it has no environment."""

    def set_env(self, _name: str, _environment: Any) -> None:
        """Set nothing: the kernels that call it do."""


class InnerLibrary(JITCodeLibrary):
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


class _OuterLibrary(JITCodeLibrary):
    """What a kernel compiles to that Python calls, with all that it calls and their environments."""

    def _finalize_specific(self) -> None:
        super()._finalize_specific()
        codegen: Any = self._codegen
        for variable in self._final_module.global_variables:
            if variable.name.startswith(_ENVIRONMENT):
                environment = lookup_environment(variable.name)
                if environment is not None:
                    codegen.set_env(variable.name, environment)


class OuterCompiler(Compiler):
    """Numba's compiler, into a library of ours."""

    library: ClassVar[type] = _OuterLibrary

    def define_pipelines(self) -> Any:
        state = self.state
        if state.library is None:
            state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
        return super().define_pipelines()


class InnerCompiler(OuterCompiler):
    library = InnerLibrary
