"""Logs made of a log: converted to another format, weeks drawn anew, or the load or the machine scaled."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from mlsim import __version__
from mlsim._runtime import shared_cache
from mlsim._runtime.arrays import Floats, Ints, ranges
from mlsim.errors import InputError
from mlsim.scenario import WorkloadConfig, words
from mlsim.scenario.workload_section import MOST_WEEKS as MOST_RESAMPLED_WEEKS
from mlsim.workload import log_fields, log_source, swf_log, workload_dependencies
from mlsim.workload.format_record import Format, Reading
from mlsim.workload.generated_jobs import Made
from mlsim.workload.log_formats import FORMATS, LogReader, format_of, write_columns
from mlsim.workload.models.model_base import stretched
from mlsim.workload.run_log import JOBS_FILE, copied_costs
from mlsim.workload.workload_columns import APPLICATION_COLUMNS
from mlsim.workload.workload_jobs import APART, JobBlock, LogBlock, log_of, named_columns, named_own

_LOOP = ("loop_iterations", "loop_limit")
_HELD_BY_NAME = {
    *("job_id", "submit_time", "run_time", "allocated_processors", "requested_processors", "requested_time"),
    *(
        "status",
        "node_count",
        "withdraw_time",
        "recorded_start",
        "wait_time",
        *log_fields.CODED,
        *_LOOP,
        *APART,
    ),
}
_MADE_BY_READING = ("ignored_columns", "request_columns")
_OF_THE_WHOLE = ("MaxJobs", "MaxRecords", "StartTime", "EndTime")
ANY_SIZE = 1 << 62


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of a conversion."""

    read: str  # format that was read
    written: words.WorkloadFormat
    jobs: int
    left_out: list[str]  # facts of the log that the new format cannot hold
    notes: dict[str, int]  # counts of findings, of cleaning rules only where the log was cleaned


def convert(
    config: WorkloadConfig,
    source: str | Path,
    target: str | Path,
    to: words.WorkloadFormat,
    *,
    as_simulated: bool,
    rates: log_fields.Rates | None = None,
) -> Conversion:
    """Write a log in another format; ``as_simulated``: cleaned, sorted, selected and shifted.

    With the format ``run`` the target is a directory that exists: a workload directory.
    """
    source, target, written = Path(source), Path(target), to
    if to is words.WorkloadFormat.RUN:
        target, to = target / JOBS_FILE, words.WorkloadFormat.PARQUET
    if not FORMATS[to].can_be_written:
        raise InputError(f"{target}: logs of format {to} are read, and not written")
    found = format_of(source) if config.format is words.WorkloadFormat.AUTO else config.format
    extras = None
    if as_simulated:
        config = config.model_copy(update={"dependencies": True})
        workload = log_source.open_workload(
            *(config, source, ANY_SIZE, log_source.AS_LOGGED, rates), if_there=APPLICATION_COLUMNS
        )
        log = log_of(JobBlock.concatenate(list(workload.blocks())))
        header, notes = shifted_header(workload.header, workload.origin), workload.notes
    elif found == to and FORMATS[to].numbered:  # SWF: further fields stay as they are
        header, block = swf_log.read_swf(source, lenient=config.lenient, extras=True)
        log = LogBlock.from_columns(block.columns, identifiers=block.identifiers())
        notes, extras = {}, block.extras
    else:
        options = Reading(lenient=config.lenient, rates=rates, if_there=APPLICATION_COLUMNS)
        reader = LogReader(source, found, options)
        log = LogBlock.concatenate(list(reader.blocks()))
        header, notes = reader.header, dict(reader.counts)
        notes |= {"broken_lines": reader.broken_lines} if reader.broken_lines else {}
    form = FORMATS[to]
    left_out = _left_out(log, header, form)
    if form.numbered:
        directives = _directives(header) | log_fields.directives_of(log_fields.listed_names(header))
        swf_log.write_swf(target, directives, log.numbered(), extras)
    else:
        # Where the header stays, so do the codes to which it has the names.
        columns = named_columns(log, header, all_names=not form.keeps_header)
        columns |= named_own(log.own, as_numbers=form.keeps_header) if form.further else {}
        if form.holds is not None:
            others = [name for name in columns if name not in form.holds]
            left_out += [name for name in others if not {-1, 0, ""}.issuperset(columns[name])]
        costs = columns.get("costs")
        if written is words.WorkloadFormat.RUN and isinstance(costs, list):
            columns["costs"] = copied_costs(target.parent, costs)
        if form.check is not None:
            form.check(log, source)
        write_columns(target, form, header, [columns])
    return Conversion(found, written, len(log), left_out, notes)


def shifted_header(header: log_fields.Header, origin: float) -> log_fields.Header:
    """Return the header for a new time 0 (s), with the calendar time if known, without facts on all jobs."""
    header = {key: value for key, value in header.items() if key not in _OF_THE_WHOLE}
    start = header.get("UnixStartTime")
    if isinstance(start, str) and start.removeprefix("-").isdecimal() and origin:
        header["UnixStartTime"] = str(int(start) + int(origin))
        if not origin.is_integer():
            del header["UnixStartTime"]
    return header


def _left_out(log: LogBlock, header: log_fields.Header, to: Format) -> list[str]:
    """Name the columns and the parts of the header that a format cannot hold."""
    own = [] if log.own is None or to.further else list(log.own.of)
    if to.numbered:
        named = (*_LOOP, "qos", "node_count", "withdraw_time")
        lost = [name for name in named if np.any(getattr(log, name) != -1)]
        lost += [] if log.after is None or not len(log.after.row) else [workload_dependencies.DEPENDENCIES]
        lost += [] if log.asked is None else list(log.asked.columns())
        names = log_fields.listed_names(header)
        read_back = log_fields.names_of(log_fields.directives_of(names))
        kept = {*_directives(header), "request_columns"}
        kept |= {f"{column}_names" for column in names if read_back.get(column) == names[column]}
        return lost + own + [key for key in header if key not in kept]
    held = {"preceding_job", "think_time"} if np.any(log.preceding_job > 0) else set()
    others = [field.name for field in fields(LogBlock) if field.name not in held | _HELD_BY_NAME]
    lost = [name for name in others if np.any(getattr(log, name) != -1)]
    return lost + own + (["header"] if not to.keeps_header and _directives(header) else [])


def _directives(header: log_fields.Header) -> log_fields.Header:
    """Return the part of a header that can be lines of an SWF log."""
    return {
        key: value
        for key, value in header.items()
        if not key.endswith("_names") and key not in _MADE_BY_READING and log_fields.is_directive(key, value)
    }


# Logs in memory


class SourceLog:
    """A log, cleaned, in arrival order from time 0; ``options``: other keys of the section ``workload``."""

    def __init__(self, path: str | Path, lenient: bool = False, **options: Any) -> None:
        self.path = Path(path)
        config = WorkloadConfig(path=str(path), lenient=lenient, dependencies=True, **options)
        self._workload = log_source.open_workload(config, self.path, ANY_SIZE, log_source.AS_LOGGED)

    def blocks(self) -> Iterator[JobBlock]:
        """Yield the jobs in arrival order; every call reads them anew, without their recorded schedule."""
        return (block.unrecorded() for block in self._workload.blocks())

    def jobs(self) -> JobBlock:
        """Return all jobs at once."""
        return JobBlock.concatenate(list(self.blocks()))

    def header(self, note: str) -> log_fields.Header:
        """Return the header of a log derived from it; the note describes the derivation."""
        header = self.start_header()
        before = header.get("Note", [])
        notes = [before] if isinstance(before, str) else list(before)
        return header | {"Note": [*notes, f"{note}, of {self.path.name}, by mlsim {__version__}"]}

    def start_header(self) -> log_fields.Header:
        """Return the log's header, with time 0 at the first job."""
        return shifted_header(self._workload.header, self._workload.origin)

    def processors(self) -> int:
        """Return the number of processors from its header; raise InputError if the header lacks it."""
        found = log_fields.machine_processors(self._workload.header)
        if found is not None:
            return found
        raise InputError(f"{self.path}: its header does not say how many processors there are; say it")


def offered_load(blocks: Iterator[JobBlock], processors: int) -> float:
    """Return run time x processors of all jobs over those of the machine until the last submission."""
    work = last = 0.0
    for block in blocks:
        work += float(np.sum(block.run_time * block.processors))
        last = float(block.submit_time[-1])
    return work / (processors * last) if last > 0 else np.nan


WEEK: Final = 7 * log_fields.DAY


def whole_weeks(jobs: JobBlock) -> int:
    """Return the number of whole weeks of a log; a last one that lacks less than a day counts as whole."""
    return int((float(jobs.submit_time[-1]) + log_fields.DAY) // WEEK)


class Resampled(Made):
    """A workload resampled from a log; see :func:`resample`."""

    def __init__(self, log: SourceLog, weeks: int, by: str, seed: int) -> None:
        if by not in list(words.ResampledBy):
            raise InputError(f"by: {by!r}; allowed: {', '.join(words.ResampledBy)}")
        if not 1 <= weeks <= MOST_RESAMPLED_WEEKS:
            raise InputError(f"weeks: {weeks}; allowed: 1 to {MOST_RESAMPLED_WEEKS:,}")
        self.log, self.weeks, self.by, self.seed = log, weeks, words.ResampledBy(by), seed

    @property
    def place(self) -> Path:
        """The log."""
        return self.log.path

    @property
    def identity(self) -> str | None:
        """Key of these jobs; None where the log's file has no identity."""
        identity = shared_cache.file_identity(self.log.path)
        return None if identity is None else f"{identity}, {self.weeks} weeks by {self.by}, seed {self.seed}"

    @cached_property
    def _source(self) -> tuple[JobBlock, int]:
        """The jobs of the whole weeks of the log, and the number of weeks."""
        jobs = self.log.jobs()
        weeks = whole_weeks(jobs)
        if weeks < 1:
            raise InputError(f"{self.log.path}: is shorter than a week, and weeks are what is resampled")
        if self.by is words.ResampledBy.USER and not np.any(jobs.user >= 0):
            raise InputError(
                f"{self.log.path}: says nothing of users; try --by week (in a scenario by: week)"
            )
        return jobs.select(jobs.submit_time < weeks * WEEK), weeks

    @property
    def source_weeks(self) -> int:
        """Number of weeks that are drawn from."""
        return self._source[1]

    @cached_property
    def _sorted(self) -> tuple[Ints, Ints, int]:
        """Rows by profile and week, the first row of each of these, and the number of profiles."""
        jobs, weeks = self._source
        profile = np.zeros(len(jobs), np.int64)
        if self.by is words.ResampledBy.USER:
            profile = np.unique(jobs.user, return_inverse=True)[1]
        place = profile * weeks + (jobs.submit_time // WEEK).astype(np.int64)
        rows = np.argsort(place, kind="stable")
        profiles = int(profile.max()) + 1
        return rows, np.searchsorted(place[rows], np.arange(profiles * weeks + 1)), profiles

    @property
    def header(self) -> log_fields.Header:
        """Header of a log of these jobs, with their derivation."""
        return self.log.header(f"{self.weeks} weeks resampled by {self.by}, seed {self.seed}")

    @property
    def length(self) -> int:
        """Number of jobs in that many weeks of the log, about."""
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
            jobs = source.select(rows[ranges(begin[place], counts)])
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
    """Make a workload of weeks of a log, drawn at random.

    Parameters
    ----------
    log
        The file, as of :func:`mlsim.workload.open_workload`.
    weeks
        Length of the new workload.
    by
        ``user``: a week of each user by itself (Zrigui 2021, Algorithm 2); ``week``: of all together.
    seed
        Of the draws.
    lenient
        Whether broken lines of the log are skipped.

    Raises
    ------
    InputError
        If the log cannot be read, is shorter than a week, or has no users where these are asked for.
    """
    return Resampled(SourceLog(log, lenient), weeks, by, seed)


def resampled(config: WorkloadConfig, log: Path, seed: int) -> Resampled:
    """Return the workload of a scenario's section ``workload`` with ``resample``."""
    how = config.resample
    assert how is not None
    keys = ("lenient", "format", "cleaning", "estimates", "never_ran", "requeued")
    of = {name: getattr(config, name) for name in keys}
    seed = seed if how.seed is None else how.seed
    return Resampled(SourceLog(log, **of), how.weeks, how.by, seed)


# Scaled logs

MOST: Final = 1000.0  # The largest factor; its inverse is the smallest

_MACHINE: Final = ("MaxProcs", "MaxNodes")


class ScaledBy(StrEnum):
    """The quantity that is multiplied."""

    ARRIVALS = "arrivals"
    RUN_TIMES = "run-times"
    USERS = "users"
    MACHINE = "machine"


class Scaled(Made):
    """A log that is scaled; see :func:`scale`."""

    def __init__(
        self,
        log: SourceLog,
        by: str,
        factor: float | None,
        load: float | None,
        processors: int | None,
        seed: int,
    ) -> None:
        if by not in list(ScaledBy):
            raise InputError(f"by: {by!r}; allowed: {', '.join(ScaledBy)}")
        if (factor is None) == (load is None):
            raise InputError("factor and load: give one of them")
        for name, value in (("factor", factor), ("load", load)):
            if value is not None and not 1 / MOST <= value <= MOST:
                raise InputError(f"{name}: {value:g}; allowed: {1 / MOST:g} to {MOST:g}")
        if load is not None and by == ScaledBy.MACHINE:
            raise InputError("load: stays as it is by machine; give a factor")
        if processors is not None and processors < 1:
            raise InputError(f"processors: {processors}; allowed: 1 or more")
        self.log, self.by, self.seed = log, ScaledBy(by), seed
        self._factor, self._load, self._processors = factor, load, processors

    @cached_property
    def processors(self) -> int:
        """Processors of the log's machine."""
        return self.log.processors() if self._processors is None else self._processors

    @cached_property
    def factor(self) -> float:
        """The factor: as given, or the one that reaches the load."""
        if self._factor is not None:
            return self._factor
        before = offered_load(self.log.blocks(), self.processors)
        if not before > 0:
            raise InputError(f"{self.log.path}: its jobs come at one time or have no work; give a factor")
        assert self._load is not None
        return self._load / before

    @property
    def header(self) -> log_fields.Header:
        """Header of a log of these jobs, with their derivation."""
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
        if self.by is ScaledBy.ARRIVALS:
            return stretched(self.log.blocks(), 1 / factor)
        if self.by is ScaledBy.USERS:
            return iter([_more_users(self.log, factor, self.seed)])
        change = _longer if self.by is ScaledBy.RUN_TIMES else _larger
        return (change(block, factor, self.log.path) for block in self.log.blocks())


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
        Factor of the load; by ``machine`` of the machine and the sizes of jobs.
    load
        The offered load to reach, in place of a factor.
    processors
        Of the log's machine, where its header lacks them or is wrong; used with a load.
    seed
        Of the draws of users.
    lenient
        Whether broken lines of the log are skipped.

    Raises
    ------
    InputError
        If an argument makes no sense, or the log cannot be read.
    """
    return Scaled(SourceLog(log, lenient), by, factor, load, processors, seed)


def _whole(seconds: Floats, factor: float) -> Floats:
    """Return multiples of times in whole seconds; what lasts at all lasts a second at least."""
    return np.where(seconds > 0, np.maximum(np.rint(seconds * factor), 1.0), seconds)


def _longer(block: JobBlock, factor: float, _: Path) -> JobBlock:
    return replace(block, run_time=_whole(block.run_time, factor), walltime=_whole(block.walltime, factor))


def _sizes(processors: Ints, factor: float) -> Ints:
    scaled: Ints = np.maximum(np.rint(processors * factor), 1).astype(np.int64)
    return scaled


def machine_scaled(processors: int, factor: float) -> int:
    """Return the processors of a scaled machine."""
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
    """Return the users of an order up to the nearest amount of work."""
    done = np.concatenate([[0.0], np.cumsum(work[order])])
    return order[: int(np.argmin(np.abs(done - wanted)))]


def _copy(jobs: JobBlock, user: int, weeks: int, rng: np.random.Generator) -> JobBlock:
    """Return the jobs of a user as another user's, with whole weeks in another order."""
    week = (jobs.submit_time // WEEK).astype(np.int64)
    to = np.arange(max(weeks, int(week.max()) + 1))
    to[:weeks] = rng.permutation(weeks)
    submit = jobs.submit_time + (to[week] - week) * WEEK
    return replace(jobs, user=np.full(len(jobs), user), submit_time=submit, after=None)
