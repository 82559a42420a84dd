"""Passes of Numba's compilation that kernels need, change or leave out."""

from collections.abc import Iterator
from typing import Any

from numba.core import ir as numba_ir
from numba.core import types as numba_types
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import find_build_sequence, find_const, guard

ir: Any = numba_ir  # it is not typed itself
_PARTS = {"getattr", "getitem", "static_getitem", "build_tuple", "cast", "exhaust_iter", "phi"}
_PARTS |= {"getiter", "iternext", "pair_first", "pair_second"}
"""Expressions whose value is part of what they are made of."""


def owns_nothing(state: Any) -> bool:
    """Whether all arrays of a kernel come from its arguments, and it returns none; its types are known."""
    models = state.targetctx.data_model_manager
    known: dict[Any, bool] = {}

    def is_counted(kind: Any) -> bool:
        if kind not in known:
            known[kind] = models[kind].contains_nrt_meminfo()
        return known[kind]

    if state.func_ir.is_generator or is_counted(state.return_type):
        return False
    for block in state.func_ir.blocks.values():
        for statement in block.body:
            made = type(statement) is ir.Assign and type(statement.value) is ir.Expr
            if made and statement.value.op not in _PARTS and is_counted(state.typemap[statement.target.name]):
                return False
    return True


types: Any = numba_types

_PACKAGE = __name__.partition(".")[0] + "."


def is_of_package(state: Any) -> bool:
    """Whether what is compiled is a function of this package, not one of the user's or of Numba's own."""
    return bool(state.func_id.modname.startswith(_PACKAGE))


@register_pass(mutates_CFG=False, analysis_only=False)
class NaturalIndices(FunctionPass):
    """The pass that takes indices of arrays for natural numbers.

    Python counts a negative index from the end of an array, so that wherever an item is read or written the
    sign is looked at, and the length added to the index or not. Numba does neither where an index has no
    sign. Kernels of the user's keep Python's rule. A negative index that is not a constant reads beside the
    array: tests under ``NUMBA_BOUNDSCHECK=1`` find one.
    """

    _name = "mlsim_natural_indices"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        if not is_of_package(state):
            return False
        for place, index in _indexed(state.func_ir):
            described = state.calltypes[place]
            of_array = described is not None and isinstance(described.args[0], types.Array)
            if of_array and not _is_from_end(index, state.func_ir):
                array, kind, *value = described.args
                del state.calltypes[place]  # what is there cannot be replaced
                state.calltypes[place] = described.replace(args=(array, _without_sign(kind), *value))
        return True


def _indexed(func_ir: Any) -> Iterator[tuple[Any, Any]]:
    """Yield statements and expressions that read or write items, each with its index variable or None."""
    for block in func_ir.blocks.values():
        for statement in block.body:
            if isinstance(statement, ir.SetItem):
                yield statement, statement.index
            elif isinstance(statement, ir.StaticSetItem):
                yield statement, statement.index_var
            elif isinstance(statement, ir.Assign) and isinstance(statement.value, ir.Expr):
                if statement.value.op == "getitem":
                    yield statement.value, statement.value.index
                elif statement.value.op == "static_getitem" and statement.value.index_var is not None:
                    yield statement.value, statement.value.index_var


def _is_from_end(index: Any, func_ir: Any) -> bool:
    """Whether an index, or a part of it, is a negative constant."""
    found = guard(find_build_sequence, func_ir, index)
    constants = [guard(find_const, func_ir, part) for part in (found[0] if found else [index])]
    parts = [part for one in constants for part in (one if isinstance(one, tuple) else (one,))]
    return any(isinstance(part, int) and part < 0 for part in parts)


def _without_sign(kind: Any) -> Any:
    """Return the type of an index with natural numbers for integers."""
    if isinstance(kind, types.BaseTuple):
        return types.Tuple([_without_sign(part) for part in kind])
    return types.uintp if isinstance(kind, types.Integer) else kind
