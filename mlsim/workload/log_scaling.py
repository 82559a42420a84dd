"""Logs scaled to another load or machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.workload.generated_jobs import Made
from mlsim.workload.models.model_base import stretched
from mlsim.workload.resampled_logs import WEEK, SourceLog, offered_load, whole_weeks
from mlsim.workload.swf_fields import Header
from mlsim.workload.workload_jobs import JobBlock

MOST: Final = 1000.0
"""The largest factor; its inverse is the smallest."""

_MACHINE: Final = ("MaxProcs", "MaxNodes")


class ScaledBy(StrEnum):
    """What is multiplied."""

    ARRIVALS = "arrivals"
    RUN_TIMES = "run-times"
    USERS = "users"
    MACHINE = "machine"


class Scaled(Made):
    """A log that is scaled; see :func:`scale`.

    Attributes
    ----------
    by : ScaledBy
        What is multiplied.
    """

    def __init__(
        self,
        log: SourceLog,
        by: ScaledBy,
        factor: float | None,
        load: float | None,
        processors: int | None,
        seed: int,
    ) -> None:
        if (factor is None) == (load is None):
            raise InputError("factor and load: give one of them")
        for name, value in (("factor", factor), ("load", load)):
            if value is not None and not 1 / MOST <= value <= MOST:
                raise InputError(f"{name}: {value:g}; allowed: {1 / MOST:g} to {MOST:g}")
        if load is not None and by is ScaledBy.MACHINE:
            raise InputError("load: stays as it is by machine; give a factor")
        if processors is not None and processors < 1:
            raise InputError(f"processors: {processors}; allowed: 1 or more")
        self.log, self.by, self.seed = log, by, seed
        self._factor, self._load, self._processors = factor, load, processors

    @cached_property
    def processors(self) -> int:
        """Of the log's machine."""
        return self.log.processors() if self._processors is None else self._processors

    @cached_property
    def factor(self) -> float:
        """The factor: as given, or the one by which the load is reached.

        Raises
        ------
        InputError
            If the load of the log is not known, or zero.
        """
        if self._factor is not None:
            return self._factor
        before = offered_load(self.log.blocks(), self.processors)
        if not before > 0:
            raise InputError(f"{self.log.path}: its jobs come at one time or have no work; give a factor")
        assert self._load is not None
        return self._load / before

    @property
    def header(self) -> Header:
        """What a log says of how it was made."""
        seed = f", seed {self.seed}" if self.by is ScaledBy.USERS else ""
        header = self.log.header(f"{self.by} scaled by {self.factor!r}{seed}")
        if self.by is ScaledBy.MACHINE:
            for key in _MACHINE:
                value = header.get(key)
                if isinstance(value, str) and value.isdecimal():
                    header[key] = str(machine_scaled(int(value), self.factor))
        return header

    def blocks(self) -> Iterator[JobBlock]:
        """Yield the jobs in arrival order."""
        factor = self.factor
        match self.by:
            case ScaledBy.ARRIVALS:
                return stretched(self.log.blocks(), 1 / factor)
            case ScaledBy.RUN_TIMES:
                return (_longer(block, factor) for block in self.log.blocks())
            case ScaledBy.MACHINE:
                return (_larger(block, factor, self.log.path) for block in self.log.blocks())
            case ScaledBy.USERS:
                return iter([_more_users(self.log, factor, self.seed)])


def scale(
    log: str | Path,
    *,
    by: str = "arrivals",
    factor: float | None = None,
    load: float | None = None,
    processors: int | None = None,
    seed: int = 0,
    lenient: bool = False,
) -> Scaled:
    """Scale a log.

    Parameters
    ----------
    log
        The file, as of :func:`mlsim.workload.open_workload`.
    by
        ``arrivals``, ``run-times``, ``users`` or ``machine``.
    factor
        By which the load is multiplied; by ``machine`` the machine and the sizes of jobs.
    load
        The offered load to reach, in place of a factor.
    processors
        Of the log's machine, where its header does not say or is wrong; read where there is a load.
    seed
        Of the draws of users.
    lenient
        Whether broken lines of the log are skipped.

    Returns
    -------
    Scaled
        With ``blocks()``, ``jobs()``, ``frame()``, ``write(path)``, ``header`` and ``factor``.

    Raises
    ------
    InputError
        If an argument makes no sense, or the log cannot be read.
    """
    try:
        chosen = ScaledBy(by)
    except ValueError:
        raise InputError(f"by: {by!r}; allowed: {', '.join(ScaledBy)}") from None
    return Scaled(SourceLog(log, lenient), chosen, factor, load, processors, seed)


def _whole(seconds: Floats, factor: float) -> Floats:
    """Return multiples of times in whole seconds; what lasts at all lasts a second at least."""
    scaled: Floats = np.where(seconds > 0, np.maximum(np.rint(seconds * factor), 1.0), seconds)
    return scaled


def _longer(block: JobBlock, factor: float) -> JobBlock:
    return replace(block, run_time=_whole(block.run_time, factor), walltime=_whole(block.walltime, factor))


def _sizes(processors: Ints, factor: float) -> Ints:
    scaled: Ints = np.maximum(np.rint(processors * factor), 1).astype(np.int64)
    return scaled


def machine_scaled(processors: int, factor: float) -> int:
    """Return how many processors a scaled machine has."""
    return int(_sizes(np.array([processors]), factor)[0])


def _larger(block: JobBlock, factor: float, path: Path) -> JobBlock:
    if block.asked is not None:
        raise InputError(f"{path}: its jobs ask for other resources too, which do not scale with a machine")
    nodes = np.full(len(block), -1, np.int64)  # as many as the new sizes need
    return replace(block, processors=_sizes(block.processors, factor), node_count=nodes)


def _more_users(log: SourceLog, factor: float, seed: int) -> JobBlock:
    """Return the jobs of a log with users copied or left out."""
    jobs = log.jobs()
    if not np.any(jobs.user >= 0):
        raise InputError(f"{log.path}: says nothing of users; scale it by something else")
    rng = np.random.default_rng(seed)
    users, of = np.unique(jobs.user, return_inverse=True)
    work: Floats = np.bincount(of, jobs.run_time * jobs.processors).astype(np.float64)
    if factor <= 1:
        drawn = _until(work, factor * work.sum(), rng.permutation(len(users)))
        return replace(jobs.select(np.isin(of, drawn)), after=None)
    rounds = int(np.ceil(factor)) + 1
    order = np.concatenate([rng.permutation(len(users)) for _ in range(rounds)])
    parts = [replace(jobs, after=None)]
    for copy, user in enumerate(_until(work, (factor - 1) * work.sum(), order).tolist()):
        parts.append(_copy(jobs.select(of == user), int(users[-1]) + 1 + copy, whole_weeks(jobs), rng))
    everyone = JobBlock.concatenate(parts)
    everyone = everyone.select(np.argsort(everyone.submit_time, kind="stable"))
    return replace(everyone, job_id=np.arange(1, len(everyone) + 1))


def _until(work: Floats, wanted: float, order: Ints) -> Ints:
    """Return as many users of an order as come nearest to an amount of work."""
    done = np.concatenate([[0.0], np.cumsum(work[order])])
    return order[: int(np.argmin(np.abs(done - wanted)))]


def _copy(jobs: JobBlock, user: int, weeks: int, rng: np.random.Generator) -> JobBlock:
    """Return the jobs of a user as another user's, with whole weeks in another order."""
    week = (jobs.submit_time // WEEK).astype(np.int64)
    to = np.arange(max(weeks, int(week.max()) + 1))
    to[:weeks] = rng.permutation(weeks)
    submit = jobs.submit_time + (to[week] - week) * WEEK
    return replace(jobs, user=np.full(len(jobs), user), submit_time=submit, after=None)
