"""The outcome of one simulated loop, and chunk rows in bounded blocks."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim.application.iteration_costs import CostSums, LoopCosts, cost_sums
from mlsim.application.selection.selector import Selected

if TYPE_CHECKING:
    from mlsim.application.models.loop_state import Rows
    from mlsim.application.pe_speeds import Perturbation
    from mlsim.record import LoopChunks


_Clock = Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """One row a chunk, in order of (start, PE); times in s from the loop's start."""

    pe: NDArray[np.int32]
    """PE that executed it."""
    step: Ints
    """Scheduling step that sized it; with STATIC the number of the chunk, which is the PE's."""
    first: Ints
    """Its first iteration."""
    size: Ints
    """Iterations: ``first`` to ``first + size - 1``."""
    requested: Floats
    """When the PE asked for it."""
    start: Floats
    """When the PE began executing it."""
    end: Floats
    """When the PE ended executing it."""

    def ending_after(self, time: float) -> ChunkRows:
        """Return the rows of chunks that end after a time."""
        kept = self.end > time
        return ChunkRows(*(getattr(self, column.name)[kept] for column in fields(self)))


@dataclass(frozen=True, slots=True)
class LoopOutcome:
    """One loop, simulated from time 0 until every PE knows that there is no more work; times in s.

    Attributes
    ----------
    iterations
        N.
    steps
        Chunks executed.
    t_loop
        Parallel loop time: the latest ``finish``; 0 if N = 0.
    finish
        float64[P]: when the PE ended its last chunk; 0 if it had none.
    notified_at
        float64[P]: when the PE learned that there is no more work.
    busy
        float64[P]: time the PE executed iterations, slow-downs included.
    overhead
        float64[P]: time between asking for a chunk and starting it, summed, with the last request,
        from asking to being notified; and the time a master served others, amid a chunk of its own or as
        its only work.
    idle
        float64[P]: time in which the model let it wait for others though it might have asked: at the
        barriers of MPI+OpenMP, and a dedicated master's time between requests. ``busy + overhead + idle``
        is ``notified_at``.
    last_start
        float64[P]: when the PE began its last chunk; 0 if it had none.
    chunks
        int64[P]: chunks the PE began.
    last_first, last_size
        int64[P]: first iteration and size of the PE's last chunk; 0 if it had none.
    rows
        The chunks, if they were to be recorded.
    selected
        The technique of each time step, where they were chosen.
    last_begin
        When the last time step began.
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
        """Return the remaining iterations and work at times when all iterations have been handed out.

        That is so from the first ``notified_at`` on, when every PE has its last chunk or none. Under models
        of two levels it is not: other nodes may have a queue then. So these need ``rows``, of at least all
        chunks that end after the first of the times.

        Parameters
        ----------
        costs, pe_speed, perturbation
            What the loop was simulated with.
        times
            Rising, in s from the loop's start, none before the first ``notified_at``.

        Returns
        -------
        iterations
            int64[len(times)]: iterations not yet finished.
        work
            float64[len(times)]: their cost not yet executed, in s at speed 1.
        """
        chunks = self._last_chunks() if self.rows is None else self.rows.ending_after(times[0])
        iterations, work = np.zeros(len(times), np.int64), np.zeros(len(times))
        for pes, clock in _clocks(len(pe_speed), perturbation):
            left, seconds = _left_by_clock(chunks, pes, clock, cost_sums(costs), pe_speed, times)
            iterations += left
            work += seconds
        return iterations, work

    def _last_chunks(self) -> ChunkRows:
        """Return the last chunk of every PE that had one, in order of (start, PE) as rows are."""
        pe = np.flatnonzero(self.last_size).astype(np.int32)
        pe = pe[np.argsort(self.last_start[pe], kind="stable")]
        first, size, start = self.last_first[pe], self.last_size[pe], self.last_start[pe]
        return ChunkRows(pe, np.zeros(len(pe), np.int64), first, size, start, start, self.finish[pe])


def _clocks(p: int, perturbation: Perturbation | None) -> Iterator[tuple[NDArray[np.bool_], _Clock]]:
    """Yield groups of PEs that are slowed down alike, with their work done by given times."""
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
    chunks: ChunkRows,
    pes: NDArray[np.bool_],
    clock: _Clock,
    costs: CostSums,
    pe_speed: Floats,
    times: Floats,
) -> tuple[Ints, Floats]:
    """Return the remaining iterations and work of PEs that share a clock of undisturbed work [s]."""
    mine = pes[chunks.pe]
    size, speed = chunks.size[mine], pe_speed[chunks.pe[mine]]
    first = chunks.first[mine] % max(costs.n, 1)  # over several time steps, iterations count on
    end, now = clock(chunks.end[mine]), clock(times)
    # As if executed without a break up to the end: so it is, but for masters.
    begun = end - costs.between(first, size) / speed
    work = _still_to_come(end, speed, now) - _still_to_come(begun, speed, now)
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
    """Count the iterations not finished at each time, of chunks too long for a look at each of them."""
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


def _still_to_come(moments: Floats, weight: Floats, times: Floats) -> Floats:
    """Sum weight · (moment − time) over the moments that lie after each time."""
    order = np.argsort(moments, kind="stable")
    later = np.searchsorted(moments[order], times, side="right")
    weights = np.append(np.cumsum(weight[order][::-1])[::-1], 0.0)
    products = np.append(np.cumsum((weight * moments)[order][::-1])[::-1], 0.0)
    left: Floats = products[later] - times * weights[later]
    return left


_Full = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)


class RowBlocks:
    """The block that an event loop fills, and who takes it.

    Parameters
    ----------
    chunks
        Takes blocks.
    most
        Rows that there are at most.

    Attributes
    ----------
    rows
        What an event loop is given.
    """

    def __init__(self, chunks: LoopChunks, most: int) -> None:
        self._chunks = chunks
        self._handed_over = 0
        self._error: BaseException | None = None
        self._called: Any = _Full(self._full)  # must live as long as the event loop may call it
        # Not by ctypes.cast, which makes what it is given refer to itself.
        address = ctypes.c_void_p.from_buffer(self._called).value or 0
        self.rows = new_rows(min(most, chunks.block_rows), -np.inf, address)

    def _full(self, rows: int) -> int:
        """Take a full block. No exception can pass through compiled code: it is raised when that is done."""
        if self._error is None:
            try:
                self._take(rows)
            except BaseException as error:
                self._error = error
        return 0

    def _take(self, rows: int) -> None:
        filled = self.rows
        self._chunks.take(filled.pe[:rows], *filled.numbers[:, :rows], *filled.times[:, :rows])
        self._handed_over += rows

    def finish(self, rows: int) -> None:
        """Hand over the last block; ``rows`` is how many there were in all.

        Raises
        ------
        OutputError
            If there was no room for a block.
        """
        self._called = None  # it refers to this object: none would be freed before a search for garbage
        if self._error is None:
            self._take(rows - self._handed_over)
        if self._error is not None:
            raise self._error


def new_rows(n: int, since: float, full: int = 0) -> Rows:
    """Make room for n rows; the other parameters are fields of ``Rows``."""
    from mlsim.application.models.loop_state import Rows

    columns = np.zeros(n, np.int32), np.zeros((3, n), np.int64), np.zeros((3, n))
    return Rows(*columns, since, full, np.zeros(3, np.int64))


def in_order(rows: Rows, n: int) -> ChunkRows:
    """Sort the first n chunk rows by (start, PE); a PE's rows of equal start stay as they happened."""
    from mlsim.record.chunk_merge import order_of

    pe, (step, first, size), (requested, start, end) = rows.pe[:n], rows.numbers[:, :n], rows.times[:, :n]
    order = order_of(start, pe)
    columns = (np.take(column, order) for column in (pe, step, first, size, requested, start, end))
    return ChunkRows(*columns)
