"""The picture of a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from mlsim.analysis.plots.chart_style import (
    BLUE,
    GREEN,
    INK,
    PURPLE,
    SKY,
    VERMILION,
    WIDTH,
    axes_at,
    canvas,
    picture_style,
)
from mlsim.experiment.study.search.search_model import Search
from mlsim.experiment.study.search.search_run import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_LEFT, _RIGHT, _TOP, _HEIGHT, _BOTTOM = 130, 40, 110, 520, 90
_LOG_FROM = 5.0
"""Largest over least value from which the axis is logarithmic."""
_COLOURS = (GREEN, PURPLE, INK)


def draw_search(title: str, search: Search, outcome: Outcome) -> Figure:
    """Draw it; candidates that cannot be judged stand above (or below) all others."""
    values = np.array([one.objective for one in outcome.candidates])
    places = np.arange(1, len(values) + 1)
    known = np.isfinite(values)
    others = {name: one.objective for name, one in outcome.baselines.items() if one.works}
    shown = np.concatenate([values[known], list(others.values())])
    with picture_style():
        figure = canvas(_TOP + _HEIGHT + _BOTTOM)
        axes = axes_at(figure, _LEFT, _TOP, WIDTH - _LEFT - _RIGHT, _HEIGHT)
        if shown.min() > 0.0 and shown.max() > _LOG_FROM * shown.min():
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.plot(
            places[known], values[known], "o", color=SKY, markersize=3.5, markeredgewidth=0, label="candidate"
        )
        best = (np.fmax if search.maximise else np.fmin).accumulate(values)
        axes.step(places, best, where="post", color=BLUE, linewidth=1.5, label="best so far")
        for place, (name, value) in enumerate(others.items()):
            axes.axhline(
                value,
                color=_COLOURS[place % len(_COLOURS)],
                linewidth=1.0,
                linestyle=(0, (4, 2 + place)),
                label=name,
            )
        _limits(axes, shown)
        if not known.all():
            _draw_failed(axes, places[~known], search.maximise)
        axes.set_xlim(0.5, len(values) + 0.5)
        axes.set_xlabel("candidate, in the order they were tried")
        axes.set_ylabel(search.objective)
        axes.grid(axis="y", linewidth=0.4, alpha=0.5)
        axes.set_axisbelow(True)
        height = figure.get_figheight() * figure.dpi
        figure.text(_LEFT / WIDTH, 1 - 26 / height, title, fontsize=10)
        figure.legend(loc="upper left", bbox_to_anchor=(_LEFT / WIDTH, 1 - 38 / height), ncols=5)
    return figure


def _limits(axes: Axes, shown: np.ndarray) -> None:
    """Show all values, with a margin for those that have none."""
    low, high = float(shown.min()), float(shown.max())
    if axes.get_yscale() == "log":
        margin = (high / low) ** 0.07
        axes.set_ylim(low / margin, high * margin)
    else:
        margin = 0.07 * (high - low) or 0.07 * abs(high) or 1.0
        axes.set_ylim(low - margin, high + margin)


def _draw_failed(axes: Axes, places: Sequence[int] | np.ndarray, maximise: bool) -> None:
    height = 0.02 if maximise else 0.98
    axes.plot(
        places,
        np.full(len(places), height),
        "x",
        color=VERMILION,
        markersize=5,
        transform=axes.get_xaxis_transform(),
        label="failed: counts as worst",
    )
