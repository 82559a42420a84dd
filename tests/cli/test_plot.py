"""`mlsim plot`: every kind in every format, its size, what it refuses, and that figures show the numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import mlsim
from mlsim.analysis.plots.chart_style import figures, time_axis
from mlsim.analysis.plots.job_colours import COLOURED_BY, colours_of
from mlsim.analysis.plots.paper_runs import queue, utilization_lines
from mlsim.cli.main import app
from mlsim.cli.reports import Colouring, PlotKind
from mlsim.errors import InputError
from mlsim.experiment.stored_runs import read_run


def plot(*words: object) -> str:
    done = CliRunner().invoke(app, ["plot", *map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    log = place / "log.swf"  # with recorded waits
    lines = [line.split() for line in Path("traces/quickstart.swf").read_text().splitlines()]
    waits = (
        [*row[:2], str(60 * (k % 50)), *row[3:]] if row and row[0][0] != ";" else row
        for k, row in enumerate(lines)
    )
    log.write_text("".join(" ".join(row) + "\n" for row in waits))
    nodes = [{"name": "n", "count": 16, "cores": 16, "power": {"idle": "90 W", "busy": "200 W"}}]
    for technique in ("GSS", "STATIC"):
        settings = {"application.technique": technique, "platform.nodes": nodes, "workload.path": log}
        mlsim.run("scenarios/quickstart.yaml", settings, out=place / technique)
    mlsim.run("scenarios/maintenance.yaml", out=place / "maintained")
    return place


def test_the_words_of_the_command_are_those_of_the_figures() -> None:
    assert sorted(get_args(PlotKind)) == sorted(figures())


@pytest.mark.slow
@pytest.mark.parametrize("kind", figures())
def test_every_kind_has_the_width_of_a_column_and_text_in_it(kind: str, runs: Path, tmp_path: Path) -> None:
    given = [runs / "GSS"] if figures()[kind].is_single else [runs / "GSS", runs / "STATIC"]
    plot(kind, *given, "-o", tmp_path / "a.svg")
    plot(kind, *given, "-o", tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    drawn = ElementTree.parse(tmp_path / "a.svg").getroot()
    width = float(drawn.attrib["width"].removesuffix("pt"))
    assert width == pytest.approx(85.0 / 25.4 * 72.0)
    words = [element.text or "" for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    styles = [element.attrib["style"] for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert len(words) > 4
    assert all(float(size) >= 5.5 for style in styles for size in re.findall(r"([\d.]+)px", style))
    if not figures()[kind].is_single:
        assert any(word.startswith("GSS") for word in words)
        assert any(word.startswith("STATIC") for word in words)


def test_colours_of_a_gantt_chart_are_explained(runs: Path, tmp_path: Path) -> None:
    assert {"job", *COLOURED_BY} == set(get_args(Colouring))
    plot("gantt", runs / "GSS", "--colour", "partition", "-o", tmp_path / "a.svg")
    entries = colours_of(read_run(runs / "GSS").records, "partition").entries
    drawn = ElementTree.parse(tmp_path / "a.svg").getroot()
    words = {element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {label for label, _ in entries} <= words
    plot("gantt", runs / "GSS", "--colour", "user", "--height", 50, "-o", tmp_path / "b.png")
    with Image.open(tmp_path / "b.png") as picture:
        assert picture.size[1] == pytest.approx(50 / 25.4 * 300, abs=1)  # with any legend


@pytest.mark.slow
def test_png_and_pdf_have_the_size_that_was_asked_for(runs: Path, tmp_path: Path) -> None:
    plot("queue", runs / "GSS", "-o", tmp_path / "queue.png", "--width", 120, "--height", 50)
    with Image.open(tmp_path / "queue.png") as picture:
        assert picture.size == pytest.approx((120 / 25.4 * 300, 50 / 25.4 * 300), abs=1)
    plot("queue", runs / "GSS", "-o", tmp_path / "queue.pdf")
    assert (tmp_path / "queue.pdf").read_bytes().startswith(b"%PDF")


def test_areas_add_up_to_the_summary(runs: Path) -> None:
    run = read_run(runs / "GSS")
    axis = time_axis(run.records.jobs)
    (axes,) = utilization_lines({"GSS": run.records}, 85.0).axes
    means = [float(patch.get_data().values.mean()) for patch in axes.patches]
    span = (axis.end - float(np.nanmin(run.records.jobs.start_time))) / (axis.end - axis.begin)
    used = run.summary["utilization"]
    assert means[:2] == pytest.approx([used["allocated"] * span, used["busy"] * span], rel=1e-6)
    (axes,) = queue({"GSS": run.records}, 85.0).axes
    waited = float(np.nansum(run.records.jobs.start_time - run.records.jobs.submit_time))
    values = axes.patches[0].get_data().values
    assert float(values.mean()) * (axis.end - axis.begin) == pytest.approx(waited)


def test_the_axis_of_a_short_run_ends_with_it() -> None:
    jobs = mlsim.run("scenarios/quickstart.yaml", {"output.trace": "jobs"}).records.jobs
    scale = 0.15 / float(np.nanmax(jobs.end_time))
    names = ("submit_time", "start_time", "end_time")
    short = replace(jobs, **{name: getattr(jobs, name) * scale for name in names})
    axis = time_axis(short)
    assert axis.end == pytest.approx(0.15)
    assert (axis.unit, axis.seconds) == ("ms", 1e-3)


def test_hatches_show_what_is_out_of_use(runs: Path) -> None:
    run = read_run(runs / "maintained")
    (axes,) = utilization_lines({"maintained": run.records}, 85.0).axes
    words = [text.get_text() for text in axes.get_legend().get_texts()]
    assert "out of use" in words


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gantt", "GSS", "STATIC", "-o", "a.png"], "shows one run; found 2"),
        (["queue", "GSS", "-o", "a.jpg"], "written as .png, .svg or .pdf"),
        (["queue", "GSS", "--job", "3", "-o", "a.png"], "is not of one loop"),
        (["chunk-sizes", "GSS", "--job", "99999", "-o", "a.png"], "job 99999 executed no loop"),
        (["queue", "GSS", "--colour", "user", "-o", "a.png"], "it is for gantt"),
        (
            ["gantt", "GSS", "--colour", "qos", "-o", "a.png"],
            "no job of this run has a known qos; allowed here: job,",
        ),
        (["energy", "maintained", "-o", "a.png"], "the power of its nodes is not known"),
        (["loop-timeline", "maintained", "-o", "a.png"], "chunks were not recorded|executed no loops"),
    ],
)
def test_what_cannot_be_drawn_is_told(
    words: list[str], message: str, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs)
    with pytest.raises(InputError, match=message):
        plot(*words)
    assert not list(runs.glob("a.*"))
    assert not list(runs.glob(".a.*"))
