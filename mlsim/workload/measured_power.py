"""Power over time of jobs, as it was measured: a file of steps, in CSV or Parquet."""

from __future__ import annotations

import io
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.errors import InputError
from mlsim.workload.format_record import read_chunks, read_whole

if TYPE_CHECKING:
    import polars as pl

STEP_COLUMNS: Final = ("job_id", "time", "power", "period")
"""Columns of the file; the last one may be missing."""


@dataclass(frozen=True, slots=True)
class JobSteps:
    """Steps of the power of jobs, in order of (job_id, time)."""

    job_id: Ints
    time: Floats  # since the start of the job [s], 0 in its first step
    power: Floats  # from then on, of a node all of whose cores the job holds [W]
    period: Floats  # after which the steps begin again [s]; NaN: the last one holds

    def rows_of(self, job_id: Ints) -> tuple[Ints, Ints]:
        """Return the rows of the steps of some jobs, by job and time, and the place of each row's job."""
        order = np.argsort(job_id, kind="stable")
        place = np.minimum(np.searchsorted(job_id[order], self.job_id), len(job_id) - 1)
        rows = np.flatnonzero(job_id[order][place] == self.job_id) if len(job_id) else np.empty(0, np.int64)
        jobs = order[place[rows]] if len(job_id) else rows
        again = np.argsort(jobs, kind="stable")
        return rows[again], jobs[again]


def read_steps(path: Path) -> JobSteps:
    """Read the steps of a file, compressed or not; a message about a wrong value names its line."""
    import polars as pl  # runs without such a file do without

    frame = read_table(path, "table of power", STEP_COLUMNS)
    missing = [name for name in STEP_COLUMNS[:3] if name not in frame.columns]
    if missing:
        raise InputError(f"{path}: has no column {missing[0]}; needed: job_id, time (s), power (W)")
    if "period" not in frame.columns:
        frame = frame.with_columns(period=pl.lit(None, pl.Float64))
    given = frame["period"].is_not_null().to_numpy()
    job_id = frame["job_id"].cast(pl.Int64, strict=False)
    _complain(path, job_id.is_null().to_numpy(), "job_id is no whole number")
    values = frame.select(pl.col(STEP_COLUMNS[1:]).cast(pl.Float64, strict=False).fill_null(np.nan))
    time, power, period = (values[name].to_numpy() for name in STEP_COLUMNS[1:])
    _complain(path, ~(np.isfinite(time) & (time >= 0)), "time is no number of seconds, 0 or more")
    _complain(path, ~(np.isfinite(power) & (power >= 0)), "power is no number of watts, 0 or more")
    _complain(path, given & ~(np.isfinite(period) & (period > 0)), "period is no number of seconds above 0")
    order = np.lexsort((time, job_id.to_numpy()))
    found = JobSteps(job_id.to_numpy()[order], time[order], power[order], period[order])
    _check(path, found, order)
    return found


def _check(path: Path, steps: JobSteps, order: Ints) -> None:
    """Check that each job has steps from 0 on, at different times, all of them within its one period."""
    first = np.ones(len(order), np.bool_)
    first[1:] = steps.job_id[1:] != steps.job_id[:-1]
    same = ~first & (np.diff(steps.time, prepend=np.nan) == 0)
    period = np.nan_to_num(steps.period, nan=-1.0)  # those that are given are above 0
    other = ~first & (np.diff(period, prepend=period[:1]) != 0)
    for wrong, what in (
        (first & (steps.time != 0), "the first step of the job is not at time 0"),
        (same, "the job has two steps at this time"),
        (other, "the job has two periods; allowed: the same one in all its lines"),
        (steps.time >= steps.period, "time is not below the period"),
    ):
        lines = np.zeros(len(order), np.bool_)
        lines[order] = wrong
        _complain(path, lines, what)


def _complain(path: Path, wrong: Mask, what: str) -> None:
    if wrong.any():
        raise InputError(f"{path}:{int(np.argmax(wrong)) + 2}: {what}")


def read_table(path: Path, purpose: str, wanted: Collection[str]) -> pl.DataFrame:
    """Read those of the wanted columns that a CSV or Parquet file has, compressed or not; of CSV as texts."""
    import polars as pl

    from mlsim._files.parquet import read_columns, read_schema, refusing_damage

    parquet = next(read_chunks(path, purpose), b"").startswith(b"PAR1")
    content = read_whole(path, lines=not parquet, what=purpose)
    if parquet:
        return read_columns(content, path, [name for name in read_schema(content, path) if name in wanted])
    with refusing_damage(f"{path}: cannot be read"):
        frame = pl.read_csv(io.BytesIO(content), infer_schema=False)
    return frame.select(name for name in frame.columns if name in wanted)
