"""Workflows of WfFormat: reading, writing, and what a simulation makes of them."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mlsim
from mlsim.errors import InputError
from mlsim.scenario import WorkloadConfig
from mlsim.scenario.words import WorkloadFormat
from mlsim.workload.derived_logs import convert
from mlsim.workload.format_record import Reading, WholeLog
from mlsim.workload.log_fields import Rates
from mlsim.workload.log_formats import format_of
from mlsim.workload.wfformat_log import read_wfformat

FREE = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def task(id_: str, parents: list[str], run_time: object = 10, **more: object) -> dict[str, Any]:
    return {"id": id_, "parents": parents, "runtimeInSeconds": run_time} | more


def instance(tasks: list[dict[str, Any]], files: dict[str, int] | None = None) -> dict[str, Any]:
    """Return a workflow as the schema has it; tasks have keys of specification and execution together."""
    named = ("id", "parents", "children", "inputFiles", "outputFiles", "name")
    return {
        "name": "made-up",
        "schemaVersion": "1.5",
        "workflow": {
            "specification": {
                "tasks": [{"children": []} | {k: v for k, v in t.items() if k in named} for t in tasks],
                "files": [{"id": name, "sizeInBytes": size} for name, size in (files or {}).items()],
            },
            "execution": {
                "makespanInSeconds": 1,
                "executedAt": "2024-01-02T03:04:05+00:00",
                "tasks": [
                    {k: v for k, v in t.items() if k not in named or k == "id"}
                    for t in tasks
                    if t["runtimeInSeconds"] != "never"
                ],
            },
        },
    }


# A diamond: split, two halves, join.
DIAMOND = [
    task("split_1", [], 5, coreCount=1, command={"program": "split"}),
    task("half_2", ["split_1"], 20.5, coreCount=2, command={"program": "run it\nwell"}, name="half_ID0002"),
    task("half_3", ["split_1"], 30, memoryInBytes=4096, coreCount=2, command={"program": "work"}),
    task("join_4", ["half_2", "half_3"], 1, coreCount=1.5),
]


def write(directory: Path, tasks: list[dict[str, Any]], **more: Any) -> Path:
    path = directory / "w.json"
    path.write_text(json.dumps(instance(tasks, **more)))
    return path


def read(path: Path, **options: Any) -> WholeLog:
    return read_wfformat(path, Reading(own=("workflow",), **options))


def test_tasks_become_jobs(tmp_path: Path) -> None:
    path = write(tmp_path, DIAMOND)
    assert format_of(path) is WorkloadFormat.WFFORMAT
    log = read(path)
    jobs = log.jobs
    assert jobs.job_id.tolist() == [1, 2, 3, 4]
    assert log.header["job_names"] == ["split_1", "half_2", "half_3", "join_4"]
    assert jobs.submit_time.tolist() == [0, 0, 0, 0]
    assert jobs.run_time.tolist() == [5, 20.5, 30, 1]
    assert jobs.requested_time.tolist() == [-1] * 4
    assert jobs.requested_processors.tolist() == [1, 2, 2, 2], "1.5 cores fill two"
    assert jobs.used_memory.tolist() == [-1, -1, 2, -1], "KB of 1,024 B per processor, as in SWF"
    assert log.header["executable_names"] == ["split", "half", "work"]
    assert jobs.executable.tolist() == [1, 2, 3, -1]
    assert jobs.own is not None
    assert set(jobs.own.of["workflow"].tolist()) == {"made-up"}
    assert jobs.after is not None
    assert jobs.after.cells() == ["", "afterok:1", "afterok:1", "afterok:2,afterok:3"]
    assert log.header["UnixStartTime"] == "1704164645"
    assert log.header["Workflow"] == "made-up"
    assert log.counts == {}


def test_children_are_parents_seen_from_above(tmp_path: Path) -> None:
    log = read(write(tmp_path, [task("a", [], children=["b", "c"]), task("b", ["a"]), task("c", [])]))
    assert log.jobs.after is not None
    assert log.jobs.after.cells() == ["", "afterok:1", "afterok:1"]


def test_what_is_missing_is_counted(tmp_path: Path) -> None:
    log = read(write(tmp_path, [task("a", []), task("b", [], "never"), task("c", [], coreCount=3)]))
    assert log.jobs.requested_processors.tolist() == [1, 1, 3]
    assert log.jobs.run_time.tolist() == [10, -1, 10]
    assert log.counts == {"tasks_without_cores": 2}


def test_files_take_time_on_request(tmp_path: Path) -> None:
    tasks = [
        task("a", [], inputFiles=["in"], outputFiles=["out", "unknown"]),
        task("b", ["a"], inputFiles=["out"]),
        task("c", [], "never", inputFiles=["in"]),
    ]
    path = write(tmp_path, tasks, files={"in": 10**9, "out": 5 * 10**8})
    assert read(path).jobs.run_time.tolist() == [10, 10, -1]
    assert read(path, rates=Rates(files=1e9)).jobs.run_time.tolist() == [10 + 12, 10 + 4, -1]


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "workflow.specification.tasks has 0 tasks"),
        ([task("a", []), task("a", [])], "has 2 tasks and 1 different ids; expected one for each"),
        ([task("a", []), {"parents": [], "runtimeInSeconds": 1}], "has 2 tasks and 1 different ids"),
        ([task("a", [], "long")], 'task a: runtimeInSeconds is "long"; expected seconds from 0 up'),
        ([task("a", [], -3)], "task a: runtimeInSeconds is -3; expected seconds"),
        ([task("a", [], coreCount=0)], "task a: coreCount is 0; expected a number above 0, or nothing"),
        ([task("a", [], coreCount="two")], 'task a: coreCount is "two"; expected'),
    ],
)
def test_what_cannot_be_is_named(tmp_path: Path, tasks: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(write(tmp_path, tasks))


def test_broken_tasks_are_skipped_if_lenient(tmp_path: Path) -> None:
    log = read(
        write(tmp_path, [task("a", []), task("b", [], "x"), task("c", [], coreCount=-1)]), lenient=True
    )
    assert (log.jobs.job_id.tolist(), log.broken_lines) == ([1], 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"workflow": []}, "expected an object 'workflow' with specification and execution(.|\n)*migrate"),
        ({"workflow": {"tasks": []}}, "as WfFormat 1.5 has it"),
        ({"workflow": {"specification": {"tasks": []}}}, "expected an object 'workflow' with"),
        (
            {"workflow": {"specification": {"tasks": [3]}, "execution": {"tasks": []}}},
            "tasks is wrong; expected",
        ),
        ({"workflow": {"specification": 3, "execution": {}}}, "workflow.specification.tasks is missing"),
    ],
)
def test_files_of_another_form(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "w.json"
    path.write_text(json.dumps(instance(DIAMOND) | change))
    with pytest.raises(InputError, match=message):
        read(path)


def converted(source: Path, target: Path, to: WorkloadFormat) -> list[str]:
    config = WorkloadConfig(path=str(source))
    return convert(config, source, target, to, as_simulated=False).left_out


@st.composite
def workflows(draw: st.DrawFn) -> list[dict[str, Any]]:
    n = draw(st.integers(1, 8))
    tasks = []
    for k in range(n):
        parents = [f"t{p}" for p in range(k) if draw(st.booleans())]
        run_time = draw(st.integers(1, 40) | st.floats(0.5, 20.0, width=16))
        tasks.append(task(f"t{k}", parents, run_time, coreCount=draw(st.integers(1, 3))))
    return draw(st.permutations(tasks))


@FREE
@given(workflows())
def test_workflows_survive_csv_and_back(tmp_path: Path, tasks: list[dict[str, Any]]) -> None:
    source = write(tmp_path, tasks)
    table, again = tmp_path / "w.csv", tmp_path / "again.json"
    for path in (table, again):
        path.unlink(missing_ok=True)
    assert converted(source, table, WorkloadFormat.CSV) == ["header"]
    assert converted(table, again, WorkloadFormat.WFFORMAT) == []
    content = json.loads(again.read_text())
    found = {t["id"]: t for t in content["workflow"]["specification"]["tasks"]}
    runs = {t["id"]: t for t in content["workflow"]["execution"]["tasks"]}
    assert list(found) == [t["id"] for t in tasks]
    assert content["name"] == "made-up"
    for t in tasks:
        assert sorted(found[t["id"]]["parents"]) == sorted(t["parents"])
        assert all(t["id"] in found[parent]["children"] for parent in t["parents"])
        assert (runs[t["id"]]["runtimeInSeconds"], runs[t["id"]]["coreCount"]) == (
            t["runtimeInSeconds"],
            t["coreCount"],
        )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("dependencies\n1,0,1,1,9,\n2,0,1,1,9,afterany:1\n", "has preceding jobs, think times, or afterany"),
        (
            "dependencies\n1,0,1,1,9,\n2,0,1,1,9,afterok:1+60s\n",
            "has preceding jobs, think times, or afterany",
        ),
        ("dependencies\n1,0,1,1,9,\n2,0,1,1,9,afterok:3\n", "has jobs that wait for unknown ones"),
        ("dependencies\n1,0,1,1,9,afterok:2\n2,0,1,1,9,afterok:1\n", "wait for each other in a circle"),
        ("workflow\n1,0,1,1,9,a\n2,0,1,1,9,b\n", "has several workflows; a WfFormat file is one workflow"),
        ("user\n1,0,1,1,9,3\n1,0,1,1,9,3\n", "has several jobs of one identifier"),
        ("user\n1,0,-1,1,9,3\n", "has jobs without run time or processors"),
    ],
)
def test_logs_that_are_no_workflow_are_not_written(tmp_path: Path, columns: str, message: str) -> None:
    source = tmp_path / "w.csv"
    source.write_text(f"job_id,submit_time,run_time,processors,walltime,{columns}")
    with pytest.raises(InputError, match=message):
        converted(source, tmp_path / "w.json", WorkloadFormat.WFFORMAT)
    assert not (tmp_path / "w.json").exists()


def test_what_a_workflow_cannot_hold_is_listed(tmp_path: Path) -> None:
    source = tmp_path / "w.csv"
    source.write_text(
        "job_id,submit_time,run_time,processors,walltime,user,color\n1,0,1,1,9,3,red\n2,5,1,1,9,3,red\n"
    )
    left_out = converted(source, tmp_path / "w.json", WorkloadFormat.WFFORMAT)
    assert left_out == ["submit_time", "estimate", "user"]


# Simulated


def run(directory: Path, workload: Path, changes: dict[str, Any]) -> tuple[pl.DataFrame, dict[str, Any]]:
    scenario = {
        "workload": {"path": str(workload), "dependencies": True},
        "platform": {"nodes": [{"name": "n", "count": 4, "cores": 1}]},
        "batch": {"policy": "FCFS", "backfill": "easy"},
        "output": {"pictures": False},
    }
    path = directory / "s.yaml"
    path.write_text(json.dumps(scenario))
    result = mlsim.run(path, changes)
    return result.jobs, result.summary


def longest_path(tasks: list[dict[str, Any]]) -> float:
    of = {t["id"]: t for t in tasks}

    def end(name: str) -> float:
        return max(map(end, of[name]["parents"]), default=0.0) + float(of[name]["runtimeInSeconds"])

    return max(map(end, of))


@FREE
@given(workflows(), st.sampled_from(["none", "greedy", "easy", "conservative"]))
def test_tasks_start_behind_their_parents(tmp_path: Path, tasks: list[dict[str, Any]], backfill: str) -> None:
    source = write(tmp_path, tasks)
    jobs, summary = run(tmp_path, source, {"batch.backfill": backfill})
    start = dict(zip(jobs["job_id_name"], jobs["start_time"], strict=True))
    end = dict(zip(jobs["job_id_name"], jobs["end_time"], strict=True))
    cores = {t["id"]: t["coreCount"] for t in tasks}
    for t in tasks:
        assert end[t["id"]] - start[t["id"]] == pytest.approx(t["runtimeInSeconds"])
        assert all(start[t["id"]] >= end[parent] for parent in t["parents"])
    for at in start.values():
        held = sum(cores[name] for name in start if start[name] <= at < end[name])
        assert held <= 4
    workflows_ = summary["workflows"]
    assert (workflows_["count"], workflows_["unfinished"]) == (1, 0)
    path = longest_path(tasks)
    assert workflows_["critical_path"]["mean"] == pytest.approx(path)
    assert workflows_["makespan"]["mean"] == pytest.approx(max(end.values()))
    assert workflows_["stretch"]["mean"] == pytest.approx(max(end.values()) / path)
    _, wide = run(tmp_path, source, {"batch.backfill": backfill, "platform.nodes.0.count": 64})
    assert wide["workflows"]["stretch"]["mean"] == pytest.approx(1)


def several(directory: Path) -> Path:
    """Write three workflows, of which the last one arrives later, and a job that is in none."""
    parts = []
    for number, at in enumerate((0, 0, 100)):
        table = directory / f"{number}.csv"
        converted(write(directory, DIAMOND), table, WorkloadFormat.CSV)
        frame = pl.read_csv(table)
        parts.append(
            frame.with_columns(
                pl.format("{}.{}", pl.lit(number), "job_id").alias("job_id"),
                pl.col("submit_time") + at,
                pl.format("{}.{}", pl.lit(number), "workflow").alias("workflow"),
                pl.col("dependencies").str.replace_all("afterok:", f"afterok:{number}."),
            )
        )
    path = directory / "several.csv"
    frame = pl.concat([*parts, parts[0][:1].with_columns(job_id=pl.lit("alone"), workflow=pl.lit(None))])
    frame.write_csv(path)
    return path


def test_several_workflows(tmp_path: Path) -> None:
    jobs, summary = run(tmp_path, several(tmp_path), {})
    assert jobs.height == 13
    found = summary["workflows"]
    assert (found["count"], found["unfinished"]) == (3, 0)
    assert found["critical_path"]["mean"] == found["critical_path"]["max"] == 5 + 30 + 1
    ends = (
        jobs.drop_nulls("workflow")
        .group_by("workflow")
        .agg(pl.col("end_time").max() - pl.col("submit_time").min())
    )
    assert found["makespan"]["max"] == ends["end_time"].max()
    assert found["stretch"]["mean"] == pytest.approx(float((ends["end_time"] / 36).mean()))


def test_a_workflow_whose_task_fails_is_unfinished(tmp_path: Path) -> None:
    failure = {"platform.failures": [{"node": node, "at": "10 s", "repair": "5 s"} for node in range(4)]}
    for rule, unfinished in (("die", 1), ("restart", 0)):
        jobs, summary = run(tmp_path, several(tmp_path), failure | {"batch.on_failure": rule})
        assert summary["workflows"]["unfinished"] == unfinished
        states = set(
            jobs.filter(pl.col("job_id_name").cast(pl.String).str.ends_with("join_4"))["state"].to_list()
        )
        assert ("rejected" in states) == (rule == "die")
        assert summary["workflows"]["critical_path"]["max"] == 36
    assert summary["workflows"]["makespan"]["max"] > 36


def test_tasks_have_applications_by_their_program(tmp_path: Path) -> None:
    changes = {
        "applications": {
            "loops": {
                "model": "loop",
                "technique": "GSS",
                "iterations": {"count": 100},
                "costs": {"profile": "constant", "mean": "0.4 s"},
            },
            "plain": {"model": "rigid"},
        },
        "assign": [{"where": {"executable": ["work"]}, "application": "loops"}, {"default": "plain"}],
    }
    jobs, summary = run(tmp_path, write(tmp_path, DIAMOND), changes)
    assert dict(zip(jobs["job_id_name"], jobs["application"], strict=True))["half_3"] == "loops"
    took = dict(zip(jobs["job_id_name"], jobs["run_time"], strict=True))
    assert took["half_3"] == pytest.approx(20, rel=0.1), "100 iterations of 0.4 s on two cores"
    assert summary["workflows"]["critical_path"]["mean"] == pytest.approx(5 + 20.5 + 1), "the other half"


def test_independent_tasks_are_noted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "mlsim"):  # a command with --quiet raises it
        _, summary = run(tmp_path, write(tmp_path, DIAMOND), {"workload.dependencies": False})
    assert "whose tasks are simulated as independent jobs" in caplog.text
    assert "workflows" not in summary


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.sampled_from(["a", "b", "tasks", ""]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "tasks"]), inner, max_size=2)
    ),
    max_leaves=5,
)
KEYS = (
    "parents",
    "children",
    "inputFiles",
    "runtimeInSeconds",
    "coreCount",
    "memoryInBytes",
    "command",
    "name",
)


@settings(FREE, max_examples=300)
@given(
    st.lists(st.dictionaries(st.sampled_from(KEYS), VALUES), max_size=3),
    st.dictionaries(st.sampled_from(["specification", "execution", "name", "files"]), VALUES),
    st.booleans(),
)
def test_any_content_is_read_or_refused(
    tmp_path: Path, tasks: list[dict[str, Any]], change: dict[str, Any], lenient: bool
) -> None:
    path = tmp_path / "w.json"
    content = instance(
        [{"runtimeInSeconds": 1, "parents": []} | t | {"id": str(k)} for k, t in enumerate(tasks)]
    )
    content["workflow"] |= {key: value for key, value in change.items() if key != "name"}
    path.write_text(json.dumps(content | {"name": change.get("name", "x")}))
    with suppress(InputError):
        log = read(path, lenient=lenient, rates=Rates(files=1.0))
        assert len(log.jobs) + log.broken_lines == len(tasks)
