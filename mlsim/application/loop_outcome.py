"""Outcome of one simulated loop, and chunk rows in blocks of bounded memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mlsim._runtime.arrays import Floats, Ints
from mlsim.application.iteration_costs import CostSums, LoopCosts, cost_sums
from mlsim.application.selection.selector import Selected

if TYPE_CHECKING:
    from mlsim.application.models.loop_state import Rows
    from mlsim.application.pe_speeds import Perturbation
    from mlsim.record import LoopChunks


_Clock = Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """One row per chunk, in order of (start, PE); times in s from the loop's start."""

    pe: NDArray[np.int32]
    step: Ints
    """Scheduling step that sized it; with STATIC the number of its PE."""
    first: Ints
    size: Ints
    """Iterations: ``first`` to ``first + size - 1``."""
    requested: Floats
    """Time of the request for it."""
    start: Floats
    end: Floats

    def ending_after(self, time: float) -> ChunkRows:
        """Return the rows of chunks that end after a time."""
        kept = self.end > time
        return ChunkRows(*(getattr(self, column.name)[kept] for column in fields(self)))


@dataclass(frozen=True, slots=True)
class LoopOutcome:
    """One loop, simulated from time 0 until every PE has been notified of its end; times in s.

    Attributes
    ----------
    iterations
        N.
    steps
        Chunks executed.
    t_loop
        Parallel loop time: the latest ``finish``; 0 if N = 0.
    finish
        float64[P]: end of the PE's last chunk; 0 if it had none.
    notified_at
        float64[P]: when the PE was notified that no work is left.
    busy
        float64[P]: time the PE executed iterations, slow-downs included.
    overhead
        float64[P]: total time from the request of a chunk to its start, and from the last request to the
        notification; for a master also the time in which it served others.
    idle
        float64[P]: time in which the model makes the PE wait for others although it could request: at the
        barriers of MPI+OpenMP, and a dedicated master's time between requests. ``busy + overhead + idle``
        is ``notified_at``.
    last_start
        float64[P]: begin of the PE's last chunk; 0 if it had none.
    chunks
        int64[P]: chunks the PE began.
    last_first, last_size
        int64[P]: first iteration and size of the PE's last chunk; 0 if it had none.
    rows
        The chunks, if recorded.
    selected
        The technique of each time step, where they were chosen.
    last_begin
        Begin of the last time step.
    """

    iterations: int
    steps: int
    t_loop: float
    finish: Floats
    notified_at: Floats
    busy: Floats
    overhead: Floats
    idle: Floats
    last_start: Floats
    chunks: Ints
    last_first: Ints
    last_size: Ints
    rows: ChunkRows | None
    selected: tuple[Selected, ...] = ()
    last_begin: float = 0.0

    def remaining(
        self, costs: LoopCosts, pe_speed: Floats, times: Floats, perturbation: Perturbation | None = None
    ) -> tuple[Ints, Floats]:
        """Return the unfinished iterations and their remaining cost [s at speed 1] at each of ``times``.

        The times rise and are not before the first ``notified_at``, when all iterations have been handed out
        and each PE has its last chunk or none. Under models of two levels other nodes may still have a queue
        then: these need ``rows``, of at least all chunks that end after the first time.
        """
        chunks = self._last_chunks() if self.rows is None else self.rows.ending_after(times[0])
        iterations, work = np.zeros(len(times), np.int64), np.zeros(len(times))
        for pes, clock in _clocks(len(pe_speed), perturbation):
            left, seconds = _left_by_clock(chunks, pes, clock, cost_sums(costs), pe_speed, times)
            iterations += left
            work += seconds
        return iterations, work

    def _last_chunks(self) -> ChunkRows:
        """Return the last chunk of every PE that had one, in order of (start, PE) like rows."""
        pe = np.flatnonzero(self.last_size).astype(np.int32)
        pe = pe[np.argsort(self.last_start[pe], kind="stable")]
        first, size, start = self.last_first[pe], self.last_size[pe], self.last_start[pe]
        return ChunkRows(pe, np.zeros(len(pe), np.int64), first, size, start, start, self.finish[pe])


def _clocks(p: int, perturbation: Perturbation | None) -> Iterator[tuple[NDArray[np.bool_], _Clock]]:
    """Yield groups of equally slowed PEs, each with a function from times to seconds of undisturbed work."""
    if perturbation is None:
        yield np.ones(p, np.bool_), _undisturbed
        return
    from mlsim.application.pe_speeds import work_done

    slow = np.diff(perturbation.slow_index)[perturbation.slow_of_pe] > 0
    yield ~slow, _undisturbed
    for row in np.unique(perturbation.slow_of_pe[slow]).tolist():
        yield perturbation.slow_of_pe == row, partial(work_done, perturbation, row)


def _undisturbed(times: Floats) -> Floats:
    return times


def _left_by_clock(
    chunks: ChunkRows, pes: NDArray[np.bool_], clock: _Clock, costs: CostSums, pe_speed: Floats, times: Floats
) -> tuple[Ints, Floats]:
    """Return the remaining iterations and work of PEs that share a clock of undisturbed work [s]."""
    mine = pes[chunks.pe]
    size, speed = chunks.size[mine], pe_speed[chunks.pe[mine]]
    first = chunks.first[mine] % max(costs.n, 1)  # over several time steps, iterations count on
    end, now = clock(chunks.end[mine]), clock(times)
    # Assumes execution without a break up to the end, which is exact except for masters.
    begun = end - costs.between(first, size) / speed
    work = _remaining_seconds(end, speed, now) - _remaining_seconds(begun, speed, now)
    if not costs.block:
        return _left_of_lines(costs, first, size, begun, end, speed, now), np.maximum(work, 0.0)
    prefix = costs.sums
    chunk = np.repeat(np.arange(len(size)), size)
    k = np.arange(len(chunk)) - np.repeat(np.cumsum(size) - size, size) + first[chunk]
    ends = begun[chunk] + (prefix[k + 1] - prefix[first[chunk]]) / speed[chunk]
    finished = np.searchsorted(np.sort(np.minimum(ends, end[chunk])), now, side="right")
    return len(ends) - finished, np.maximum(work, 0.0)


def _left_of_lines(
    costs: CostSums, first: Ints, size: Ints, begun: Floats, end: Floats, speed: Floats, now: Floats
) -> Ints:
    """Count the unfinished iterations at each time by bisection, for chunks of linear costs."""
    left = np.zeros(len(now), np.int64)
    for row, moment in enumerate(now.tolist()):
        low, high = np.zeros_like(size), size.copy()  # iterations of each chunk that are finished
        high[end <= moment] = low[end <= moment] = size[end <= moment]
        while (low < high).any():
            middle = high - (high - low) // 2
            done = begun + costs.between(first, middle) / speed <= moment
            low, high = np.where(done, middle, low), np.where(done, high, middle - 1)
        left[row] = (size - low).sum()
    return left


def _remaining_seconds(moments: Floats, weight: Floats, times: Floats) -> Floats:
    """Sum weight · (moment − time) over the moments that lie after each time."""
    order = np.argsort(moments, kind="stable")
    later = np.searchsorted(moments[order], times, side="right")
    weights = np.append(np.cumsum(weight[order][::-1])[::-1], 0.0)
    products = np.append(np.cumsum((weight * moments)[order][::-1])[::-1], 0.0)
    left: Floats = products[later] - times * weights[later]
    return left


_Full = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)


class RowBlocks:
    """The block of rows that an event loop fills, passed on to ``chunks`` whenever it is full.

    ``most``: upper bound of the number of rows. ``rows``: the argument of the event loop.
    """

    def __init__(self, chunks: LoopChunks, most: int) -> None:
        self._chunks = chunks
        self._passed_on = 0
        self._error: BaseException | None = None
        self._callback: Any = _Full(self._full)  # must live as long as the event loop may call it
        # Not by ctypes.cast, which creates a reference cycle.
        address = ctypes.c_void_p.from_buffer(self._callback).value or 0
        self.rows = new_rows(min(most, chunks.block_rows), -np.inf, address)

    def _full(self, rows: int) -> int:
        """Pass a full block on. Exceptions cannot cross compiled code: ``finish`` raises them."""
        if self._error is None:
            try:
                self._take(rows)
            except BaseException as error:
                self._error = error
        return 0

    def _take(self, rows: int) -> None:
        filled = self.rows
        self._chunks.take(filled.pe[:rows], *filled.numbers[:, :rows], *filled.times[:, :rows])
        self._passed_on += rows

    def finish(self, rows: int) -> None:
        """Pass the last block on, of ``rows`` in all; raise the error of a block, if any."""
        self._callback = None  # breaks the reference cycle, so that the memory is freed at once
        if self._error is None:
            self._take(rows - self._passed_on)
        if self._error is not None:
            raise self._error


def new_rows(n: int, since: float, full: int = 0) -> Rows:
    """Allocate n rows; the other parameters are fields of ``Rows``."""
    from mlsim.application.models.loop_state import Rows

    columns = np.zeros(n, np.int32), np.zeros((3, n), np.int64), np.zeros((3, n))
    return Rows(*columns, since, full, np.zeros(3, np.int64))


def in_order(rows: Rows, n: int) -> ChunkRows:
    """Sort the first n chunk rows by (start, PE); a PE's rows of equal start keep their order."""
    from mlsim.record.chunk_store import order_of

    pe, (step, first, size), (requested, start, end) = rows.pe[:n], rows.numbers[:, :n], rows.times[:, :n]
    order = order_of(start, pe)
    columns = (np.take(column, order) for column in (pe, step, first, size, requested, start, end))
    return ChunkRows(*columns)
