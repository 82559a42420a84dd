"""Pictures of studies of runs: curves in panels, and a part of the nodes over time."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.image import imread

from mlsim.analysis.plots import LinePanel, Look, gantt, lines, write_picture
from tests.reference.runs import Job, Stay, records_of

WHITE = [255, 255, 255]
X = [0.0, 1.0, 2.0]


def pixels_of(figure, path):
    return np.rint(imread(write_picture(figure, path))[:, :, :3] * 255).astype(int)


def colours_of(figure):
    return [
        {
            line.get_color() if isinstance(line.get_color(), str) else tuple(line.get_color())
            for line in a.lines
        }
        for a in figure.axes
    ]


def test_panels_have_the_same_axes_and_a_name_one_colour(tmp_path):
    panels = [
        LinePanel("left", {"a": (X, [1, 2, 3]), "b": (X, [2, np.nan, 2])}),
        LinePanel("right", {"b": ([5.0], [-4])}),
    ]
    figure = lines(panels, "title", "x (s)", "y")
    left, right = figure.axes
    assert left.get_xlim() == right.get_xlim()
    assert left.get_ylim() == right.get_ylim()
    assert left.get_xlim()[0] <= 0 < 5 <= left.get_xlim()[1]
    assert left.get_ylim()[0] < -4 < 3 < left.get_ylim()[1]
    both, one = colours_of(figure)
    assert len(both) == 2
    assert one < both
    assert pixels_of(figure, tmp_path / "a.png").shape[1] == 1500
    again = lines(panels, "title", "x (s)", "y")
    write_picture(again, tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_shares_are_in_percent_and_ticks_have_names():
    figure = lines([LinePanel("", {"a": ([0.0, 1.0], [0.2, 0.4])})], "", "", "", Look(percent=True))
    assert figure.axes[0].get_ylim()[0] == 0.0
    assert figure.axes[0].get_ylim()[1] >= 1.0
    look = Look(dots=True, joined=False, ticks={0.0: "off", 1.0: "on"})
    (axes,) = lines([LinePanel("", {"a": ([0.0, 1.0], [3, 4])})], "", "", "", look).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["off", "on"]
    assert axes.lines[0].get_linestyle() == "None"


@pytest.mark.parametrize("panels", [[], [LinePanel("none", {})], [LinePanel("", {"a": ([], [])})]])
def test_nothing_to_draw_is_no_error(panels, tmp_path):
    write_picture(lines(panels, "", "", ""), tmp_path / "a.png")


def test_a_part_of_the_time(tmp_path):
    jobs = [Job(0, 0, 100, 1, 1), Job(0, 100, 200, 1, 1)]
    records = records_of(jobs, [Stay(0, 0, 1, 1, 0, 100), Stay(1, 1, 1, 1, 100, 200)], [1, 1])
    figure = gantt(records, "", (90.0, 130.0))
    axes = figure.axes[0]
    assert axes.get_xlim() == (90.0, 130.0)
    pixels = pixels_of(figure, tmp_path / "a.png")

    def at(x, y):
        column, up = axes.transData.transform((x, y))
        return pixels[int(len(pixels) - up), int(column)].tolist()

    assert at(95, 0.3) != WHITE
    assert at(105, 0.3) == WHITE
    assert at(105, 1.3) != WHITE
    assert at(95, 1.3) == WHITE
    texts = {text.get_text(): text.get_position()[0] for text in axes.texts}
    assert all(90 < place < 130 for place in texts.values())
