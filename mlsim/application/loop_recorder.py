"""Tables of the loops that have ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mlsim._runtime.arrays import Floats
from mlsim.application.loop_outcome import LoopOutcome
from mlsim.application.selection.selector import Selected
from mlsim.record import Chunks, ChunkStore, LoopChunks, Loops, PEs, Selections, empty
from mlsim.record.column_types import stored_columns

Table = TypeVar("Table")


@dataclass(frozen=True, slots=True)
class PERequests:
    """Latency and last request of a loop's PEs; times in s.

    Attributes
    ----------
    latency
        float64[P]: one-way time of a message between each PE and the receiver of its requests: PE 0, or its
        node's first PE.
    last
        float64[P], from the loop's start: time of the request that was answered by the notification that no
        work is left; NaN where there was none.
    """

    latency: Floats
    last: Floats


class LoopRecorder:
    """Collects the outcomes of ended loops; rows of PEs if ``keep_pes``, of chunks if there is a store."""

    def __init__(self, keep_pes: bool, store: ChunkStore | None) -> None:
        self._keep_pes = keep_pes
        self._store = store
        self._loops: list[tuple[float, ...]] = []
        self._pes: list[tuple[float, int, int, PEs]] = []
        self._chunks: list[tuple[float, int, LoopChunks]] = []
        self._last_start: dict[int, float] = {}  # of jobs that started again
        self._selected: list[tuple[int, float, tuple[Selected, ...]]] = []

    def take(
        self,
        job: int,
        began: float,
        outcome: LoopOutcome,
        chunks: LoopChunks | None,
        requests: PERequests | None = None,
        attempt: int = 1,
    ) -> None:
        """Add the outcome of the loop of a job that began at ``began`` [s], in its last attempt (from 1).

        ``requests`` are None for all loops or for none. Earlier attempts go to :meth:`take_attempt`.
        """
        self._loops.append(_loop_row(job, outcome))
        if outcome.selected:
            self._selected.append((job, began, outcome.selected))
        self.take_attempt(job, began, outcome, chunks, requests, attempt)

    def take_attempt(
        self,
        job: int,
        began: float,
        outcome: LoopOutcome,
        chunks: LoopChunks | None,
        requests: PERequests | None,
        attempt: int,
    ) -> None:
        """Add the PEs and chunks of one attempt of a job; parameters are those of :meth:`take`."""
        if attempt > 1:
            self._last_start[job] = began
        if self._keep_pes:
            self._pes.append((began, job, attempt, _pe_rows(job, began, outcome, requests)))
        if chunks is not None:
            chunks.attempt = attempt
            self._chunks.append((began, job, chunks))

    def _place(self, began: float, job: int) -> tuple[float, int, float]:
        """Return the sort key of attempts: last start of the job, job, start of the attempt."""
        return self._last_start.get(job, began), job, began

    def loops(self) -> Loops:
        """Return one row per loop, in order of the jobs' arrival."""
        return _table_of(Loops, sorted(self._loops))

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
        rows = [
            (job, step, *chosen._replace(begin=began + chosen.begin))
            for job, began, selected in sorted(self._selected)
            for step, chosen in _with_steps(selected)
        ]
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


def _with_steps(selected: Iterable[Selected]) -> Iterator[tuple[int, Selected]]:
    """Yield choices with the numbers of their time steps, from 1: the first of each is for the whole step."""
    step = 0
    for chosen in selected:
        step += chosen.iterations == 0
        yield step, chosen


def _loop_row(job: int, outcome: LoopOutcome) -> tuple[float, ...]:
    """Return the columns of :class:`Loops`."""
    p = len(outcome.finish)
    busy, overhead = float(outcome.busy.sum()), float(outcome.overhead.sum())
    finish = outcome.finish
    return (
        job,
        p,
        outcome.iterations,
        outcome.steps,
        outcome.t_loop,
        float(finish.mean()),
        float(finish.std()),
        float(finish.max()),
        busy,
        overhead,
        max(p * float(outcome.notified_at.max()) - busy - overhead, 0.0),  # rounding may leave less than 0
    )


def _pe_rows(job: int, began: float, outcome: LoopOutcome, requests: PERequests | None) -> PEs:
    p = len(outcome.finish)
    return PEs(
        job=np.full(p, job, np.int64),
        pe=np.arange(p, dtype=np.int32),
        finish=began + outcome.finish,
        told=began + outcome.notified_at,
        busy=outcome.busy,
        latency=None if requests is None else requests.latency,
        last_request=None if requests is None else began + requests.last,
    )


def _joined(table: type[Table], blocks: list[Table]) -> Table:
    columns: dict[str, NDArray[Any]] = {
        column.name: np.concatenate([getattr(block, column.name) for block in blocks])
        for column in fields(table)  # type: ignore[arg-type]  # every table is a dataclass
        if getattr(blocks[0], column.name) is not None
    }
    return table(**columns)
