"""The study of published schedules, on files of the same kinds that are made here."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

STUDY = Path(__file__).parents[2] / "scenarios" / "studies" / "published"


@pytest.fixture(scope="module")
def repeat() -> ModuleType:
    sys.path.insert(0, str(STUDY))
    import repeat as module

    sys.path.remove(str(STUDY))
    return module


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


HEAD = (
    "job_id,submission_time,requested_number_of_resources,requested_time,total_execution_time,starting_time"
)
LANL = f"{HEAD}\n1,5,600,100,90,5\n2,6,600,50,40,95\n3,7,400,80,80,7\n4,8,400,60,10,95\n"
"""Of 1,000 nodes; under EASY job 4 takes those of job 3 at 87, as job 2 leaves 400 over."""


def test_easy_of_lanl(repeat: ModuleType, tmp_path: Path) -> None:
    write(tmp_path / "files" / "post_out_jobs.csv", LANL)
    (tmp_path / "out").mkdir()
    pairs = repeat._lanl(tmp_path / "files", tmp_path / "out")
    assert pairs["theirs"].to_list() == [0, 90, 2, 90]
    assert pairs["ours"].to_list() == [0, 90, 2, 82]


def test_a_row_is_checked_and_compared(
    repeat: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = [
        {"type": "rigid", "submit_time": at, "num_nodes": size, "application_model": "/x/busywait_model.json",
         "arguments": {"iterations": n, "base_nodes": size}}
        for at, size, n in ((0, 13000, 10), (1, 300, 5), (2, 100, 5))
    ]  # fmt: skip
    task = {"type": "busy_wait", "delay": "iterations*(num_nodes/base_nodes)", "pattern": "uniform"}
    texts = {
        "jobs.json": json.dumps({"jobs": jobs}),
        "busywait_model.json": json.dumps({"phases": [{"tasks": [task]}]}),
        "job_statistics.csv": "ID,Start Time\n0,0\n1,10\n2,10.5\n",
    }
    for name, text in texts.items():
        write(tmp_path / "cirrus" / name, text)
    row = next(row for row in repeat.ROWS if row.name == "cirrus")
    found = {
        name: (url, hashlib.sha256(texts[name].encode()).hexdigest()) for name, (url, _) in row.files.items()
    }
    monkeypatch.setattr(repeat, "ROWS", (replace(row, files=found),))
    assert repeat.main([str(tmp_path), "--out", str(tmp_path / "table.csv")]) == 0
    assert "cirrus: 2 of 3 starts equal (largest difference 0.5 s); 2" in capsys.readouterr().out
    assert pl.read_csv(tmp_path / "table.csv")["equal"].to_list() == [2]
    (tmp_path / "cirrus" / "jobs.json").write_text("{}")
    assert repeat.main([str(tmp_path)]) == 1
    assert (
        "jobs.json is another version than the one that was compared; see --list" in capsys.readouterr().err
    )


def test_the_list_has_every_file_and_its_checksum(
    repeat: ModuleType, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert repeat.main(["--list"]) == 0
    text = capsys.readouterr().out
    for row in repeat.ROWS:
        for name, (url, digest) in row.files.items():
            assert url.startswith("https://raw.githubusercontent.com/")
            assert text.count(f" {url}\n") == 1
            assert f"{digest}  {row.directory or row.name}/{name}\n" in text
    assert repeat.main([str(tmp_path)]) == 1, "nothing is there"


def test_named_nodes_may_be_later_than_numbers(repeat: ModuleType) -> None:
    """Nodes 0 and 1 are free at 10 by number for the whole of job 4, but not the same ones."""
    Job = repeat.Job
    jobs = [Job(0, 1, 10, 10), Job(0, 1, 30, 30), Job(0, 1, 20, 20), Job(1, 1, 10, 10), Job(2, 2, 15, 15)]
    found = repeat.schedule(jobs, 3)
    assert [start for start, _ in found] == [0, 0, 0, 10, 20]
    assert [nodes for _, nodes in found] == [0b1, 0b10, 0b100, 0b1, 0b101]
    blocked = repeat.schedule([Job(0, 2, 10, 10)], 2, [(5.0, 8.0, 0b10)])
    assert blocked == [(8.0, 0b11)]
    assert repeat.nodes_of("0-2 5") == 0b100111


def test_an_early_end_moves_waiting_jobs_up(repeat: ModuleType) -> None:
    Job = repeat.Job
    found = repeat.schedule([Job(0, 2, 100, 10), Job(1, 2, 5, 5), Job(2, 1, 50, 50)], 2)
    assert [start for start, _ in found] == [0, 10, 15]


def test_run_times_of_batsims_tests(repeat: ModuleType, tmp_path: Path) -> None:
    profiles = {
        "task": {
            "type": "ParallelTaskHomogeneousProfile",
            "cpu": 5e9,
            "com": 0,
            "expected_execution_time": 5,
        },
        "wait": {"type": "DelayProfile", "delay": 9, "expected_execution_time": 8},
        "other": {"type": "DelayProfile", "delay": 9},
    }
    jobs = [
        {"id": name, "subtime": 0, "res": 2, "walltime": limit, "profile": name.split("-")[0]}
        for name, limit in (("task-ok", 20), ("task-limit", 3), ("wait-wrong", 20), ("other-any", 20))
    ]
    write(
        tmp_path / "files" / "test_made.json", json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles})
    )
    pairs = repeat._batsim(tmp_path / "files", tmp_path)
    assert pairs["theirs"].to_list() == [5, 3, 8]
    assert pairs["ours"].to_list() == [5, 3, 9]
