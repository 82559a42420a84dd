"""Comparisons of runs for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mlsim.analysis.compare import COMPARED, TOLERANCE
from mlsim.analysis.formatting import share

__all__ = ["comparison_table", "differences_table", "pairs_table"]

_VERDICTS = {
    "better": ("▲ better", "green"),
    "worse": ("▼ worse", "red"),
    "similar": ("≈ similar", "dim"),
    "same": ("= same", "dim"),
}
_METRICS = {metric.key: metric for metric in COMPARED}
_BESIDE = 4
"""So many runs have their values beside each other."""
_MOST_KEYS = 12
"""Scenarios that differ in more keys than this are different things."""


def comparison_table(
    labels: Sequence[str], metrics: Sequence[Mapping[str, Any]], tolerance: float = TOLERANCE
) -> RenderableType:
    """Lay out metrics: all runs beside each other if there are more than two, then each against the first.

    Parameters
    ----------
    labels
        Names of the runs.
    metrics
        From :func:`mlsim.analysis.compare.compare_metrics`. Those that no run has, or that are 0 in all, are
        left out.
    tolerance
        With which they were made.
    """
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
        starred = _good(metric, tolerance)[shown]
        cells = (
            _starred(known.write(value), good)
            for value, good in zip(metric["values"][shown], starred, strict=True)
        )
        table.add_row(known.title, *cells)
    return table


def _good(metric: Mapping[str, Any], tolerance: float) -> list[bool]:
    """Return which values are the best or within the tolerance of it; none where that holds for all."""
    known = [value for value in metric["values"] if value is not None]
    if not metric["better"] or not known:
        return [False] * len(metric["values"])
    best = min(known) if metric["better"] == "less" else max(known)
    good = [value is not None and abs(value - best) <= tolerance * abs(best) for value in metric["values"]]
    return good if sum(good) < len(known) else [False] * len(good)


def _starred(word: str, good: bool) -> Text:
    return Text(f"{word} *", "green") if good else Text(f"{word}  ")


def _against_first(labels: Sequence[str], metrics: Sequence[Mapping[str, Any]], place: int) -> Table:
    table = _table("against the first", [labels[0], labels[place]])
    for title in ("difference", "%"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for metric in metrics:
        known = _METRICS[metric["metric"]]
        by, percent = metric["differences"][place - 1], metric["percent"][place - 1]
        word, style = _VERDICTS.get(metric["verdicts"][place - 1], ("", ""))
        table.add_row(
            known.title,
            known.write(metric["values"][0]),
            known.write(metric["values"][place]),
            _signed(by, known.write),
            "-" if percent is None else f"{percent:+,.1f}",
            Text(word, style),
        )
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
    """Lay out how many jobs start earlier and later than in the first run, and by how many hours in all.

    Parameters
    ----------
    labels
        Names of the runs.
    pairs
        From :func:`mlsim.analysis.compare.pair_summary`, for all runs but the first.
    """
    table = _table("jobs", ("paired", "earlier", "hours", "later", "hours", "same"))
    for label, pair in zip(labels[1:], pairs, strict=True):
        table.add_row(
            label,
            f"{pair['paired']:,}",
            f"{pair['earlier']:,}",
            f"{pair['seconds_earlier'] / 3600:,.0f}",
            f"{pair['later']:,}",
            f"{pair['seconds_later'] / 3600:,.0f}",
            f"{pair['same']:,}",
        )
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
