"""Batsim's output files of a run, read back by a parser that knows nothing of mlsim."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest

import mlsim


def words(text: str) -> list[str]:
    return text.split(",")


COLUMNS = words(
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,"
    "final_state,starting_time,execution_time,finish_time,waiting_time,turnaround_time,stretch,"
    "allocated_resources,consumed_energy,metadata"
)
SCHEDULE = words(
    "batsim_version,consumed_joules,makespan,max_slowdown,max_turnaround_time,max_waiting_time,mean_slowdown,"
    "mean_turnaround_time,mean_waiting_time,nb_computing_machines,nb_grouped_switches,nb_jobs,"
    "nb_jobs_finished,nb_jobs_killed,nb_jobs_rejected,nb_jobs_success,nb_machine_switches,success_rate,"
    "time_computing,time_idle,time_sleeping,time_switching_off,time_switching_on,time_unavailable"
)
RAN = ("starting_time", "execution_time", "finish_time", "waiting_time", "turnaround_time", "stretch")

PROFILES = {"long": {"type": "delay", "delay": 30}, "a, b": {"type": "delay", "delay": 7.25}}
# Job 3 exceeds its walltime, and job 5 the machine.
JOBS = [
    {"id": "w0!1", "subtime": 0, "res": 3, "walltime": 40, "profile": "long"},
    {"id": "w1!2", "subtime": 1.5, "res": 4, "walltime": 40, "profile": "a, b"},
    {"id": "3", "subtime": 2, "res": 1, "walltime": 5, "profile": "long"},
    {"id": "w0!4", "subtime": 2, "res": 1, "walltime": 50, "profile": "a, b"},
    {"id": "w0!5", "subtime": 3, "res": 64, "walltime": 50, "profile": "long"},
    {"id": "w0!6", "subtime": 90, "res": 6, "profile": "a, b"},
]


def run(directory: Path, changes: dict[str, Any], workload: Path | None = None) -> tuple[list, dict, Any]:
    """Run a scenario; return its jobs and schedule as Batsim's, and the result."""
    if workload is None:
        workload = directory / "w.json"
        workload.write_text(json.dumps({"nb_res": 8, "jobs": JOBS, "profiles": PROFILES}))
    scenario = {
        "workload": {"path": str(workload), "mapping": "node", "cleaning": {"underestimate": "keep"}},
        "platform": {"nodes": [{"name": "n", "count": 8, "cores": 2}]},
        "batch": {"policy": "FCFS", "backfill": "easy"},
        "output": {"pictures": False, "batsim": True},
    }
    path = directory / "s.yaml"
    path.write_text(json.dumps(scenario))
    result = mlsim.run(path, changes, out=directory / "run")
    with (directory / "run" / "out_jobs.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == COLUMNS
    jobs = [dict(zip(COLUMNS, row, strict=True)) for row in rows[1:]]
    with (directory / "run" / "out_schedule.csv").open(newline="") as file:
        names, values = csv.reader(file)
    assert names == SCHEDULE
    return jobs, dict(zip(names, values, strict=True)), result


def resources(text: str) -> set[int]:
    found: set[int] = set()
    for part in text.split():
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def check(jobs: list, schedule: dict, n_resources: int) -> None:
    """Check what Batsim's documentation says of the columns."""
    for job in jobs:
        if job["final_state"] == "REJECTED":
            assert [job[name] for name in (*RAN, "consumed_energy", "allocated_resources")] == [""] * 8
            continue
        at = {name: float(job[name]) for name in (*RAN, "submission_time")}
        assert at["execution_time"] == pytest.approx(at["finish_time"] - at["starting_time"], abs=2e-6)
        assert at["waiting_time"] == pytest.approx(at["starting_time"] - at["submission_time"], abs=2e-6)
        assert at["turnaround_time"] == pytest.approx(at["finish_time"] - at["submission_time"], abs=2e-6)
        assert at["stretch"] == pytest.approx(at["turnaround_time"] / at["execution_time"], abs=1e-5)
        assert (job["success"] == "1") == (job["final_state"] == "COMPLETED_SUCCESSFULLY")
    ran = [job for job in jobs if job["final_state"] != "REJECTED"]
    busy = 0.0
    for job in ran:
        held = resources(job["allocated_resources"])
        assert held <= set(range(n_resources))
        assert len(held) == int(job["requested_number_of_resources"])
        busy += len(held) * float(job["execution_time"])
        for other in ran:
            apart = (
                float(job["finish_time"]) <= float(other["starting_time"]) + 1e-6
                or float(other["finish_time"]) <= float(job["starting_time"]) + 1e-6
            )
            assert other is job or apart or not held & resources(other["allocated_resources"])
    span = max(float(job["finish_time"]) for job in ran) - min(float(j["submission_time"]) for j in jobs)
    assert int(schedule["nb_computing_machines"]) == n_resources
    assert float(schedule["makespan"]) == pytest.approx(span, abs=1e-5)
    assert float(schedule["time_computing"]) == pytest.approx(busy, abs=1e-3)
    counts = [len(jobs), len(ran), sum(job["success"] == "1" for job in jobs)]
    assert [int(schedule[f"nb_jobs{name}"]) for name in ("", "_finished", "_success")] == counts
    assert int(schedule["nb_jobs_killed"]) == counts[1] - counts[2]
    assert int(schedule["nb_jobs_rejected"]) == counts[0] - counts[1]
    assert float(schedule["success_rate"]) == pytest.approx(counts[2] / counts[0], abs=1e-6)
    for name, column in (("waiting_time",) * 2, ("turnaround_time",) * 2, ("slowdown", "stretch")):
        values = [float(job[column]) for job in ran]
        assert float(schedule[f"max_{name}"]) == pytest.approx(max(values), abs=1e-5)
        assert float(schedule[f"mean_{name}"]) == pytest.approx(math.fsum(values) / len(values), abs=1e-5)
    states = [float(schedule[f"time_{word}"]) for word in ("computing", "idle", "unavailable")]
    assert sum(states) == pytest.approx(n_resources * span, abs=1e-3)


def test_jobs_of_a_batsim_workload(tmp_path: Path) -> None:
    jobs, schedule, _ = run(tmp_path, {})
    check(jobs, schedule, 8)
    found = [(job["job_id"], job["workload_name"], job["profile"], job["final_state"]) for job in jobs]
    done, limit = "COMPLETED_SUCCESSFULLY", "COMPLETED_WALLTIME_REACHED"
    assert found == [
        ("1", "w0", "long", done),
        ("2", "w1", "a, b", done),
        ("3", "w0", "long", limit),
        ("4", "w0", "a, b", done),
        ("5", "w0", "long", "REJECTED"),
        ("6", "w0", "a, b", done),
    ]
    third = jobs[2]
    assert (third["starting_time"], third["finish_time"], third["stretch"]) == (
        "2.000000",
        "7.000000",
        "1.000000",
    )
    assert third["allocated_resources"] == "7"
    assert jobs[0]["consumed_energy"] == "-1.000000"
    assert schedule["consumed_joules"] == ""
    assert jobs[4]["requested_number_of_resources"] == "64"


@pytest.mark.parametrize(("mapping", "n"), [("core", 16), ("packed", 8)])
def test_resources_are_cores_where_jobs_share_nodes(tmp_path: Path, mapping: str, n: int) -> None:
    jobs, schedule, _ = run(tmp_path, {"workload.mapping": mapping})
    check(jobs, schedule, n)
    sizes = [int(job["requested_number_of_resources"]) for job in jobs]
    assert sizes == ([3, 4, 1, 1, 64, 6] if mapping == "core" else [2, 2, 1, 1, 32, 3])


def test_power_and_outages(tmp_path: Path) -> None:
    power = {"idle": "10 W", "busy": "20 W"}
    node = {"name": "n", "count": 8, "cores": 2, "power": power}
    drain = {"nodes": "7", "start": "50 s", "end": "60 s"}
    jobs, schedule, result = run(tmp_path, {"platform.nodes": [node], "platform.drains": [drain]})
    check(jobs, schedule, 8)
    assert float(jobs[0]["consumed_energy"]) == 3 * 30 * 20
    assert float(schedule["consumed_joules"]) == pytest.approx(result.summary["energy"]["total"])
    assert float(schedule["time_unavailable"]) == 10


def test_jobs_without_profiles_have_names_of_run_times(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text("job_id,submit_time,run_time,processors,walltime\n1,0,30,2,60\n2,0,7.5,2,60\n")
    jobs, schedule, _ = run(tmp_path, {}, path)
    check(jobs, schedule, 8)
    assert [job["profile"] for job in jobs] == ["delay_30", "delay_7.5"]


def test_restarted_failed_and_withdrawn_jobs(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text(
        "job_id,submit_time,run_time,processors,walltime,withdraw_time\n"
        "1,0,30,8,60,\n2,1,0,8,60,5\n3,200,30,8,60,\n"
    )
    failure = {"node": 0, "at": "10 s", "repair": "5 s"}
    for on_failure, word in (("restart", "COMPLETED_SUCCESSFULLY"), ("fail", "COMPLETED_FAILED")):
        place = tmp_path / on_failure
        place.mkdir()
        changes = {"platform.failures": [failure], "batch.on_failure": on_failure}
        jobs, schedule, _ = run(place, changes, path)
        check(jobs, schedule, 8) if on_failure == "fail" else None
        assert jobs[0]["final_state"] == word
        assert (jobs[1]["final_state"], jobs[1]["metadata"]) == ("REJECTED", "withdrawn")
    assert jobs[0]["finish_time"] == "10.000000"


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        run(tmp_path / name, {})
        files = (tmp_path / name / "run" / f"out_{word}.csv" for word in ("jobs", "schedule"))
        found.append([file.read_bytes() for file in files])
    assert found[0] == found[1]
