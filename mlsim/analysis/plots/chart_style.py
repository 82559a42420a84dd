"""Style that all pictures share, and figures for papers, of ``mlsim plot``."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from itertools import chain
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, NamedTuple

import matplotlib
import matplotlib.dates
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, FuncFormatter, Locator, LogLocator, NullFormatter

from mlsim._jit import kernel
from mlsim._runtime.arrays import Ints, NDArray
from mlsim.errors import OutputError
from mlsim.record import Calendar, Jobs, Records
from mlsim.record.derived_times import TAU
from mlsim.record.table_blocks import value_blocks

DPI = 150
WIDTH = 1500  # width of a picture, in pixels

_COMPRESSION = 3  # of PNG, from 0 to 9; the usual 6 takes half as long again and saves a sixth of the bytes

INK = "#222222"
BLUE, SKY, VERMILION = "#0072B2", "#56B4E9", "#D55E00"
GREEN, PURPLE, YELLOW = "#009E73", "#CC79A7", "#F0E442"

_HUES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
"""The colours of Okabe and Ito (2008), distinguishable with any colour vision."""

_STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # explicit, so that it need not be computed from all tick positions
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
"""Prefixes of settings that do not affect pictures; they stay the user's."""

_UNITS = (
    (1e-3, "µs", 1e-6), (1.0, "ms", 1e-3), (180.0, "s", 1.0), (3 * 3600.0, "min", 60.0),
    (3 * 86400.0, "h", 3600.0), (np.inf, "d", 86400.0),
)  # fmt: skip


class TimeAxis(NamedTuple):
    """The span of time a picture shows, and the unit it is labelled in."""

    begin: float  # s
    end: float
    unit: str
    seconds: float  # in the unit
    calendar: Calendar | None = None  # of the log, where the labels are dates

    def label(self, axes: Axes) -> None:
        """Set the limits and the labels of the x axis, whose data are in the unit."""
        axes.set_xlim(self.begin / self.seconds, self.end / self.seconds)
        if self.calendar is None or not self.calendar.reaches(self.end):
            axes.set_xlabel(f"time ({self.unit})")
            return
        axes.set_xlabel(self.calendar.title)
        dates = _Dates(self.calendar, self.seconds, size_of(axes)[0])
        axes.xaxis.set_major_locator(dates)
        axes.xaxis.set_major_formatter(_DateLabels(dates))


_dates: Any = matplotlib.dates  # which is not typed
_PER_DATE = 14.0  # mm of a picture's width that the label of a date takes, with the space around it
_MOST_DATES = 12


class _Dates(Locator):
    """Places ticks at round dates on an axis of times of a run."""

    def __init__(self, calendar: Calendar, seconds: float, width: float) -> None:
        most = min(max(int(width / _PER_DATE), 3), _MOST_DATES)
        self.rule = _dates.AutoDateLocator(calendar.clock, minticks=3, maxticks=most)
        self._zero, self._days = _dates.date2num(calendar.at(0.0)), seconds / 86400.0

    def days(self, values: Iterable[float]) -> list[float]:
        """Convert values of the axis to Matplotlib's dates."""
        return [self._zero + float(value) * self._days for value in values]

    def __call__(self) -> Any:
        """Return the ticks of the axis as it is now."""
        assert self.axis is not None, "it is set to one"
        return self.tick_values(*self.axis.get_view_interval())

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the ticks between two values of the axis."""
        low, high = (_dates.num2date(day, self.rule.tz) for day in self.days((vmin, vmax)))
        return (np.asarray(self.rule.tick_values(low, high)) - self._zero) / self._days


_DATES = ["%Y", "%b", "%d %b", "%H:%M", "%H:%M", "%S.%f"]
_AT_ZERO = ["", "%Y", "%d %b", "%d %b", "%H:%M", "%H:%M"]  # of a first month, day, hour ...
_SHARED = ["", "%Y", "%Y", "%Y", "%d %b %Y", "%d %b %Y %H:%M"]
"""How dates are written where ticks are years, months, days, hours, minutes, seconds apart."""


class _DateLabels(Formatter):
    """Writes the dates of :class:`_Dates`; what all labels share is beside the axis."""

    def __init__(self, dates: _Dates) -> None:
        written = _dates.ConciseDateFormatter(
            dates.rule, tz=dates.rule.tz, formats=_DATES, zero_formats=_AT_ZERO
        )
        written.offset_formats = _SHARED
        self._dates, self._written = dates, written

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Write one date."""
        return str(self._written(self._dates.days((x,))[0], pos))

    def format_ticks(self, values: Any) -> list[str]:
        """Write the dates of all ticks, each as short as the others allow."""
        return list(self._written.format_ticks(self._dates.days(values)))

    def get_offset(self) -> str:
        """Return what the labels have in common."""
        return str(self._written.get_offset())


def picture_style() -> AbstractContextManager[None]:
    """Draw under matplotlib's own settings and ours, whatever the user's are."""
    own = matplotlib.rcParamsDefault.items()
    kept = {name: value for name, value in own if not name.startswith(_NOT_OF_PICTURES)}
    settings: Any = kept | _STYLE  # matplotlib types the names one by one
    return matplotlib.rc_context(settings)


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


def common_axis(*runs: Records) -> TimeAxis:
    """Return one axis for all runs: from the first begin to the last end, in the unit of the longest.

    It has dates if the runs have the same.
    """
    each = [time_axis(records.jobs) for records in runs]
    longest = max(each, key=lambda axis: axis.end - axis.begin)
    dates = {records.calendar for records in runs}
    return longest._replace(
        begin=min(axis.begin for axis in each),
        end=max(axis.end for axis in each),
        calendar=dates.pop() if len(dates) == 1 else None,
    )


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


def panels(
    n: int, across: int, edges: tuple[int, int, int, int], height: int, gap: int = 0, between: int = 0
) -> tuple[Figure, list[Axes]]:
    """Make a picture of n panels in reading order, with room at left, right, top and bottom (pixels)."""
    left, right, top, bottom = edges
    across = max(min(n, across), 1)
    down = max(-(-n // across), 1)
    width = (WIDTH - left - right - (across - 1) * gap) // across
    figure = canvas(top + down * height + (down - 1) * between + bottom)
    corners = ((left + k % across * (width + gap), top + k // across * (height + between)) for k in range(n))
    return figure, [axes_at(figure, *corner, width, height) for corner in corners]


def job_palette() -> NDArray[np.float64]:
    """Return colours for jobs, (21, 3) RGB in [0, 1]: seven hues, each plain, lighter and darker."""
    hues = np.array([rgb(hue) for hue in _HUES])
    return np.concatenate([hues, 1 - (1 - hues) * 0.55, hues * 0.65])


def rgb(code: str) -> tuple[float, ...]:
    """Return a colour such as ``#0072B2`` as parts of 1."""
    return tuple(int(code[place : place + 2], 16) / 255 for place in (1, 3, 5))


def ink_on(colour: NDArray[np.float64]) -> str:
    """Return black or white, whichever is easier to read on a colour."""
    return INK if float(colour @ [0.299, 0.587, 0.114]) > 0.5 else "white"


def scale_palette() -> NDArray[np.float64]:
    """Return colours for a scale, (256, 3) RGB in [0, 1], from light to dark; perceptually uniform."""
    scale = matplotlib.colormaps["viridis_r"](np.arange(256))[:, :3]
    return np.ascontiguousarray(scale)  # as kernels take arrays without Numba


def write_picture(
    figure: Figure,
    path: Path,
    dpi: float = DPI,
    style: Callable[[], AbstractContextManager[None]] = picture_style,
) -> Path:
    """Write a picture as PDF or SVG by the file's suffix, else PNG; the same gives the same bytes."""
    kind = next((word for word in ("pdf", "svg") if str(path).endswith(f".{word}")), "png")
    dates = {"pdf": "CreationDate", "svg": "Date", "png": "Software"}
    options: dict[str, Any] = {"metadata": {dates[kind]: None}}
    if kind == "png":
        options["pil_kwargs"] = {"compress_level": _COMPRESSION}
    try:
        with style():
            figure.savefig(path, format=kind, dpi=dpi, **options)
    except OSError as err:
        raise OutputError(f"cannot write {path}: {err.strerror or err}") from err
    return path


def colour_of(place: int) -> Any:
    """Return the colour of the run with this index."""
    palette = job_palette()
    return palette[place % len(palette)]


LEFT, RIGHT = 110, 30  # usual margins of a picture, in pixels


def write_title(figure: Figure, title: str, left: int = LEFT, below: int = 26, **look: Any) -> None:
    """Write the title of a picture, so many pixels from its upper left corner."""
    height = figure.get_figheight() * figure.dpi
    figure.text(left / WIDTH, 1 - below / height, title, **{"fontsize": 10} | look)


def differ_much(values: Iterable[float], factor: float = 10.0) -> bool:
    """Whether some values would vanish beside others on a linear axis."""
    positive = [value for value in values if value > 0]
    return len(positive) > 1 and max(positive) > factor * min(positive)


def plain_log(axes: Axes, which: str) -> None:
    """Write plain numbers at 1, 2 and 5 times powers of ten, or at these alone where there are many."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    many = high > 300 * max(low, 1e-12)
    axis.set_major_locator(LogLocator(subs=(1.0,) if many else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axis.set_minor_formatter(NullFormatter())


_PER_DECADE = 400  # distinguishable sizes between 1 and 10


class Thinned:
    """Points of a curve of n chunks: the first of those that look the same in ``columns`` of the axis."""

    def __init__(self, n: int, columns: int) -> None:
        self._n, self._columns = max(n, 1), min(n, columns)
        self._key = self._step = self._size = np.empty(0, np.int64)
        self._rows = self._key

    def add(self, step: Ints, size: Ints) -> None:
        """Add chunks that follow those added before: of neighbours that look the same, the first."""
        if len(self._rows) < len(step):
            self._rows = np.empty(len(step), np.int64)
        changes = self._rows[: _changes(step, size, self._n, self._columns, self._rows)]
        step, size = step[changes], size[changes]
        row = np.rint(np.log10(np.maximum(size, 1)) * _PER_DECADE).astype(np.int64)
        key = np.concatenate([self._key, self._columns * step // self._n * (1 << 20) + row])
        self._key, kept = np.unique(key, return_index=True)
        self._step = np.concatenate([self._step, step])[kept]
        self._size = np.concatenate([self._size, size])[kept]

    def points(self) -> tuple[Ints, Ints]:
        """Return step and size of each point."""
        return self._step, self._size


@kernel
def _changes(step: Ints, size: Ints, n: int, columns: int, rows: Ints) -> int:
    """Write down the rows of another size, or another column of the picture, than the one before."""
    count = low = high = 0  # steps of the column of the row before: from low on, before high
    for row in range(len(step)):
        here = step[row]
        if low <= here < high and size[row] == size[row - 1]:
            continue
        rows[count] = row
        count += 1
        column = columns * here // n
        low, high = -(-column * n // columns), -(-(column + 1) * n // columns)
    return count


@kernel
def are_new(steps: Ints, seen: NDArray[np.uint8]) -> bool:
    """Note steps, a bit each; return whether none had been noted."""
    are_new = True
    for row in range(len(steps)):
        place, bit = steps[row] >> 3, np.uint8(1 << (steps[row] & 7))
        are_new &= seen[place] & bit == 0
        seen[place] |= bit
    return are_new


class Pixels(Artist):
    """Draws RGB bytes (height, width, 3), from the top, without resampling; lower left corner in pixels.

    It is exact, and takes a tenth of the memory of ``imshow``.
    """

    def __init__(self, image: NDArray[np.uint8], left: float, bottom: float) -> None:
        super().__init__()
        height, width, _ = image.shape
        self._place = left, bottom
        self._bytes = np.full((height, width, 4), 255, np.uint8)
        self._bytes[:, :, :3] = image[::-1]

    def draw(self, renderer: RendererBase) -> None:
        """Copy the bytes into the picture."""
        context = renderer.new_gc()
        renderer.draw_image(context, *self._place, self._bytes)
        context.restore()


def add_pixels(axes: Axes, image: NDArray[np.uint8]) -> None:
    """Fill axes with an image of their size, pixel by pixel."""
    corner = axes.get_window_extent()
    axes.add_artist(Pixels(image, round(corner.x0), round(corner.y0)))


Runs = Mapping[str, Records]
"""Labels to records; of figures of loops, with the chunks and PEs of one loop each."""

LINES = (
    ("#0072B2", "-"), ("#D55E00", "--"), ("#009E73", "-."), ("#CC79A7", ":"), ("#E69F00", "-"),
    ("#56B4E9", "--"), ("#222222", "-."),
)  # fmt: skip
"""Colours of Okabe and Ito (2008) with line styles, distinguishable in grey as well."""

_MM = 25.4
_DPI = 300.0
_PAPER_STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "lines.linewidth": 1.2,
    "hatch.linewidth": 0.5,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.02,
    "figure.constrained_layout.h_pad": 0.02,
    "savefig.dpi": _DPI,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}


@contextmanager
def paper_style() -> Iterator[None]:
    """Draw under the settings of papers, whatever the user's are."""
    settings: Any = _PAPER_STYLE  # matplotlib types the names one by one
    with picture_style(), matplotlib.rc_context(settings):
        yield


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """One kind of figure."""

    draw: Callable[..., Figure]  # of runs, width and height in mm (None: the usual one), τ in s, options
    meaning: str
    is_single: bool
    of_loops: bool


_FIGURES: dict[str, PaperFigure] = {}


def figures() -> Mapping[str, PaperFigure]:
    """Return all kinds of figures, by the words of the command line: those of the modules of this folder."""
    folder = __name__.rpartition(".")[0]
    for module in iter_modules(import_module(folder).__path__):
        import_module(f"{folder}.{module.name}")
    return dict(sorted(_FIGURES.items()))


def paper_figure(
    word: str,
    meaning: str,
    height: float | Callable[[Runs], float],
    *,
    is_single: bool = False,
    of_loops: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., Figure]]:
    """Declare the function below as the one that draws a kind of figure, usually ``height`` mm high."""

    def declare(draw: Callable[..., None]) -> Callable[..., Figure]:
        @wraps(draw)
        def figure(
            runs: Runs, width: float, tall: float | None = None, tau: float = TAU, **options: Any
        ) -> Figure:
            usual = height(runs) if callable(height) else height
            with paper_style():
                made = Figure(figsize=(width / _MM, (tall or usual) / _MM), dpi=_DPI, layout="constrained")
                FigureCanvasAgg(made)
                draw(made.subplots(), runs, tau, **options)
                if tall is not None:  # whatever its legend takes
                    made.set_figheight(tall / _MM)
            return made

        _FIGURES[word] = PaperFigure(figure, meaning, is_single, of_loops)
        return figure

    return declare


def write_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the suffix of the file."""
    write_picture(figure, path, dpi=_DPI, style=paper_style)


def size_of(axes: Axes) -> tuple[float, float]:
    """Return width and height of the figure that axes are in, in mm."""
    figure = axes.get_figure(root=True)
    assert figure is not None, "they are in one"
    width, height = figure.get_size_inches() * _MM
    return float(width), float(height)


def light_grid(axes: Axes, which: Any = "y") -> None:
    """Draw thin lines at the ticks, behind the data."""
    axes.grid(axis=which, linewidth=0.4, color="#dddddd")
    axes.set_axisbelow(True)


def line_of(place: int) -> tuple[str, str]:
    """Return colour and line style of the run with this index; the styles of a colour are all used."""
    again, colour = divmod(place, len(LINES))
    return LINES[colour][0], LINES[(colour + again) % 4][1]
