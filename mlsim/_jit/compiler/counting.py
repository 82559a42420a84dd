"""Kernels that own no array, and so need not count the references to those that they use.

Numba counts a reference to an array wherever a kernel names one. What comes with the arguments, and every
part of it, is there until the kernel returns; only what it makes, or is given by what it calls, is not.
"""

from __future__ import annotations

from typing import Any

from numba.core import ir as numba_ir

__all__ = ["owns_nothing"]

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
