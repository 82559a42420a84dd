"""Tables of the loops that have ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats
from mlsim.application.loop_outcome import LoopOutcome
from mlsim.application.selection.selector import Selected
from mlsim.record import Chunks, ChunkStore, LoopChunks, Loops, PEs, Selections, empty

Table = TypeVar("Table")

_LOOP_COLUMNS = (
    "job",
    "pes",
    "iterations",
    "steps",
    "t_loop",
    "mean_finish",
    "std_finish",
    "max_finish",
    "busy",
    "overhead",
    "idle",
)


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
        if not self._loops:
            return empty(Loops)
        columns = dict(zip(_LOOP_COLUMNS, zip(*sorted(self._loops), strict=True), strict=True))
        whole = {"job", "pes", "iterations", "steps"}
        arrays: dict[str, NDArray[Any]] = {
            name: np.array(values, np.int64 if name in whole else np.float64)
            for name, values in columns.items()
        }
        return Loops(**arrays)

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
        return _selections(self._selected)

    def chunks(self) -> Chunks:
        """Return one row per chunk, by job in order of start, then by the chunks' start."""
        if self._store is None:
            return empty(Chunks)
        return self._store.table(sorted(self._chunks, key=lambda kept: self._place(*kept[:2])))


def _selections(jobs: list[tuple[int, float, tuple[Selected, ...]]]) -> Selections:
    rows = [
        (job, step, *chosen._replace(begin=began + chosen.begin))
        for job, began, selected in sorted(jobs)
        for step, chosen in _with_steps(selected)
    ]
    if not rows:
        return empty(Selections)
    job, step, technique, begin, t_loop, imbalance, spent, iterations = zip(*rows, strict=True)
    return Selections(
        np.array(job),
        np.array(step),
        list(map(str, technique)),
        np.array(begin, np.float64),
        np.array(t_loop, np.float64),
        np.array(imbalance, np.float64),
        np.array(spent, np.float64),
        np.array(iterations),
    )


def _with_steps(selected: Iterable[Selected]) -> Iterator[tuple[int, Selected]]:
    """Yield choices with the numbers of their time steps, from 1: the first of each is for the whole step."""
    step = 0
    for chosen in selected:
        step += chosen.iterations == 0
        yield step, chosen


def _loop_row(job: int, outcome: LoopOutcome) -> tuple[float, ...]:
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
