"""Nodes out of use in the pictures of a run: hatched nodes over time, and the capacity line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlsim.analysis.plots import gantt, utilization_over_time
from mlsim.analysis.plots import utilization_plot as plots
from mlsim.analysis.plots.chart_style import time_axis
from mlsim.analysis.plots.utilization_plot import capacity_share, out_of_use_boxes
from mlsim.record import OutageKind, Outages, empty
from tests.analysis.test_plots import WHITE, Picture
from tests.reference.runs import Job, Stay, records_of


def outages(*rows) -> Outages:
    """Rows of (node, kind, start, end)."""
    node, kind, start, end = zip(*rows, strict=True)
    return Outages(
        np.array(node), np.array(kind, np.int8), np.array(start, np.float64), np.array(end, np.float64)
    )


def run_with(*rows, nodes=4):
    """One job on the first node for 100 s, and nodes of one core, the last of four."""
    records = records_of([Job(0, 0, 100)], [Stay(0, 0, 1, 1, 0, 100)], [1] * (nodes - 1) + [4])
    return replace(records, outages=outages(*rows))


FAILED, DRAINED, ANNOUNCED = OutageKind.FAILED, OutageKind.DRAINED, OutageKind.ANNOUNCED_DRAIN


def test_what_was_out_of_use_is_hatched_by_kind(tmp_path):
    records = run_with((1, FAILED, 20, 40), (2, ANNOUNCED, 50, 90), (3, ANNOUNCED, 50, 90))
    figure = gantt(records, "demo")
    axes = figure.axes[0]
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["failed", "drained, announced"]
    failed, announced = axes.collections
    assert failed.get_hatch() != announced.get_hatch()
    assert announced.get_paths()[0].get_extents().bounds == (50, 2, 40, 2)  # both nodes in one
    picture = Picture(figure, tmp_path / "gantt.png")
    assert picture.at(10, 1.5) == picture.at(45, 1.5) == WHITE
    assert any(picture.at(30, node) != WHITE for node in np.linspace(1.1, 1.9, 30))
    assert any(picture.at(70, node) != WHITE for node in np.linspace(2.1, 3.9, 60))


def test_very_many_stretches_are_tinted(tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "_HATCHED", 1)
    records = run_with((1, DRAINED, 20, 40), (3, DRAINED, 50, np.nan))
    picture = Picture(gantt(records, "demo"), tmp_path / "gantt.png")
    assert picture.at(30, 1.5) == picture.at(99, 3.5) != WHITE
    assert picture.at(30, 3.5) == WHITE


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4), st.just(FAILED), st.integers(-3, 12), st.one_of(st.none(), st.integers(1, 9))
        ),
        max_size=8,
    )
)
def test_boxes_hold_what_was_out_of_use_and_nothing_else(rows):
    rows = [
        (node, kind, start, np.nan if length is None else start + length)
        for node, kind, start, length in rows
    ]
    table = outages(*rows) if rows else outages((0, FAILED, 20, 30))
    boxes = out_of_use_boxes(table, 0.0, 10.0)
    for node in range(5):
        for time in np.arange(0.5, 10):
            mine = [row for row in rows if row[0] == node and row[2] <= time]
            inside = (
                (boxes[:, 0] <= time) & (time < boxes[:, 1]) & (boxes[:, 2] <= node) & (node < boxes[:, 3])
            )
            assert inside.sum() == any(not row[3] <= time for row in mine)


def test_the_capacity_line_counts_cores_in_use_once():
    # 7 cores; the last node has 4 of them. Two outages of it overlap from 40 to 60.
    records = run_with((3, DRAINED, 20, 60), (3, FAILED, 40, 80), (1, ANNOUNCED, 90, np.nan))
    share = capacity_share(records, time_axis(records.jobs), 10)
    assert share == pytest.approx(np.array([7, 7, 3, 3, 3, 3, 3, 3, 7, 6]) / 7)
    axes = utilization_over_time(records, "demo").axes[0]
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend[2:] == ["out of use", f"capacity (mean {100 * share.mean():.1f} %)"]


def test_without_outages_there_is_no_capacity_line():
    records = replace(run_with((3, DRAINED, 20, 60)), outages=empty(Outages))
    axes = utilization_over_time(records, "demo").axes[0]
    assert len(axes.get_legend().get_texts()) == 2
