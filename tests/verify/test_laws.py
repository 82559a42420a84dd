"""Laws of schedules: planted breaches are found and named, and what mlsim schedules keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import mlsim
from mlsim.record import JobState, Records
from mlsim.scenario import Scenario
from mlsim.verify import Verdict, judge

Rows = tuple[tuple[float, ...], ...]

FOUR_NODES = {"platform": {"nodes": [{"name": "n", "count": 4, "cores": 2}]}, "workload": {"mapping": "node"}}
ROWS: Rows = ((0, 50, 50, 3), (1, 60, 60, 4), (2, 30, 30, 1), (3, 40, 70, 2), (4, 10, 10, 4))
"""Submit time, run time, walltime, nodes."""


@cache
def _run(name: str) -> mlsim.Result:
    return run_of(ROWS, RUNS[name])


def run_of(rows: Rows, keys: Mapping[str, Any], more: Mapping[str, list[Any]] | None = None) -> mlsim.Result:
    """Simulate jobs on four nodes of two cores."""
    columns = ("submit_time", "run_time", "walltime", "processors")
    jobs = {name: [row[k] for row in rows] for k, name in enumerate(columns)}
    jobs |= {"job_id": list(range(1, len(rows) + 1))} | dict(more or {})
    return mlsim.run(FOUR_NODES, keys, workload=pl.DataFrame(jobs))


DRAIN = {"nodes": "0", "start": "100 s", "end": "300 s", "announced": True}
WATTS = {"idle": "100 W", "busy": "200 W", "off": "10 W"}
RUNS: dict[str, dict[str, Any]] = {
    "easy": {"batch.backfill": "easy"},
    "conservative": {"batch.backfill": "conservative"},
    "cores": {"workload.mapping": "core"},
    "memory": {
        "workload.mapping": "core",
        "platform.nodes.0.memory": "8 GB",
        "workload.request.default_memory": "3 GB",
    },
    "shared": {"platform.shared": {"licence": 2}, "workload.request.shared": {"licence": 1}},
    "drain": {"batch.backfill": "easy", "platform.drains": [DRAIN]},
    "told": {"batch.backfill": "easy", "platform.drains": [DRAIN | {"announced_at": "60 s"}]},
    "failure": {"platform.failures": [{"node": 0, "at": "20 s", "repair": "30 s"}]},
    "restart": {
        "platform.failures": [{"node": 0, "at": "20 s", "repair": "30 s"}],
        "batch.on_failure": "restart",
    },
    "cap": {
        "platform.nodes.0.power": WATTS,
        "batch.power_cap": [["0 s", "800 W"], ["45 s", "700 W"]],
        "batch.backfill": "greedy",
    },
}


def broken(records: Records, scenario: Scenario, promise: str | None = None) -> dict[str, Verdict]:
    """Return the laws that are broken."""
    return {verdict.law: verdict for verdict in judge(records, scenario, promise) if not verdict.is_kept}


def with_column(records: Records, table: str, column: str, row: int, value: float) -> Records:
    """Return the records with one value changed."""
    found = getattr(records, table)
    values = np.array(getattr(found, column))
    values[row] = value
    return replace(records, **{table: replace(found, **{column: values})})


@pytest.mark.parametrize("name", RUNS)
def test_a_right_run_keeps_every_law(name: str) -> None:
    run = _run(name)
    assert broken(run.records, run.scenario) == {}


@pytest.mark.parametrize(
    ("name", "table", "column", "job", "value", "law", "text"),
    [
        ("easy", "jobs", "submit_time", 4, 1000.0, "arrival", "starts before it may, at 1000 s"),
        ("easy", "jobs", "walltime", 0, 49.0, "walltime", "ends after its walltime, which is over at 49 s"),
        ("easy", "jobs", "end_time", 0, -1.0, "walltime", "ends before its start at 0 s"),
        ("easy", "jobs", "cores", 0, 2, "stays", "holds 6 cores on 3 nodes; its row says 2 cores"),
        ("easy", "jobs", "processors", 0, 4, "stays", "and it asked for 4 processors"),
        ("easy", "jobs", "state", 0, JobState.REJECTED, "stays", "holds node 0 until 50 s"),
        ("easy", "occupancy", "end", 0, 51.0, "stays", "until 51 s, and runs from 0 to 50 s (completed)"),
        ("easy", "occupancy", "start", 0, -1.0, "stays", "holds node 0 until 50 s, and runs from 0 to 50 s"),
        ("easy", "occupancy", "node", 2, 0, "capacity", "node 0 (n0) holds 4 cores with it, and has 2"),
        ("easy", "occupancy", "cores", 0, 3, "capacity", "node 0 (n0) holds 3 cores with it, and has 2"),
        ("easy", "occupancy", "node", 0, 2, "capacity", "holds nodes 2 to 4, and there are 4"),
        ("cores", "occupancy", "cores", 0, 3, "capacity", "node 0 (n0) holds 3 cores with it, and has 2"),
        ("shared", "shared", "capacity", None, 1, "shared", "2 of licence are held with it, and there are 1"),
        ("drain", "occupancy", "start", 0, 100.0, "drains", "starts on nodes 0 to 2, of which 0 to 0 are"),
        ("drain", "jobs", "prediction", 0, 101.0, "drains", "expected until 101 s, starts on nodes 0 to 2"),
        ("failure", "occupancy", "end", 0, 20.5, "failures", "node 0, which is out of use from 20 to 50 s"),
        ("restart", "occupancy", "end", 0, 20.5, "stays", "holds node 0 until 20.5 s"),
    ],
)
def test_a_planted_breach_is_found_with_job_time_and_numbers(
    name: str, table: str, column: str, job: int | None, value: float, law: str, text: str
) -> None:
    run = _run(name)
    rows = getattr(run.records, table)
    row = 0 if job is None else job if table == "jobs" else int(np.flatnonzero(rows.job == job)[0])
    found = broken(with_column(run.records, table, column, row, value), run.scenario)
    assert law in found
    breach = found[law].breaches[0]
    assert text in str(breach)
    if job is not None:
        assert any(breach.job_id == job + 1 for breach in found[law].breaches)


def test_memory_counts_as_cores_do() -> None:
    run = _run("memory")
    asked = dict(run.records.own.of)
    assert asked["request_memory"].tolist() == [3000 * row[3] for row in ROWS]
    asked["request_memory"] = asked["request_memory"] * 2
    found = broken(replace(run.records, own=replace(run.records.own, of=asked)), run.scenario)
    assert set(found) == {"capacity"}
    assert "node 0 (n0) holds 12000 memory with it, and has 8000" in str(found["capacity"].breaches[0])


def test_whole_nodes_are_of_one_job_even_where_cores_would_do() -> None:
    run = _run("easy")
    records = with_column(run.records, "occupancy", "cores", 0, 1)
    row = int(np.flatnonzero(run.records.occupancy.job == 2)[0])
    records = with_column(with_column(records, "occupancy", "cores", row, 1), "occupancy", "node", row, 0)
    assert "node 0 (n0) holds 2 jobs at once" in str(broken(records, run.scenario)["capacity"].breaches[0])


def test_a_job_of_no_length_needs_room_beside_those_that_go_on() -> None:
    run = run_of(((0, 10, 10, 4), (5, 0, 1, 1), (5, 5, 5, 1)), {})
    assert broken(run.records, run.scenario) == {}
    records = run.records
    for table in ("jobs", "occupancy"):
        columns = ("start_time", "end_time") if table == "jobs" else ("start", "end")
        for column in columns:
            records = with_column(records, table, column, 1, 5.0)
    assert "jobs at once" in str(broken(records, run.scenario)["capacity"].breaches[-1])


def test_a_job_that_depends_on_others_starts_when_it_is_eligible() -> None:
    more = {"preceding_job": [-1, 1, -1, -1, -1], "think_time": [0, 100, 0, 0, 0]}
    run = run_of(ROWS, {"workload.dependencies": True}, more)
    assert broken(run.records, run.scenario) == {}
    early = with_column(run.records, "jobs", "eligible_time", 1, 1e4)
    assert "starts before it may, at 10000 s" in str(broken(early, run.scenario)["arrival"].breaches[0])


def test_a_drain_binds_from_its_announcement_on() -> None:
    run = _run("told")
    assert run.records.jobs.start_time[0] == 0.0
    long = with_column(run.records, "jobs", "prediction", 0, 500.0)
    assert "drains" not in broken(long, run.scenario)
    told = _run("drain")
    assert "drains" in broken(with_column(told.records, "jobs", "prediction", 0, 500.0), told.scenario)


def test_every_attempt_belongs_to_its_job() -> None:
    run = _run("restart")
    assert len(run.records.attempts.job) == 1
    started = with_column(run.records, "attempts", "start", 0, -5.0)
    assert "arrival" in broken(started, run.scenario)


def test_the_power_cap_of_each_time_is_kept_by_starts() -> None:
    run = _run("cap")
    power = run.records.nodes.power
    assert power is not None
    lower = {**RUNS["cap"], "batch.power_cap": [["0 s", "800 W"], ["45 s", "550 W"]]}
    (breach,) = broken(run.records, run_of(ROWS[:1], lower).scenario)["power cap"].breaches
    assert str(breach) == "job 4 at 50 s: starts, and the machine takes 600 W then; the cap is 550 W"
    hotter = replace(run.records.nodes, power=replace(power, busy=power.busy + 60.0))
    found = broken(replace(run.records, nodes=hotter), run.scenario)["power cap"]
    assert str(found.breaches[0]).endswith("starts, and the machine takes 880 W then; the cap is 800 W")


def test_a_greedy_schedule_breaks_both_promises() -> None:
    rows: Rows = ((0, 50, 70, 3), (1, 60, 60, 4), (2, 90, 95, 1))
    run = run_of(rows, {"batch.backfill": "greedy"})
    assert broken(run.records, run.scenario) == {}
    easy = broken(run.records, run.scenario, "easy")["EASY's promise"]
    assert [str(breach) for breach in easy.breaches] == [
        "job 3 at 2 s: starts at 2 s on 1 units, expected until 97 s, and delays job 2, which needs 4 units "
        "and has a reservation at 70 s: it would start at 97 s (easy)"
    ]
    exact = run_of(tuple((s, r, r, n) for s, r, _, n in rows), {"batch.backfill": "greedy"})
    conservative = broken(exact.records, exact.scenario, "conservative")["conservative's promise"]
    assert "job 3 at 2 s: starts at 2 s on 1 units, expected until 92 s" in str(conservative.breaches[0])
    assert "delays job 2, which needs 4 units and has a reservation at 50 s" in str(conservative.breaches[0])


def test_easy_delays_what_conservative_does_not() -> None:
    rows: Rows = ((0, 10, 10, 3), (1, 10, 10, 4), (2, 20, 20, 3), (3, 9, 9, 1), (4, 25, 25, 1))
    for backfill, promise, count in (("easy", "conservative", 0), ("conservative", "easy", 0)):
        run = run_of(rows, {"batch.backfill": backfill})
        assert sum(v.count for v in judge(run.records, run.scenario, promise)) == count
    rows = ((0, 10, 10, 3), (1, 10, 10, 3), (2, 20, 20, 4), (3, 40, 40, 1))
    run = run_of(rows, {"batch.backfill": "easy"})
    assert "conservative's promise" in broken(run.records, run.scenario, "conservative")
    assert broken(run.records, run.scenario, "easy") == {}


def test_a_policys_order_says_who_was_the_head() -> None:
    rows: Rows = ((0, 10, 10, 3), (1, 30, 30, 4), (2, 20, 20, 4), (12, 5, 5, 4))
    run = run_of(rows, {"batch.backfill": "easy", "batch.policy": "SPF"})
    assert run.records.jobs.start_time.tolist() == [0.0, 35.0, 10.0, 30.0]
    assert broken(run.records, run.scenario) == {}
    late = run.records
    for column in ("start_time", "end_time"):
        late = with_column(late, "jobs", column, 2, getattr(late.jobs, column)[2] + 1.0)
    assert "EASY's promise" in broken(late, run.scenario)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"batch.easy": "accasim"}, "makes no promise"),
        ({"batch.policy": "WFP"}, "do not show the order of policy WFP"),
        ({"batch.policy": "SPF", "batch.threshold": "1 h"}, "order of the queue changes"),
        ({"platform.drains": [DRAIN]}, "out of use"),
        ({"platform.nodes.0.memory": "8 GB"}, "more than any units"),
        ({"batch.allocator": "contiguous", "batch.contiguity": "strict"}, "not any units will do"),
    ],
)
def test_what_cannot_be_judged_is_said(keys: dict[str, Any], reason: str) -> None:
    run = run_of(ROWS, {"batch.backfill": "easy", **keys})
    (verdict,) = [v for v in judge(run.records, run.scenario) if v.law == "EASY's promise"]
    assert reason in verdict.reason
    assert verdict.is_kept
    assert not verdict.judged


SCENARIOS = Path(__file__).parents[2] / "scenarios"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("generated", marks=pytest.mark.slow),
        "licences",
        "maintenance",
        "power-cap",
        "power-cap-unequal",
        "quickstart",
        "custom/allocator",
        "custom/dispatcher",
        "custom/policy",
    ],
)
def test_shipped_scenarios_keep_every_law(name: str) -> None:
    run = mlsim.run(SCENARIOS / f"{name}.yaml")
    assert broken(run.records, run.scenario) == {}
