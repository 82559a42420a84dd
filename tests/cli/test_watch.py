"""How far a run is, while it goes on: the file of `--status`, the state in its directory, `mlsim watch`."""

from __future__ import annotations

import io
import json
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner

import mlsim
from mlsim.cli.main import app
from mlsim.cli.run import state_view
from mlsim.errors import InputError, OutputError
from mlsim.experiment import run_status
from mlsim.experiment.run_status import Progress
from mlsim.record import MessageKind
from mlsim.scenario import Scenario, from_mapping

LONG = {
    "name": "long",
    "platform": {"nodes": [{"name": "a", "count": 6, "cores": 1}, {"name": "b", "count": 2, "cores": 1}]},
    "workload": {"path": "long.csv", "mapping": "node"},
    "output": {"trace": "jobs"},
}


def command(*words: object) -> str:
    done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def workload(n: int = 4000) -> pl.DataFrame:
    draw = np.random.default_rng(5)
    submit = np.sort(draw.integers(0, 300 * n, n))
    length = draw.integers(10, 2000, n)
    columns = {"job_id": np.arange(1, n + 1), "submit_time": submit, "run_time": length}
    return pl.DataFrame({**columns, "walltime": length * 2, "processors": draw.integers(1, 10, n)})


@pytest.mark.parametrize("engine", ["replay", "simpy"])
def test_what_is_reported_is_what_the_records_say_of_that_time(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs ended, waiting and running, and who holds which node, at the time of each report."""
    monkeypatch.setattr("mlsim.batch.clock.compiled_replay._REPORT_EVERY", 500)
    monkeypatch.setattr("mlsim.batch.batch_system._PROGRESS_EVERY", 500)
    seen: list[tuple[Progress, str]] = []
    scenario = {**LONG, "batch": {"engine": engine}}
    result = mlsim.run(
        scenario, workload=workload(), progress=lambda state: seen.append((state, state.nodes()))
    )
    jobs, held = result.records.jobs, result.records.occupancy
    assert len(seen) > 5
    assert np.isnan(jobs.end_time).any()
    for state, letters in seen:
        running = (jobs.start_time <= state.time) & (jobs.end_time > state.time)
        assert state.running == running.sum()
        assert state.waiting == ((jobs.submit_time <= state.time) & (jobs.start_time > state.time)).sum()
        # Jobs that can never run are turned away when they are read, some ahead of their submission.
        ended, rejected = (jobs.end_time <= state.time).sum(), np.isnan(jobs.end_time)
        assert ended + (rejected & (jobs.submit_time <= state.time)).sum() <= state.done
        assert state.done <= ended + rejected.sum()
        expected = np.full(8, ".")
        for row in np.flatnonzero((held.start <= state.time) & (held.end > state.time)):
            expected[held.node[row] : held.node[row] + held.count[row]] = "#"
        assert letters == "".join(expected)
        assert state.free_units == letters.count(".")


def progress(letters: str = "..###..x") -> Progress:
    return Progress(3600.0, 10, 100, 7, 3, letters.count("."), lambda: letters)


def scenario() -> Scenario:
    return from_mapping({**LONG, "workload": {"path": "none", "mapping": "node"}})


def test_the_file_says_what_scripts_ask(tmp_path: Path) -> None:
    file = run_status.StatusFile(tmp_path / "now.json", scenario(), at_once=True)
    file.begin()
    assert json.loads((tmp_path / "now.json").read_text())["state"] == "running"
    file(progress())
    found = run_status.read_status(tmp_path / "now.json")
    assert found is not None
    assert found["jobs"] == {"total": 100, "ended": 10, "running": 3, "waiting": 7, "to_come": 80}
    assert found["free_units"] == 4
    counts = [(each["name"], each["free"], each["held"], each["down"]) for each in found["groups"]]
    assert counts == [("a", 3, 3, 0), ("b", 1, 0, 1)]
    assert found["groups"][1]["cells"] == ".x"
    file.end("completed")
    assert json.loads((tmp_path / "now.json").read_text())["state"] == "completed"
    assert [path.name for path in tmp_path.iterdir()] == ["now.json"]


def test_the_last_messages_are_those_of_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlsim.batch.batch_system._PROGRESS_EVERY", 3)
    monkeypatch.setattr("mlsim.batch.clock.coupled_replay._REPORT_EVERY", 3)
    seen: list[tuple[float, list[dict]]] = []
    result = mlsim.run(
        "scenarios/quickstart.yaml",
        {"output.pictures": False, "output.trace": "none", "coordination.requests": "head-of-queue"},
        progress=lambda state: seen.append((state.time, state.messages())),
    )
    messages = result.records.messages
    job_id = result.records.jobs.job_id
    words = [MessageKind(kind).name.lower().replace("_", " ") for kind in messages.kind]
    told = {
        (word, int(job_id[job]), sent)
        for word, job, sent in zip(words, messages.job, messages.sent, strict=True)
    }
    known = [said for _, last in seen for said in last]
    assert {(said["message"], said["job"], said["sent"]) for said in known} <= told
    assert {said["message"] for said in known} >= {"node idle", "release request"}
    assert all(said["sent"] <= time for time, last in seen for said in last)
    assert max(len(last) for _, last in seen) == 5
    nodes = {said["nodes"][0] for said in known if said["message"] == "node idle"}
    assert nodes <= set(range(16))


def test_messages_are_shown() -> None:
    state = run_status.StateOf(scenario(), at_once=True)
    said = [
        {"message": "node idle", "job": 3, "sent": 61.0, "received": 61.5, "nodes": [4]},
        {
            "message": "release request",
            "job": 4,
            "sent": 62.0,
            "received": 63.0,
            "nodes_wanted": 2,
            "for_job": 9,
        },
    ]
    made = state.due(replace(progress(), messages=lambda: said))
    assert made is not None
    shown = io.StringIO()
    Console(file=shown, width=120).print(state_view(made))
    assert "node idle: job 3, node 4" in shown.getvalue()
    assert "release request: job 4, 2 nodes for job 9" in shown.getvalue()


def test_a_study_is_watched_by_its_directory(tmp_path: Path) -> None:
    (tmp_path / "loop.yaml").write_text(
        "platform: {nodes: [{name: n, count: 1, cores: 2}]}\n"
        "application: {iterations: {count: 9}, costs: {profile: increasing, high: 1 s}}\n"
    )
    (tmp_path / "study.yaml").write_text("of: loops\nbase: loop.yaml\nname: s\nvary: {seeds: 2}\n")
    command("study", tmp_path / "study.yaml", "--out", tmp_path / "out", "--jobs", 1)
    assert "2 of 2 runs are done" in command("watch", tmp_path / "out", "--once")


def test_states_are_written_no_more_often_than_every_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(run_status.time, "monotonic", lambda: clock[0])
    state, calls = run_status.StateOf(scenario(), at_once=False), []

    def nodes() -> str:
        calls.append(clock[0])
        return "." * 8

    for _ in range(50):
        clock[0] += 0.1
        state.due(Progress(0.0, 0, 1, 0, 0, 8, nodes))
    assert 4 <= len(calls) <= 5


def test_a_file_that_cannot_be_written_is_told_at_the_beginning_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("mlsim"), "propagate", True)  # commands have it end with them
    caplog.set_level(logging.WARNING, logger="mlsim")  # a command with --quiet raises it
    with pytest.raises(OutputError, match="cannot be written"):
        run_status.StatusFile(tmp_path / "nowhere" / "now.json", scenario()).begin()
    file = run_status.StatusFile(tmp_path / "nowhere" / "now.json", scenario(), at_once=True)
    file(progress())
    file.end("completed")
    assert caplog.text.count("the run goes on") == 1


def test_a_run_keeps_no_state_in_its_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_status, "_BETWEEN", 0.0)
    monkeypatch.setattr("mlsim.batch.batch_system._PROGRESS_EVERY", 20)
    monkeypatch.setattr("mlsim.batch.clock.coupled_replay._REPORT_EVERY", 20)
    monkeypatch.setattr("mlsim.batch.clock.compiled_replay._REPORT_EVERY", 20)
    seen = []

    def look(_state: Progress) -> None:
        found = run_status.find_status(tmp_path / "run")
        if found is not None:
            seen.append(run_status.read_status(found))

    mlsim.run("scenarios/quickstart.yaml", {"output.trace": "jobs"}, out=tmp_path / "run", progress=look)
    assert seen
    assert seen[-1]["scenario"] == "quickstart"
    assert not list((tmp_path / "run").glob("*status*"))
    assert run_status.find_status(tmp_path / "run") is None
    command("check", tmp_path / "run")


def test_run_with_a_status_file_ends_with_completed_or_failed(tmp_path: Path) -> None:
    now = tmp_path / "now.json"
    command("run", "scenarios/quickstart.yaml", "--set", "output.trace=jobs", "--out", tmp_path / "run", "-q",
            "--status", now)  # fmt: skip
    assert json.loads(now.read_text())["state"] == "completed"
    assert "completed" in command("watch", now)
    assert json.loads(command("watch", now, "--json"))["scenario"] == "quickstart"
    assert "completed; mlsim metrics and mlsim report read it" in command("watch", tmp_path / "run", "--once")
    with pytest.raises(InputError):
        command("run", "scenarios/quickstart.yaml", "--out", tmp_path / "run", "-q", "--status", now)
    assert json.loads(now.read_text())["state"] == "failed"


def test_what_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run in progress"):
        command("watch", tmp_path / "nothing")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(InputError, match="no state of a run"):
        command("watch", tmp_path / "other.json")


def test_the_view_shows_jobs_groups_and_nodes() -> None:
    state = run_status.StateOf(scenario())
    found = state.due(progress())
    assert found is not None
    console = Console(width=100, file=io.StringIO())
    with console.capture() as shown:
        console.print(state_view(found))
    text = shown.get()
    assert "10 ended, 3 running, 7 waiting, 80 to come; 4 units free" in text
    assert "3 of 6 held (50 %)" in text
    assert "··■■■·" in text
    assert "1 out of use" in text
