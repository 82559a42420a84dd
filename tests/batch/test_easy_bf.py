"""batsched's default EASY, whose reservation is of named nodes, against its source written down slowly."""

from __future__ import annotations

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
from tests.reference.batsched import EasyBackfilling, Job

MACHINES = 6


def simulate(jobs: list[tuple[int, int, int, int]], **keys: Any) -> Records:
    columns = ("submit_time", "run_time", "walltime", "processors")
    table = {name: [job[k] for job in jobs] for k, name in enumerate(columns)}
    return mlsim.run(
        {"platform": {"nodes": [{"name": "n", "count": MACHINES, "cores": 1}]}},
        {"workload.mapping": "node", "batch.backfill": "easy", "batch.easy": "easy_bf", **keys},
        workload=pl.DataFrame({"job_id": range(1, len(jobs) + 1), **table}),
    ).records


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


def test_starts_and_nodes_are_those_of_batsched() -> None:
    platform = PlatformConfig.model_validate({"nodes": [{"name": "n", "count": MACHINES, "cores": 1}]})
    machine = build_machine(platform)
    config = BatchConfig.model_validate({"backfill": "easy", "easy": "easy_bf"})
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
        EasyBackfilling(MACHINES).run(twins)
        assert system.jobs().start_time.tolist() == [twin.start for twin in twins], seed
        stays = system.occupancy_rows()
        assert [nodes_of(stays, k) for k in range(n)] == [twin.where for twin in twins], seed


@pytest.mark.parametrize(
    "keys",
    [
        {"batch.ties": "per-event"},
        {"batch.ties": "ends-first"},
        {"batch.pass_interval": "3 s"},
        {"batch.backfill_interval": "3 s"},
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
def test_it_meets_other_features_and_keeps_the_laws(keys: dict[str, Any]) -> None:
    drawn = np.random.default_rng(3)
    submit, run, nodes = drawn.integers(0, 60, 60), drawn.integers(1, 20, 60), drawn.integers(1, 7, 60)
    jobs = list(zip(np.sort(submit), run, run * 2, nodes, strict=True))
    table = {"submit_time": 0, "run_time": 1, "walltime": 2, "processors": 3}
    frame = pl.DataFrame(
        {"job_id": range(60), **{name: [int(job[k]) for job in jobs] for name, k in table.items()}}
    )
    result = mlsim.run(
        {"platform": {"nodes": [{"name": "n", "count": MACHINES, "cores": 1}]}},
        {"workload.mapping": "node", "batch.backfill": "easy", "batch.easy": "easy_bf", **keys},
        workload=frame,
    )
    assert all(verdict.is_kept for verdict in judge(result.records, result.scenario))
    assert result.summary["jobs"]["completed"] + result.summary["jobs"]["killed"] == 60


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
    ],
)
def test_what_it_does_not_know_is_refused_by_name(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        simulate([(0, 1, 1, 1)], **keys)
