"""batsched's reservations of named nodes, easy_bf and conservative_bf, against its source written slowly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

import mlsim
from mlsim.batch.batch_system import BatchSystem
from mlsim.batch.room.unit_requests import Requests
from mlsim.cosim.coupling import RigidApplications
from mlsim.errors import InputError
from mlsim.platform import build_machine
from mlsim.record import Occupancy, Records
from mlsim.scenario import BatchConfig, PlatformConfig
from mlsim.scenario.words import Mapping
from mlsim.verify import judge
from tests.batch.builders import block
from tests.effort import examples
from tests.reference.batsched import ConservativeBackfilling, EasyBackfilling, Job

MACHINES = 6
EASY = {"batch.backfill": "easy", "batch.easy": "easy_bf"}
CONSERVATIVE = {"batch.backfill": "conservative", "batch.compression": "conservative_bf"}


def simulate(jobs: list[tuple[int, int, int, int]], **keys: Any) -> Records:
    return simulate_whole(jobs, **keys).records


def simulate_whole(jobs: list[tuple[int, int, int, int]], **keys: Any) -> mlsim.Result:
    columns = ("submit_time", "run_time", "walltime", "processors")
    table = {name: [job[k] for job in jobs] for k, name in enumerate(columns)}
    return mlsim.run(
        {"platform": {"nodes": [{"name": "n", "count": MACHINES, "cores": 1}]}},
        {"workload.mapping": "node", **EASY, **keys},
        workload=pl.DataFrame({"job_id": range(1, len(jobs) + 1), **table}),
    )


def nodes_of(stays: Occupancy, job: int) -> frozenset[int]:
    rows = np.flatnonzero(stays.job == job)
    return frozenset(
        int(node) for row in rows for node in range(stays.node[row], stays.node[row] + stays.count[row])
    )


def test_a_long_job_keeps_off_the_reserved_nodes() -> None:
    jobs = [(0, 5, 5, 1), (0, 100, 100, 4), (0, 5, 5, 1), (6, 50, 50, 3), (7, 900, 900, 1), (7, 900, 900, 1)]
    starts = {
        easy: simulate(jobs, **{"batch.easy": easy}).jobs.start_time.tolist()[3:]
        for easy in ("standard", "batsched", "easy_bf")
    }
    # Of the free nodes 0 and 5 the head, which gets 0, 1 and 2 at 100 s, leaves node 5.
    assert starts == {
        "standard": [100.0, 7.0, 7.0],
        "batsched": [100.0, 100.0, 100.0],
        "easy_bf": [100.0, 7.0, 100.0],
    }
    assert nodes_of(simulate(jobs).occupancy, 4) == {5}


def test_a_long_job_does_not_start_on_nodes_that_a_reservation_names() -> None:
    # Job 3 is to have nodes 0 to 3 from 7 s to 10 s, so of the free nodes 0 and 1 none is free for job 4.
    jobs = [(0, 3, 3, 2), (1, 6, 6, 4), (2, 3, 3, 4), (3, 8, 8, 1)]
    found = {
        rule: simulate(jobs, **{**CONSERVATIVE, "batch.compression": rule})
        for rule in ("one-round", "conservative_bf")
    }
    starts = {rule: records.jobs.start_time.tolist() for rule, records in found.items()}
    assert starts == {"one-round": [0.0, 1.0, 7.0, 3.0], "conservative_bf": [0.0, 1.0, 7.0, 7.0]}
    assert nodes_of(found["conservative_bf"].occupancy, 3) == {4}


RULES = [
    ({"backfill": "easy", "easy": "easy_bf"}, EasyBackfilling),
    ({"backfill": "conservative", "compression": "conservative_bf"}, ConservativeBackfilling),
    (
        {"backfill": "conservative", "compression": "conservative_bf", "policy": "SPF"},
        lambda machines: ConservativeBackfilling(machines, lambda job: job.walltime),
    ),
]


@pytest.mark.parametrize(
    ("rule", "twin_of"), RULES, ids=["easy_bf", "conservative_bf", "conservative_bf SPF"]
)
def test_starts_and_nodes_are_those_of_batsched(
    rule: dict[str, str], twin_of: Callable[[int], EasyBackfilling]
) -> None:
    platform = PlatformConfig.model_validate({"nodes": [{"name": "n", "count": MACHINES, "cores": 1}]})
    machine = build_machine(platform)
    config = BatchConfig.model_validate(rule)
    requests = Requests.on(machine, Mapping.NODE)
    for seed in range(examples(200)):
        drawn = np.random.default_rng(seed)
        n = int(drawn.integers(2, 40))
        submit = np.sort(drawn.integers(0, drawn.choice([1, 30, 200]), n)).astype(float)
        run, nodes = drawn.integers(1, 20, n).astype(float), drawn.integers(1, MACHINES + 1, n)
        walltime = run * drawn.integers(1, 3, n) - drawn.integers(0, 2, n) * (run > 1)
        system = BatchSystem(machine, config, requests)
        system.run([block(submit, run, walltime, nodes)], RigidApplications(system))
        twins = [
            Job(k, *map(float, row), int(q))
            for k, (*row, q) in enumerate(zip(submit, run, walltime, nodes, strict=True))
        ]
        twin_of(MACHINES).run(twins)
        assert system.jobs().start_time.tolist() == [twin.start for twin in twins], seed
        stays = system.occupancy_rows()
        assert [nodes_of(stays, k) for k in range(n)] == [twin.where for twin in twins], seed


@pytest.mark.parametrize("rule", [EASY, CONSERVATIVE], ids=["easy_bf", "conservative_bf"])
@pytest.mark.parametrize(
    "keys",
    [
        {"batch.ties": "per-event"},
        {"batch.ties": "ends-first"},
        {"batch.pass_interval": "3 s"},
        {"batch.on_overrun": "extend"},
        {"batch.allocator": "best-fit"},
        {"batch.allocator": "random"},
        {"batch.predictor": "EASY++", "batch.on_overrun": "extend"},
        {"batch.threshold": "5 s"},
        {"workload.mapping": "core"},
        {"platform.nodes.0.memory": "8 GB", "workload.request.default_memory": "8 GB"},
        {"platform.shared": {"licence": 3}, "workload.request.shared": {"licence": 1}},
        {"platform.failures": [{"node": 2, "at": "9 s", "repair": "5 s"}], "batch.on_failure": "restart"},
        {"platform.drains": [{"nodes": "1", "start": "9 s", "end": "20 s"}]},
    ],
    ids=str,
)
def test_it_meets_other_features_and_keeps_the_laws(keys: dict[str, Any], rule: dict[str, str]) -> None:
    drawn = np.random.default_rng(3)
    submit, run, nodes = drawn.integers(0, 60, 60), drawn.integers(1, 20, 60), drawn.integers(1, 7, 60)
    jobs = list(zip(np.sort(submit), run, run * 2, nodes, strict=True))
    table = {"submit_time": 0, "run_time": 1, "walltime": 2, "processors": 3}
    frame = pl.DataFrame(
        {"job_id": range(60), **{name: [int(job[k]) for job in jobs] for name, k in table.items()}}
    )
    result = mlsim.run(
        {"platform": {"nodes": [{"name": "n", "count": MACHINES, "cores": 1}]}},
        {"workload.mapping": "node", **rule, **keys},
        workload=frame,
    )
    assert all(verdict.is_kept for verdict in judge(result.records, result.scenario))
    assert result.summary["jobs"]["completed"] + result.summary["jobs"]["killed"] == 60


@pytest.mark.parametrize(
    "keys",
    [
        {"platform.drains": [{"nodes": "1-3", "start": "30 s", "end": "50 s", "announced": True}]},
        {"batch.policy": "SAF"},
        {
            "application.model": "loop",
            "application.iterations.count": 64,
            "application.technique": "FAC2",
            "coordination.rca": True,
        },
    ],
    ids=str,
)
def test_conservative_bf_plans_with_what_conservative_does(keys: dict[str, Any]) -> None:
    drawn = np.random.default_rng(5)
    submit, run, nodes = drawn.integers(0, 60, 60), drawn.integers(1, 20, 60), drawn.integers(1, 5, 60)
    jobs = list(zip(np.sort(submit).tolist(), run.tolist(), (run * 2).tolist(), nodes.tolist(), strict=True))
    result = simulate_whole(jobs, **CONSERVATIVE, **keys)
    assert all(verdict.is_kept for verdict in judge(result.records, result.scenario))
    assert not np.isnan(result.records.jobs.start_time).any()


def test_a_promise_of_named_nodes_is_not_judged_by_numbers() -> None:
    jobs = [(0, 3, 3, 2), (1, 6, 6, 4), (2, 3, 3, 4), (3, 8, 8, 1)]
    for rule, judged in {"one-round": True, "conservative_bf": False}.items():
        result = simulate_whole(jobs, **{**CONSERVATIVE, "batch.compression": rule})
        verdicts = {verdict.law: verdict for verdict in judge(result.records, result.scenario)}
        assert all(verdict.is_kept for verdict in verdicts.values())
        assert bool(verdicts["conservative's promise"].judged) is judged


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"batch.policy": "SPF"}, "easy_bf serves first come first"),
        ({"batch.reservations": 2}, "easy_bf has one reservation"),
        ({"batch.engine": "replay"}, r"batch\.easy"),
        ({"batch.classifier": {}}, "needs easy: standard"),
        (
            {"platform.nodes.0.power": {"idle": "1 W", "busy": "2 W"}, "batch.power_cap": "9 W"},
            "reserves nodes, and no power",
        ),
        (
            {"platform.drains": [{"nodes": "1", "start": "9 s", "end": "20 s", "announced": True}]},
            "only the standard EASY plans around announced drains",
        ),
        ({"coordination.rca": True, "coordination.released_nodes": "short-first"}, "not that of easy_bf"),
        (
            {
                **CONSERVATIVE,
                "batch.easy": "standard",
                "platform.nodes.0.power": {"idle": "1 W", "busy": "2 W"},
                "batch.power_cap": "9 W",
            },
            "conservative_bf reserves nodes, and no power",
        ),
        ({**CONSERVATIVE, "batch.easy": "standard", "batch.engine": "replay"}, r"batch\.compression"),
    ],
)
def test_what_it_does_not_know_is_refused_by_name(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        simulate([(0, 1, 1, 1)], **keys)
