"""Neighbouring nodes that are alike, looked at together.

What nodes have of each resource, free for instance, are *amounts*, shape (nodes, R). With them go
``starts``: where runs of nodes begin that are of one kind and have as much
(:mod:`mlsim.batch.columns.runs`). Amounts then stand at the first node of each run, and at others there is
anything. Where ``starts`` have no columns, each node has amounts of its own.
"""

from __future__ import annotations

from mlsim._jit import inner_kernel, leaf_kernel
from mlsim.batch.columns.copying import copy_columns
from mlsim.batch.columns.packing import IntColumns, Ints
from mlsim.batch.columns.runs import begin_run, join_run, next_run, run_of

__all__ = ["copy_alike", "end_of_run", "join", "row_of", "set_node", "split", "spread"]


@leaf_kernel
def _are_alike(node: int, other: int, amounts: IntColumns, kind: Ints) -> bool:
    if kind[node] != kind[other]:
        return False
    for r in range(amounts.shape[1]):  # noqa: SIM110  # a kernel knows no generators
        if amounts[node, r] != amounts[other, r]:
            return False
    return True


@inner_kernel
def end_of_run(node: int, amounts: IntColumns, starts: IntColumns, kind: Ints) -> int:
    """Return one past the last node of the run that begins at a node."""
    n_nodes = amounts.shape[0]
    if starts.shape[1] > 0:
        return next_run(node, n_nodes, starts)
    end = node + 1
    while end < n_nodes and _are_alike(node, end, amounts, kind):
        end += 1
    return int(end)


@leaf_kernel
def row_of(node: int, starts: IntColumns) -> int:
    """Return where the amounts of a node stand."""
    return run_of(node, starts) if starts.shape[1] > 0 else node


@inner_kernel
def split(node: int, amounts: IntColumns, starts: IntColumns) -> None:
    """Have a run begin at a node, if there is that node."""
    if node == amounts.shape[0]:
        return
    run = run_of(node, starts)
    if run != node:
        begin_run(node, starts)
        for r in range(amounts.shape[1]):
            amounts[node, r] = amounts[run, r]


@inner_kernel
def join(node: int, amounts: IntColumns, starts: IntColumns, kind: Ints) -> None:
    """Have the run that begins at a node go on the one before it, if there is one and they are alike."""
    if 0 < node < amounts.shape[0] and _are_alike(run_of(node - 1, starts), node, amounts, kind):
        join_run(node, starts)


@inner_kernel
def set_node(
    node: int, own: Ints, own_kind: int, amounts: IntColumns, starts: IntColumns, kind: Ints
) -> None:
    """Have a node be of another kind, with other amounts."""
    split(node, amounts, starts)
    split(node + 1, amounts, starts)
    kind[node] = own_kind
    for r in range(amounts.shape[1]):
        amounts[node, r] = own[r]
    join(node + 1, amounts, starts, kind)
    join(node, amounts, starts, kind)


@inner_kernel
def copy_alike(target: IntColumns, source: IntColumns, starts: IntColumns) -> None:
    """Copy amounts; those in ``target`` are then in the same runs."""
    if starts.shape[1] == 0:
        copy_columns(target, source)
        return
    run = 0
    while run < source.shape[0]:
        for r in range(source.shape[1]):
            target[run, r] = source[run, r]
        run = next_run(run, source.shape[0], starts)


@inner_kernel
def spread(target: IntColumns, source: IntColumns, starts: IntColumns) -> None:
    """Copy amounts to each node, which then has its own."""
    node = 0
    while node < source.shape[0]:
        run, end = node, next_run(node, source.shape[0], starts)
        for each in range(run, end):
            for r in range(source.shape[1]):
                target[each, r] = source[run, r]
        node = end
