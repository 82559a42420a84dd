"""Pictures of loops: chunk sizes, PEs over time, bars."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.image import imread

from mlsim.analysis.plots import Panel, bars, chunk_curve, chunk_sizes, pe_timeline, write_picture
from mlsim.analysis.plots.chart_style import Thinned, are_new, scale_palette, span_axis
from mlsim.analysis.plots.gantt_plot import Raster
from mlsim.analysis.plots.loop_plots import Bands
from mlsim.record import Chunks, empty
from tests.reference.runs import Job, Stay, loops_of, records_of

WHITE = [255, 255, 255]


def chunks_of(rows):
    """Chunks of job 0 from rows of (pe, step, first, size, start, end)."""
    pe, step, first, size, start, end = (np.array(column) for column in zip(*rows, strict=True))
    return Chunks(
        np.zeros(len(pe), np.int64),
        pe.astype(np.int32),
        step.astype(np.int64),
        first.astype(np.int64),
        size.astype(np.int64),
        start.astype(float),
        start.astype(float),
        end.astype(float),
    )


def loop_of(rows, pes=2, end=10.0, cores=None):
    cores = cores or [pes]
    finish = [max([row[5] for row in rows if row[0] == pe], default=0.0) for pe in range(pes)]
    loop = {"pes": pes, "steps": len(rows), "mean_finish": np.mean(finish), "max_finish": max(finish)}
    return records_of(
        [Job(0, 0, end, pes, pes)],
        [Stay(0, node, 1, count, 0, end) for node, count in enumerate(cores)],
        cores,
        chunks=chunks_of(rows),
        loops=loops_of([loop]),
    )


class Picture:
    """A written picture, read at data coordinates of its first axes."""

    def __init__(self, figure, path):
        self.pixels = np.rint(imread(write_picture(figure, path))[:, :, :3] * 255).astype(int)
        self.axes = figure.axes[0]

    def at(self, x, y):
        column, up = self.axes.transData.transform((x, y))
        return self.pixels[int(len(self.pixels) - up), int(column)].tolist()


def test_pes_are_coloured_by_chunk_size_where_they_execute(tmp_path):
    rows = [(0, 0, 0, 100, 1, 5), (0, 1, 100, 1, 6, 8), (1, 2, 101, 100, 2, 9)]
    picture = Picture(pe_timeline(loop_of(rows), "demo"), tmp_path / "pes.png")
    large, small = picture.at(3, 0.4), picture.at(7, 0.4)
    assert large != small
    assert WHITE not in (large, small)
    assert picture.at(5, 1.4) == large
    assert sum(large) < sum(small)  # darker
    for x, y in ((0.5, 0.4), (5.5, 0.4), (9, 0.4), (1, 1.4), (9.5, 1.4)):
        assert picture.at(x, y) == WHITE


def test_nodes_are_parted_where_there_is_room():
    rows = [(pe, pe, pe, 1, 0, 5) for pe in range(4)]
    assert len(pe_timeline(loop_of(rows, 4, cores=[2, 2]), "").axes[0].lines) == 1
    assert len(pe_timeline(loop_of(rows, 4, cores=[4]), "").axes[0].lines) == 0


def test_thousands_of_pes_are_binned(tmp_path):
    pes = 5000
    rows = [(pe, pe, pe, 1 + pe % 7, 0, 5 + pe / pes) for pe in range(pes)]
    figure = pe_timeline(loop_of(rows, pes), "demo")
    picture = Picture(figure, tmp_path / "pes.png")
    assert len(picture.pixels) < 1200
    assert picture.at(2, 2500) != WHITE
    assert picture.at(9, 2500) == WHITE


@pytest.mark.parametrize(
    ("end", "unit", "shown"),
    [(5e-5, "µs", 50), (0.02, "ms", 20), (20, "s", 20), (1200, "min", 20), (0, "µs", 1)],
)
def test_loops_of_any_length_have_a_fitting_unit(end, unit, shown):
    axis = span_axis(end)
    assert axis.unit == unit
    assert axis.end / axis.seconds == pytest.approx(shown)


@pytest.mark.slow
def test_a_curve_keeps_every_point_that_can_be_seen():
    n = 200_000
    step = np.arange(n)
    size = np.where(step % 1000 == 0, 500, 1 + step % 3)
    rows = np.zeros(n)
    chunks = chunks_of(np.stack([rows, step, rows, size, rows, rows]).T.tolist())
    curve = chunk_curve(chunks, "demo")
    assert curve.steps == n
    assert len(curve.step) < 10_000
    assert sorted(set(curve.size.tolist())) == [1, 2, 3, 500]
    spikes = curve.step[curve.size == 500]
    assert spikes.tolist() == list(range(0, n, 1000))


def test_a_short_curve_is_complete_and_steps_that_repeat_are_numbered():
    rows = [(0, 0, 0, 5, 0, 1), (1, 0, 5, 4, 0, 1), (0, 1, 9, 3, 1, 2)]
    curve = chunk_curve(chunks_of(rows), "demo")
    assert (curve.step.tolist(), curve.size.tolist()) == ([0, 1, 2], [5, 4, 3])
    rows = [(0, 2, 0, 5, 0, 1), (1, 0, 5, 4, 0, 1), (0, 1, 9, 3, 1, 2)]
    curve = chunk_curve(chunks_of(rows), "demo")
    assert dict(zip(curve.step.tolist(), curve.size.tolist(), strict=True)) == {2: 5, 0: 4, 1: 3}


def test_every_loop_has_a_panel_of_the_same_scale():
    short = chunk_curve(chunks_of([(0, 0, 0, 1000, 0, 1)]), "one")
    long = chunk_curve(chunks_of([(0, k, k, 1, k, k + 1) for k in range(50)]), "other")
    figure = chunk_sizes([short, long, long, long, long], "demo")
    assert len(figure.axes) == 5
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    assert figure.axes[1].get_title(loc="left") == "other"
    assert "50 chunks" in figure.axes[1].get_xlabel()
    assert chunk_sizes([short], "demo").axes[0].get_title(loc="left") == "demo"


def test_empty_loops_are_drawn(tmp_path):
    nothing = chunk_curve(empty(Chunks), "none")
    assert write_picture(chunk_sizes([nothing], "demo"), tmp_path / "a.png").stat().st_size > 1000
    records = records_of([Job(0, 0, 0.0)], [Stay(0, 0, 1, 1, 0, 0)], [1], loops=loops_of([{"pes": 1}]))
    assert write_picture(pe_timeline(records, "demo"), tmp_path / "b.png").stat().st_size > 1000


def test_bars_and_the_marks_on_them(tmp_path):
    panel = Panel(
        "slow",
        ["SS", "GSS"],
        {"cca": [233.0, 236.0], "dca": [109.0, float("nan")]},
        {"cca": [240.0, float("nan")]},
    )
    figure = bars([panel, panel, panel], "demo", "T_loop (s)")
    heights = [patch.get_height() for patch in figure.axes[0].patches]
    assert heights == [233, 236, 109, 0]
    assert figure.axes[0].get_ylim()[1] > 240
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["cca", "dca", "source"]
    assert (
        write_picture(figure, tmp_path / "a.png").read_bytes()
        == write_picture(bars([panel] * 3, "demo", "T_loop (s)"), tmp_path / "b.png").read_bytes()
    )


@pytest.mark.parametrize("height", [1, 3, 4, 5])
@pytest.mark.parametrize("seed", range(5))
def test_bands_are_painted_as_rectangles_are(height, seed):
    random = np.random.default_rng(seed)
    n, bands, across = 400, 7, 3.7
    band = random.integers(0, bands, n).astype(np.int32)
    start = random.uniform(-5, 30, n)
    end = start + random.choice([0.0, 0.01, 1.0, 5.0], n)
    value = random.integers(10, 20, n)
    colours = random.permutation(256)[:10].astype(np.uint8)
    shape = (height * bands, 90)
    painted, raster = Bands(shape, bands), Raster(shape)
    of_rows = colours[value - 10].astype(np.int64)
    painted.paint(band, start * across, end * across, of_rows)
    top = band * float(height)
    raster.paint(start * across, end * across, top, top + height, np.ones(n), of_rows)
    palette = scale_palette()
    assert (painted.image(palette) == raster.image(palette)).all()
    assert len(np.unique(painted.image(palette).reshape(-1, 3), axis=0)) > 10


def test_more_sizes_than_are_listed_have_the_same_colours(monkeypatch):
    random = np.random.default_rng(1)
    rows = [
        (pe, pe, pe, int(size), pe / 100, 1 + pe / 7) for pe, size in enumerate(random.integers(1, 99, 60))
    ]
    listed = drawn(pe_timeline(loop_of(rows, 60), "demo"))
    monkeypatch.setattr("mlsim.analysis.plots.loop_plots._LISTED", 5)
    assert (drawn(pe_timeline(loop_of(rows, 60), "demo")) == listed).all()


def drawn(figure):
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba()).copy()


@pytest.mark.parametrize("n", [1, 5, 1499, 1500, 1501, 4001])
def test_points_of_a_curve_are_the_first_of_their_column_and_size(n):
    random = np.random.default_rng(n)
    step = np.clip(np.arange(n) + random.integers(-2, 3, n), 0, n - 1)
    size = random.integers(1, 4, n)
    thinned = Thinned(n, 1500)
    for part in np.array_split(np.arange(n), 3):
        thinned.add(step[part], size[part])
    first = {}
    for at in range(n):
        first.setdefault((min(n, 1500) * int(step[at]) // n, int(size[at])), (int(step[at]), int(size[at])))
    assert list(zip(*(values.tolist() for values in thinned.points()), strict=True)) == [
        first[key] for key in sorted(first)
    ]


def test_steps_are_new_once():
    seen = np.zeros(3, np.uint8)
    assert are_new(np.array([0, 7, 8, 23]), seen)
    assert are_new(np.array([1, 22]), seen)
    assert not are_new(np.array([2, 22, 3]), seen)
    assert not are_new(np.array([5, 5]), seen)
