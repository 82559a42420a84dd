import io
import sys
from dataclasses import replace
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from mlsim.analysis.plots import gantt, utilization_over_time, utilization_plot, write_picture
from mlsim.analysis.plots.chart_style import DPI, job_palette, time_axis
from mlsim.analysis.plots.gantt_plot import FAINTEST, Raster, boxes, job_colours
from mlsim.analysis.plots.utilization_plot import allocated_share, binned_average, busy_share, waiting_jobs
from mlsim.errors import OutputError
from mlsim.record import Chunks, Jobs, Occupancy, Records, table_blocks
from mlsim.record.table_blocks import rows_of
from tests.reference import metrics as slow
from tests.reference.runs import JOBS, STAYS, Job, Stay, loops_of, records_of, rejected

WHITE = [255, 255, 255]


def colour_of(job_id):
    return np.rint(job_palette()[job_colours(np.array([job_id]))[0]] * 255).astype(int).tolist()


class Picture:
    """A written picture, read at data coordinates of its first axes."""

    def __init__(self, figure, path):
        self.pixels = np.rint(imread(write_picture(figure, path))[:, :, :3] * 255).astype(int)
        self.axes = figure.axes[0]

    def at(self, x, y):
        column, up = self.axes.transData.transform((x, y))
        return self.pixels[int(len(self.pixels) - up), int(column)].tolist()


def test_a_job_has_its_colour_where_it_ran(tmp_path):
    jobs = [Job(0, 0, 40, job_id=3), Job(0, 50, 100, job_id=11)]
    stays = [Stay(0, 0, 1, 1, 0, 40), Stay(1, 1, 2, 1, 50, 100)]
    picture = Picture(gantt(records_of(jobs, stays, [1, 1, 1]), "demo"), tmp_path / "gantt.png")
    assert picture.at(30, 0.3) == colour_of(3)
    assert picture.at(60, 1.3) == picture.at(60, 2.7) == colour_of(11)
    for x, y in ((30, 1.5), (30, 2.5), (45, 0.5), (60, 0.5)):
        assert picture.at(x, y) == WHITE


def test_nodes_shared_by_jobs_are_divided_among_their_cores(tmp_path):
    jobs = [Job(0, 0, 100, job_id=3), Job(0, 0, 50, job_id=4), Job(0, 60, 100, job_id=5)]
    stays = [Stay(0, 0, 1, 1, 0, 100), Stay(1, 0, 2, 2, 0, 50), Stay(2, 0, 1, 3, 60, 100)]
    picture = Picture(gantt(records_of(jobs, stays, [4, 4]), "demo"), tmp_path / "gantt.png")
    assert picture.at(30, 0.1) == picture.at(80, 0.1) == colour_of(3)
    assert picture.at(30, 0.4) == picture.at(30, 0.65) == picture.at(30, 1.1) == colour_of(4)
    assert picture.at(80, 0.4) == picture.at(80, 0.9) == colour_of(5)
    assert picture.at(30, 0.9) == picture.at(30, 1.6) == WHITE


def test_neighbours_by_identifier_differ_and_a_job_keeps_its_colour():
    ids = np.arange(-5, 500)
    colours = job_colours(ids)
    assert np.all(np.diff(colours) != 0)
    assert colours.min() >= 0
    assert colours.max() < len(job_palette())
    assert job_colours(ids[::-1])[::-1].tolist() == colours.tolist()


def test_released_nodes_are_marked_with_a_legend():
    figure = gantt(records_of(JOBS, STAYS, [2, 2]), "demo")
    axes = figure.axes[0]
    (marks,) = axes.lines
    assert (marks.get_xdata().tolist(), marks.get_ydata().tolist()) == ([25], [1.5])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["node released early"]


def test_without_releases_there_is_no_legend():
    axes = gantt(records_of(JOBS[:1], STAYS[:1], [2, 2]), "demo").axes[0]
    assert axes.get_legend() is None
    assert axes.get_title(loc="left") == "demo"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["n0", "n1"]


@pytest.mark.parametrize(
    ("end", "label"), [(100, "time (s)"), (3600, "time (min)"), (86400, "time (h)"), (1e6, "time (d)")]
)
def test_the_time_axis_has_a_fitting_unit(end, label):
    records = records_of([Job(0, 0, end)], [Stay(0, 0, 1, 1, 0, end)])
    for figure in (gantt(records, ""), utilization_over_time(records, "")):
        axes = figure.axes[-1]
        assert axes.get_xlabel() == label
        assert axes.get_xlim()[1] * time_axis(records.jobs).seconds == pytest.approx(end)


def write_pictures(directory, records):
    write_picture(gantt(records, "demo"), directory / "gantt.png")
    write_picture(utilization_over_time(records, "demo"), directory / "utilization.png")
    return [directory / "gantt.png", directory / "utilization.png"]


def random_run(n_jobs, n_nodes, cores=2, seed=0):
    """Jobs on random neighbouring nodes; they may overlap."""
    rng = np.random.default_rng(seed)
    start = np.sort(rng.uniform(0, 1e6, n_jobs))
    end = start + rng.exponential(2000, n_jobs)
    row, one = np.arange(n_jobs), np.ones(n_jobs, np.int64)
    zero = np.zeros(n_jobs, np.int8)
    count = rng.integers(1, 4, n_jobs)
    jobs = Jobs(
        row,
        start - 60,
        start,
        end,
        end - start,
        end - start,
        end - start,
        count,
        count * cores,
        count,
        zero,
        zero > 0,
        one,
        one,
        one,
        one,
        one,
    )
    node = rng.integers(0, n_nodes - 4, n_jobs)
    held = Occupancy(row, node, count, one * cores, start, end, rng.random(n_jobs) < 0.1)
    whole = records_of(cores=[cores] * n_nodes)
    return Records(whole.nodes, jobs, held, whole.loops, whole.chunks, whole.pes, whole.messages)


@pytest.mark.parametrize("make", [gantt, utilization_over_time])
@pytest.mark.parametrize(
    "records",
    [
        records_of(),
        records_of([rejected(0)], cores=[4] * 3),
        records_of(cores=[]),
        records_of(JOBS, STAYS, [2, 2]),
    ],
)
def test_small_and_empty_runs_are_drawn(make, records, tmp_path):
    assert write_picture(make(records, "demo"), tmp_path / "a.png").stat().st_size > 1000


def test_a_large_run_is_drawn(tmp_path):
    records = random_run(200_000, 5000)
    written = write_pictures(tmp_path, records)
    picture = imread(written[0])
    assert picture.shape[0] < 1200


def test_the_same_records_give_the_same_bytes_whatever_the_users_settings(tmp_path):
    records = random_run(500, 20)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = write_pictures(tmp_path / "a", records)
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "savefig.bbox": "tight"}):
        second = write_pictures(tmp_path / "b", records)
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_a_picture_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(OutputError) as caught:
        write_pictures(tmp_path / "missing", records_of(JOBS, STAYS, [2, 2]))
    assert str(tmp_path / "missing" / "gantt.png") in str(caught.value)


def test_titles_are_not_read_as_formulas(tmp_path):
    figure = gantt(records_of(), "a $ of_b $ c")
    figure.savefig(io.BytesIO(), format="png", dpi=DPI)
    assert figure.axes[0].get_title(loc="left") == "a $ of_b $ c"


def paint(rectangles, shape=(4, 6)):
    left, right, top, bottom, weight = (np.array(column, float) for column in zip(*rectangles, strict=True))
    palette = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    colour = np.arange(len(rectangles)) % 2
    raster = Raster(shape)
    raster.paint(left, right, top, bottom, weight, colour)
    return raster.image(palette)


def test_pixels_take_the_colour_of_the_largest_part():
    image = paint([(0, 2.4, 0, 1, 1), (2.4, 4, 0, 1, 1)])
    assert image[0, :, 0].tolist() == [0, 0, 255, 255, 255, 255]
    assert image[0, :, 1].tolist() == [0, 0, 0, 0, 255, 255]
    assert np.all(image[1:] == 255)


def test_a_pixel_is_fainter_the_less_of_it_is_covered():
    image = paint([(0.5, 1, 0, 1, 1), (2, 3, 0, 1, 0.5), (4, 4.001, 0, 1, 1)])
    faint = round(255 * (1 - FAINTEST))
    assert image[0, :, 1].tolist() == [128, 255, 128, 255, faint, 255]


def test_what_lies_outside_is_cut_off():
    assert np.all(paint([(-5, 20, -5, 20, 1)], shape=(3, 3))[:2, :2] == 0)
    assert np.all(paint([(7, 9, 0, 1, 1), (0, 1, 5, 6, 1), (-3, -1, 0, 1, 1)]) == 255)


RECTANGLES = st.tuples(st.floats(-2, 8), st.floats(0, 8), st.floats(-2, 6), st.floats(0, 3.9), st.just(1.0))


@settings(deadline=None)
@given(RECTANGLES)
def test_strength_is_the_covered_area(sizes):
    x, width, y, height, _ = sizes
    image = paint([(x, x + width, y, y + height, 1.0)])
    for row in range(4):
        for column in range(6):
            part = overlap(x, x + width, column) * overlap(y, y + height, row)
            expected = 255 * (1 - (max(part, FAINTEST) if part > 1e-9 else 0))
            if part > 1e-9 or part == 0:
                assert image[row, column, 0] == pytest.approx(expected, abs=1)


def overlap(low, high, pixel):
    return max(0.0, min(high, pixel + 1) - max(low, pixel))


def test_boxes_of_whole_nodes_and_of_shares():
    records = records_of(JOBS, [Stay(0, 0, 2, 2, 0, 10), Stay(1, 2, 1, 1, 0, 10)], [2, 2, 4])
    shares = boxes(records, by_core=False)
    assert shares.top.tolist() == [0, 2]
    assert shares.bottom.tolist() == [2, 3]
    assert shares.weight.tolist() == [1, 0.25]
    cores = boxes(records, by_core=True)
    assert cores.row.tolist() == [0, 1]
    assert (cores.top.tolist(), cores.bottom.tolist()) == ([0, 2], [2, 2.25])
    assert cores.weight.tolist() == [1, 1]


INTERVALS = st.lists(st.tuples(st.floats(-5, 25), st.floats(0, 10)), max_size=15)


@settings(deadline=None)
@given(INTERVALS, st.integers(1, 7))
def test_bins_hold_exact_averages(intervals, bins):
    begin = np.array([low for low, _ in intervals], float)
    end = np.array([low + length for low, length in intervals], float)
    result = binned_average(begin, end, 1.0, (0.0, 20.0), bins)
    edges = np.linspace(0, 20, bins + 1)
    expected = [slow.average(begin, end, low, high) for low, high in pairwise(edges)]
    assert result == pytest.approx(expected, abs=1e-9)


def test_bins_leave_undefined_intervals_out():
    nan = float("nan")
    result = binned_average(
        np.array([0.0, nan, 1.0]), np.array([4.0, 2.0, nan]), [2.0, 5.0, 5.0], (0.0, 4.0), 2
    )
    assert result.tolist() == [2, 2]


def test_shares_over_time():
    records = records_of(JOBS, STAYS, [2, 2])
    axis = time_axis(records.jobs)
    assert (axis.begin, axis.end) == (0, 34)
    assert allocated_share(records, axis, 17)[[0, 6, 13, 16]] == pytest.approx([0.5, 1, 0.5, 0.5])
    # Job 2 computes on 3 processors for 20 s and holds 70 core-seconds; job 3 on one of its two cores.
    assert busy_share(records, axis, 17)[[0, 6, 13, 16]] == pytest.approx([0.5, 60 / 70, 0.5 * 60 / 70, 0.25])
    assert waiting_jobs(records, axis, 34)[[0, 5, 8, 20, 31]] == pytest.approx([1, 2, 3, 2, 0])


def test_busy_follows_the_chunks_where_there_are_any():
    one = np.ones(2, np.int64)
    chunks = Chunks(
        one * 0,
        np.array([0, 1], np.int32),
        one,
        one,
        one,
        one * 0.0,
        np.array([0.0, 0.0]),
        np.array([10.0, 4.0]),
    )
    loops = loops_of([{"job": 0, "busy": 14.0}])
    records = records_of([Job(0, 0, 10, 2, 2)], [Stay(0, 0, 1, 2, 0, 10)], [2], chunks=chunks, loops=loops)
    axis = time_axis(records.jobs)
    assert busy_share(records, axis, 5) == pytest.approx([1, 1, 0.5, 0.5, 0.5])


def test_many_jobs_are_drawn_some_after_the_other(monkeypatch):
    records = random_run(300, 40)
    order = np.argsort(records.occupancy.start, kind="stable")
    records = replace(records, occupancy=rows_of(records.occupancy, order))

    def drawn():
        axis = time_axis(records.jobs)
        shares = [share(records, axis, 50) for share in (allocated_share, busy_share, waiting_jobs)]
        pixels = io.BytesIO()
        gantt(records, "many").savefig(pixels, format="png", dpi=DPI)
        return axis, np.stack(shares), pixels.getvalue()

    # the package has a function of the module's name
    monkeypatch.setattr(sys.modules["mlsim.analysis.plots.gantt_plot"], "_BY_CORE_ROWS", 0)
    axis, shares, pixels = drawn()
    monkeypatch.setattr(table_blocks, "LONG_ROWS", 0)
    monkeypatch.setattr(table_blocks, "BLOCK_ROWS", 37)
    monkeypatch.setattr(utilization_plot, "BLOCK_ROWS", 37)
    assert drawn()[0] == axis
    np.testing.assert_allclose(drawn()[1], shares, atol=1e-12)
    assert drawn()[2] == pixels


def test_shares_average_to_the_metrics():
    records = random_run(300, 40)
    axis = time_axis(records.jobs)
    mean = allocated_share(records, axis, 100).mean() * (axis.end - axis.begin) * 80
    held = records.occupancy
    assert mean == pytest.approx(np.sum(held.count * held.cores * (held.end - held.start)))
