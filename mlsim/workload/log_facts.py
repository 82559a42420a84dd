"""Facts of a log before cleaning, as figures and as a page of pictures."""

import datetime
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from mlsim._runtime.arrays import Floats, NDArray
from mlsim._runtime.late import load_matplotlib
from mlsim.errors import InputError
from mlsim.scenario.words import WorkloadFormat
from mlsim.workload.autocorrelation import lag_correlations
from mlsim.workload.format_record import Reading
from mlsim.workload.log_fields import ExtraField, Field, Header, machine_processors, start_and_zone
from mlsim.workload.log_formats import LogReader
from mlsim.workload.log_gaps import missing_facts
from mlsim.workload.workload_jobs import REQUEST, LogBlock

_WAITING = 1 << 18
QUANTILES = {"median": 0.5, "p90": 0.9, "p99": 0.99}


class Tally:
    """Counts values, optionally with weights; memory grows with the number of different values."""

    def __init__(self) -> None:
        self._values: Floats = np.empty(0)
        self._counts: Floats = np.empty(0)
        self._waiting: list[tuple[Floats, Floats]] = []
        self._size = 0

    def add(self, values: NDArray[Any], weights: Floats | None = None) -> None:
        """Count values, each once or by its weight."""
        each = np.ones(values.size) if weights is None else weights
        self._waiting.append((values.astype(np.float64), each))
        self._size += values.size
        if self._size >= _WAITING:
            self._merge()

    def _merge(self) -> None:
        values = np.concatenate([self._values, *(some for some, _ in self._waiting)])
        counts = np.concatenate([self._counts, *(some for _, some in self._waiting)])
        self._waiting, self._size = [], 0
        self._values, place = np.unique(values, return_inverse=True)
        self._counts = np.bincount(place, counts, self._values.size).astype(np.float64)

    def counted(self) -> tuple[Floats, Floats]:
        """Return the different values, ascending, and how often each occurs."""
        self._merge()
        return self._values, self._counts

    def summary(self) -> dict[str, float] | None:
        """Return least, mean, standard deviation, quantiles and largest; None without values."""
        values, counts = self.counted()
        total = float(counts.sum())
        if not total:
            return None
        mean = float((values * counts).sum() / total)
        below = np.cumsum(counts)  # a quantile is the smallest value that this share does not exceed
        found = {
            name: float(values[np.searchsorted(below, share * total * (1 - 1e-12))])
            for name, share in QUANTILES.items()
        }
        std = float(np.sqrt((counts * (values - mean) ** 2).sum() / total))
        return {"min": float(values[0]), "mean": mean, "std": std, **found, "max": float(values[-1])}


DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DISTRIBUTIONS: Final = ("processors", "run_time", "walltime", "accuracy", "wait_time", "interval")
"""Of sizes; of run times, walltimes, waits in the log and times between submissions, in whole seconds; of run
time / walltime, in thousandths."""
_WEEK, _QUARTER = 604_800.0, 900.0
_STATUS = {1: "completed", 0: "failed", 5: "cancelled"}
_MOST_USERS = 5


@dataclass(frozen=True, slots=True)
class Description:
    """Facts of a log."""

    facts: dict[str, Any]  # plain values, as `--json` prints them
    tallies: dict[str, Tally]  # frequency of values, by the names of `DISTRIBUTIONS`
    users: Floats  # jobs of each user, the most active first


def describe(
    path: str | Path, *, log_format: str = "auto", lenient: bool = False, lags: int = 0
) -> Description:
    """Describe a log before cleaning.

    SWF logs are read a block at a time; memory grows with the different values of each column. Processors are
    the requested ones, or where these are not known the allocated ones, as in a simulation.

    Parameters
    ----------
    path
        The log.
    log_format
        Its format, as ``workload.format`` in a scenario.
    lenient
        Skip and count broken lines.
    lags
        Largest lag of the autocorrelation of run times, which holds all jobs in memory; 0: none.

    Raises
    ------
    InputError
        The log cannot be read, or has no job.
    """
    reader = LogReader(path, WorkloadFormat(log_format), Reading(lenient))
    found: _Gathering | None = None
    held: list[LogBlock] = []
    for block in filter(len, reader.blocks()):
        found = found or _Gathering(reader.header, Path(path), block)
        found.add(block)
        held += [block] * (lags > 0)
    if found is None or not np.isfinite(found.begin):
        raise InputError(f"{path}: holds no job with a submit time; is it a workload log?")
    told = found.description(Path(path), reader.header, reader.broken_lines)
    told.facts.update(_reading(reader, found.known, told.facts))
    if lags:
        jobs = LogBlock.concatenate(held)
        told.facts["autocorrelation"] = lag_correlations(jobs, lags, reader.header, Path(path))
    return told


def _reading(reader: LogReader, known: Mapping[str, int], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a log was read, and which facts it lacks."""
    asked = {name for name in reader.understood if name.startswith(REQUEST)}
    empty = {name for name in {*known, *asked} if not known.get(name)}
    ignored = reader.header.get("ignored_columns", [])
    form = reader.format
    understood = {
        "format": "a user-defined format" if form is None else f"{form.word}, {form.meaning}",
        "columns": {name: source for name, source in reader.understood.items() if name not in empty},
        "ignored": [ignored] if isinstance(ignored, str) else ignored,
        "left_out": {
            name: jobs
            for name, jobs in {**reader.counts, "broken_lines": reader.broken_lines}.items()
            if jobs
        },
        "zone_known": any(reader.header.get(key) for key in ("TimeZoneString", "TimeZone")),
        "units": "" if form is None else form.units,
    }
    jobs = facts["jobs"]
    of_all = {
        "dates": jobs * (facts["first_submission"] is not None),
        "processors": jobs * (facts["processors_from"] == "header"),
    }
    return {"understood": understood, "missing": missing_facts({**known, **of_all}, jobs)}


class _Gathering:
    """Gathers the facts of a log, block by block."""

    def __init__(self, header: Header, path: Path, block: LogBlock) -> None:
        self._start, self._zone = start_and_zone(header, path)  # complete with the first jobs
        known = block.submit_time[block.submit_time >= 0]
        self._first = float(known.min()) if known.size else 0.0
        self._tallies = {name: Tally() for name in DISTRIBUTIONS}
        self._user_jobs, self._user_work = Tally(), Tally()  # the same users in both
        self._week_work, self._quarters, self._status = Tally(), Tally(), Tally()
        self._by_quarter = {name: Tally() for name in _SUMS}  # the same quarters in all
        self._jobs, self._work, self._last = 0, 0.0, -1.0
        self.begin, self._end = np.inf, -np.inf
        self._unknown = dict.fromkeys(("submit_time", "run_time", "walltime", "processors", "user"), 0)
        self.known = Counter[str]()  # jobs that have each fact

    def add(self, block: LogBlock) -> None:
        """Add some jobs."""
        requested = block.requested_processors
        size = np.where(requested > 0, requested, block.allocated_processors)
        known = {
            "submit_time": block.submit_time >= 0,
            "run_time": block.run_time >= 0,
            "walltime": block.requested_time > 0,
            "processors": size > 0,
            "user": block.user >= 0,
        }
        for name, rows in known.items():
            self._unknown[name] += int(np.sum(~rows))
            self.known[name] += int(np.sum(rows))
        self._count_others(block, set(known))
        self._jobs += len(block)
        self._status.add(block.status)
        tallies = self._tallies
        tallies["processors"].add(size[known["processors"]])
        tallies["run_time"].add(np.rint(block.run_time[known["run_time"]]))
        tallies["walltime"].add(np.rint(block.requested_time[known["walltime"]]))
        tallies["wait_time"].add(np.rint(block.wait_time[block.wait_time >= 0]))
        both = known["run_time"] & known["walltime"]
        tallies["accuracy"].add(np.rint(1000 * block.run_time[both] / block.requested_time[both]) / 1000)
        work = np.where(known["run_time"] & known["processors"], block.run_time * size, 0.0)
        self._user_jobs.add(block.user[known["user"]])
        self._user_work.add(block.user[known["user"]], work[known["user"]])
        if not known["submit_time"].any():
            return
        submit, work = block.submit_time[known["submit_time"]], work[known["submit_time"]]
        gaps = np.diff(submit if self._last < 0 else np.append(self._last, submit))
        self._tallies["interval"].add(np.rint(gaps[gaps >= 0]))
        self._last = float(submit[-1])
        self.begin, self._end = min(self.begin, float(submit.min())), max(self._end, float(submit.max()))
        self._work += float(work.sum())
        self._week_work.add(np.maximum(np.floor((submit - self._first) / _WEEK), 0.0), work)
        quarters = np.floor((submit + (self._start or 0.0)) / _QUARTER)
        self._quarters.add(quarters)
        times, sizes = (np.maximum(values[known["submit_time"]], 0.0) for values in (block.run_time, size))
        counted = (known[name][known["submit_time"]].astype(float) for name in ("run_time", "processors"))
        for tally, sums in zip(self._by_quarter.values(), (work, times, sizes, *counted), strict=True):
            tally.add(quarters, sums)

    def _count_others(self, block: LogBlock, counted: set[str]) -> None:
        """Count the jobs that have each other fact."""
        for name in {field.name.lower() for field in (*Field, *ExtraField)} - {*counted, "recorded_start"}:
            self.known[name] += int(np.sum(getattr(block, name) != -1))
        self.known["recorded_start"] += int(np.sum((block.starts() >= 0) | (block.withdraw_time >= 0)))
        if block.asked is not None:
            for column, name in enumerate(block.asked.names):
                self.known[f"request_{name}"] += len(block) * bool(np.any(block.asked.totals[:, column] >= 0))

    def description(self, path: Path, header: Header, broken: int) -> Description:
        """Return all facts."""
        sizes = self._tallies["processors"].counted()[0]
        processors = machine_processors(header) or (int(sizes[-1]) if sizes.size else 0)
        start, zone = self._start, self._zone
        span = self._end - self.begin
        users, jobs_of = self._user_jobs.counted()
        weeks, work = self._week_work.counted()
        week_work = np.bincount(weeks.astype(np.int64), work)
        statuses = Counter[str]()
        for value, count in zip(*self._status.counted(), strict=True):
            statuses[_STATUS.get(int(value), "other")] += int(count)
        order = np.argsort(-jobs_of, kind="stable")
        work_of = self._user_work.counted()[1] / (self._work or np.inf)
        most_active = [
            {"user": int(users[row]), "jobs": int(jobs_of[row]), "work_share": float(work_of[row])}
            for row in order[:_MOST_USERS]
        ]
        facts: dict[str, Any] = {
            "log": path.name,
            "jobs": self._jobs,
            "broken_lines": broken,
            "users": int(users.size),
            "processors": processors,
            "processors_from": "header" if machine_processors(header) else "largest job",
            "first_submission": _date(start, zone, self.begin),
            "last_submission": _date(start, zone, self._end),
            "days": span / 86400,
            "work": self._work,
            "load": self._work / (processors * span) if span > 0 and processors else None,
            "status": dict(statuses),
            "unknown": self._unknown,
            "distributions": {name: tally.summary() for name, tally in self._tallies.items()},
            "weekly_load": (week_work / (max(processors, 1) * _WEEK)).tolist(),
            **self._calendar(processors),
            "time_zone": str(zone) if start is not None else None,
            "most_active_users": most_active,
        }
        return Description(facts, self._tallies, jobs_of[order])

    def _calendar(self, processors: int) -> dict[str, Any]:
        """Return arrivals by hour, weekday and month, and figures of each month, on the log's clocks."""
        quarters, counts = self._quarters.counted()
        local = [
            datetime.datetime.fromtimestamp(quarter * _QUARTER, self._zone) for quarter in quarters.tolist()
        ]
        parts = ([t.hour for t in local], [t.weekday() for t in local], [t.month - 1 for t in local])
        names = {"by_hour": 24, "by_weekday": 7, "by_month": 12}
        arrivals = {
            name: np.bincount(part, counts, size).astype(int).tolist()
            for part, (name, size) in zip(parts, names.items(), strict=True)
        }
        if self._start is None:
            return {"arrivals": arrivals, "months": []}
        every, place = np.unique([12 * t.year + t.month - 1 for t in local], return_inverse=True)
        sums = {name: np.bincount(place, tally.counted()[1]) for name, tally in self._by_quarter.items()}
        jobs, months = np.bincount(place, counts), []
        for k, month in enumerate(every.tolist()):
            edges = (datetime.datetime(n // 12, n % 12 + 1, 1, tzinfo=self._zone) for n in (month, month + 1))
            first, last = (edge.timestamp() - self._start for edge in edges)
            capacity = processors * (min(last, self._end) - max(first, self.begin))
            means = {name: _ratio(sums[name][k], sums[f"{name}_known"][k]) for name in _SUMS[1:3]}
            named = {"month": f"{month // 12}-{month % 12 + 1:02}", "jobs": int(jobs[k])}
            months.append(named | {"load": _ratio(sums["work"][k], capacity)} | means)
        return {"arrivals": arrivals, "months": months}


_SUMS: Final = ("work", "run_time", "processors", "run_time_known", "processors_known")


def _ratio(value: float, of: float) -> float | None:
    return float(value / of) if of > 0 else None


def _date(start: float | None, zone: datetime.tzinfo, seconds: float) -> str | None:
    if start is None:
        return None
    try:
        return datetime.datetime.fromtimestamp(start + seconds, zone).isoformat(" ", "seconds")
    except (OverflowError, ValueError, OSError):
        return None


# One page of pictures

_COLOURS = ("#1f77b4", "#d95f02")


def draw_page(path: Path, logs: Sequence[Description], form: str) -> None:
    """Draw one page of one or two logs as ``png``, ``pdf`` or ``svg``."""
    load_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "mlsim", "font.size": 8, "axes.titlesize": 9}):
        lags = "autocorrelation" in logs[0].facts
        figure = Figure(figsize=(8.3, 12.6 + 2.4 * lags), layout="constrained")
        grid = figure.add_gridspec(5 + lags, 2)
        panels = [figure.add_subplot(grid[k // 2, k % 2]) for k in range(10)]
        if lags:
            _draw_lags(figure.add_subplot(grid[5, :]), logs)
        names = [f"{each.facts['log']}\n{each.facts['jobs']:,} jobs" for each in logs]
        for panel, (draw, look) in zip(panels, _PANELS, strict=True):
            for k, (colour, log) in enumerate(zip(_COLOURS, logs, strict=False)):
                draw(panel, log, colour, k, len(logs))
            panel.set(**look)
        handles = [
            mpl.patches.Patch(color=colour, label=name) for colour, name in zip(_COLOURS, names, strict=False)
        ]
        figure.legend(handles=handles, loc="outside upper center", ncols=2, frameon=False)
        dates: dict[str, Any] = {
            "pdf": {"CreationDate": None},
            "svg": {"Date": None},
            "png": {"Software": None},
        }
        figure.savefig(path, format=form, dpi=130, metadata=dates[form])


def _weeks(axes: Any, log: Description, colour: str, k: int, logs: int) -> None:
    load = log.facts["weekly_load"]
    axes.step(np.arange(1, len(load) + 1), load, where="mid", color=colour, linewidth=1)
    if k == logs - 1:
        axes.axhline(1, color="0.7", linewidth=0.7, linestyle=":")


def _cycle(key: str, labels: list[str], axes: Any, log: Description, colour: str, k: int, logs: int) -> None:
    """Draw the arrivals of a day or a week as bars, those of two logs beside each other."""
    counts = np.array(log.facts["arrivals"][key], float)
    width = 0.8 / logs
    places = np.arange(len(labels)) - 0.4 + (k + 0.5) * width
    axes.bar(places, 100 * counts / counts.sum(), width, color=colour)
    step = 3 if len(labels) > 12 else 1
    axes.set_xticks(np.arange(len(labels))[::step], labels[::step])


def _months(axes: Any, log: Description, colour: str, *_: int) -> None:
    hours = [(month["run_time"] or 0.0) / 3600 for month in log.facts["months"]]
    axes.step(np.arange(1, len(hours) + 1), hours, where="mid", color=colour, linewidth=1)


def _draw_lags(axes: Any, logs: Sequence[Description]) -> None:
    """Draw the median over categories of each kind by lag, with the band between the quartiles."""
    for log, colour in zip(logs, _COLOURS, strict=False):
        for (name, found), style in zip(log.facts["autocorrelation"].items(), ("-", "--", ":"), strict=True):
            low, middle, high = ([lag[key] for lag in found["lags"]] for key in ("p25", "median", "p75"))
            lags = np.arange(1, len(middle) + 1)
            axes.plot(lags, middle, style, color=colour, linewidth=1, label=name if log is logs[0] else None)
            axes.fill_between(lags, low, high, color=colour, alpha=0.08, linewidth=0)
    axes.set(title="autocorrelation of run times: median and quartiles", xlabel="lag (jobs in a category)")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False, ncols=3)


def _shares(name: str, axes: Any, log: Description, colour: str, *_: int) -> None:
    values, counts = log.tallies[name].counted()
    if values.size:
        shares = 100 * np.cumsum(counts) / counts.sum()
        axes.step(np.maximum(values, 1), shares, where="post", color=colour, linewidth=1)
    axes.set_xscale("log", base=2 if name == "processors" else 10)


def _accuracy(axes: Any, log: Description, colour: str, *_: int) -> None:
    edges = np.linspace(0, 1.05, 22)
    values, counts = log.tallies["accuracy"].counted()
    if values.size:
        heights, _edges = np.histogram(np.minimum(values, 1.04), edges - 1e-9, weights=counts)
        axes.stairs(100 * heights / counts.sum(), edges, color=colour, linewidth=1.2)


def _users(axes: Any, log: Description, colour: str, *_: int) -> None:
    if log.users.size:
        shares = 100 * np.cumsum(log.users) / log.users.sum()
        axes.plot(np.arange(1, shares.size + 1), shares, color=colour, linewidth=1)
    axes.set_xscale("log")


_JOBS, _AT_MOST = {"ylabel": "% of the jobs"}, {"ylabel": "% of the jobs at most", "ylim": (0, 101)}
_PANELS: tuple[tuple[Callable[..., None], dict[str, Any]], ...] = (
    (_weeks, {"title": "offered load by week", "xlabel": "week", "ylabel": "load", "ylim": (0, None)}),
    (
        partial(_cycle, "by_hour", [str(hour) for hour in range(24)]),
        {"title": "arrivals by hour of the day", **_JOBS},
    ),
    (partial(_cycle, "by_weekday", list(DAYS)), {"title": "arrivals by day of the week", **_JOBS}),
    (
        partial(_cycle, "by_month", [str(month) for month in range(1, 13)]),
        {"title": "arrivals by month of the year", **_JOBS},
    ),
    (
        _months,
        {"title": "mean run time by month of the log", "xlabel": "month", "ylabel": "h", "ylim": (0, None)},
    ),
    (partial(_shares, "processors"), {"title": "processors of a job", **_AT_MOST}),
    (partial(_shares, "run_time"), {"title": "run time (s)", **_AT_MOST}),
    (partial(_shares, "walltime"), {"title": "walltime (s)", **_AT_MOST}),
    (_accuracy, {"title": "run time / walltime (last: 1 and above)", "xlim": (0, 1.05), **_JOBS}),
    (_users, {"title": "jobs of the most active users", "xlabel": "users", "ylim": (0, 101), **_JOBS}),
)
"""The pictures of the page, each with its titles and limits."""
