"""Outcome of simulated loops: chunk rows in blocks of bounded memory, and the tables of ended loops."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.application.iteration_costs import CostSums, LoopCosts, cost_sums
from mlsim.application.selection.selector import ExecutedChunks, Selected, StepFacts
from mlsim.application.techniques import read_only
from mlsim.execution_models.loop_state import Perturbation, Rows, work_done
from mlsim.record import Chunks, ChunkStore, LoopChunks, Loops, PEs, Selections, empty
from mlsim.record.column_types import GrowingArray, column, let_go, stored_columns

Table = TypeVar("Table")
_Clock = Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """One row per chunk, in order of (start, PE); times in s from the loop's start."""

    pe: NDArray[np.int32]
    step: Ints  # scheduling step that sized it; with STATIC the number of its PE
    first: Ints
    size: Ints
    requested: Floats
    start: Floats
    end: Floats

    @property
    def executed(self) -> ExecutedChunks:
        """The chunks as a selector learns from them."""
        return ExecutedChunks(self.pe.astype(np.int64), self.first, self.size, self.end - self.start)

    def ending_after(self, time: float) -> ChunkRows:
        """Return the rows of chunks that end after a time."""
        kept = self.end > time
        return ChunkRows(*(getattr(self, column.name)[kept] for column in fields(self)))


class LoopTotals(NamedTuple):
    """The columns of :class:`Loops`, except for the job."""

    pes: int
    iterations: int
    steps: int
    t_loop: float
    mean_finish: float
    std_finish: float
    max_finish: float
    busy: float
    overhead: float
    idle: float


@dataclass(frozen=True, slots=True)
class LoopOutcome:
    """One loop, simulated from time 0 until every PE has been notified of its end; times in s.

    Arrays have an element per PE. ``busy + overhead + idle`` is ``notified_at``.
    """

    iterations: int
    steps: int  # chunks executed
    t_loop: float  # parallel loop time: the latest ``finish``; 0 without iterations
    finish: Floats  # end of the PE's last chunk; 0 if it had none
    notified_at: Floats  # when the PE was notified that no work is left
    busy: Floats  # executing iterations, slow-downs included
    # From requests of chunks to their starts, or to the notification; a master's time serving others.
    overhead: Floats
    # Waiting for others by the model: at the barriers of MPI+OpenMP, or a dedicated master between requests.
    idle: Floats
    last_start: Floats  # begin of the PE's last chunk; 0 if it had none
    chunks: Ints  # begun
    last_first: Ints  # first iteration and size of the PE's last chunk; 0 if it had none
    last_size: Ints
    rows: ChunkRows | None  # if recorded
    selected: tuple[Selected, ...] = ()  # the technique of each time step, where they were chosen
    last_begin: float = 0.0  # of the last time step
    shown: tuple[StepFacts, ...] = ()  # complete time steps, for selections of later executions

    @property
    def end(self) -> float:
        """When all PEs are notified that no work is left."""
        return float(self.notified_at.max())

    @property
    def totals(self) -> LoopTotals:
        """The loop as a whole."""
        busy, overhead, p = float(self.busy.sum()), float(self.overhead.sum()), len(self.finish)
        finish = float(self.finish.mean()), float(self.finish.std()), float(self.finish.max())
        idle = p * self.end - busy - overhead
        rest = max(idle, 0.0)  # rounding may leave less than 0
        return LoopTotals(p, self.iterations, self.steps, self.t_loop, *finish, busy, overhead, rest)

    def remaining(
        self, costs: LoopCosts, pe_speed: Floats, times: Floats, perturbation: Perturbation | None = None
    ) -> tuple[Ints, Floats]:
        """Return the unfinished iterations and their cost [s at speed 1] at each of the rising ``times``.

        Unless all have been handed out then, ``rows`` must hold the chunks that end after the first time.
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


@dataclass(frozen=True, slots=True)
class KnownLoop:
    """The part of an outcome for runs without rows of chunks and PEs; times in s from the loop's start."""

    totals: LoopTotals
    times: Floats  # when PEs are notified that no work is left: rising, each once
    iterations: Ints  # unfinished at each of these times
    work: Floats  # their cost, in s at speed 1
    place: Ints  # per PE: of its time in ``times``
    selected: tuple[Selected, ...] = ()

    @property
    def end(self) -> float:
        """When all PEs are notified."""
        return float(self.times[-1])

    @staticmethod
    def of(outcome: LoopOutcome, costs: LoopCosts, pe_speed: Floats) -> KnownLoop:
        """Return a loop without slow-downs; all its iterations have been assigned at the first time."""
        times, place = np.unique(outcome.notified_at, return_inverse=True)
        return KnownLoop(outcome.totals, times, *outcome.remaining(costs, pe_speed, times), place)


def _clocks(p: int, perturbation: Perturbation | None) -> Iterator[tuple[Mask, _Clock]]:
    """Yield groups of equally slowed PEs, each with a function from times to seconds of undisturbed work."""
    if perturbation is None:
        yield np.ones(p, np.bool_), np.asarray
        return
    slow = np.diff(perturbation.slow_index)[perturbation.slow_of_pe] > 0
    yield ~slow, np.asarray
    for row in np.unique(perturbation.slow_of_pe[slow]).tolist():
        yield perturbation.slow_of_pe == row, partial(work_done, perturbation, row)


def _left_by_clock(
    chunks: ChunkRows, pes: Mask, clock: _Clock, costs: CostSums, pe_speed: Floats, times: Floats
) -> tuple[Ints, Floats]:
    """Return the remaining iterations and work of PEs that share a clock of undisturbed work [s]."""
    mine = pes[chunks.pe]
    size, speed = chunks.size[mine], pe_speed[chunks.pe[mine]]
    first = chunks.first[mine] % max(costs.n, 1)  # over several time steps, iterations count on
    end, now = clock(chunks.end[mine]), clock(times)
    # Assumes execution without a break up to the end, which is exact except for masters.
    begun = end - costs.between(first, size) / speed
    work, before = np.zeros(len(now)), np.zeros(len(now))
    _add_remaining(end, np.argsort(end, kind="stable"), speed, now, work)
    _add_remaining(begun, np.argsort(begun, kind="stable"), speed, now, before)
    work = np.maximum(work - before, 0.0)
    if not costs.block:
        return _left_of_lines(costs, first, size, begun, end, speed, now), work
    left = np.zeros(len(now), np.int64)
    _count_left(read_only(costs.sums), first, size, begun, end, speed, now, left)
    return left, work


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


@kernel
def _add_remaining(moments: Floats, order: Ints, weight: Floats, times: Floats, sums: Floats) -> None:
    """Sum weight · (moment - time) over the moments, in this order, after each of the rising times."""
    place, weights, products = len(order), 0.0, 0.0
    for k in range(len(times) - 1, -1, -1):
        while place > 0 and moments[order[place - 1]] > times[k]:
            place -= 1
            weights += weight[order[place]]
            products += weight[order[place]] * moments[order[place]]
        sums[k] = products - times[k] * weights


@kernel
def _count_left(
    prefix: Floats,
    first: Ints,
    size: Ints,
    begun: Floats,
    end: Floats,
    speed: Floats,
    times: Floats,
    left: Ints,
) -> None:
    """Count the iterations of chunks that are unfinished at each of the rising times."""
    for chunk in range(len(size)):
        base = prefix[first[chunk]]
        for k in range(first[chunk], first[chunk] + size[chunk]):
            done = min(begun[chunk] + (prefix[k + 1] - base) / speed[chunk], end[chunk])
            low, high = 0, len(times)  # the first time at which it is finished
            while low < high:
                middle = (low + high) // 2
                if times[middle] < done:
                    low = middle + 1
                else:
                    high = middle
            if low > 0:
                left[low - 1] += 1
    for k in range(len(times) - 2, -1, -1):
        left[k] += left[k + 1]


_Full = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)


class RowBlocks:
    """The block of rows that an event loop fills, passed on to ``chunks`` whenever it is full."""

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
    columns = np.zeros(n, np.int32), np.zeros((3, n), np.int64), np.zeros((3, n))
    return Rows(*columns, since, full, np.zeros(3, np.int64))


def in_order(rows: Rows, n: int) -> ChunkRows:
    """Sort the first n chunk rows by (start, PE); a PE's rows of equal start keep their order."""
    from mlsim.record.chunk_store import order_of

    pe, (step, first, size), (requested, start, end) = rows.pe[:n], rows.numbers[:, :n], rows.times[:, :n]
    order = order_of(start, pe)
    columns = (np.take(column, order) for column in (pe, step, first, size, requested, start, end))
    return ChunkRows(*columns)


class PERequests(NamedTuple):
    """Latency and last request of a loop's PEs; times in s."""

    latency: Floats  # float64[P]: one way between each PE and the receiver: PE 0, or its node's first PE
    last: Floats  # float64[P], from the loop's start: request answered by "no work is left"; NaN: none


class LoopRecorder:
    """Collects the outcomes of ended loops; rows of PEs if ``keep_pes``, of chunks if there is a store."""

    def __init__(self, keep_pes: bool, store: ChunkStore | None) -> None:
        self._keep_pes = keep_pes
        self._store = store
        self._n_loops = 0
        self._loops = GrowingArray(np.int64, _LOOP_INTS), GrowingArray(np.float64, _LOOP_FLOATS)
        self._pes: list[tuple[float, int, int, PEs]] = []
        self._chunks: list[tuple[float, int, LoopChunks]] = []
        self._last_start: dict[int, float] = {}  # of jobs that started again
        self._selected: list[tuple[int, float, tuple[Selected, ...]]] = []

    def take(
        self,
        job: int,
        began: float,
        outcome: LoopOutcome | KnownLoop,
        chunks: LoopChunks | None,
        requests: PERequests | None = None,
        attempt: int = 1,
        last: bool = True,
    ) -> None:
        """Add an attempt (from 1) of a job, begun at ``began`` [s]; only the ``last`` one counts as its loop.

        ``requests`` are None for all loops or for none.
        """
        if last:
            row: tuple[Any, ...] = job, *outcome.totals
            n = self._n_loops
            for kept, values in zip(self._loops, (row[:_LOOP_INTS], row[_LOOP_INTS:]), strict=True):
                kept.reserve(n + 1, n)
                kept.array[:, n] = values
            self._n_loops += 1
            if n % _SETTLED == 0:
                let_go(*(kept.array for kept in self._loops))
            if outcome.selected:
                self._selected.append((job, began, outcome.selected))
        if attempt > 1:
            self._last_start[job] = began
        if self._keep_pes:
            assert isinstance(outcome, LoopOutcome), "known loops have no rows of PEs"
            p = len(outcome.finish)
            rows = PEs(
                job=np.full(p, job, np.int64),
                pe=np.arange(p, dtype=np.int32),
                finish=began + outcome.finish,
                told=began + outcome.notified_at,
                busy=outcome.busy,
                latency=None if requests is None else requests.latency,
                last_request=None if requests is None else began + requests.last,
            )
            self._pes.append((began, job, attempt, rows))
        if chunks is not None:
            chunks.attempt = attempt
            self._chunks.append((began, job, chunks))

    def _place(self, began: float, job: int) -> tuple[float, int, float]:
        """Return the sort key of attempts: last start of the job, job, start of the attempt."""
        return self._last_start.get(job, began), job, began

    def loops(self) -> Loops:
        """Return one row per loop, in order of the jobs' arrival."""
        n = self._n_loops
        if not n:
            return empty(Loops)
        order = np.argsort(self._loops[0].array[0, :n], kind="stable")
        columns: list[NDArray[Any]] = []
        for kept in self._loops:
            for values in kept.array:
                columns.append(column((n,), values.dtype))
                columns[-1][:] = values[order]
                let_go(values, columns[-1])
        return Loops(*columns)

    def pes(self) -> PEs:
        """Return one row per PE, by job in order of start, then by attempt, then by PE."""
        if not self._pes:
            return empty(PEs)
        ordered = sorted(self._pes, key=lambda kept: self._place(*kept[:2]))
        pes = _joined(PEs, [rows for *_, rows in ordered])
        if not self._last_start:
            return pes
        attempts = np.array([attempt for _, _, attempt, _ in ordered], np.int32)
        return replace(pes, attempt=np.repeat(attempts, [len(rows.pe) for *_, rows in ordered]))

    def selections(self) -> Selections:
        """Return one row per choice of a technique, by job in order of arrival, then by time."""
        rows = []
        for job, began, selected in sorted(self._selected):
            step = 0  # from 1: the first choice of each is for the whole time step
            for chosen in selected:
                step += chosen.iterations == 0
                rows.append((job, step, *chosen._replace(begin=began + chosen.begin)))
        return _table_of(Selections, rows)

    def chunks(self) -> Chunks:
        """Return one row per chunk, by job in order of start, then by the chunks' start."""
        if self._store is None:
            return empty(Chunks)
        return self._store.table(sorted(self._chunks, key=lambda kept: self._place(*kept[:2])))


def _table_of(table: type[Table], rows: Sequence[tuple[Any, ...]]) -> Table:
    """Return rows, with values in the order of the table's columns, as a table."""
    if not rows:
        return empty(table)
    columns = zip(stored_columns(table), zip(*rows, strict=True), strict=True)
    return table(
        *(
            list(map(str, values)) if column.dtype is None else np.array(values, column.dtype)
            for column, values in columns
        )
    )


_LOOP_INTS, _LOOP_FLOATS = 4, 7  # columns of whole numbers, the first ones of a row, and of others
_SETTLED = 4096  # rows of loops after which their memory is released, if they are in files


def _joined(table: type[Table], blocks: list[Table]) -> Table:
    columns: dict[str, NDArray[Any]] = {
        column.name: np.concatenate([getattr(block, column.name) for block in blocks])
        for column in fields(table)  # type: ignore[arg-type]  # every table is a dataclass
        if getattr(blocks[0], column.name) is not None
    }
    return table(**columns)
