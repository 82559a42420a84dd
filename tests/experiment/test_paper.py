"""The example of ``scenarios/library``: from a log to a figure and a table."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from mlsim.experiment import read_study

SCRIPT = Path(__file__).resolve().parents[2] / "scenarios" / "library" / "paper.py"


@pytest.fixture(scope="module")
def paper() -> ModuleType:
    spec = importlib.util.spec_from_file_location("paper", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_log_becomes_a_figure_and_a_table_and_a_second_start_only_draws(
    paper: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out = tmp_path / "paper"
    words = ["--weeks", "1-2", "--jobs", "1", "--out", str(out)]
    paper.main(words)
    runs = read_study(out / "results").runs
    assert runs.height == 4 * 3 * 2
    assert (out / "figure.pdf").read_bytes().startswith(b"%PDF")
    lines = (out / "table.tex").read_text().splitlines()
    rows = [line.removesuffix(r" \\").split(" & ") for line in lines[4:-2]]
    assert len(rows) == 12
    expected = runs.filter(policy="SAF", backfilling="EASY")[paper.METRIC].mean()
    assert [row[2] for row in rows if row[:2] == ["SAF", "EASY"]] == [f"{expected:.1f}"]
    assert [row[4] for row in rows if row[:2] == ["FCFS", "EASY"]] == [""]
    figure = (out / "figure.pdf").read_bytes()

    def none(*_: object, **__: object) -> None:
        raise AssertionError("nothing is left to simulate")

    monkeypatch.setattr("mlsim.experiment.runner.run", none)
    paper.main(words)
    assert (out / "figure.pdf").read_bytes() == figure
    assert read_study(out / "results").runs.equals(runs)


@pytest.mark.slow
def test_a_log_of_the_users_own_is_read(paper: ModuleType, tmp_path: Path):
    paper.draw_log(tmp_path / "own.swf", 1, 128)
    week = paper.simulate(tmp_path / "out", tmp_path / "own.swf", 128, "1-1", 1)
    assert isinstance(week, pl.DataFrame)
    assert week["jobs.submitted"].min() > 100
