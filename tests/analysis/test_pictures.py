"""Pictures compared with references by pixels: a dozen kinds, of small runs that are made here.

References are a third as large as the pictures, and have few colours, so that each takes some kB. After a
change that is meant, ``python -m tests.analysis.test_pictures`` draws them anew: look at them.
"""

from __future__ import annotations

import datetime
import itertools
import re
import zoneinfo
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from mlsim.analysis.plots import (
    LinePanel,
    Look,
    Panel,
    bars,
    chunk_curve,
    chunk_sizes,
    gantt,
    iteration_costs,
    lines,
    pe_timeline,
    utilization_over_time,
)
from mlsim.analysis.plots.chart_style import figures, paper_style, picture_style
from mlsim.analysis.plots.comparison_plots import slowdown_boxes, utilization_lines, weekly_bands
from mlsim.record import Names, OutageKind, PEs, Records, Shared
from mlsim.record.calendar import Calendar
from mlsim.record.record_tables import OwnColumns
from tests.analysis.test_loop_plots import loop_of
from tests.analysis.test_outage_plots import outages
from tests.reference.runs import Job, Stay, records_of

PLACE = Path(__file__).parent / "pictures"
SMALLER = 3
LEVELS = 16  # of each colour in a reference
BLOCK = 20  # side of the squares of a reference that are compared, in its pixels
FARTHEST = 12.0
"""Largest root mean square of the differences in a square, of 255: a lost letter is 30 and more."""


def run(n: int = 40, scale: float = 3600.0, late: float = 0.0) -> Records:
    """A run of jobs of four sizes on eight nodes of two cores, each when the nodes of its size are free."""
    free, rows, stays = [0.0] * 8, [], []
    for k in range(n):
        size = (1, 2, 4, 8)[k * 7 % 4]
        node = (k * 3 % (8 // size)) * size
        submit = k * 0.45
        start = max(submit + late * (k % 3), *free[node : node + size])
        end = start + 0.5 + (k * 5 % 7) * 0.6
        free[node : node + size] = [end] * size
        rows.append(Job(submit * scale, start * scale, end * scale, processors=size * 2, cores=size * 2))
        stays.append(Stay(k, node, size, 2, start * scale, end * scale, released=k % 9 == 8))
    made = records_of(rows, stays, [2] * 8)
    users = np.arange(n) * 5 % 11
    names = Names({"user": {0: "ada", 1: "grace", 2: "edsger"}})
    return replace(made, jobs=replace(made.jobs, user=users, partition=users % 2), names=names)


def with_licences(records: Records) -> Records:
    """The run with nodes out of use, and machine-wide resources with long names."""
    n, names = (
        len(records.jobs.job_id),
        ["matlab", "ansys_fluent_floating", "burst_buffer", "abaqus_standard"],
    )
    shared = Shared(names, ["", "", "MB", ""], np.array([9, 7, 5, 6]))
    asked = {f"request_{name}": np.full(n, k % 2 + 1) for k, name in enumerate(names)}
    drained = (0, OutageKind.ANNOUNCED_DRAIN, 2e4, 4e4), (1, OutageKind.ANNOUNCED_DRAIN, 2e4, 4e4)
    failed = ((6, OutageKind.FAILED, 5e4, 6e4),)
    return replace(records, shared=shared, own=OwnColumns(asked), outages=outages(*drained, *failed))


def with_starts(records: Records) -> Records:
    """The run beside a log in which its jobs waited for other times, some of them for days."""
    jobs = records.jobs
    waits = (jobs.start_time - jobs.submit_time) * (np.arange(len(jobs.job_id)) % 5 / 2) ** 2
    return replace(records, own=OwnColumns({"recorded_start": jobs.submit_time + waits}))


def dated(records: Records) -> Records:
    """The run in the week in which the clocks of Berlin are set back."""
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    zero = datetime.datetime(2006, 10, 28, 9, 30, tzinfo=zone).timestamp()
    return replace(records, calendar=Calendar(zero, zone))


def loop(last: float = 10.0) -> Records:
    """A loop of four PEs whose chunks become smaller."""
    rows, at, first = [], [0.0] * 4, 0
    for step in range(24):
        pe, size = int(np.argmin(at)), max(64 >> (step // 4), 1)
        length = size / 64 * (2.0 + pe * 0.3) + 0.05
        rows.append((pe, step, first, size, at[pe], min(at[pe] + length, last)))
        at[pe] += length + 0.05
        first += size
    made = loop_of(rows, pes=4, end=max(at), cores=[2, 2])
    finish = np.array([max(row[5] for row in rows if row[0] == pe) for pe in range(4)])
    pes = PEs(np.zeros(4, np.int64), np.arange(4, dtype=np.int32), finish, finish, finish)
    return replace(made, pes=pes)


def paper(kind: str, runs: dict[str, Records], **options: str) -> Figure:
    return figures()[kind].draw(runs, 120.0, None, 10.0, **options)


def runs() -> dict[str, Records]:
    """Three runs, of which two are the same."""
    return {"alone": run(late=1.5), "coordinated": run(), "the same again": run()}


X = np.arange(8.0)
COSTS = 1e-3 * (2.0 + np.sin(np.arange(400) / 30.0) + np.arange(400) % 7 / 10.0)
BARS = Panel("dca", ["GSS", "SS"], {"a": [1, 2], "b": [2, 3]}, {"a": [1.1, 1.9]})


def curves(up: int) -> LinePanel:
    """Twelve curves, of which two each are the same."""
    return LinePanel(f"panel {up}", {f"technique {n}": (X, X * (n // 2) + up) for n in range(12)})


PICTURES: dict[str, Callable[[], Figure]] = {
    "gantt": lambda: gantt(with_licences(run()), "demo"),
    "gantt-dates": lambda: gantt(dated(run(80)), "a week"),
    "gantt-by-user": lambda: paper("gantt", {"demo": with_licences(dated(run()))}, colour="user"),
    "utilization-licences": lambda: utilization_over_time(with_licences(run()), "demo"),
    "queue-same-lines": lambda: paper("queue", runs()),
    "wait-ecdf-same-lines": lambda: paper("wait-ecdf", runs()),
    "recorded-ecdf": lambda: paper("recorded-ecdf", {"demo": with_starts(run())}),
    "recorded-waits": lambda: paper("recorded-waits", {"demo": with_starts(run())}),
    "recorded-utilization": lambda: paper("recorded-utilization", {"demo": with_starts(dated(run()))}),
    "slowdown-boxes": lambda: slowdown_boxes(runs(), 10.0),
    "weekly": lambda: weekly_bands({"a": run(60, 5e4), "b": run(60, 5e4, 1.0)}, 10.0),
    "utilization-lines": lambda: utilization_lines({f"a long name, run {k}": run(late=k) for k in range(9)}),
    "pes": lambda: pe_timeline(loop(), "demo"),
    "loop-timeline": lambda: paper("loop-timeline", {"demo": loop()}),
    "imbalance-profile": lambda: paper("imbalance-profile", {"a": loop(), "b": loop(6.0)}),
    "chunk-sizes": lambda: chunk_sizes([chunk_curve(loop().chunks, name) for name in ("GSS", "TSS")], "demo"),
    "costs": lambda: iteration_costs(COSTS, "demo"),
    "bars": lambda: bars([BARS], "demo", "s"),
    "curves": lambda: lines([curves(0), curves(1)], "demo", "x", "y", Look(dots=True)),
}  # fmt: skip


def pixels_of(figure: Figure, style: Callable) -> np.ndarray:
    """Draw a figure, and make it smaller by the mean of squares of pixels; RGB from 0 to 255."""
    with style():
        FigureCanvasAgg(figure).draw()
    drawn = np.asarray(figure.canvas.buffer_rgba())[:, :, :3].astype(float)
    height, width = (size // SMALLER * SMALLER for size in drawn.shape[:2])
    parts = drawn[:height, :width].reshape(height // SMALLER, SMALLER, width // SMALLER, SMALLER, 3)
    return parts.mean(axis=(1, 3))


def drawn(name: str) -> np.ndarray:
    """Draw one of the pictures, those for papers at 150 dpi."""
    made = PICTURES[name]()
    for_papers = made.dpi != 150
    made.set_dpi(150)
    return pixels_of(made, paper_style if for_papers else picture_style)


def farthest(found: np.ndarray, wanted: np.ndarray) -> float:
    """Return the largest root mean square of the differences in squares of a picture."""
    squares = np.square(found - wanted).mean(axis=2)
    height, width = (-(-size // BLOCK) * BLOCK for size in squares.shape)
    whole = np.zeros((height, width))
    whole[: squares.shape[0], : squares.shape[1]] = squares
    means = whole.reshape(height // BLOCK, BLOCK, width // BLOCK, BLOCK).mean(axis=(1, 3))
    return float(np.sqrt(means.max()))


def coarse(picture: np.ndarray) -> np.ndarray:
    step = 255 / (LEVELS - 1)
    return np.rint(picture / step) * step


def wanted_matplotlib() -> str:
    text = Path(__file__).parents[2].joinpath("constraints.txt").read_text(encoding="utf-8")
    found = re.search(r"^matplotlib==(\S+)$", text, re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_those_of_the_references(name: str, tmp_path: Path) -> None:
    if matplotlib.__version__ != wanted_matplotlib():
        pytest.skip(f"references are by Matplotlib {wanted_matplotlib()}, here is {matplotlib.__version__}")
    with Image.open(PLACE / f"{name}.png") as picture:
        wanted = np.asarray(picture.convert("RGB")).astype(float)
    found = drawn(name)
    Image.fromarray(np.rint(found).astype(np.uint8)).save(tmp_path / f"{name}.png")
    assert found.shape == wanted.shape, f"{tmp_path / name}.png has another size"
    assert farthest(coarse(found), wanted) < FARTHEST, f"see {tmp_path / name}.png"


def test_a_lost_legend_a_moved_label_and_another_colour_are_seen() -> None:
    name = "gantt-by-user"
    with Image.open(PLACE / f"{name}.png") as picture:
        wanted = np.asarray(picture.convert("RGB")).astype(float)
    without = wanted.copy()
    without[:12, :60] = 255  # a label of the legend
    assert farthest(without, wanted) > FARTHEST
    assert farthest(np.roll(wanted, 4, axis=0), wanted) > FARTHEST
    other = wanted.copy()
    other[80:100, 100:120, 0] = 255 - other[80:100, 100:120, 0]
    assert farthest(other, wanted) > FARTHEST


def test_labels_of_waits_do_not_meet() -> None:
    long = with_starts(run(scale=2e4))
    figure = figures()["recorded-waits"].draw({"demo": long}, 85.0, None, 10.0)
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert all(one.x1 < other.x0 for one, other in itertools.pairwise(boxes))


@pytest.mark.parametrize("name", PICTURES)
def test_nothing_leaves_the_picture(name: str) -> None:
    """Legends, titles and labels lie within the figure, whatever they say."""
    figure = PICTURES[name]()
    figure.draw_without_rendering()
    whole = figure.bbox
    for legend in [*figure.legends, *(axes.get_legend() for axes in figure.axes)]:
        if legend is not None:
            box = legend.get_window_extent()
            assert box.x0 >= whole.x0 - 1, name
            assert box.x1 <= whole.x1 + 1, name
            assert box.y1 <= whole.y1 + 1, name
    for axes in figure.axes:
        title = axes.title if axes.get_title() else axes._left_title
        legend = axes.get_legend()
        if legend is not None and title.get_text():
            assert not title.get_window_extent().overlaps(legend.get_window_extent()), name


if __name__ == "__main__":
    PLACE.mkdir(exist_ok=True)
    for each in PICTURES:
        made = np.rint(coarse(drawn(each))).astype(np.uint8)
        Image.fromarray(made).quantize(64, dither=Image.Dither.NONE).save(
            PLACE / f"{each}.png", optimize=True
        )
