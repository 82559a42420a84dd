"""Code that a command names is found from where the command is given; what a file names is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlsim.cli.command_options import code_from_here, settings

POLICY = "class Mine:\n    def key(self, now, jobs):\n        return jobs.{key}\n"


@pytest.fixture
def apart(small: Path) -> Path:
    """The scenario in a directory of its own, as is its workload; the current directory is above it."""
    (small / "there").mkdir()
    for path in list(small.iterdir()):
        if path.is_file():
            path.rename(small / "there" / path.name)
    return small


@pytest.mark.slow
def test_what_a_command_names_is_found_in_the_current_directory(mlsim, apart: Path) -> None:
    (apart / "mine.py").write_text(POLICY.format(key="estimate"))
    done = mlsim("run", "there/small.yaml", "--set", "batch.policy=./mine.py:Mine", "--out", "out")
    assert done.code == 0, done.err
    assert f"policy: {apart / 'mine.py'}:Mine" in (apart / "out" / "scenario.yaml").read_text()
    done = mlsim("check", "there/small.yaml", "--plugins", "--set", "batch.policy={class: ./mine.py:Mine}")
    assert done.code == 0, done.err


def test_what_a_file_names_is_not(mlsim, apart: Path) -> None:
    (apart / "mine.py").write_text("raise SystemExit('executed')\n")
    scenario = apart / "there" / "small.yaml"
    text = scenario.read_text()
    assert "batch: {" in text
    scenario.write_text(text.replace("batch: {", "batch: {predictor: ./mine.py:Mine, ", 1))
    done = mlsim("run", "there/small.yaml", "--out", "out")
    assert done.code == 2
    assert "there is no file 'mine.py'" in done.err
    assert "the same command would execute another file elsewhere" in done.err
    assert "name it by its whole path" in done.err
    assert "executed" not in done.err.replace("is not executed", "")


def test_a_file_beside_the_scenario_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    for path in (tmp_path / "mine.py", tmp_path / "there" / "mine.py"):
        path.write_text(POLICY.format(key="estimate"))
    file = Path("there/small.yaml")
    assert code_from_here("batch.policy=./mine.py:Mine", file) == "batch.policy=./mine.py:Mine"
    (tmp_path / "there" / "mine.py").unlink()
    assert code_from_here("batch.policy=./mine.py:Mine", file) == f"batch.policy={tmp_path}/mine.py:Mine"
    assert code_from_here("GSS+./mine.py:third,SS", file) == f"GSS+{tmp_path}/mine.py:third,SS"


def test_other_texts_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("")
    file = Path("there/small.yaml")
    kept = ["description=./mine.py:Mine", "batch.policy=/abs/mine.py:Mine", "batch.policy=~/mine.py:M"]
    assert settings(kept, file) == kept
    assert settings(["batch.policy=./other.py:Mine"], file) == ["batch.policy=./other.py:Mine"]
    assert code_from_here("./mine.py:third", None) == "./mine.py:third"
