"""Recorded beside simulated: the waits of jobs in their log and in a run."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from mlsim._runtime.arrays import Floats
from mlsim.analysis.formatting import count, duration
from mlsim.analysis.job_metrics import group_jobs
from mlsim.analysis.machine_metrics import machine_cores
from mlsim.errors import InputError
from mlsim.record import Records
from mlsim.record.derived_times import queued_since, restarts

START = "recorded_start"
GROUPS = ("partition", "size", "user", "week")
"""Groups of jobs that a comparison shows, of those that ``mlsim metrics --by`` has."""
SIDES = ("recorded", "simulated")
_MINUTE, _MOST = 60.0, 20


def compare_waits(recorded: Floats, simulated: Floats) -> dict[str, Any]:
    """Compare two waits [s] per job: each distribution, their distance, and the correlation of their ranks.

    ``no_wait`` and ``within_minute`` are shares of the jobs. ``distance`` is that of Kolmogorov and Smirnov:
    the largest difference between the two shares of jobs that waited at most so long. ``rank_correlation`` is
    Spearman's, with mean ranks of equal waits; None if all waits of a side are equal.
    """
    sides = dict(zip(SIDES, (recorded, simulated), strict=True))
    values = np.sort(np.concatenate([recorded, simulated]))
    shares = [np.searchsorted(np.sort(side), values, side="right") for side in sides.values()]
    ranks = [pl.Series(side).rank("average").to_numpy() for side in sides.values()]
    equal = any(np.ptp(side) == 0 for side in ranks)
    return {
        "jobs": len(recorded),
        **{name: _distribution(side) for name, side in sides.items()},
        "mean_difference": float(np.mean(simulated - recorded)),
        "mean_absolute_difference": float(np.mean(np.abs(simulated - recorded))),
        "distance": float(np.abs(shares[0] - shares[1]).max() / len(recorded)),
        "rank_correlation": None if equal else float(np.corrcoef(ranks[0], ranks[1])[0, 1]),
    }


def _distribution(waits: Floats) -> dict[str, float]:
    median, p90 = np.percentile(waits, (50, 90))
    return {
        "mean": float(waits.mean()),
        "median": float(median),
        "p90": float(p90),
        "no_wait": float(np.mean(waits == 0)),
        "within_minute": float(np.mean(waits <= _MINUTE)),
    }


class RecordedWaits:
    """The jobs of a run that started in their log and in the simulation, with both waits.

    Both waits count from the submission. A recorded start before the submission counts as no wait.
    """

    def __init__(self, records: Records) -> None:
        self._records, jobs = records, records.jobs
        self.start: Floats = records.own.of.get(START, np.full(len(jobs.job_id), np.nan))
        """Recorded start of each job of the run, s from the scenario's start; NaN: unknown."""
        known = ~np.isnan(self.start)
        if not known.any():
            raise InputError(
                f"recorded: no job of this run has a {START}; logs have it as Start (sacct), as the wait "
                f"(field 3 of SWF), or as {START} (CSV, Parquet); generated and resampled workloads lack it"
            )
        self._rows = np.flatnonzero(known & ~np.isnan(jobs.start_time))
        if not len(self._rows):
            raise InputError("recorded: none of the jobs with a recorded start started in the simulation")
        waits = np.maximum(self.start - jobs.submit_time, 0.0), jobs.start_time - jobs.submit_time
        self.recorded, self.simulated = (side[self._rows] for side in waits)
        self.counts = {
            "jobs": len(known),
            "compared": len(self._rows),
            "without_recorded_start": int(np.count_nonzero(~known)),
            "never_started": int(np.count_nonzero(known & np.isnan(jobs.start_time))),
            "before_submission": int(np.count_nonzero(self.start < jobs.submit_time)),
        }

    @cached_property
    def overall(self) -> dict[str, Any]:
        """Both distributions of all jobs; see :func:`compare_waits`."""
        return compare_waits(self.recorded, self.simulated)

    @cached_property
    def jobs(self) -> pl.DataFrame:
        """One row per job, with both waits and their difference, simulated - recorded, in s."""
        jobs, rows = self._records.jobs, self._rows
        columns = {name: getattr(jobs, name)[rows] for name in ("job_id", "submit_time", "processors")}
        columns |= {START: self.start[rows], "start_time": jobs.start_time[rows]}
        columns |= {"recorded_wait": self.recorded, "simulated_wait": self.simulated}
        return pl.DataFrame(columns | {"difference": self.simulated - self.recorded})

    def by(self, group: str) -> pl.DataFrame:
        """Compare the waits of each group of jobs (those of ``mlsim metrics --by``), one row each."""
        groups = group_jobs(self._records.jobs, group, self._records.names.of.get(group))
        code = groups.code[self._rows]
        order = np.argsort(code, kind="stable")
        found, first = np.unique(code[order], return_index=True)
        parts = zip(found.tolist(), np.split(order, first[1:]), strict=True)
        return pl.DataFrame(
            [
                {group: groups.labels[k], **_flat(compare_waits(self.recorded[at], self.simulated[at]))}
                for k, at in parts
            ],
            infer_schema_length=None,
        )

    @cached_property
    def most_different(self) -> pl.DataFrame:
        """The twenty jobs whose waits differ most, with what the simulation knows of why."""
        order = np.lexsort((self._rows, -np.abs(self.simulated - self.recorded)))[:_MOST]
        why = [self._reasons(row) for row in self._rows[order].tolist()]
        found: pl.DataFrame = self.jobs[order.tolist()]
        return found.with_columns(pl.Series("why", why, pl.String))

    def _reasons(self, row: int) -> str:
        """Describe the time at which only one of the log and the simulation had started a job."""
        jobs, wanted = self._records.jobs, int(self._records.jobs.cores[row])
        recorded = max(self.start[row], jobs.submit_time[row])
        start, total = jobs.start_time[row], machine_cores(self._records.nodes)
        if start == recorded:
            return ""
        at, found = min(recorded, start), list[str]()
        if start < recorded:
            free = total - int(jobs.cores[(self.start <= at) & (at < self.start + jobs.log_run_time)].sum())
            words = f"{max(free, 0):,} of its {wanted:,} cores were free in the log when it started here"
            if free >= wanted:
                words = f"its {wanted:,} cores were free in the log too: limits, priorities or reservations?"
            return f"{words}; backfilled here" if jobs.backfilled[row] else words
        held, queued = self._records.occupancy, queued_since(jobs)
        outages = self._records.outages
        down = np.unique(outages.node[(outages.start <= at) & ~(outages.end <= at)])
        out = int(self._records.nodes.cores[down].sum())
        free = total - out - int((held.count * held.cores)[(held.start <= at) & (at < held.end)].sum())
        left = jobs.start_time if jobs.withdraw_time is None else np.fmin(jobs.start_time, jobs.withdraw_time)
        before = (queued < queued[row]) | (queued == queued[row]) & (np.arange(len(queued)) < row)
        ahead = int(np.count_nonzero(before & (left > at)))
        if queued[row] > recorded:
            ahead = 0
            found.append(
                f"jobs that it depends on ended {duration(queued[row] - recorded)} after its recorded start"
            )
        elif free < wanted:
            found.append(f"here {max(free, 0):,} of its {wanted:,} cores were free at its recorded start")
        elif not ahead:
            found.append(
                f"{wanted:,} cores were free here, but not as it asks for them (nodes, memory, caps?)"
            )
        found += [f"{count(ahead, 'job')} submitted before it waited"] if ahead else []
        found += [f"{count(out, 'core')} out of service"] if out else []
        found += ["started again here"] if restarts(self._records.attempts, len(queued))[row] else []
        return "; ".join(found)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the single jobs as plain values."""
        groups = {f"by_{group}": self.by(group).to_dicts() for group in GROUPS}
        return {**self.counts, **self.overall, **groups, "most_different": self.most_different.to_dicts()}


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested values under dotted names."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= (
            {f"{name}.{part}": each for part, each in value.items()}
            if isinstance(value, dict)
            else {name: value}
        )
    return found
