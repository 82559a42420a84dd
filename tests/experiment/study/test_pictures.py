"""Pictures of repetitions: intervals as bands and bars, formats, and how the intervals are found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from matplotlib.collections import LineCollection, PolyCollection

from mlsim.analysis.plots import LinePanel, Look, Panel, bars, lines
from mlsim.errors import InputError
from mlsim.experiment import load_study, run_study
from mlsim.experiment.study.study_model import MEANS
from mlsim.experiment.study.study_pictures import _metric, _with_means
from mlsim.experiment.study.study_tables import mean_interval, t_quantile

FILES = {
    "loop.yaml": "platform: {nodes: [{name: n, count: 2, cores: 2}]}\n"
    "application: {iterations: {count: 40}, costs: {profile: exponential, mean: 1 s}}\n",
    "run.yaml": "platform: {nodes: [{name: n, count: 2, cores: 2}]}\n"
    "workload: {path: a.csv, mapping: core}\n",
    "a.csv": "job_id,submit_time,run_time,walltime,processors\n1,0,10,20,4\n2,0,30,40,4\n3,1,5,10,2\n",
    "b.csv": "job_id,submit_time,run_time,walltime,processors\n1,0,7,20,2\n2,0,3,40,4\n3,1,5,10,2\n",
}
RUNS = """of: runs
name: demo
base: run.yaml
vary:
  log: {files: "?.csv"}
  batch.policy: [FCFS, LPF]
  batch.reservations: [1, 2]
  backfill: {none: {batch.backfill: none}, easy: {batch.backfill: easy}}
repetitions: log
columns: backfill
metrics: {wait (s): wait_time.mean, makespan (s): makespan}
pictures:
  - {kind: metric, along: backfill, lines: policy, panels: reservations}
  - {kind: metric, along: reservations, lines: policy, panels: backfill, metric: makespan (s)}
"""
LOOPS = """name: demo
base: loop.yaml
vary: {application.technique: [SS, GSS], seeds: 3}
repetitions: seed
timelines: [{technique: SS, seed: 2}]
formats: [svg, png, pdf]
"""


@pytest.fixture
def place(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def drawn(place, number):
    """Return a picture of a study of runs, with the rows that it shows."""
    (place / "study.yaml").write_text(RUNS)
    study = load_study(place)
    rows = run_study(study)
    return _metric(study, study.pictures[number], rows, {}), rows


def test_categories_are_not_joined_and_have_bars(place):
    drawing, rows = drawn(place, 0)
    assert not drawing.look.joined
    assert list(drawing.look.ticks.values()) == ["none", "easy"]
    panel = drawing.panels[0]
    (x, y), (low, high) = panel.series["FCFS"], panel.ends["FCFS"]
    chosen = {"policy": "FCFS", "reservations": "1"}
    for place_, label in enumerate(("none", "easy")):
        wanted = chosen | {"backfill": label}
        values = [row.metrics["wait (s)"] for row in rows if wanted.items() <= row.labels.items()]
        assert len(values) == 2
        assert y[place_] == pytest.approx(np.mean(values))
        assert (low[place_], high[place_]) == mean_interval(np.array(values))
    assert not set(x) & set(panel.series["LPF"][0])  # beside each other
    assert np.allclose(x, [-0.125, 0.875])


def test_numbers_are_joined_and_have_bands(place):
    drawing, _ = drawn(place, 1)
    assert drawing.look.joined
    assert list(drawing.panels[0].series["FCFS"][0]) == [1.0, 2.0]


@pytest.mark.parametrize("joined", [True, False])
def test_intervals_are_drawn_within_the_picture(joined):
    nan = math.nan
    panel = LinePanel(
        "a",
        {"one": ([1.0, 2.0, 3.0], [5.0, 6.0, nan]), "two": ([1.0], [5.5])},
        {"one": ([4.0, nan, nan], [9.0, nan, nan])},
    )
    figure = lines([panel], "t", "x", "y", Look(joined=joined, ticks={1.0: "a", 3.0: "b"}))
    (axes,) = figure.axes
    kinds = [type(collection) for collection in axes.collections]
    wanted = PolyCollection if joined else LineCollection
    assert [issubclass(kind, wanted) for kind in kinds] == [True]
    low, high = axes.get_ylim()
    assert low < 4.0
    assert high > 9.0
    assert {line.get_linestyle() for line in axes.lines} == {"-" if joined else "None"}


def test_bars_hold_their_intervals():
    panel = Panel("a", ["g", "h"], {"one": [1.0, 2.0]}, ends={"one": [(0.5, 4.0), (math.nan, math.nan)]})
    (axes,) = bars([panel], "t", "y").axes
    segments = [s for c in axes.collections for s in c.get_segments() if len(s) and np.isfinite(s).all()]
    assert [sorted(segment[:, 1]) for segment in segments] == [[0.5, 4.0]]
    assert axes.get_ylim()[1] > 4.0


def test_formats(place):
    (place / "study.yaml").write_text(LOOPS)
    run_study(load_study(place), out=place / "out")
    names = {path.name for path in (place / "out").iterdir() if path.suffix in (".png", ".svg", ".pdf")}
    assert names == {f"{stem}.{kind}" for stem in ("t-loop", "pes-SS-2") for kind in ("svg", "png", "pdf")}
    for path in (place / "out").glob("*.*"):
        begin = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}.get(path.suffix, b"")
        assert path.read_bytes().startswith(begin)
    before = {name: (place / "out" / name).read_bytes() for name in names}
    run_study(load_study(place), out=place / "again")
    assert before == {name: (place / "again" / name).read_bytes() for name in names}
    (place / "study.yaml").write_text(LOOPS.replace("[svg, png, pdf]", "pdf"))
    run_study(load_study(place), out=place / "out")
    left = {path.suffix for path in (place / "out").iterdir()} & {".png", ".svg", ".pdf"}
    assert left == {".pdf"}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("formats: [gif]\n", "formats: 'gif' is not known; allowed: png, svg, pdf"),
        ("formats: []\n", "formats: names none"),
        ("interval: normal\n", "interval: 'normal' is not known; allowed: bootstrap, t"),
    ],
)
def test_what_is_neither(place, more, message):
    (place / "study.yaml").write_text(LOOPS.replace("formats: [svg, png, pdf]\n", "") + more)
    with pytest.raises(InputError, match=message.replace("[", "\\[")):
        load_study(place)


def test_an_interval_without_repetitions(place):
    text = LOOPS.replace("repetitions: seed\n", "").replace("timelines", "interval: t\ntimelines")
    (place / "study.yaml").write_text(text)
    with pytest.raises(InputError, match="interval: is of means over repetitions; give repetitions too"):
        load_study(place)


def test_t_against_a_table(place):
    """Student's table: 12.706 for 1 degree of freedom, 2.228 for 10, 1.960 for very many."""
    pytest.importorskip("scipy", reason="no SciPy")
    assert [round(t_quantile(n), 3) for n in (1, 10, 10**7)] == [12.706, 2.228, 1.960]
    values = np.array([1.0, 2.0, 3.0, 4.0])
    half = 3.1824463 * math.sqrt(5 / 3) / 2
    assert mean_interval(values, "t") == pytest.approx((2.5 - half, 2.5 + half))
    (place / "study.yaml").write_text(LOOPS + "interval: t\n")
    run_study(load_study(place), out=place / "out")
    assert "Student's t" in (place / "out/statistics.md").read_text()


@pytest.mark.parametrize(("ends", "told"), [((1.0, 3.0), True), ((float("nan"), float("nan")), False)])
def test_titles_mention_intervals_where_there_are_some(ends: tuple[float, float], told: bool) -> None:
    points = np.array([0.0]), np.array([2.0])
    drawn = {"a": (np.array([ends[0]]), np.array([ends[1]]))}
    curves = [LinePanel("none", {"a": points}), LinePanel("", {"a": points}, drawn)]
    bars = [Panel("", ["g"], {"a": [2.0]}, {}, {"a": [ends]})]
    for panels in (curves, bars):
        assert _with_means("study", panels) == f"study{MEANS if told else ''}"
    assert _with_means("study", curves[:1]) == "study"
