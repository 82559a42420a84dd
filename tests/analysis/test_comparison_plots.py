"""Pictures that compare runs: their content where it can be told, and that odd runs can be drawn."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.image import imread

from mlsim.analysis.job_metrics import weekly
from mlsim.analysis.plots.chart_style import differ_much
from mlsim.analysis.plots.comparison_plots import (
    draw_comparison,
    pass_times,
    queue_boxes,
    slowdown_boxes,
    utilization_lines,
    weekly_bands,
)
from mlsim.record import Passes
from mlsim.record.derived_times import bounded_slowdown, wait_time
from tests.reference.runs import JOBS, STAYS, Job, Stay, records_of, rejected

WEEK = 7 * 86400


def long_run(wait=3600.0, n=40):
    rows = [Job(at, at + wait * (1 + k % 5), at + wait * 8) for k, at in enumerate(np.arange(n) * WEEK / 8)]
    stays = [Stay(k, 0, 1, 1, row.start, row.end) for k, row in enumerate(rows)]
    return records_of(rows, stays, [4])


def with_passes(records, n=50):
    whole = np.zeros(n, np.int64)
    passes = Passes(np.arange(n) * 1.0, np.arange(n) % 9, whole, whole, whole, np.linspace(1e-6, 9e-6, n))
    return replace(records, passes=passes)


RUNS = {"one": long_run(), "two": long_run(wait=60.0)}
ODD = [
    {"none": records_of(), "nothing": records_of()},
    {"rejected": records_of([rejected(0)]), "one": records_of(JOBS, STAYS, [2, 2])},
    {"at once": records_of([Job(3, 3, 3)], [Stay(0, 0, 1, 1, 3, 3)]), "long": long_run()},
]


def test_a_picture_of_each_kind_as_png_and_pdf(tmp_path):
    written = draw_comparison(tmp_path, {name: with_passes(run) for name, run in RUNS.items()}, 10.0)
    names = ("slowdown", "queue-length", "utilization", "weekly", "pass-time")
    assert sorted(path.name for path in written) == sorted(
        f"{name}{suffix}" for name in names for suffix in (".png", ".pdf")
    )
    for path in written:
        assert path.read_bytes().startswith(b"%PDF" if path.suffix == ".pdf" else b"\x89PNG")
        if path.suffix == ".png":
            image = imread(path)
            assert image.shape[1] == 1500
            assert image.std() > 0.01


def test_the_same_runs_give_the_same_bytes(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        draw_comparison(tmp_path / name, RUNS, 10.0)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


@pytest.mark.parametrize("runs", ODD)
def test_odd_runs_can_be_drawn(tmp_path, runs):
    names = {path.stem for path in draw_comparison(tmp_path, runs, 10.0)}
    assert {"slowdown", "queue-length", "utilization"} <= names
    assert ("weekly" in names) == ("long" in runs)
    assert "pass-time" not in names


def test_weeks_show_what_the_metrics_say():
    axes = weekly_bands(RUNS, 10.0).axes
    assert [panel.get_title("left") for panel in axes][:2] == ["wait (h)", "bounded slowdown"]
    for line, run in zip(axes[0].lines, RUNS.values(), strict=True):
        found = weekly(run.jobs, wait_time(run.jobs))
        np.testing.assert_allclose(line.get_ydata(), found.cumulative_mean / 3600)
        np.testing.assert_array_equal(line.get_xdata(), found.week)
    assert axes[0].get_yscale() == "log"  # one run waits sixty times as long
    assert axes[1].get_yscale() == "linear"  # with the same slowdowns


def test_boxes_show_means():
    figure = slowdown_boxes(RUNS, 10.0)
    marks = [line for line in figure.axes[1].lines if line.get_marker() == "D"]
    means = [float(np.mean(bounded_slowdown(run.jobs))) for run in RUNS.values()]
    assert [float(mark.get_ydata()[0]) for mark in marks] == pytest.approx(means)
    assert [label.get_text() for label in figure.axes[1].get_xticklabels()] == list(RUNS)


def test_queue_lengths_at_passes_are_drawn_where_all_runs_have_them():
    full = {name: with_passes(run) for name, run in RUNS.items()}
    assert [axes.get_title("left") for axes in queue_boxes(full).axes] == ["over time", "at passes"]
    assert [axes.get_title("left") for axes in queue_boxes({**full, "one": RUNS["one"]}).axes] == [
        "over time"
    ]


def test_utilization_ends_with_the_run():
    short, run = long_run(n=5), long_run()
    lines = utilization_lines({"short": short, "long": run}).axes[0].patches
    values = lines[0].get_data().values
    assert np.isnan(values[-1])
    assert not np.isnan(values[0])
    assert not np.isnan(lines[1].get_data().values).any()


def test_pass_times_are_medians_by_queue_length():
    axes = pass_times({"one": with_passes(long_run()), "two": with_passes(long_run())}).axes[0]
    records = with_passes(long_run())
    middle = axes.lines[0].get_xdata()
    assert middle[0] == 0
    alone = np.median(records.passes.wall_time[records.passes.queue_length == 0]) * 1e6
    assert axes.lines[0].get_ydata()[0] == pytest.approx(alone)


def test_names_that_do_not_fit_stand_upright():
    names = [f"a-rather-long-name-of-a-run-{number}" for number in range(9)]
    figure = slowdown_boxes(dict.fromkeys(names, RUNS["one"]), 10.0)
    assert {label.get_rotation() for label in figure.axes[0].get_xticklabels()} == {90}
    flat = slowdown_boxes(RUNS, 10.0)
    assert {label.get_rotation() for label in flat.axes[0].get_xticklabels()} == {0}


def test_differ_much():
    assert differ_much([1, 100])
    assert not differ_much([1, 9])
    assert not differ_much([0, 9])
    assert not differ_much([])
