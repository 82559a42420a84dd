"""Work of Numba's that compiling a kernel does not need, or needs once: left out, or remembered.

Numba is made to be looked into: it tells of each lock and pass, and works out the life of every variable
after each pass. What it makes of a kernel is the same without; `tests/test_shortcuts.py` compares them.
"""

from __future__ import annotations

from typing import Any

from numba.core import ir as numba_ir
from numba.core import types as numba_types
from numba.core.compiler_machinery import PassManager, _pass_registry, register_pass
from numba.core.transforms import canonicalize_cfg
from numba.core.typed_passes import AnnotateTypes, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes

__all__ = ["QUICK", "QuickPasses"]

ir: Any = numba_ir  # it is not typed itself
types: Any = numba_types
_CLOSURES = {"make_function", "build_list"}
_OVER_ARRAYS = {"unary", "binop", "inplace_binop", "call"}


class QuickPasses(PassManager):
    """Numba's passes over a kernel, without word of each, and without those that change nothing of it."""

    def _runPass(self, _index: int, one: Any, state: Any) -> None:  # noqa: N802 - Numba's name
        one.analysis = self._analysis
        one.run_initialization(state)
        one.run_pass(state)
        one.run_finalizer(state)
        if _pass_registry.get(type(one)).mutates_CFG:
            state.func_ir.blocks = canonicalize_cfg(state.func_ir.blocks)


@register_pass(mutates_CFG=False, analysis_only=False)
class _NoAnnotation(AnnotateTypes):
    """Stands for the pass that writes down, with the source, which types were found."""

    _name = "mlsim_no_annotation"

    def run_pass(self, state: Any) -> bool:
        state.type_annotation = ""
        return False


@register_pass(mutates_CFG=True, analysis_only=False)
class _Closures(InlineClosureLikes):
    """Put functions inside a kernel, and lists of its comprehensions, in their places, if there are any."""

    _name = "mlsim_closures"

    def run_pass(self, state: Any) -> bool:
        found = any(expression.op in _CLOSURES for _, expression in _expressions(state.func_ir))
        return (
            bool(super().run_pass(state)) if found or _names(state.func_ir, {"reduce", "stencil"}) else False
        )


@register_pass(mutates_CFG=True, analysis_only=False)
class _ArrayExpressions(NopythonRewrites):
    """Join expressions over whole arrays to one loop, if there are any."""

    _name = "mlsim_array_expressions"

    def run_pass(self, state: Any) -> bool:
        for target, expression in _expressions(state.func_ir):
            if expression.op in _OVER_ARRAYS and isinstance(state.typemap.get(target), types.Array):
                return bool(super().run_pass(state))
        return False


QUICK = {AnnotateTypes: _NoAnnotation, InlineClosureLikes: _Closures, NopythonRewrites: _ArrayExpressions}
"""What stands for passes of Numba's."""


def _expressions(function: Any) -> Any:
    """Yield what is assigned in a function, with the name that it is assigned to."""
    for block in function.blocks.values():
        for statement in block.body:
            if type(statement) is ir.Assign and type(statement.value) is ir.Expr:
                yield statement.target.name, statement.value


def _names(function: Any, names: set[str]) -> bool:
    return not names.isdisjoint(function.func_id.code.co_names)
