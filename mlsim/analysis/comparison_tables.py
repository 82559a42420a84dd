"""Comparisons of runs as tables in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from mlsim.analysis.formatting import clock, count, number, share
from mlsim.analysis.run_comparison import COMPARED, TOLERANCE, Write, is_wall_clock
from mlsim.analysis.table_layout import NumberTable, legend, spaced

if TYPE_CHECKING:
    import polars as pl

    from mlsim.analysis.recorded_waits import RecordedWaits

_METRICS = {metric.key: metric for metric in COMPARED}
_VERDICTS = {
    "better": ("▲ better", "green"),
    "worse": ("▼ worse", "red"),
    "similar": ("≈ similar", "dim"),
    "same": ("= same", "dim"),
}
_MOST_KEYS = 12  # scenarios that differ in more keys are not comparable


def comparison_table(
    labels: Sequence[str], metrics: Sequence[Mapping[str, Any]], tolerance: float = TOLERANCE
) -> RenderableType:
    """Lay out metrics that are not 0 in all runs: all side by side, then each against the first.

    A legend explains the signs that occur. Wall-clock times of single runs have no difference.
    """
    shown = [metric for metric in metrics if any(metric["values"])]
    others = range(1, len(labels))
    tables = [_side_by_side(labels, shown, tolerance)] if len(labels) > 2 else []
    tables += [_against_first(labels, shown, place) for place in others]
    within = f"{tolerance * 100:g} %"
    judged = f"by more than {within} (--tolerance)"
    signs = (
        ("*", f"best of the runs, or within {within} of it"),
        ("▲ better", judged),
        ("▼ worse", judged),
        ("≈ similar", f"by {within} or less"),
        ("= same", "but for rounding"),
        ("-", "no value"),
        ("pts", "percentage points"),
        ("b.s.", "bounded slowdown"),
        ("p90", "percentile"),
        ("p99", "percentile"),
    )
    words = legend(signs, " ".join(table.text for table in tables))
    if any(is_wall_clock(metric) for metric in shown):
        words += "; wall-clock times depend on the machine and its load, so they have no difference"
    return spaced([*tables, Text(words.removeprefix("; "), "dim")])


def _side_by_side(
    labels: Sequence[str], metrics: Sequence[Mapping[str, Any]], tolerance: float
) -> NumberTable:
    """Format values of all runs; those within the tolerance of the best are green with a star."""
    table = NumberTable(("all runs", *labels), ruled=True)
    for metric in metrics:
        cells = zip(map(_writer(metric), metric["values"]), _good(metric, tolerance), strict=True)
        words = (Text(f"{word} *", "green") if good else Text(f"{word}  ") for word, good in cells)
        table.add(metric["title"], *words)
    return table


def _writer(metric: Mapping[str, Any]) -> Write:
    known = _METRICS.get(metric["metric"])
    return number if known is None else known.write


def _good(metric: Mapping[str, Any], tolerance: float) -> list[bool]:
    """Return which values are the best or within the tolerance of it; none where that holds for all."""
    known = [value for value in metric["values"] if value is not None]
    if not metric["better"] or not known:
        return [False] * len(metric["values"])
    best = min(known) if metric["better"] == "less" else max(known)
    good = [value is not None and abs(value - best) <= tolerance * abs(best) for value in metric["values"]]
    return good if sum(good) < len(known) else [False] * len(good)


def _against_first(labels: Sequence[str], metrics: Sequence[Mapping[str, Any]], place: int) -> NumberTable:
    titles = ("against the first", labels[0], labels[place], "difference", "%", "verdict")
    table = NumberTable(titles, left=("verdict",), beside=("%", "verdict"), ruled=True)
    for metric in metrics:
        write = _writer(metric)
        by, percent = metric["differences"][place - 1], metric["percent"][place - 1]
        word, style = _VERDICTS.get(metric["verdicts"][place - 1], ("", ""))
        both = write(metric["values"][0]), write(metric["values"][place])
        change = _signed(by, write), "-" if percent is None else _tenths(percent)
        if is_wall_clock(metric):
            change = "", ""
        table.add(metric["title"], *both, *change, Text(word, style))
    return table


def _signed(by: float | None, write: Write) -> str:
    """Write a difference with its sign; that of shares in points of a hundred."""
    if not by:
        return "-" if by is None else "0"
    if write is share:
        return f"{_tenths(by * 100)} pts"
    return f"{'-' if by < 0 else '+'}{write(abs(by))}"


def _tenths(value: float) -> str:
    """Write a change with its sign and one decimal.

    >>> _tenths(4.26), _tenths(-0.01)
    ('+4.3', '0.0')
    """
    return f"{value:+,.1f}" if abs(value) >= 0.05 else "0.0"


def pairs_table(labels: Sequence[str], pairs: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Lay out how many jobs start earlier and later than in the first run, and by how many hours in total."""
    titles = ("jobs", "paired", "earlier", "hours", "later", "hours", "same")
    table = NumberTable(titles, beside=("hours",), ruled=True)
    for label, pair in zip(labels[1:], pairs, strict=True):
        earlier, later = pair["seconds_earlier"] / 3600, pair["seconds_later"] / 3600
        cells = pair["paired"], pair["earlier"], earlier, pair["later"], later, pair["same"]
        table.add(label, *(f"{value:,.0f}" for value in cells))
    words = f"Jobs that start earlier or later than in {labels[0]}, and by how many hours in all:"
    return spaced([Text(words), table])


def differences_table(labels: Sequence[str], differences: Mapping[str, Sequence[Any]]) -> RenderableType:
    """Lay out in which keys the scenarios of runs differ, in the words of scenario files."""
    if len(differences) > _MOST_KEYS:
        return Text(f"The scenarios differ in {len(differences)} keys; --json lists them.")
    rows = [(key, *map(_scenario_word, values)) for key, values in differences.items()]
    table = NumberTable(("scenario", *labels), rows, ruled=True)
    words = legend((("-", "not in this scenario"),), table.text)
    return Group(table, Text(words, "dim")) if words else table


def _scenario_word(value: Any) -> str:
    """Write a value as scenario files have it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return "-" if value is None else str(value)


_WAITS = (("mean", clock), ("median", clock), ("p90", clock), ("no_wait", share), ("within_minute", share))
_SIDES = ("recorded", "simulated")
_ROWS = {"no_wait": "did not wait", "within_minute": "waited 1 min at most"}


def recorded_tables(waits: RecordedWaits, by: str | None = None) -> RenderableType:
    """Lay out recorded beside simulated waits: of all jobs, of groups, and of the jobs that differ most."""
    counts, overall, table = (
        waits.counts,
        waits.overall,
        NumberTable(("wait", *_SIDES, "difference"), ruled=True),
    )
    for key, write in _WAITS:
        recorded, simulated = (overall[side][key] for side in _SIDES)
        table.add(
            _ROWS.get(key, key), write(recorded), write(simulated), _signed(simulated - recorded, write)
        )
    words = f"{counts['compared']:,} of {count(counts['jobs'], 'job')} compared."
    left = {
        "without_recorded_start": "without a recorded start",
        "never_started": "never started in the simulation",
        "before_submission": "recorded to start before the submission: counted as no wait",
    }
    words += "".join(f" {counts[key]:,} {text}." for key, text in left.items() if counts[key])
    distance = (
        f"Kolmogorov-Smirnov distance {number(overall['distance'])} (0: equal distributions), rank "
        f"correlation {number(overall['rank_correlation'])} (1: the same order); waits of a job differ by "
        f"{clock(overall['mean_absolute_difference'])} on average."
    )
    groups = [waits.by(group) for group in ([by] if by else ["partition", "size"])]
    shown = [_group_waits(group) for group in groups if by or len(group) > 1]
    titles = ("job", *_SIDES, "why")
    most = NumberTable(titles, left=("why",), heading="Jobs that differ most", ruled=True)
    for row in waits.most_different.iter_rows(named=True):
        most.add(str(row["job_id"]), *(clock(row[f"{side}_wait"]) for side in _SIDES), row["why"])
    return spaced([Text(words), table, Text(distance), *shown, most])


def _group_waits(table: pl.DataFrame) -> NumberTable:
    """Lay out the waits of groups of jobs, recorded and simulated."""
    measures = [f"{side}.{key}" for key in ("mean", "median", "p90") for side in _SIDES]
    titles = [name.replace("recorded.", "log ").replace("simulated.", "here ") for name in measures]
    found = NumberTable((table.columns[0], "jobs", *titles, "distance", "ranks"), ruled=True)
    for row in table.iter_rows(named=True):
        last = (number(row["distance"]), number(row["rank_correlation"]))
        found.add(
            str(row[table.columns[0]]), f"{row['jobs']:,}", *(clock(row[key]) for key in measures), *last
        )
    return found


def gains_table(scenario: str, gains: dict[str, Any]) -> RenderableType:
    """Lay out what :func:`explain_gains` found for the terminal."""
    table = NumberTable(("", "RCA off", "RCA on", "difference"))
    for name in ("makespan", "mean_wait"):
        off, on = gains[name]["off"], gains[name]["on"]
        table.add(name.replace("_", " "), clock(off), clock(on), _growth(off, on))
    off, on = gains["busy"]["off"], gains["busy"]["on"]
    table.add("busy", share(off), share(on), _points(off, on))
    jobs = gains["jobs"]
    why = (
        f"{number(gains['released_node_hours'])} node-hours were given back early; "
        f"{count(jobs['on_released_nodes'], 'job')} started on nodes that another running job had released.\n"
        f"{count(jobs['earlier'], 'job')} started earlier ({jobs['earlier_on_released_nodes']} of them on "
        f"such nodes), {jobs['later']} later, {jobs['same']} at the same time."
    )
    lines = [Text(f"{side}: {_named(gains[side])}") for side in ("gained", "lost") if gains[side]]
    blocks: list[RenderableType] = [Text(scenario, "bold"), table, Text(why), *lines]
    return spaced(blocks)


def _growth(off: float | None, on: float | None) -> str:
    return "-" if not off or on is None else f"{(on / off - 1.0) * 100:+.1f} %"


def _points(off: float | None, on: float | None) -> str:
    return "-" if off is None or on is None else f"{(on - off) * 100:+.1f} points"


def _named(extremes: list[dict[str, Any]]) -> str:
    return ", ".join(f"job {job['job_id']} ({clock(abs(job['response_gain']))})" for job in extremes)
