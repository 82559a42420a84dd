"""Colours of jobs by user and partition, and lines that cover each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.patches import Patch

from mlsim.analysis.plots import LinePanel, lines
from mlsim.analysis.plots.chart_style import canvas, job_palette, line_of, picture_style
from mlsim.analysis.plots.job_colours import colours_of, known_colours
from mlsim.analysis.plots.legends import legend, tell_apart, title_with_legend
from mlsim.errors import InputError
from mlsim.record import Names
from tests.reference.runs import Job, Stay, records_of


def run(users: list[int]):
    """Jobs one after the other on a node; job k runs k + 1 s."""
    ends = np.cumsum(np.arange(1, len(users) + 1)).tolist()
    rows = [Job(0, end - k - 1, end) for k, end in enumerate(ends)]
    stays = [Stay(k, 0, 1, 1, row.start, row.end) for k, row in enumerate(rows)]
    made = records_of(rows, stays, [1])
    return replace(made, jobs=replace(made.jobs, user=np.array(users)))


def test_users_are_named_with_their_part_of_the_core_seconds_largest_first() -> None:
    records = replace(run([7, 3, 7, -1]), names=Names({"user": {7: "ada"}}))
    found = colours_of(records, "user")
    assert found.entries == [("ada (40.0 %)", 0), ("user 3 (20.0 %)", 1), ("unknown (40.0 %)", 22)]
    assert found.row.tolist() == [0, 1, 0, 22]


def test_users_beyond_the_hues_share_a_grey() -> None:
    found = colours_of(run(list(range(10))), "user")
    others = len(job_palette())
    assert found.row.tolist() == [others] * 3 + [6, 5, 4, 3, 2, 1, 0]
    assert found.entries[-1] == ("3 others (10.9 %)", others)


def test_names_that_users_share_have_their_numbers() -> None:
    found = colours_of(replace(run([1, 2]), names=Names({"user": {1: "ada", 2: "ada"}})), "user")
    assert [words for words, _ in found.entries] == ["ada [2] (66.7 %)", "ada [1] (33.3 %)"]


def test_what_no_job_has_is_told_with_what_some_have() -> None:
    with pytest.raises(InputError, match="no job of this run has a known partition; allowed here: job, user"):
        colours_of(run([1, 2]), "partition")
    assert list(known_colours(run([1, 2]))) == ["user"]
    assert not known_colours(run([1, 1]))


def test_lines_that_cover_each_other_are_dashes_in_turn_and_others_stay() -> None:
    series = {"a": ([0, 1], [1, 2]), "b": ([0, 1], [1, 2]), "c": ([0, 1], [2, 1])}
    (axes,) = lines([LinePanel("", series)], "", "", "").axes
    a, b, c = axes.lines
    assert (a.is_dashed(), b.is_dashed(), c.is_dashed()) == (True, True, False)
    (first, pattern), (second, other) = a._dash_pattern, b._dash_pattern
    assert pattern == other
    assert (first - second) % sum(pattern) == pytest.approx(sum(pattern) / 2)
    axes.axhline(1.0)
    axes.axhline(1.0)
    tell_apart(axes)
    assert not axes.lines[-1].is_dashed()  # spans the axes, at one level


def test_looks_of_runs_differ_beyond_the_colours() -> None:
    assert len({line_of(place) for place in range(28)}) == 28


@pytest.mark.parametrize(("n", "letters"), [(1, 400), (3, 90), (12, 30), (60, 8)])
def test_legends_of_any_length_stay_in_the_picture(n: int, letters: int) -> None:
    for of_axes in (False, True):
        with picture_style():
            figure = canvas(450)
            axes = figure.add_axes((0.1, 0.1, 0.85, 0.6))
            before = axes.get_window_extent().height
            handles = [Patch(label=f"{k}" + "m" * letters) for k in range(n)]
            if of_axes:
                title_with_legend(axes, "title", handles)
            else:
                legend(figure, handles)
            figure.draw_without_rendering()
        found = axes.get_legend() if of_axes else figure.legends[0]
        box, data = found.get_window_extent(), axes.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1
        assert len(found.get_texts()) == n
        assert data.height == pytest.approx(before)  # the picture grew, and not the data shrank
        assert box.y0 > data.y1 - 1
