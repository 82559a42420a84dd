"""Comparison of runs: metrics side by side, pairs of jobs, gains by RCA."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import polars as pl

from mlsim.analysis.formatting import brief, clock, number, share
from mlsim.analysis.job_metrics import mean_of
from mlsim.analysis.machine_metrics import makespan, released_seconds, transfers, utilization
from mlsim.errors import InputError
from mlsim.record import Jobs, Records
from mlsim.record.derived_times import queued_since, response_time, wait_time

Summary = Mapping[str, Any]
Write = Callable[[float | None], str]

_SAME = 1e-6  # differences of less than this many seconds are rounding
TOLERANCE = 0.01
"""A single run cannot distinguish a smaller relative difference from chance: it is shown, not judged."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A metric that runs are compared by."""

    key: str
    title: str
    # "less" or "more"; empty where neither is better as such, or a single run is no evidence: wall-clock
    # times depend on other load of the machine.
    better: str
    write: Write


COMPARED: tuple[Compared, ...] = (
    Compared("wait_time.mean", "mean wait", "less", clock),
    Compared("wait_time.median", "median wait", "less", clock),
    Compared("wait_time.p90", "p90 wait", "less", clock),
    Compared("wait_time.p99", "p99 wait", "less", clock),
    Compared("wait_time.max", "longest wait", "less", clock),
    Compared("response_time.mean", "mean response", "less", clock),
    Compared("slowdown.mean", "mean slowdown", "less", number),
    Compared("bounded_slowdown.mean", "mean bounded slowdown", "less", number),
    Compared("bounded_slowdown.median", "median b.s.", "less", number),
    Compared("bounded_slowdown.p90", "p90 b.s.", "less", number),
    Compared("bounded_slowdown.p99", "p99 b.s.", "less", number),
    Compared("bounded_slowdown.max", "max b.s.", "less", number),
    Compared("per_processor_bounded_slowdown.mean", "mean b.s. per processor", "less", number),
    Compared("queue_length.mean", "mean queue length", "less", number),
    Compared("queue_length.max", "longest queue", "less", number),
    Compared("makespan", "makespan", "less", clock),
    Compared("makespan_from_submit", "makespan from submission", "less", clock),
    Compared("utilization.busy", "busy", "more", share),
    Compared("utilization.allocated", "allocated", "", share),
    Compared("throughput", "jobs/h", "more", number),
    Compared("jobs.completed", "completed", "more", number),
    Compared("jobs.killed", "killed", "less", number),
    Compared("jobs.failed", "failed", "less", number),
    Compared("jobs.rejected", "rejected", "less", number),
    Compared("backfilled_share", "backfilled", "", share),
    Compared("self.pass_time.mean", "mean pass time", "", brief),
    Compared("self.pass_time.median", "median pass time", "", brief),
    Compared("self.pass_time.p99", "p99 pass time", "", brief),
)
"""In the order of the table. Whether more allocation is better depends on what is computed."""
_METRICS = {metric.key: metric for metric in COMPARED}
_LESS = (
    *("wait_time", "response_time", "slowdown", "bounded_slowdown", "per_processor_bounded_slowdown"),
    *("queue_length", "t_loop", "mean_finish", "cov", "imbalance", "max_over_mean", "overhead", "idle"),
    *("energy.total", "failures.lost_core_seconds", "failures.restarts"),
)
_BETTER = dict.fromkeys(_LESS, "less") | {"efficiency": "more", "slowdown.undefined": ""}
"""Of metrics that are not in :data:`COMPARED`: of a section, or of one key."""


def compare_metrics(
    summaries: Sequence[Summary], tolerance: float = TOLERANCE, compared: Sequence[Compared] = COMPARED
) -> list[dict[str, Any]]:
    """Compare the metrics of two or more summaries with those of the first.

    One dict per metric of ``compared``: ``metric`` (key), ``title``, ``better`` (``less``, ``more`` or
    None), ``values`` of all runs, and for all but the first run ``differences`` (value - first), ``percent``
    of the first and ``verdicts``: ``better``, ``worse``, ``similar`` (within the tolerance, a share of the
    first value), ``same``, or None if neither direction is better. If a run has no value, or the first is 0,
    the derived entries are None.
    """
    return [
        _compared(metric, [_value(summary, metric.key) for summary in summaries], tolerance)
        for metric in compared
    ]


def main_metrics(metrics: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the metrics that a comparison shows by default, in the order of their table."""
    return [metric for metric in metrics if metric["metric"] in MAIN]


def find_metrics(names: Sequence[str], summaries: Sequence[Summary]) -> list[Compared]:
    """Return metrics by keys or titles, or all of a section such as ``wait_time``; InputError for others."""
    numbers = dict.fromkeys(key for summary in summaries for key in _numbers_of(summary))
    others = [Compared(key, key, better_of(key), number) for key in numbers if key not in _METRICS]
    found: dict[str, Compared] = {}
    for name in names:
        named = [one for one in (*COMPARED, *others) if name in (one.key, one.title)]
        named = named or [one for one in (*COMPARED, *others) if one.key.startswith(f"{name}.")]
        if not named:
            known = {word for one in (*COMPARED, *others) for word in (one.key, one.title)}
            known |= {key.partition(".")[0] for key in numbers}
            close = " or ".join(map(repr, get_close_matches(name, sorted(known), 2)))
            raise InputError(
                f"metric {name!r}: no number of these runs' summary.json has this name;"
                f"{f' did you mean {close}?' if close else ''} `mlsim list metrics` lists the keys"
            )
        found |= {one.key: one for one in named}
    return list(found.values())


def _numbers_of(summary: Summary, prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of a summary that have numbers."""
    for name, value in summary.items():
        if isinstance(value, Mapping):
            yield from _numbers_of(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{name}"


def better_of(key: str) -> str:
    """Return whether ``less`` or ``more`` of a metric is better; empty where neither is, as such."""
    if key in _METRICS:
        return _METRICS[key].better
    section, _, part = key.removeprefix("loops.").partition(".")
    if part == "std":
        return ""
    return _BETTER.get(key, _BETTER.get(section, ""))


def _value(summary: Summary, key: str) -> float | None:
    found: Any = summary
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return None if found is None else float(found)


def _compared(metric: Compared, values: Sequence[float | None], tolerance: float) -> dict[str, Any]:
    first, *others = values
    differences = [None if first is None or other is None else other - first for other in others]
    percent = [None if by is None or not first else by / abs(first) * 100.0 for by in differences]
    return {
        "metric": metric.key,
        "title": metric.title,
        "better": metric.better or None,
        "values": values,
        "differences": differences,
        "percent": percent,
        "verdicts": [_verdict(first, by, metric.better, tolerance) for by in differences],
    }


def _verdict(first: float | None, by: float | None, better: str, tolerance: float) -> str | None:
    if by is None or not better or first is None:
        return None
    if math.isclose(first + by, first, rel_tol=1e-9, abs_tol=1e-12):
        return "same"
    if abs(by) <= tolerance * abs(first):
        return "similar"
    return "better" if (by < 0) == (better == "less") else "worse"


def pair_jobs(first: Jobs, other: Jobs) -> pl.DataFrame:
    """Pair the jobs of two runs by job id, equal ids in order of submission.

    One row per job of either run, in the order of the first run and then of the other: ``in_first``,
    ``in_other``; ``same_job``: both have it with the same submission (relative to the run's first),
    processors and run time; ``start_first``, ``start_other`` (s), null if it did not start; ``earlier``: by
    how many seconds it starts earlier after its submission in the other run, null unless it is the same job
    and started in both.
    """
    keys = ["job_id", "occurrence"]
    left, right = (_job_columns(jobs) for jobs in (first, other))
    joined = left.join(
        right, on=keys, how="full", suffix="_other", coalesce=True, maintain_order="left_right"
    )
    in_both = pl.col("submitted").is_not_null() & pl.col("submitted_other").is_not_null()
    same = [
        (pl.col("submitted") - pl.col("submitted_other")).abs() < _SAME,
        pl.col("processors") == pl.col("processors_other"),
        (pl.col("run_time") - pl.col("run_time_other")).abs() < _SAME,
    ]
    same_job = (in_both & pl.all_horizontal(same)).fill_null(False)
    return joined.select(
        "job_id",
        pl.col("submitted").is_not_null().alias("in_first"),
        pl.col("submitted_other").is_not_null().alias("in_other"),
        same_job.alias("same_job"),
        pl.col("start").alias("start_first"),
        "start_other",
        pl.when(same_job).then(pl.col("wait") - pl.col("wait_other")).alias("earlier"),
    )


def _job_columns(jobs: Jobs) -> pl.DataFrame:
    first = float(jobs.submit_time.min(initial=math.inf))
    columns = {
        "job_id": jobs.job_id,
        "submitted": jobs.submit_time - first,
        "processors": jobs.processors,
        "run_time": jobs.log_run_time,
        "start": jobs.start_time,
        "wait": jobs.start_time - queued_since(jobs),
    }
    table = pl.DataFrame(columns, nan_to_null=True)
    return table.with_columns(pl.int_range(pl.len()).over("job_id").alias("occurrence"))


def pair_summary(pairs: pl.DataFrame) -> dict[str, Any]:
    """Count the jobs that start earlier and later in the other run, and sum their seconds.

    Sums are positive; ``mean_earlier`` is above 0 if jobs start earlier in the other run; ``changed`` jobs
    have another submission, size or run time.
    """
    gain = pairs["earlier"].drop_nulls().to_numpy()
    both = pairs.filter("in_first", "in_other")
    same = both.filter("same_job")
    only_first = int(pairs["in_first"].sum()) - both.height
    only_other = int(pairs["in_other"].sum()) - both.height
    early, late = gain > _SAME, gain < -_SAME
    return {
        "paired": len(gain),
        "earlier": int(early.sum()),
        "later": int(late.sum()),
        "same": int(len(gain) - early.sum() - late.sum()),
        "seconds_earlier": float(gain[early].sum()),
        "seconds_later": float(np.abs(gain[late]).sum()),
        "mean_earlier": float(gain.mean()) if len(gain) else None,
        "only_in_first": only_first,
        "only_in_other": only_other,
        "changed": both.height - same.height,
        "started_in_one": int((same["start_first"].is_null() != same["start_other"].is_null()).sum()),
        "same_workload": only_first == only_other == 0 and both.height == same.height,
    }


MAIN = (
    "wait_time.mean",
    "wait_time.p90",
    "wait_time.max",
    "response_time.mean",
    "bounded_slowdown.mean",
    "makespan",
    "utilization.busy",
    "jobs.completed",
)
"""Keys of the metrics that a comparison shows by default."""


def is_wall_clock(metric: Mapping[str, Any]) -> bool:
    """Whether a metric is mlsim's own time or memory, which other load of the machine affects."""
    return str(metric["metric"]).startswith("self.")


def gain_frame(off: Records, on: Records) -> pl.DataFrame:
    """Join every job's times without and with RCA.

    ``wait_gain`` and ``response_gain`` are in s, without minus with: positive is better with RCA.
    ``on_released_nodes``: the job started on a node that another running job had released.
    """
    fed = np.zeros(len(on.jobs.job_id), np.bool_)
    fed[transfers(on).taker] = True
    return pl.DataFrame(
        {
            "job_id": on.jobs.job_id,
            "processors": on.jobs.processors,
            "start_off": off.jobs.start_time,
            "start_on": on.jobs.start_time,
            "end_off": off.jobs.end_time,
            "end_on": on.jobs.end_time,
            "wait_gain": wait_time(off.jobs) - wait_time(on.jobs),
            "response_gain": response_time(off.jobs) - response_time(on.jobs),
            "on_released_nodes": fed,
        },
        nan_to_null=True,
    )


def explain_gains(off: Records, on: Records, most: int = 5) -> dict[str, Any]:
    """Summarize the changes by RCA, and their causes; ``most`` jobs that gained and lost most are listed."""
    frame = gain_frame(off, on)
    gain = frame["wait_gain"].fill_null(0.0).to_numpy()
    fed = frame["on_released_nodes"].to_numpy()
    node_seconds, _ = released_seconds(on.occupancy, on.jobs, on.attempts)
    return {
        "makespan": {"off": makespan(off.jobs), "on": makespan(on.jobs)},
        "busy": {"off": utilization(off)["busy"], "on": utilization(on)["busy"]},
        "mean_wait": {"off": mean_of(wait_time(off.jobs)), "on": mean_of(wait_time(on.jobs))},
        "released_node_hours": node_seconds / 3600.0,
        "jobs": {
            "earlier": int((gain > _SAME).sum()),
            "later": int((gain < -_SAME).sum()),
            "same": int((np.abs(gain) <= _SAME).sum()),
            "on_released_nodes": int(fed.sum()),
            "earlier_on_released_nodes": int((fed & (gain > _SAME)).sum()),
        },
        "gained": _extremes(frame, most, best=True),
        "lost": _extremes(frame, most, best=False),
    }


def _extremes(frame: pl.DataFrame, most: int, best: bool) -> list[dict[str, Any]]:
    side = pl.col("response_gain") > _SAME if best else pl.col("response_gain") < -_SAME
    rows = frame.filter(side).sort(["response_gain", "job_id"], descending=[best, False]).head(most)
    return rows.select("job_id", "response_gain", "on_released_nodes").to_dicts()
