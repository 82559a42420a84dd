"""First-fit allocation: the first nodes, in the platform's order, that have room."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Ints
from mlsim._jit import leaf_kernel
from mlsim.batch.columns.occupancy import (
    COUNT,
    FINISH,
    NODE,
    NODE_CORES,
    begin_run,
    join_run,
    next_run,
    run_of,
    write_rows,
)


@leaf_kernel
def first_fit(
    job: int,
    units: int,
    exclusive: bool,
    merge: bool,
    now: float,
    first_row: int,
    hint: int,
    free: Ints,
    cores: Ints,
    starts: Ints,
    rows: Ints,
    times: NDArray[np.float64],
) -> tuple[int, int, int]:
    """Allocate the units of a job; the caller has made sure that there are enough.

    Parameters
    ----------
    job
        Number of the job, for the occupancy rows.
    units
        Nodes if ``exclusive``, else cores.
    exclusive
        Whether nodes are given whole.
    merge
        Whether neighbouring nodes with as many cores share one row. They cannot where nodes may be
        released one by one.
    now
        Start time in seconds.
    first_row, rows, times
        Where to write occupancy rows.
    hint
        No node before this one has room.
    free, cores, starts
        Free and all cores of each run of nodes, and where these begin; they are updated. Without ``starts``
        each node is a run.

    Returns
    -------
    row, taken, hint
        One past the last row written, cores taken, and the new hint.
    """
    row, taken, node = first_row, 0, _run(hint, len(free), starts)
    while units > 0:
        available, end = free[node], _next(node, len(free), starts)
        if available == 0 or (exclusive and available < cores[node]):
            node = end
            continue
        take, count = available, min(end - node, units)
        if not exclusive:
            take = min(available, units)
            count = min(end - node, units // take)
        units -= count if exclusive else take * count
        taken += take * count
        row = write_rows(row, first_row, merge, job, node, count, take, now, rows, times)
        if starts.shape[1] > 0:
            add_free(node, count, -take, free, cores, starts)
        else:
            free[node] -= take
        node += count
    hint = _run(hint, len(free), starts)
    while hint < len(free) and free[hint] == 0:
        hint = _next(hint, len(free), starts)
    return row, taken, hint


@leaf_kernel
def _run(node: int, n_nodes: int, starts: Ints) -> int:
    return run_of(node, starts) if starts.shape[1] > 0 and node < n_nodes else node


@leaf_kernel
def _next(node: int, n_nodes: int, starts: Ints) -> int:
    return next_run(node, n_nodes, starts) if starts.shape[1] > 0 else node + 1


@leaf_kernel
def free_of(node: int, free: Ints, starts: Ints) -> int:
    """Return the free cores of a node."""
    return int(free[run_of(node, starts)])


@leaf_kernel
def add_free(node: int, count: int, more: int, free: Ints, cores: Ints, starts: Ints) -> None:
    """Have ``more`` cores free on each of some nodes, fewer if that is negative."""
    end = node + count
    _split(node, free, starts)
    if end < len(free):
        _split(end, free, starts)
    run = node
    while run < end:
        free[run] += more
        run = next_run(run, len(free), starts)
    if end < len(free):
        _join(end, free, cores, starts)
    if node > 0:
        _join(node, free, cores, starts)


@leaf_kernel
def _split(node: int, free: Ints, starts: Ints) -> None:
    """Have a run begin at a node."""
    run = run_of(node, starts)
    if run != node:
        begin_run(node, starts)
        free[node] = free[run]


@leaf_kernel
def _join(node: int, free: Ints, cores: Ints, starts: Ints) -> None:
    """Have the run that begins at a node go on the one before it, if they are alike."""
    before = run_of(node - 1, starts)
    if free[before] == free[node] and cores[before] == cores[node]:
        join_run(node, starts)


@leaf_kernel
def take_back(
    row: int, now: float, free: Ints, cores: Ints, starts: Ints, rows: Ints, times: NDArray[np.float64]
) -> int:
    """End one occupancy row and free its nodes; give the number of cores that came back."""
    times[FINISH, row] = now
    held, count = rows[NODE_CORES, row], rows[COUNT, row]
    add_free(rows[NODE, row], count, held, free, cores, starts)
    return int(held * count)
