"""The full metrics of a run, for the terminal: aggregates, histogram, groups of jobs, weeks, passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mlsim.analysis.formatting import brief, clock, number, share
from mlsim.analysis.metrics import CODED, SLOWDOWN_BINS

Summary = Mapping[str, Any]
Write = Callable[[float | None], str]

_AGGREGATES = ("mean", "std", "median", "p90", "p99", "max")
_PASS_TIMES = ("mean", "median", "p90", "p99", "max")
_MOST_ROWS = 25
"""So many users, queues ... are shown: those with most jobs."""
_LONGEST_LABEL = 24


def metrics_table(summary: Summary, by_class: pl.DataFrame, pass_times: pl.DataFrame) -> RenderableType:
    """Lay out the metrics that the one-screen summary omits.

    ``summary`` has the key ``self`` of the run; ``by_class`` and ``pass_times`` are of
    :func:`mlsim.analysis.metrics.breakdown` and :func:`~mlsim.analysis.metrics.pass_time_by_queue_length`.
    """
    blocks = [_further_aggregates(summary), _facts(summary), _histogram(summary)]
    if by_class.height:
        blocks.append(breakdown_table(by_class, "class"))
    if pass_times.height:
        blocks.append(pass_time_table(pass_times))
    spaced = Group(*(Padding(block, (0, 0, 1, 0), expand=False) for block in blocks))
    return Padding(spaced, (0, 1), expand=False)


def _table(first: str, titles: Sequence[str]) -> Table:
    """Make a table with a column of names and columns of numbers."""
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    table.add_column(first, style="cyan", no_wrap=True)
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def _further_aggregates(summary: Summary) -> RenderableType:
    table = _table("further", _AGGREGATES)

    def add(name: str, aggregate: Summary, write: Write) -> None:
        table.add_row(name, *(write(aggregate.get(column)) for column in _AGGREGATES))

    add("slowdown per processor", summary["per_processor_bounded_slowdown"], number)
    add("queue length over time", summary["queue_length"], number)
    if summary["passes"]:
        add("queue length at passes", summary["passes"]["queue_length"], number)
    if _pass_time(summary):
        add("wall time of a pass", _pass_time(summary), brief)
    return table


def _pass_time(summary: Summary) -> dict[str, Any]:
    """Return the metrics of passes; empty without passes."""
    found: dict[str, Any] = summary["self"].get("pass_time", {})
    return found if found.get("count") else {}


def _facts(summary: Summary) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_row("[cyan]backfilled[/cyan]", f"{share(summary['backfilled_share'])} of the jobs that started")
    if _pass_time(summary):
        count, total = _pass_time(summary)["count"], _pass_time(summary)["total"]
        table.add_row("[cyan]passes[/cyan]", f"{count:,}, {brief(total)} of wall time")
    return table


def _histogram(summary: Summary) -> RenderableType:
    table = _table("jobs by slowdown", SLOWDOWN_BINS)
    for name, counts in summary["slowdown_histogram"].items():
        total = sum(counts.values())
        table.add_row(name.replace("_", " "), *(f"{counts[place]:,}" for place in SLOWDOWN_BINS))
        shares = (share(counts[place] / total if total else None) for place in SLOWDOWN_BINS)
        table.add_row("", *shares, style="dim")
    return table


def pass_time_table(pass_times: pl.DataFrame) -> RenderableType:
    """Lay out the wall time of passes by queue length."""
    table = _table("queue length", ("passes", *_PASS_TIMES))
    for row in pass_times.iter_rows(named=True):
        low, high = row["low"], row["high"]
        name = str(low) if low == high else f"{low:,}-{high:,}"
        table.add_row(name, f"{row['passes']:,}", *(brief(row[part]) for part in _PASS_TIMES))
    return table


def breakdown_table(table: pl.DataFrame, by: str) -> RenderableType:
    """Lay out jobs by group, from :func:`mlsim.analysis.metrics.breakdown`.

    Of users and the like the largest.
    """
    if by == "week":
        words = "so far: mean over all jobs ended by then; p10, p90: of the means of the weeks so far"
        return Group(_rows(by, table, _WEEKLY), Text(f"b.s.: bounded slowdown; {words}", "dim"))
    shown = table
    if by in CODED and table.height > _MOST_ROWS:
        shown = table.sort("jobs", descending=True, maintain_order=True).head(_MOST_ROWS)
    left = table.height - shown.height
    more = f"; {left} more with fewer jobs are in --csv and --json" if left else ""
    return Group(_rows(by, shown, _BY_GROUP), Text(f"b.s.: bounded slowdown{more}", "dim"))


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


_Column = tuple[str, str, Write]

_BY_GROUP: Sequence[_Column] = (
    ("jobs", "jobs", _count),
    ("core-h", "core_hours", _count),
    ("mean wait", "wait_time.mean", clock),
    ("p90", "wait_time.p90", clock),
    ("mean b.s.", "bounded_slowdown.mean", number),
    ("median", "bounded_slowdown.median", number),
    ("p90", "bounded_slowdown.p90", number),
    ("max", "bounded_slowdown.max", number),
)
_WEEKLY: Sequence[_Column] = (
    ("jobs", "jobs", _count),
    ("mean wait", "wait_time.mean", clock),
    ("sum", "wait_time.sum", clock),
    ("mean b.s.", "bounded_slowdown.mean", number),
    ("sum", "bounded_slowdown.sum", number),
    ("so far", "bounded_slowdown.cumulative_mean", number),
    ("p10", "bounded_slowdown.band_low", number),
    ("p90", "bounded_slowdown.band_high", number),
)


def _rows(by: str, table: pl.DataFrame, columns: Sequence[_Column]) -> Table:
    laid_out = _table(f"by {by}", [title for title, _, _ in columns])
    laid_out.collapse_padding = True
    # Where room is short, long names take more lines; numbers are never cut.
    laid_out.columns[0].no_wrap, laid_out.columns[0].overflow = False, "fold"
    for row in table.iter_rows(named=True):
        label = row[by] if len(row[by]) <= _LONGEST_LABEL else f"{row[by][: _LONGEST_LABEL - 1]}…"
        laid_out.add_row(Text(label), *(write(row[key]) for _, key, write in columns))
    return laid_out
