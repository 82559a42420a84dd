"""Workloads resampled from the weeks of a log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from mlsim import __version__, _shared
from mlsim._arrays import Ints
from mlsim.errors import InputError
from mlsim.scenario import MOST_RESAMPLED_WEEKS, ResampledBy, WorkloadConfig
from mlsim.workload.generated_jobs import Made
from mlsim.workload.log_conversion import ANY_SIZE, shifted_header
from mlsim.workload.log_source import AS_LOGGED, open_workload
from mlsim.workload.log_times import DAY
from mlsim.workload.swf_fields import Header
from mlsim.workload.workload_jobs import JobBlock


class SourceLog:
    """A log: its jobs cleaned, in arrival order, the first one submitted at time 0.

    Parameters
    ----------
    path
        The file: SWF, CSV, Parquet or Batsim JSON, compressed or not.
    lenient
        Whether broken lines are skipped.
    options
        Other keys of the section ``workload`` on how it is read: ``format``, ``cleaning``, ``estimates``.

    Raises
    ------
    InputError
        If it cannot be read, or has no job.
    """

    def __init__(self, path: str | Path, lenient: bool = False, **options: Any) -> None:
        self.path = Path(path)
        config = WorkloadConfig(path=str(path), lenient=lenient, dependencies=True, **options)
        self._workload = open_workload(config, self.path, ANY_SIZE, AS_LOGGED)

    def blocks(self) -> Iterator[JobBlock]:
        """Yield the jobs in arrival order; every call reads them anew."""
        return self._workload.blocks()

    def jobs(self) -> JobBlock:
        """Return all jobs at once."""
        return JobBlock.concatenate(list(self.blocks()))

    def header(self, note: str) -> Header:
        """Return the header of what is made of it; the note says how that was done."""
        header = self.start_header()
        before = header.get("Note", [])
        notes = [before] if isinstance(before, str) else list(before)
        return header | {"Note": [*notes, f"{note}, of {self.path.name}, by mlsim {__version__}"]}

    def start_header(self) -> Header:
        """Return the log's header, the time of which begins with the first job."""
        return shifted_header(self._workload.header, self._workload.origin)

    def processors(self) -> int:
        """Return how many processors its machine has, as its header says.

        Raises
        ------
        InputError
            If it does not say.
        """
        for key in ("MaxProcs", "MaxNodes"):
            value = self._workload.header.get(key)
            if isinstance(value, str) and value.isdecimal() and int(value) > 0:
                return int(value)
        raise InputError(f"{self.path}: its header does not say how many processors there are; say it")


def offered_load(blocks: Iterator[JobBlock], processors: int) -> float:
    """Return run time x processors of all jobs over those of the machine until the last submission."""
    work = last = 0.0
    for block in blocks:
        work += float(np.sum(block.run_time * block.processors))
        last = float(block.submit_time[-1])
    return work / (processors * last) if last > 0 else np.nan


WEEK: Final = 7 * DAY


def whole_weeks(jobs: JobBlock) -> int:
    """Return how many whole weeks a log has; a last one that lacks less than a day counts as whole."""
    return int((float(jobs.submit_time[-1]) + DAY) // WEEK)


class Resampled(Made):
    """A workload resampled from a log; see :func:`resample`."""

    def __init__(self, log: SourceLog, weeks: int, by: ResampledBy, seed: int) -> None:
        if not 1 <= weeks <= MOST_RESAMPLED_WEEKS:
            raise InputError(f"weeks: {weeks}; allowed: 1 to {MOST_RESAMPLED_WEEKS:,}")
        self.log, self.weeks, self.by, self.seed = log, weeks, by, seed

    @property
    def place(self) -> Path:
        """The log."""
        return self.log.path

    @property
    def identity(self) -> str | None:
        """What tells these jobs from others; None where the log's file cannot be told from others."""
        identity = _shared.file_identity(self.log.path)
        return None if identity is None else f"{identity}, {self.weeks} weeks by {self.by}, seed {self.seed}"

    @cached_property
    def _source(self) -> tuple[JobBlock, int]:
        """The jobs of the whole weeks of the log, and how many weeks these are."""
        jobs = self.log.jobs()
        weeks = whole_weeks(jobs)
        if weeks < 1:
            raise InputError(f"{self.log.path}: is shorter than a week, and weeks are what is resampled")
        if self.by is ResampledBy.USER and not np.any(jobs.user >= 0):
            raise InputError(
                f"{self.log.path}: says nothing of users; try --by week (in a scenario by: week)"
            )
        return jobs.select(jobs.submit_time < weeks * WEEK), weeks

    @property
    def source_weeks(self) -> int:
        """How many weeks are drawn from."""
        return self._source[1]

    @cached_property
    def _sorted(self) -> tuple[Ints, Ints, int]:
        """Rows by profile and week, where each of these begins, and how many profiles there are."""
        jobs, weeks = self._source
        profile = np.zeros(len(jobs), np.int64)
        if self.by is ResampledBy.USER:
            profile = np.unique(jobs.user, return_inverse=True)[1]
        place = profile * weeks + (jobs.submit_time // WEEK).astype(np.int64)
        rows = np.argsort(place, kind="stable")
        profiles = int(profile.max()) + 1
        return rows, np.searchsorted(place[rows], np.arange(profiles * weeks + 1)), profiles

    @property
    def header(self) -> Header:
        """What a log says of how it was made."""
        return self.log.header(f"{self.weeks} weeks resampled by {self.by}, seed {self.seed}")

    @property
    def length(self) -> int:
        """How many jobs that many weeks of the log have, about."""
        source, weeks = self._source
        return round(len(source) / weeks * self.weeks)

    def blocks(self) -> Iterator[JobBlock]:
        """Yield the jobs in arrival order, a week at a time."""
        rows, begin, profiles = self._sorted
        source, weeks = self._source
        rng, made = np.random.default_rng(self.seed), 0
        for week in range(self.weeks):
            place = np.arange(profiles) * weeks + rng.integers(0, weeks, profiles)
            counts = begin[place + 1] - begin[place]
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            jobs = source.select(rows[np.repeat(begin[place], counts) + within])
            submit = jobs.submit_time % WEEK
            order = np.argsort(submit, kind="stable")
            ids = np.arange(made + 1, made + len(jobs) + 1)
            made += len(jobs)
            if len(jobs):
                times = submit[order] + week * WEEK
                yield replace(jobs.select(order), job_id=ids, submit_time=times, after=None)


def resample(
    log: str | Path, *, weeks: int, by: str = "user", seed: int = 0, lenient: bool = False
) -> Resampled:
    """Put a workload together from the weeks of a log.

    Parameters
    ----------
    log
        The file, as of :func:`mlsim.workload.open_workload`.
    weeks
        How many weeks the new workload has.
    by
        ``user``: a week of each user by itself (Zrigui 2021, Algorithm 2); ``week``: of all together.
    seed
        Of the draws.
    lenient
        Whether broken lines of the log are skipped.

    Returns
    -------
    Resampled
        With ``blocks()``, ``jobs()``, ``frame()``, ``write(path)``, ``header``.

    Raises
    ------
    InputError
        If the log cannot be read, is shorter than a week, or has no users where these are asked for.
    """
    try:
        chosen = ResampledBy(by)
    except ValueError:
        raise InputError(f"by: {by!r}; allowed: {', '.join(ResampledBy)}") from None
    return Resampled(SourceLog(log, lenient), weeks, chosen, seed)


def resampled(config: WorkloadConfig, log: Path, seed: int) -> Resampled:
    """Return the workload of a scenario.

    Parameters
    ----------
    config
        Its section ``workload``, with ``resample``; the format, a file of the user's own, as it was found.
    log
        The log.
    seed
        Of the scenario.
    """
    how = config.resample
    assert how is not None
    of = {name: getattr(config, name) for name in ("lenient", "format", "cleaning", "estimates")}
    seed = seed if how.seed is None else how.seed
    return Resampled(SourceLog(log, **of), how.weeks, how.by, seed)
