"""Comparison of runs: metrics side by side, pairs of jobs, gains by RCA, and tables of them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mlsim.analysis.formatting import brief, clock, count, number, share
from mlsim.analysis.job_metrics import mean_of
from mlsim.analysis.machine_metrics import makespan, released_seconds, transfers, utilization
from mlsim.record import Jobs, Records
from mlsim.record.derived_times import queued_since, response_time, wait_time

Summary = Mapping[str, Any]

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
    write: Callable[[float | None], str]


COMPARED: tuple[Compared, ...] = (
    Compared("wait_time.mean", "mean wait", "less", clock),
    Compared("wait_time.median", "median wait", "less", clock),
    Compared("wait_time.p90", "p90 wait", "less", clock),
    Compared("wait_time.p99", "p99 wait", "less", clock),
    Compared("wait_time.max", "longest wait", "less", clock),
    Compared("response_time.mean", "mean response", "less", clock),
    Compared("slowdown.mean", "mean slowdown", "less", number),
    Compared("bounded_slowdown.mean", "mean bounded slowdown", "less", number),
    Compared("bounded_slowdown.median", "  median", "less", number),
    Compared("bounded_slowdown.p90", "  p90", "less", number),
    Compared("bounded_slowdown.p99", "  p99", "less", number),
    Compared("bounded_slowdown.max", "  max", "less", number),
    Compared("per_processor_bounded_slowdown.mean", "mean per processor", "less", number),
    Compared("queue_length.mean", "mean queue length", "less", number),
    Compared("queue_length.max", "longest queue", "less", number),
    Compared("makespan", "makespan", "less", clock),
    Compared("makespan_from_submit", "  from submission", "less", clock),
    Compared("utilization.busy", "busy", "more", share),
    Compared("utilization.allocated", "allocated", "", share),
    Compared("throughput", "jobs/h", "more", number),
    Compared("jobs.completed", "completed", "more", number),
    Compared("jobs.killed", "killed", "less", number),
    Compared("jobs.failed", "failed", "less", number),
    Compared("jobs.rejected", "rejected", "less", number),
    Compared("backfilled_share", "backfilled", "", share),
    Compared("self.pass_time.mean", "mean pass time", "", brief),
    Compared("self.pass_time.median", "  median", "", brief),
    Compared("self.pass_time.p99", "  p99", "", brief),
)
"""In the order of the table. Whether more allocation is better depends on what is computed."""


def compare_metrics(summaries: Sequence[Summary], tolerance: float = TOLERANCE) -> list[dict[str, Any]]:
    """Compare the metrics of two or more summaries with those of the first.

    One dict per metric of :data:`COMPARED`: ``metric`` (key), ``title``, ``better`` (``less``, ``more`` or
    None), ``values`` of all runs, and for all but the first run ``differences`` (value - first), ``percent``
    of the first and ``verdicts``: ``better``, ``worse``, ``similar`` (within the tolerance, a share of the
    first value), ``same``, or None if neither direction is better. If a run has no value, or the first is 0,
    the derived entries are None.
    """
    return [
        _compared(metric, [_value(summary, metric.key) for summary in summaries], tolerance)
        for metric in COMPARED
    ]


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
        "title": metric.title.strip(),
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


_VERDICTS = {
    "better": ("▲ better", "green"),
    "worse": ("▼ worse", "red"),
    "similar": ("≈ similar", "dim"),
    "same": ("= same", "dim"),
}
_METRICS = {metric.key: metric for metric in COMPARED}
_BESIDE = 4  # most runs whose values are side by side
_MOST_KEYS = 12  # scenarios that differ in more keys are not comparable


def comparison_table(
    labels: Sequence[str], metrics: Sequence[Mapping[str, Any]], tolerance: float = TOLERANCE
) -> RenderableType:
    """Lay out metrics that are not 0 in all runs: all side by side, then each against the first."""
    shown = [metric for metric in metrics if any(metric["values"])]
    blocks: list[RenderableType] = []
    if len(labels) > 2:
        firsts = range(0, len(labels), _BESIDE)
        blocks += [_side_by_side(labels, shown, first, tolerance) for first in firsts]
    blocks += [_against_first(labels, shown, place) for place in range(1, len(labels))]
    words = (
        f"better, worse: by more than {tolerance * 100:g} % (--tolerance); wall-clock times are not judged."
    )
    blocks.append(Text(words, "dim"))
    return Group(*(Padding(block, (0, 0, 1, 0), expand=False) for block in blocks))


def _side_by_side(
    labels: Sequence[str], metrics: Sequence[Mapping[str, Any]], first: int, tolerance: float
) -> Table:
    """Format values of some runs; those within the tolerance of the best of all are green with a star."""
    shown = slice(first, first + _BESIDE)
    table = _table("all runs", labels[shown])
    for metric in metrics:
        known = _METRICS[metric["metric"]]
        cells = zip(map(known.write, metric["values"][shown]), _good(metric, tolerance)[shown], strict=True)
        words = (Text(f"{word} *", "green") if good else Text(f"{word}  ") for word, good in cells)
        table.add_row(known.title, *words)
    return table


def _good(metric: Mapping[str, Any], tolerance: float) -> list[bool]:
    """Return which values are the best or within the tolerance of it; none where that holds for all."""
    known = [value for value in metric["values"] if value is not None]
    if not metric["better"] or not known:
        return [False] * len(metric["values"])
    best = min(known) if metric["better"] == "less" else max(known)
    good = [value is not None and abs(value - best) <= tolerance * abs(best) for value in metric["values"]]
    return good if sum(good) < len(known) else [False] * len(good)


def _against_first(labels: Sequence[str], metrics: Sequence[Mapping[str, Any]], place: int) -> Table:
    table = _table("against the first", [labels[0], labels[place]])
    for title in ("difference", "%"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for metric in metrics:
        known = _METRICS[metric["metric"]]
        by, percent = metric["differences"][place - 1], metric["percent"][place - 1]
        word, style = _VERDICTS.get(metric["verdicts"][place - 1], ("", ""))
        both = known.write(metric["values"][0]), known.write(metric["values"][place])
        change = _signed(by, known.write), "-" if percent is None else f"{percent:+,.1f}"
        table.add_row(known.title, *both, *change, Text(word, style))
    return table


def _signed(by: float | None, write: Any) -> str:
    """Write a difference with its sign; that of shares in points of a hundred."""
    if not by:
        return "-" if by is None else "0"
    if write is share:
        return f"{by * 100:+.1f} pts"
    return f"{'-' if by < 0 else '+'}{write(abs(by))}"


def _table(first: str, labels: Sequence[str]) -> Table:
    """Make a table of names and a column for each label, which may be long and is folded then."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 1))
    table.add_column(first, style="cyan", no_wrap=True)
    for label in labels:
        table.add_column(label, justify="right", overflow="fold", min_width=min(len(label), 10))
    return table


def pairs_table(labels: Sequence[str], pairs: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Lay out how many jobs start earlier and later than in the first run, and by how many hours in total."""
    table = _table("jobs", ("paired", "earlier", "hours", "later", "hours", "same"))
    for label, pair in zip(labels[1:], pairs, strict=True):
        earlier, later = pair["seconds_earlier"] / 3600, pair["seconds_later"] / 3600
        cells = pair["paired"], pair["earlier"], earlier, pair["later"], later, pair["same"]
        table.add_row(label, *(f"{value:,.0f}" for value in cells))
    words = f"Jobs that start earlier or later than in {labels[0]}, and by how many hours in all:"
    return Group(Text(words), Padding(table, (1, 0, 0, 0), expand=False))


def differences_table(labels: Sequence[str], differences: Mapping[str, Sequence[Any]]) -> RenderableType:
    """Lay out in which keys the scenarios of runs differ."""
    if len(differences) > _MOST_KEYS:
        return Text(f"The scenarios differ in {len(differences)} keys; --json lists them.")
    tables = []
    for first in range(0, len(labels), _BESIDE):
        shown = slice(first, first + _BESIDE)
        table = _table("scenario", labels[shown])
        for key, values in differences.items():
            table.add_row(key, *("-" if value is None else str(value) for value in values[shown]))
        tables.append(table)
    return Group(*tables)


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


def gains_table(scenario: str, gains: dict[str, Any]) -> RenderableType:
    """Lay out what :func:`explain_gains` found for the terminal."""
    table = Table(box=None, padding=(0, 2), pad_edge=False, header_style="bold")
    for title in ("", "RCA off", "RCA on", "difference"):
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    for name in ("makespan", "mean_wait"):
        off, on = gains[name]["off"], gains[name]["on"]
        table.add_row(name.replace("_", " "), clock(off), clock(on), _growth(off, on))
    off, on = gains["busy"]["off"], gains["busy"]["on"]
    table.add_row("busy", share(off), share(on), _points(off, on))
    jobs = gains["jobs"]
    why = (
        f"{number(gains['released_node_hours'])} node-hours were given back early; "
        f"{count(jobs['on_released_nodes'], 'job')} started on nodes that another running job had released.\n"
        f"{count(jobs['earlier'], 'job')} started earlier ({jobs['earlier_on_released_nodes']} of them on "
        f"such nodes), {jobs['later']} later, {jobs['same']} at the same time."
    )
    lines = [Text(f"{side}: {_named(gains[side])}") for side in ("gained", "lost") if gains[side]]
    blocks: list[RenderableType] = [Text(scenario, "bold"), table, Text(why), *lines]
    return Padding(
        Group(*(Padding(block, (0, 0, 1, 0), expand=False) for block in blocks)), (0, 1), expand=False
    )


def _growth(off: float | None, on: float | None) -> str:
    return "-" if not off or on is None else f"{(on / off - 1.0) * 100:+.1f} %"


def _points(off: float | None, on: float | None) -> str:
    return "-" if off is None or on is None else f"{(on - off) * 100:+.1f} points"


def _named(extremes: list[dict[str, Any]]) -> str:
    return ", ".join(f"job {job['job_id']} ({clock(abs(job['response_gain']))})" for job in extremes)
