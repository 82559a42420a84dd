"""Runs that share the outcomes of their loops give the same bytes as runs that do not."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlsim._runtime import shared_cache
from mlsim.application import known_loops
from mlsim.cosim import simulation
from mlsim.scenario import from_mapping

JOBS = 60


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    shared_cache.forget()
    yield
    shared_cache.forget()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Jobs of 1 to 6 nodes that queue and depend on others, some with loops of their own."""
    place, draw = tmp_path_factory.mktemp("known"), np.random.default_rng(3)
    lines, submit = (
        ["job_id,submit_time,run_time,walltime,processors,executable,dependencies,loop_iterations"],
        0,
    )
    for job in range(1, JOBS + 1):
        submit += int(draw.integers(0, 60))
        run = int(draw.choice([40, draw.integers(1, 600)]))
        wall = int(run * draw.choice([0.7, 1.0, 3.0])) + 1
        after = f"afterany:{job - 2}" if job % 13 == 0 else ""
        own = 30 if job % 7 == 0 else -1
        lines.append(f"{job},{submit},{run},{wall},{draw.integers(1, 13)},{job % 3},{after},{own}")
    (place / "jobs.csv").write_text("\n".join(lines) + "\n")
    (place / "costs.csv").write_text("cost\n" + "".join(f"{1 + k % 5}\n" for k in range(30)))
    return place


BASE: dict[str, Any] = {
    "seed": 5,
    "platform": {"nodes": [{"name": "n", "count": 6, "cores": 2, "speed": 1e9}]},
    "workload": {"path": "jobs.csv", "mapping": "packed"},
    "batch": {"backfill": "easy", "on_overrun": "extend"},
    "application": {
        "model": "loop",
        "iterations": {"per_pe": 8},
        "costs": {"profile": "job", "variation": 0.5, "calibrate": "recorded"},
        "technique": "FAC2",
    },
}
RUNS: list[dict[str, Any]] = [
    {"workload": {"select": {"scale_load": load}}, "coordination": {"rca": rca}}
    for load in (1.0, 1.3)
    for rca in (False, True)
]
MIXED = [
    {"name": "slow", "count": 3, "cores": 2, "speed": 1e9},
    {"name": "fast", "count": 3, "cores": 2, "speed": 2e9},
]
SHARED: dict[str, dict[str, Any]] = {
    "plain": {},
    "static": {"application": {"technique": "STATIC"}},
    "af": {"application": {"technique": "AF"}},
    "cores": {"workload": {"mapping": "core"}},
    "nodes": {"application": {"pes_per_node": 1}},
    "speeds": {"platform": {"nodes": MIXED}, "application": {"costs": {"calibrate": "none"}}},
    "weighed": {"platform": {"nodes": MIXED}, "application": {"technique": "WF"}},
    "random": {"application": {"technique": "RND"}},
    "steps": {"application": {"time_steps": 3, "technique": "AWF"}},
    "masters": {"application": {"execution": {"model": "cca", "chunk_assignment": "1 us"}}},
    "to another": {"application": {"costs": {"calibrate_to": {"technique": "GSS"}}}},
    "killed": {"batch": {"on_overrun": "kill"}},
    "event by event": {"batch": {"engine": "simpy"}},
    "requests": {
        "coordination": {"rca": True, "requests": "head-of-queue", "answer": "tolerance", "tolerance": 0.5}
    },
    "idle": {"coordination": {"rca": True, "requests": "head-of-queue", "answer": "idle-only"}},
    "failures": {
        "platform": {"failures": [{"node": 2, "at": f"{at} s", "repair": "50 s"} for at in (300, 700, 1500)]},
        "batch": {"on_failure": "requeue"},
    },
    "several": {
        "application": None,
        "applications": {
            "rigid": {"model": "fixed"},
            "loops": BASE["application"],
            "others": {**BASE["application"], "technique": "GSS"},
        },
        "assign": [
            {"where": {"executable": [0]}, "application": "rigid"},
            {"where": {"executable": [1]}, "application": "others"},
            {"default": "loops"},
        ],
    },
}
OWN: dict[str, dict[str, Any]] = {
    "to levels": {
        "workload": {"mapping": "core"},
        "application": {"costs": {"calibrate_to": {"technique": "FAC2+SS", "model": "hdca"}}},
    },
    "levels": {"application": {"technique": "FAC2+SS", "execution": {"model": "hdca"}}},
    "auto": {"application": {"technique": "auto", "time_steps": 2, "costs": {"calibrate": "none"}}},
    "steal": {"application": {"execution": {"model": "steal"}}},
    "ahead": {"application": {"execution": {"request_ahead": 2}}},
    "cyclic": {"application": {"technique": "CYCLIC"}},
    "file": {
        "application": {
            "iterations": None,
            "costs": {"profile": "file", "path": "costs.csv", "variation": None, "calibrate": "run-time"},
        }
    },
    "slowed": {
        "platform": {"perturbations": [{"nodes": "n", "factor": 0.5, "from": "100 s", "to": "900 s"}]}
    },
    "traced": {"output": {"trace": "nodes"}},
}


def merged(one: Any, other: Any) -> Any:
    """Return a mapping with the values of another in it; None takes a key out."""
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return copy.deepcopy(other)
    both = {key: merged(one.get(key), value) for key, value in other.items() if value is not None}
    return {key: value for key, value in one.items() if key not in other} | both


def outcome(place: Path, *changes: dict[str, Any]) -> simulation.Outcome:
    content = BASE
    for change in changes:
        content = merged(content, change)
    return simulation.simulate(from_mapping(content, directory=place))


def flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if is_dataclass(value):
        for field in fields(value):
            yield from flat(getattr(value, field.name), f"{name}.{field.name}")
    elif isinstance(value, np.ndarray):
        yield name, (value.dtype, value.shape, value.tobytes())
    else:
        yield name, repr(value)


def facts(result: simulation.Outcome) -> dict[str, Any]:
    return dict(flat(result.records)) | {"simulated": result.simulated, "notes": result.notes}


def stores() -> list[Any]:
    """Return the stores of known loops."""
    kept = shared_cache._kept.get("known loops")
    return [] if kept is None else list(kept[0].of.values())


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that grows with each look-up: whether the loop was known."""
    looked_up: list[bool] = []
    find = known_loops.KnownLoops.find

    def counted(self: known_loops.KnownLoops, key: bytes) -> Any:
        loop = find(self, key)
        looked_up.append(loop is not None)
        return loop

    monkeypatch.setattr(known_loops.KnownLoops, "find", counted)
    return looked_up


def check(place: Path, changes: dict[str, Any]) -> None:
    """Compare runs that share with those that do not."""
    alone = [facts(outcome(place, run, changes)) for run in RUNS]
    assert not stores()
    with shared_cache.sharing():
        together = [facts(outcome(place, run, changes)) for run in RUNS]
    for one, other in zip(alone, together, strict=True):
        assert one.keys() == other.keys()
        assert not [name for name in one if one[name] != other[name]]


@pytest.mark.parametrize("name", SHARED)
def test_shared_loops_are_the_same_to_the_byte(name: str, place: Path, found: list[bool]) -> None:
    check(place, SHARED[name])
    assert sum(found) > JOBS / 2
    assert stores()


@pytest.mark.parametrize("name", OWN)
def test_loops_that_depend_on_more_are_not_shared(name: str, place: Path, found: list[bool]) -> None:
    check(place, OWN[name])
    assert not found


def test_without_room_loops_are_simulated(
    place: Path, found: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_loops, "MOST_BYTES", 10_000)
    check(place, {})
    (store,) = stores()
    assert 0 < store.size <= 10_000
    assert 0 < sum(found) < len(found) / 2


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 6},
        {"application": {"costs": {"variation": 0.4}}},
        {"application": {"technique": "GSS"}},
        {"application": {"execution": {"chunk_calculation": "1 us"}}},
        {
            "platform": {
                "nodes": [{"name": "n", "count": 6, "cores": 2, "speed": 2e9}],
                "reference_speed": 1e9,
            }
        },
        {"platform": {"network": {"intra_node_latency": "1 ms"}}},
    ],
)
def test_loops_of_others_are_not_found(place: Path, found: list[bool], other: dict[str, Any]) -> None:
    with shared_cache.sharing():
        outcome(place)
        found.clear()
        again = facts(outcome(place, other))
    assert found
    assert not any(found)
    assert again == facts(outcome(place, other))


def test_jobs_that_cannot_take_their_run_time_are_counted_by_every_run(place: Path) -> None:
    slow = {"platform": {"network": {"latency": "10 s"}}}
    check(place, slow)
    with shared_cache.sharing():
        counts = [outcome(place, slow).simulated for _ in range(2)]
    assert counts[0] == counts[1]
    assert counts[0]["shorter_than_scheduling"] > 0


def test_one_run_keeps_nothing(place: Path, found: list[bool]) -> None:
    outcome(place)
    assert not found
    assert not stores()


def test_applications_displace_those_used_longest_ago(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(technique: str) -> None:
        outcome(place, {"application": {"technique": technique}})

    with shared_cache.sharing():
        run("FAC2")
        (first,) = stores()
        monkeypatch.setattr(known_loops, "MOST_BYTES", int(2.5 * first.size))
        shared_cache.forget()
        for technique in ("FAC2", "GSS", "FAC2", "TSS"):
            run(technique)
        kept, _ = shared_cache._kept["known loops"]
        assert [key[0].technique for key in kept.of] == ["FAC2", "TSS"]
        assert kept.size() <= kept.most
