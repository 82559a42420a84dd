"""Times that cannot be told apart are refused at the start, with the job, in every format."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import mlsim
from mlsim.errors import InputError
from mlsim.scenario import from_mapping
from mlsim.scenario.words import WorkloadFormat
from mlsim.workload.format_record import Reading
from mlsim.workload.log_formats import LogReader

NAMES = "job_id,submit_time,run_time,walltime,processors"
HUGE = 10**18


def swf(path: Path, jobs: list[tuple[str, str, str]]) -> Path:
    lines = [f"{job} {submit} -1 {run} 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1" for job, submit, run in jobs]
    path.write_text("\n".join(lines) + "\n")
    return path


def csv(path: Path, jobs: list[tuple[str, str, str]]) -> Path:
    path.write_text(NAMES + "\n" + "".join(f"{job},{submit},{run},{run},1\n" for job, submit, run in jobs))
    return path


def batsim(path: Path, jobs: list[tuple[str, str, str]]) -> Path:
    rows = [
        f'{{"id": "{job}", "subtime": {submit}, "walltime": 9, "res": 1, "profile": "p{job}"}}'
        for job, submit, _ in jobs
    ]
    profiles = [f'"p{job}": {{"type": "delay", "delay": {run}}}' for job, _, run in jobs]
    path.write_text(f'{{"jobs": [{", ".join(rows)}], "profiles": {{{", ".join(profiles)}}}}}')
    return path


def parquet(path: Path, jobs: list[tuple[str, str, str]]) -> Path:
    whole = all(submit.isdecimal() for _, submit, _ in jobs)
    submits = [int(submit) if whole else float(submit) for _, submit, _ in jobs]
    columns = {"job_id": [int(job) for job, *_ in jobs], "submit_time": submits}
    columns |= {"run_time": [float(run) for *_, run in jobs], "walltime": [9] * len(jobs)}
    pl.DataFrame(columns | {"processors": [1] * len(jobs)}).write_parquet(path)
    return path


WRITERS = [swf, csv, batsim, parquet]


def read(path: Path) -> np.ndarray:
    blocks = LogReader(str(path), WorkloadFormat.AUTO, Reading()).blocks()
    return np.concatenate([block.submit_time for block in blocks])


@pytest.mark.parametrize("write", WRITERS)
def test_whole_seconds_that_a_float64_does_not_hold(tmp_path: Path, write) -> None:
    path = write(tmp_path / "log", [("7", "0", "5"), ("8", str(HUGE), "5"), ("9", str(HUGE + 1), "5")])
    with pytest.raises(InputError, match=r"below 2\^53") as info:
        read(path)
    named = {swf: ":2: ", csv: ":3: ", batsim: "job 8", parquet: "row 2"}[write]
    assert named in str(info.value)
    assert read(write(tmp_path / "ok", [("7", "0", "5"), ("8", str(2**53 - 1), "5")]))[1] == 2**53 - 1


@pytest.mark.parametrize("write", [swf, csv, batsim])
def test_fractions_that_a_float64_does_not_hold(tmp_path: Path, write) -> None:
    apart = [("7", "0", "5"), ("8", "1700000000.000001", "5"), ("9", "1700000000.000002", "5")]
    assert len(set(read(write(tmp_path / "ok", apart)).tolist())) == 3
    path = write(tmp_path / "log", [*apart, ("11", "1700000000.00000001", "5"), ("12", "1700000000", "5")])
    with pytest.raises(InputError, match=r"(?s)jobs 11.* and 12.*cannot be told apart.*subtract the first"):
        read(path)
    same = [("7", "0.10000000000000000000", "5"), ("8", "0.1", "5"), ("9", "1e-1", "5")]
    assert read(write(tmp_path / "same", same)).tolist() == [0.1, 0.1, 0.1]


@pytest.mark.parametrize("write", WRITERS)
def test_run_times_that_no_simulation_can_add_up(tmp_path: Path, write) -> None:
    path = write(tmp_path / "log", [("7", "0", "5"), ("8", "3", "1.7e308")])
    with pytest.raises(InputError, match=r"below 2\^53"):
        read(path)


def scenario(path: Path, **output: object) -> dict:
    return {
        "platform": {"nodes": [{"name": "n", "count": 1, "cores": 1}]},
        "workload": {"path": str(path), "mapping": "core"},
        "output": {"pictures": False, **output},
    }


def test_a_run_time_that_is_lost_so_late(tmp_path: Path) -> None:
    path = csv(tmp_path / "log.csv", [("7", "0", "5"), ("8", "1e15", "0.01")])
    with pytest.raises(InputError, match=r"log\.csv: job 8: its run time of 0\.01 s is too short"):
        mlsim.run(from_mapping(scenario(path)))


def test_a_trace_ends_after_292_years_and_says_so_before_the_run(tmp_path: Path) -> None:
    path = csv(tmp_path / "log.csv", [("7", "0", "5"), ("8", "9.1e9", "2e8")])
    assert len(mlsim.run(from_mapping(scenario(path))).jobs) == 2
    pytest.importorskip("otf2", reason="there is no wheel of the package otf2 for this Python")
    asked = from_mapping(scenario(path, trace="jobs"))
    with pytest.raises(InputError, match=r"output\.trace: job 8 of .*log\.csv, submitted at 9\.1e\+09 s"):
        mlsim.run(asked, out=tmp_path / "run")
    assert [file.name for file in tmp_path.iterdir()] == ["log.csv"]


@pytest.mark.otf2
def test_a_trace_that_only_waiting_makes_too_long_is_no_internal_error(tmp_path: Path) -> None:
    path = csv(tmp_path / "log.csv", [("7", "0", "8e9"), ("8", "0", "8e9")])
    made = mlsim.run(from_mapping(scenario(path)))
    assert made.summary["makespan"] == 1.6e10
    with pytest.raises(mlsim.OutputError, match=r"something happens at 1\.6e\+10 s.*try output\.trace: none"):
        mlsim.run(from_mapping(scenario(path, trace="jobs")), out=tmp_path / "run")


def test_json_texts_of_times_stay_numbers(tmp_path: Path) -> None:
    path = batsim(tmp_path / "log.json", [("1", "0.1234567890123456789", "1"), ("2", "5", "1")])
    assert json.loads(path.read_text())["jobs"][0]["subtime"] == read(path)[0]
