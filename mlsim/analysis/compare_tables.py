"""Comparisons of runs for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mlsim.analysis.compare import COMPARED
from mlsim.analysis.words import clock

__all__ = ["comparison_table", "differences_table", "pairs_table"]

_VERDICTS = {"better": ("▲ better", "green"), "worse": ("▼ worse", "red"), "same": ("= same", "dim")}
_WRITERS = {metric.key: (metric.title, metric.write) for metric in COMPARED}
_MOST_BESIDE = 6
"""So many runs have their values beside each other."""


def comparison_table(labels: Sequence[str], metrics: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Lay out metrics: all runs beside each other if there are more than two, then each against the first.

    Parameters
    ----------
    labels
        Names of the runs.
    metrics
        From :func:`mlsim.analysis.compare.compare_metrics`. Those that no run has, or that are 0 in all, are left out.
    """
    shown = [metric for metric in metrics if any(metric["values"])]
    blocks: list[RenderableType] = []
    if 2 < len(labels) <= _MOST_BESIDE:
        blocks.append(_side_by_side(labels, shown))
    blocks += [_against_first(labels, shown, place) for place in range(1, len(labels))]
    return Group(*(Padding(block, (0, 0, 1, 0), expand=False) for block in blocks))


def _side_by_side(labels: Sequence[str], metrics: Sequence[Mapping[str, Any]]) -> Table:
    """All values; the best of each metric is green and has a star."""
    table = _table("", labels)
    for metric in metrics:
        title, write = _WRITERS[metric["metric"]]
        best = _best(metric)
        cells = [
            Text(
                f"{write(value)} *" if value == best else f"{write(value)}  ",
                "green" if value == best else "",
            )
            for value in metric["values"]
        ]
        table.add_row(title, *cells)
    return table


def _best(metric: Mapping[str, Any]) -> float | None:
    known = [value for value in metric["values"] if value is not None]
    if not metric["better"] or len(set(known)) < 2:
        return None
    return float(min(known) if metric["better"] == "less" else max(known))


def _against_first(labels: Sequence[str], metrics: Sequence[Mapping[str, Any]], place: int) -> Table:
    table = _table("", [labels[0], labels[place], "difference", "%", ""])
    table.columns[-1].justify = "left"
    for metric in metrics:
        title, write = _WRITERS[metric["metric"]]
        by, percent = metric["differences"][place - 1], metric["percent"][place - 1]
        word, style = _VERDICTS.get(metric["verdicts"][place - 1], ("", ""))
        values = (write(metric["values"][0]), write(metric["values"][place]))
        change = "-" if percent is None else f"{percent:+,.1f}"
        table.add_row(title, *values, _signed(by, write), change, Text(word, style))
    return table


def _signed(by: float | None, write: Any) -> str:
    if by is None:
        return "-"
    return f"{'-' if by < 0 else '+'}{write(abs(by))}" if by else write(0.0)


def _table(first: str, titles: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    table.add_column(first, style="cyan", no_wrap=True)
    for title in titles:
        table.add_column(title, justify="right", overflow="fold")
    return table


def pairs_table(labels: Sequence[str], pairs: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Lay out how many jobs start earlier and later than in the first run.

    Parameters
    ----------
    labels
        Names of the runs.
    pairs
        From :func:`mlsim.analysis.compare.pair_summary`, for all runs but the first.
    """
    table = _table(
        f"jobs against {labels[0]}", ("paired", "earlier", "by in all", "later", "by in all", "same")
    )
    for label, pair in zip(labels[1:], pairs, strict=True):
        table.add_row(
            label,
            f"{pair['paired']:,}",
            f"{pair['earlier']:,}",
            clock(pair["seconds_earlier"]),
            f"{pair['later']:,}",
            clock(pair["seconds_later"]),
            f"{pair['same']:,}",
        )
    return table


def differences_table(labels: Sequence[str], differences: Mapping[str, Sequence[Any]]) -> RenderableType:
    """Lay out in which keys the scenarios of runs differ."""
    table = _table("scenario", labels)
    for key, values in differences.items():
        table.add_row(key, *("-" if value is None else str(value) for value in values))
    return table
