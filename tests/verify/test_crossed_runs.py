"""Runs in which features meet, judged as ``mlsim verify RUN`` does: right ones are blamed for nothing."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlsim
from mlsim.errors import InputError
from mlsim.verify import laws
from mlsim.verify.plain_schedules import Findings
from mlsim.verify.rule_walk import judge_rule
from mlsim.verify.run_schedule import Schedule, obstacles, schedule_of_run
from tests.effort import examples

RULES = {"none": "fcfs", "easy": "easy", "conservative": "conservative", "greedy": "none"}
COLUMNS = ("submit_time", "run_time", "walltime", "processors")


def judged(result: mlsim.Result) -> tuple[str, Findings]:
    """Return why the rule of a run is not judged, if so, and what is found."""
    run = Schedule(result.records, result.scenario)
    rule, reading = laws.rule_of(run, RULES[result.scenario.batch.backfill.value])
    found = Findings()
    for verdict in laws.judge_laws(run):
        for breach in verdict.breaches:
            found.add("law", [str(breach.job_id)], breach.time, "{} at {}: {}", breach.text)
    reason = next(obstacles(run, rule.name), "")
    if not reason:
        found.join(judge_rule(schedule_of_run(run), rule, reading=reading)[0])
    return reason, found


def drawn(rng: random.Random) -> tuple[dict[str, Any], dict[str, Any], pl.DataFrame]:
    """Draw a machine, keys of a scenario and a workload."""
    units, n, spread = rng.randint(2, 6), rng.randint(3, 20), rng.choice([10, 30, 100])
    rows = []
    for _ in range(n):
        run = rng.choice([1, 5, 40]) if rng.random() < 0.2 else rng.randrange(1, 40)
        walltime = max(1, run + rng.choice([0, rng.randrange(40), -rng.randrange(10)]))
        rows.append((rng.randrange(spread), run, walltime, rng.randint(1, units)))
    table = {name: [row[k] for row in rows] for k, name in enumerate(COLUMNS)} | {"job_id": range(1, n + 1)}
    group: dict[str, Any] = {"name": "n", "count": units, "cores": 1}
    keys: dict[str, Any] = {
        "workload.mapping": "node",
        "batch.backfill": rng.choice(["none", "easy", "easy", "conservative", "conservative", "greedy"]),
        "batch.policy": rng.choice(["FCFS"] * 4 + ["SPF", "SAF", "LPF", "LCFS", "SQF", "EDF", "SRF", "WFP"]),
        "batch.on_overrun": rng.choice(["kill", "extend"]),
        "batch.ties": rng.choice(["drained", "drained", "per-event", "ends-first"]),
        "batch.engine": rng.choice(["auto", "auto", "simpy"]),
    }
    for draw in rng.sample(FEATURES, rng.choice([1, 2, 2, 3])):
        draw(rng, keys, group, table)
    return {"platform": {"nodes": [group]}}, keys, pl.DataFrame({**table, "job_id": list(table["job_id"])})


def _easy(rng, keys, group, table):
    if keys["batch.backfill"] == "easy":
        keys["batch.easy"] = rng.choice(["accasim", "cqsim", "batsched", "easy_bf"])
        keys["batch.policy"] = "FCFS"


def _backfilling(rng, keys, group, table):
    if keys["batch.backfill"] == "easy":
        keys["batch.reservations"] = rng.choice([2, 4])
    if keys["batch.backfill"] in ("easy", "greedy"):
        keys["batch.backfill_order"] = rng.choice(["SPF", "LPF", "SAF"])
    if keys["batch.backfill"] == "conservative":
        keys["batch.compression"] = rng.choice(["one-round", "every-end", "conservative_bf"])


def _intervals(rng, keys, group, table):
    is_walk = keys["batch.backfill"] in ("easy", "greedy")
    key = rng.choice(["pass_interval", "backfill_interval"]) if is_walk else "pass_interval"
    keys[f"batch.{key}"] = f"{rng.choice([3, 10])} s"


def _predictor(rng, keys, group, table):
    keys["batch.predictor"] = rng.choice(["actual", "L2", "D", "D2", "EASY++"])
    table["user"] = [rng.choice("ab") for _ in table["job_id"]]


def _cap(rng, keys, group, table):
    group["power"], count, cores = {"idle": "10 W", "busy": "110 W"}, group["count"], group["cores"]
    most = count * 10 + 100 * max(1, count - rng.randint(0, 2)) + rng.choice([0, 50 // cores])
    later = [["0 s", f"{most} W"], ["20 s", f"{count * 110} W"]]
    keys["batch.power_cap"] = rng.choice([f"{most} W", f"{most} W", later])


def _shared(rng, keys, group, table):
    keys["platform.shared"] = {"licence": 3}
    table["request_licence"] = [rng.choice([0, 0, 1, 2, 3]) for _ in table["job_id"]]


def _memory(rng, keys, group, table):
    group["memory"] = "8 GB"
    table["request_memory"] = [rng.choice([1, 1000, 8000]) for _ in table["job_id"]]


def _mapping(rng, keys, group, table):
    group["cores"], keys["workload.mapping"] = rng.choice([2, 3]), rng.choice(["core", "packed"])
    most = group["cores"] * group["count"]
    table["processors"] = [rng.randint(1, most) for _ in table["job_id"]]


def _outages(rng, keys, group, table):
    start, announced = f"{rng.randrange(50)} s", rng.random() < 0.5
    if rng.random() < 0.5:
        keys["platform.drains"] = [{"nodes": "0", "start": start, "end": "70 s", "announced": announced}]
    else:
        keys["platform.failures"] = [{"node": 0, "at": start, "repair": "20 s"}]
        keys["batch.on_failure"] = rng.choice(["die", "restart", "resume"])


def _order(rng, keys, group, table):
    if rng.random() < 0.5:
        keys["batch.threshold"] = f"{rng.choice([5, 20])} s"
    else:
        keys["batch.classifier"] = {"by": "actual"}


def _dependencies(rng, keys, group, table):
    keys["workload.dependencies"] = True
    table["preceding_job"] = [-1, *(rng.choice([-1, rng.randint(1, k)]) for k in table["job_id"][:-1])]
    keys["workload.feedback"] = rng.random() < 0.3


def _withdrawn(rng, keys, group, table):
    keys["workload.never_ran"] = "withdraw"
    for k in rng.sample(range(len(table["job_id"])), 2):
        table["run_time"][k] = -1
    times = zip(table["submit_time"], table["run_time"], strict=True)
    table["withdraw_time"] = [at + rng.randrange(1, 30) if run < 0 else -1 for at, run in times]


def _allocator(rng, keys, group, table):
    keys["batch.allocator"] = rng.choice(["random", "contiguous", "best-fit", "demand-aware"])
    if keys["batch.allocator"] == "contiguous":
        keys["batch.contiguity"] = rng.choice(["prefer", "strict"])


def _loops(rng, keys, group, table):
    costs = {"profile": "job", "variation": 0.8}
    keys["application"] = {"model": "loop", "iterations": {"per_pe": 4}, "technique": "FAC2", "costs": costs}
    keys["coordination.rca"] = rng.random() < 0.5


FEATURES = [_easy, _backfilling, _intervals, _predictor, _cap, _shared, _memory, _mapping, _outages, _order]
FEATURES += [_dependencies, _withdrawn, _allocator, _loops]


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(300))
@given(st.integers(0, 10**6))
def test_right_runs_of_crossed_features_are_blamed_for_nothing(seed: int) -> None:
    base, keys, table = drawn(random.Random(seed))
    try:
        result = mlsim.run(base, keys, workload=table)
    except InputError:  # features that exclude each other
        return
    reason, found = judged(result)
    assert not found.counts, (keys, reason, found.described)
