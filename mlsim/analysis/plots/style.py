"""What all pictures share: size, fonts, colours, the time axis, how they are written.

No picture depends on the user's matplotlib settings or on the time of day.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mlsim.errors import OutputError
from mlsim.record import Jobs
from mlsim.record.blocks import value_blocks

__all__ = [
    "BLUE",
    "DPI",
    "GREEN",
    "INK",
    "PURPLE",
    "SKY",
    "VERMILION",
    "WIDTH",
    "YELLOW",
    "TimeAxis",
    "axes_at",
    "canvas",
    "job_palette",
    "part_axis",
    "picture_style",
    "scale_palette",
    "span_axis",
    "time_axis",
    "write_picture",
]

DPI = 150
WIDTH = 1500
"""Width of a picture, in pixels."""

_COMPRESSION = 3
"""Of PNG, from 0 to 9; the usual 6 takes half as long again and saves a sixth of the bytes."""

INK = "#222222"
BLUE, SKY, VERMILION = "#0072B2", "#56B4E9", "#D55E00"
GREEN, PURPLE, YELLOW = "#009E73", "#CC79A7", "#F0E442"

_HUES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
"""The colours of Okabe and Ito (2008), which people with any colour vision can tell apart."""

_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # told, it need not be found out from where all ticks are
    "axes.edgecolor": INK,
    "axes.linewidth": 0.8,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.borderaxespad": 0.0,
    "savefig.dpi": DPI,
    "svg.hashsalt": "mlsim",  # names of its parts are drawn by lot otherwise
    "text.parse_math": False,
}

_NOT_OF_PICTURES = (
    "backend", "date.epoch", "docstring", "figure.max_open", "figure.raise", "interactive",
    "savefig.directory", "timezone", "tk", "toolbar", "webagg",
)  # fmt: skip
"""How settings begin that say nothing of how pictures look; they stay the user's."""

_UNITS = (
    (1e-3, "µs", 1e-6), (1.0, "ms", 1e-3), (180.0, "s", 1.0), (3 * 3600.0, "min", 60.0),
    (3 * 86400.0, "h", 3600.0), (np.inf, "d", 86400.0),
)  # fmt: skip


class TimeAxis(NamedTuple):
    """The span of time a picture shows, and the unit it is labelled in."""

    begin: float
    end: float
    unit: str
    seconds: float
    """Seconds in the unit."""

    def label(self, axes: Axes) -> None:
        """Set the limits and the label of the x axis, whose data are in the unit."""
        axes.set_xlim(self.begin / self.seconds, self.end / self.seconds)
        axes.set_xlabel(f"time ({self.unit})")


def picture_style() -> AbstractContextManager[None]:
    """Draw under our settings, whatever the user's are."""
    return matplotlib.rc_context(_settings())


@cache
def _settings() -> Any:  # matplotlib types the names one by one
    """Return matplotlib's own settings, with ours in place of some."""
    own = matplotlib.rcParamsDefault.items()
    return {name: value for name, value in own if not name.startswith(_NOT_OF_PICTURES)} | _STYLE


def time_axis(jobs: Jobs) -> TimeAxis:
    """Return the axis from the first submission to the last end, in a unit that fits."""
    first, last = np.inf, -np.inf
    for times in chain(value_blocks(jobs.submit_time), value_blocks(jobs.end_time)):
        # NaN where a job was turned away
        first = float(np.fmin.reduce(times, initial=first))
        last = float(np.fmax.reduce(times, initial=last))
    begin = first if first < np.inf else 0.0
    end = last if last > begin else begin + 1.0
    return TimeAxis(begin, end, *_unit_of(end - begin))


def part_axis(begin: float, end: float) -> TimeAxis:
    """Return the axis from ``begin`` to ``end``, in s: a part of a picture's time, as in other pictures."""
    return TimeAxis(begin, end, "s", 1.0)


def span_axis(end: float) -> TimeAxis:
    """Return the axis from 0 to ``end``, in a unit that fits, down to microseconds."""
    shown = end if end > 0.0 else 1e-6
    return TimeAxis(0.0, shown, *_unit_of(shown))


def _unit_of(span: float) -> tuple[str, float]:
    """Return the unit for a span of seconds, and the seconds in it."""
    return next((unit, seconds) for limit, unit, seconds in _UNITS if span < limit)


def canvas(height: int) -> Figure:
    """Make a picture :data:`WIDTH` pixels wide."""
    figure = Figure(figsize=(WIDTH / DPI, height / DPI), dpi=DPI)
    FigureCanvasAgg(figure)
    return figure


def axes_at(figure: Figure, left: int, top: int, width: int, height: int) -> Axes:
    """Add axes whose data area is exactly these pixels, counted from the upper left corner."""
    full = round(figure.get_figheight() * DPI)
    box = (left / WIDTH, 1 - (top + height) / full, width / WIDTH, height / full)
    return figure.add_axes(box)


def job_palette() -> NDArray[np.float64]:
    """Return colours for jobs, (21, 3) RGB in [0, 1]: seven hues, each plain, lighter and darker."""
    hues = np.array([_rgb(hue) for hue in _HUES])
    return np.concatenate([hues, 1 - (1 - hues) * 0.55, hues * 0.65])


def scale_palette() -> NDArray[np.float64]:
    """Return colours for a scale, (256, 3) RGB in [0, 1], from light to dark; perceptually uniform."""
    scale: NDArray[np.float64] = matplotlib.colormaps["viridis_r"](np.arange(256))[:, :3]
    return scale


def write_picture(
    figure: Figure,
    path: Path,
    dpi: float = DPI,
    style: Callable[[], AbstractContextManager[None]] = picture_style,
) -> Path:
    """Write a picture as PDF or SVG if the file's name says so, else PNG.

    The same picture gives the same bytes.

    Parameters
    ----------
    figure, path
        The picture and its file.
    dpi
        Of what is not drawn as lines.
    style
        Settings that it was drawn under.

    Raises
    ------
    OutputError
        If the file cannot be written; the message names it.
    """
    try:
        with style():
            kind = next((word for word in ("pdf", "svg") if str(path).endswith(f".{word}")), "png")
            options: dict[str, dict[str, Any]] = {
                "pdf": {"metadata": {"CreationDate": None}},
                "svg": {"metadata": {"Date": None}},
                "png": {"metadata": {"Software": None}, "pil_kwargs": {"compress_level": _COMPRESSION}},
            }
            figure.savefig(path, format=kind, dpi=dpi, **options[kind])
    except OSError as err:
        raise OutputError(f"cannot write {path}: {err.strerror or err}") from err
    return path


def _rgb(code: str) -> tuple[float, ...]:
    return tuple(int(code[place : place + 2], 16) / 255 for place in (1, 3, 5))
