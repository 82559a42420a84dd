"""The loops of a run in a page: their metrics, and the chunks and PEs of those that there is room for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.analysis.page.packing import packed_columns
from mlsim.record import Chunks, Loops, PEs, Records, empty
from mlsim.record.blocks import rows_of

__all__ = ["PageLoops", "loop_data", "wanted_jobs"]


@dataclass(frozen=True, slots=True)
class PageLoops:
    """Chunks and PEs of some jobs of a run, grouped by job; ``job`` are rows of the run's jobs."""

    chunks: Chunks
    pes: PEs
    recorded: bool = True
    """Whether the run recorded chunks at all."""

    @staticmethod
    def none(recorded: bool = True) -> PageLoops:
        """Return tables without rows."""
        return PageLoops(empty(Chunks), empty(PEs), recorded)


def wanted_jobs(loops: Loops, most_chunks: int) -> Ints:
    """Return rows of the jobs whose chunks go into a page: those whose PEs lost most time first.

    Parameters
    ----------
    loops
        Of a run.
    most_chunks
        How many chunks there is room for.
    """
    lost = loops.overhead + loops.idle
    order = np.lexsort((np.arange(len(lost)), -lost))
    fits = np.cumsum(loops.steps[order]) <= most_chunks
    rows: Ints = np.sort(loops.job[order[fits]])
    return rows


def loop_data(records: Records, some: PageLoops) -> dict[str, Any]:
    """Return ``loops``, ``chunks`` and ``pes`` as the page reads them; times from the job's start."""
    loops, jobs = records.loops, records.jobs
    chunks = rows_of(some.chunks, np.lexsort((some.chunks.start, some.chunks.job)))
    pes = rows_of(some.pes, np.lexsort((some.pes.pe, some.pes.job)))
    first, count = _ranges(loops.job, chunks.job)
    first_pe, _ = _ranges(loops.job, pes.job)
    spread, mean, last = loops.std_finish, loops.mean_finish, loops.max_finish
    return {
        "loops": packed_columns(
            {
                "job": loops.job,
                "pes": loops.pes,
                "iterations": loops.iterations,
                "steps": loops.steps,
                "t_loop": loops.t_loop,
                "busy": loops.busy,
                "overhead": loops.overhead,
                "idle": loops.idle,
                "imbalance": _ratio(last - mean, last) * 100.0,
                "cov": _ratio(spread, mean),
                "first": first,
                "count": count,
                "first_pe": first_pe,
            }
        ),
        "chunks": packed_columns(
            {
                "pe": chunks.pe,
                "step": chunks.step,
                "first": chunks.first,
                "size": chunks.size,
                "start": chunks.start - jobs.start_time[chunks.job],
                "end": chunks.end - jobs.start_time[chunks.job],
            }
        ),
        "pes": packed_columns({"finish": pes.finish - jobs.start_time[pes.job]}),
        "unread": _why_unread(some.recorded),
    }


def _why_unread(recorded: bool) -> str:
    if not recorded:
        return "Its chunks were not recorded: run the scenario with --set output.trace=chunks."
    return (
        "Its chunks are left out to keep the page small; mlsim report --chunks N has room for more, and "
        "mlsim plot loop-timeline RUN --job ID draws them."
    )


def _ratio(part: Floats, whole: Floats) -> Floats:
    found: Floats = np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
    return found


def _ranges(wanted: Ints, job: Ints) -> tuple[Ints, Ints]:
    """Return where the rows of each wanted job begin, -1 for none, and how many there are."""
    order = np.argsort(job, kind="stable")  # grouped by job: whole groups move
    at = np.searchsorted(job[order], wanted, "left")
    count = np.searchsorted(job[order], wanted, "right") - at
    first = np.full(len(wanted), -1, np.int64)
    first[count > 0] = order[at[count > 0]]
    return first, count
