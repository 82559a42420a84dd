"""Studies: grids of loops."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from mlsim.errors import InputError
from mlsim.experiment import load_study, run_study
from mlsim.experiment.study.study_tables import study_tables

LOOP = """\
platform:
  nodes: [{name: n, count: 2, cores: 2, speed: 1 GFLOP/s}]
application:
  costs: {profile: constant, mean: 1 ms}
  iterations: {count: 100}
"""
STUDY = """\
name: demo
base: loop.yaml
vary:
  delay:
    none: {application.execution.injected_delay: 0 s}
    much: {application.execution.injected_delay: 10 ms}
  application.technique: [SS, GSS]
  application.execution.model: [cca, dca]
without: [{delay: none, technique: [SS]}]
reference: source.csv
timelines: [{delay: much, technique: GSS, model: dca}]
"""
SOURCE = "delay,technique,model,t_loop,from\nmuch,SS,cca,1.25,guess\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in (("loop.yaml", LOOP), ("study.yaml", STUDY), ("source.csv", SOURCE)):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_every_combination_but_those_left_out(place):
    study = load_study(place)
    labels = [tuple(point.labels.values()) for point, _ in study.cases]
    assert labels == [
        ("none", "GSS", "cca"),
        ("none", "GSS", "dca"),
        ("much", "SS", "cca"),
        ("much", "SS", "dca"),
        ("much", "GSS", "cca"),
        ("much", "GSS", "dca"),
    ]
    point, loop = study.cases[2]
    assert loop.application.execution.injected_delay == 0.01
    assert point.labels == {"delay": "much", "technique": "SS", "model": "cca"}


def test_the_table_has_the_columns_side_by_side_and_the_source_beside(place):
    study = load_study(place)
    titles, lines, *_ = study_tables(study, run_study(study))["T_loop (s)"]
    assert titles == ["delay", "technique", "cca", "source", "dca"]
    assert [line[:2] for line in lines] == [["none", "GSS"], ["much", "SS"], ["much", "GSS"]]
    assert lines[1][3] == "1.25"
    assert lines[0][3] == ""
    # 100 chunks, each of which waits for the master: at least 100 delays.
    assert float(lines[1][2]) >= 1.0


def test_what_a_study_writes(place):
    study = load_study(place / "study.yaml")
    rows = run_study(study, out=place / "out")
    names = {path.name for path in (place / "out").iterdir()}
    assert names == {
        "study.yaml",
        "manifest.json",
        "versions.json",
        "loops.csv",
        "loops.parquet",
        "store",
        "table-T_loop-s.csv",
        "table.md",
        "table.tex",
        "t-loop.png",
        "pes-much-GSS-dca.png",
    }
    table = pl.read_csv(place / "out" / "loops.csv")
    assert table.columns[:3] == ["delay", "technique", "model"]
    assert table["t_loop"].to_list() == [row.facts["t_loop"] for row in rows]
    assert table["reference"].to_list() == [None, None, 1.25, None, None, None]
    lines = (place / "out" / "table.md").read_text().splitlines()
    assert lines[0] == "| delay | technique | cca | source | dca |"
    assert [line[0] for line in lines[:5]] == ["|"] * 5
    assert lines[5:] == ["", "bold: best of its row"]


def test_progress_counts(place):
    seen = []
    run_study(load_study(place), progress=lambda row, total: seen.append((row.labels["technique"], total)))
    assert len(seen) == 6
    assert {total for _, total in seen} == {6}


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("base: loop.yaml", "bsae: loop.yaml", ("study.yaml:2", "bsae", "'base'")),
        ("base: loop.yaml", "base: lop.yaml", ("lop.yaml", "loop.yaml")),
        ("base: loop.yaml\n", "", ("base", "missing")),
        ("[SS, GSS]", "[SS, GSSS]", ("application.technique", "GSSS", "GSS")),
        ("[SS, GSS]", "[SS, SS]", ("vary: application.technique", "twice")),
        ("[SS, GSS]", "SS", ("vary: application.technique", "'SS'")),
        ("application.technique: [SS", "application.techniqe: [SS", ("techniqe", "technique")),
        ("technique: [SS]}", "technique: [FSC]}", ("without: technique", "FSC", "SS, GSS")),
        ("{delay: none, technique: [SS]}", "{dealy: none}", ("without", "dealy", "'delay'")),
        ("reference: source.csv", "reference: sauce.csv", ("sauce.csv",)),
        ("reference: source.csv", "columns: modle", ("columns", "modle", "'model'")),
        ("vary:", "vary: [", ("study.yaml",)),
        ("without: [{delay: none, technique: [SS]}]", "without: [{}]", ("without", "leaves no combination")),
        (
            "application.technique: [SS",
            "reference: {a: {}}\n  application.technique: [SS",
            ("reference: names 2",),
        ),
    ],
)
def test_mistakes_are_named(place, right, wrong, words):
    assert right in STUDY
    (place / "study.yaml").write_text(STUDY.replace(right, wrong))
    with pytest.raises(InputError) as caught:
        load_study(place)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("much,SS,cca,1.25", "much,SS,cca,fast", ("source.csv:2", "t_loop", "fast")),
        ("much,SS", "little,SS", ("source.csv:2", "delay", "little")),
        ("delay,technique", "delay,tech", ("source.csv:2", "technique", "missing")),
    ],
)
def test_mistakes_in_the_reference_are_named(place, right, wrong, words):
    (place / "source.csv").write_text(SOURCE.replace(right, wrong))
    with pytest.raises(InputError) as caught:
        load_study(place)
    for word in words:
        assert word in str(caught.value)


def test_no_study(tmp_path):
    with pytest.raises(InputError, match=r"study\.yaml"):
        load_study(tmp_path)
