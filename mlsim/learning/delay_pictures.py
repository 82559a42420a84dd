"""Pictures of who is delayed: Zrigui 2021, Figs. 4.1 to 4.4."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mlsim._arrays import Floats
from mlsim.analysis.metrics.jobs import JOB_METRICS
from mlsim.learning.delays import CATEGORIES, CURVES, Delays, Samples, means_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["delay_pictures"]

Panels = Mapping[str, Mapping[str, Sequence[Delays]]]


def delay_pictures(samples: Samples, trim: int) -> dict[str, Callable[[], Figure]]:
    """Return all pictures by the names of their files: a panel a log, in it a colour a policy.

    Parameters
    ----------
    samples
        Runs of each combination; the last label is the policy, those before it name the panel.
    trim
        How many of the best and of the worst runs are left out of curves, by the value at their end.

    Returns
    -------
    dict
        ``cumulative-METRIC`` for each of :data:`~mlsim.learning.delays.CURVES` (Fig. 4.1),
        ``most-delayed`` (Fig. 4.2), ``slowdown-shares`` (Fig. 4.3) and ``backfilled`` (Fig. 4.4).
    """
    panels: dict[str, dict[str, Sequence[Delays]]] = {}
    for labels, runs in samples.items():
        panels.setdefault(", ".join(labels[:-1]), {})[labels[-1]] = runs

    def curve(number: int) -> Callable[[], Figure]:
        return lambda: _curves(panels, number, trim)

    return {
        **{f"cumulative-{name.replace('_', '-')}": curve(number) for number, name in enumerate(CURVES)},
        "most-delayed": lambda: _sizes(panels),
        "slowdown-shares": lambda: _shares(panels),
        "backfilled": lambda: _backfilled(panels),
    }


def _curves(panels: Panels, number: int, trim: int) -> Figure:
    """Draw cumulative means week by week: the mean over runs, and from the least to the most of them."""
    from mlsim.analysis.plots.lines import LinePanel, Look, lines

    drawn = []
    for title, policies in panels.items():
        bands = {name: _band(runs, number, trim) for name, runs in policies.items()}
        series = {name: (weeks, mean) for name, (weeks, mean, _, _) in bands.items()}
        ends = {name: (low, high) for name, (_, _, low, high) in bands.items()}
        drawn.append(LinePanel(title, series, ends))
    metric = JOB_METRICS[CURVES[number]]
    unit = "" if metric.unit == "1" else f" ({metric.unit})"
    title = "Mean over all jobs that ended by the end of a week: mean of samples, least to most"
    return lines(drawn, title, "week", f"{metric.title}{unit}", Look(across=3, own_scales=True))


def _band(runs: Sequence[Delays], number: int, trim: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return weeks, and mean, least and most of the runs that are left in each, while all of them last."""
    curves = [run.curves[number] for run in runs]
    curves.sort(key=lambda values: float(values[-1]) if len(values) else np.inf)
    kept = curves[trim : len(curves) - trim] or curves
    length = min(map(len, kept))
    values = np.array([curve[:length] for curve in kept])
    return np.arange(1.0, length + 1), values.mean(axis=0), values.min(axis=0), values.max(axis=0)


def _sizes(panels: Panels) -> Figure:
    """Draw the processors of the hundred most delayed jobs of all runs."""
    from mlsim.analysis.plots.run_boxes import value_boxes

    values = {
        title: {name: np.concatenate([run.sizes for run in runs]) for name, runs in policies.items()}
        for title, policies in panels.items()
    }
    return value_boxes(values, "The hundred most delayed jobs of each sample", "processors", "log")


def _backfilled(panels: Panels) -> Figure:
    """Draw shares of backfilled jobs over the runs."""
    from mlsim.analysis.plots.run_boxes import value_boxes

    values = {
        title: {name: np.array([run.backfilled for run in runs]) for name, runs in policies.items()}
        for title, policies in panels.items()
    }
    return value_boxes(values, "Backfilled jobs over samples", "% of started jobs", "linear")


def _shares(panels: Panels) -> Figure:
    """Draw shares of jobs by bounded slowdown, means over the runs."""
    from mlsim.analysis.plots.bars import Panel, bars

    first = 2  # after premature and ratio
    drawn = [
        Panel(
            title,
            [name.removesuffix(" %") for name in CATEGORIES],
            {
                name: means_of(runs)[first : first + len(CATEGORIES)].tolist()
                for name, runs in policies.items()
            },
        )
        for title, policies in panels.items()
    ]
    return bars(drawn, "Jobs by bounded slowdown", "% of jobs")
