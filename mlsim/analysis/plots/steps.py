"""Step functions, drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import StepPatch
from numpy.typing import ArrayLike

from mlsim._arrays import Floats

__all__ = ["draw_area", "draw_line"]


def draw_area(axes: Axes, values: Floats, edges: Floats, baseline: ArrayLike = 0.0, **style: Any) -> None:
    """Fill the area between a step function and a baseline.

    Matplotlib's own ``stairs`` looks for the limits of what it draws as if the steps were curves, one after
    the other, which takes longer than everything else in a picture. Here the caller sets both limits.

    Parameters
    ----------
    axes
        Where to draw.
    values, edges
        The function: ``values[k]`` from ``edges[k]`` to ``edges[k + 1]``, in the units of the axes.
    baseline
        Lower bound of the area: one number, or one a value.
    **style
        Properties of a patch, as matplotlib names them.
    """
    below: Any = np.broadcast_to(np.asarray(baseline, np.float64), values.shape)
    axes.add_artist(StepPatch(values, edges, baseline=below, fill=True, **style))


def draw_line(axes: Axes, values: Floats, edges: Floats, **style: Any) -> None:
    """Draw a step function as a line; parameters are those of :func:`draw_area`."""
    unbounded: Any = None  # matplotlib's types know numbers alone
    axes.add_artist(StepPatch(values, edges, baseline=unbounded, fill=False, **style))
