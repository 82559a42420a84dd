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


HEAD_OF_BATSIM = (
    "job_id,submission_time,requested_number_of_resources,requested_time,starting_time,execution_time,"
    "finish_time,consumed_energy,allocated_resources"
)


def repeated(repeat: ModuleType, name: str, directory: Path) -> dict[str, list[float | None]]:
    """Repeat a row, with the files of a directory."""
    (directory / name).mkdir()
    row = next(row for row in repeat.ROWS if row.name == name)
    pairs: pl.DataFrame = row.repeat(directory, directory / name)
    return pairs.select("theirs", "ours").to_dict(as_series=False)


def test_schedules_of_batsched(repeat: ModuleType, tmp_path: Path) -> None:
    """The head gets nodes 0 to 2 at 90 s, so of nodes 0 and 31 a long job may have the last one only."""
    rows = ["1,0,1,5,0,5,5,475,0", "2,0,30,90,0,90,90,256500,1-30", "3,6,3,50,90,50,140,14250,0-2"]
    rows += ["4,7,1,900,7,900,907,85500,31", "5,8,1,900,90,900,990,85500,4"]
    write(tmp_path / "out_jobs.csv", "\n".join([HEAD_OF_BATSIM, *rows, ""]))
    starts = repeated(repeat, "batsched-easy", tmp_path)
    assert starts["ours"] == [0, 0, 90, 7, None], "job 5 is on node 3, not on 4"
    energies = repeated(repeat, "batsched-energy", tmp_path)
    assert energies["ours"] == energies["theirs"]


def test_reservations_of_grizzly_are_drains(repeat: ModuleType, tmp_path: Path) -> None:
    rows = ["1,0,1490,90,0,90,90,-1,0-1489,job", "2,1,1490,20,130,20,150,-1,0-1489,job"]
    rows += ["9,0,2,30,100,30,130,-1,3-4,reservation"]
    write(tmp_path / "out_jobs.csv", "\n".join([f"{HEAD_OF_BATSIM},purpose", *rows, ""]))
    for name, second in (("lanl-conservative", 130), ("lanl-standard", 130), ("lanl-numbers", 90)):
        assert repeated(repeat, name, tmp_path)["ours"] == [0, second]
    assert repeat.nodes_of("0-2 5") == {0, 1, 2, 5}


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


def test_a_log_is_drawn_and_starts_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(STUDY))
    import made_log

    log, starts = tmp_path / "made.swf", tmp_path / "starts.csv"
    assert made_log.main([str(log), "--draw", "--jobs", "40"]) == 0
    rows = [line.split() for line in log.read_text().splitlines() if not line.startswith(";")]
    assert len(rows) == 40
    assert len({row[1] for row in rows}) < 40, "some are submitted together"
    assert all(int(row[8]) >= int(row[3]) and int(row[4]) <= made_log.PROCESSORS for row in rows)
    assert log.read_text() == "\n".join(made_log.draw(40, 1)) + "\n"
    # A slow schedule of first come, first served.
    ends: list[tuple[int, int]] = []
    found, now = [], 0
    for number, submit, _, run, size, *_ in (map(int, row) for row in rows):
        now = max(now, submit)
        while sum(held for end, held in ends if end > now) + size > made_log.PROCESSORS:
            now = min(end for end, _ in ends if end > now)
        ends.append((now + run, size))
        found.append(f"{number},{now}")
    starts.write_text("\n".join(["job,start", *found]) + "\n")
    assert made_log.main([str(log), str(starts)]) == 0
    assert "fcfs: 40 of 40 starts equal" in capsys.readouterr().out
    starts.write_text("\n".join(["job,start", *found[:-1], "40,9"]) + "\n")
    assert made_log.main([str(log), str(starts)]) == 1
    assert "39 of 40 starts equal" in capsys.readouterr().out
