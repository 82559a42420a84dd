"""Sets of nodes that jobs may use: schedules against the slow reference, and what must hold in every rule."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.clock.replay_many import replay_classes, replay_many
from mlsim.batch.job_recorder import MessageLog
from mlsim.batch.room.unit_requests import PowerCap
from mlsim.batch.view import Start
from mlsim.errors import InputError
from mlsim.platform.machine import PowerColumns
from mlsim.record import JobState
from mlsim.scenario import BatchConfig
from mlsim.workload.workload_jobs import JobBlock, NodeSets
from tests.batch import builders
from tests.batch.builders import block
from tests.batch.hardware import machine, simulate
from tests.batch.pairs import BACKFILLS, N_NODES, Case, difference, quarters
from tests.batch.test_announced import (
    LINKS,
    MIXED,
    SIMPLE,
    assert_same,
    entries,
    options,
    outages_of,
    powered,
    rows_of,
    studies,
)
from tests.batch.test_announced import twins_of as announced_twins
from tests.batch.test_coordination import Scripted
from tests.batch.test_dispatch import KEYS, WEIGHTS, easy_of_others
from tests.effort import examples
from tests.reference.allocators import ALLOCATORS, Nodes
from tests.reference.planning import PlanningSystem

NODES = st.frozensets(st.integers(0, 3), min_size=1)
"""Of the four nodes of a machine."""


def with_sets(rows: JobBlock, sets) -> JobBlock:
    """The same jobs, each of which may use some nodes (None: all)."""
    masks = np.array([[nodes is None or node in nodes for node in range(N_NODES)] for nodes in sets], bool)
    return replace(rows, node_sets=NodeSets.of(masks.reshape(-1, N_NODES)))


def sets_for(draw, n: int):
    some = draw(st.lists(NODES, min_size=1, max_size=3))
    return [draw(st.sampled_from([None, *some, *some])) for _ in range(n)]


def twins_of(rows, sets):
    return [replace(twin, may_use=nodes) for twin, nodes in zip(announced_twins(rows), sets, strict=True)]


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(150))
@given(studies(MIXED), st.booleans(), st.sampled_from(sorted(ALLOCATORS)), st.integers(1, 16), st.data())
def test_agrees_with_the_slow_reference(study, exclusive, allocator, size, data):
    """All allocators and backfillings, outages of all kinds; sets that become known block by block."""
    jobs, listed, rules, batch = study
    rows = rows_of(MIXED, jobs)
    sets = sets_for(data.draw, len(rows))
    firsts = range(0, len(rows), size)
    blocks = [with_sets(rows.select(slice(k, k + size)), sets[k : k + size]) for k in firsts]
    listed = listed if data.draw(st.booleans()) else []
    batch |= {"allocator": allocator} | options(listed)
    jobs = with_sets(rows, sets)
    _, done, held = simulate(MIXED, jobs, blocks=blocks, exclusive=exclusive, **batch)
    twins = twins_of(rows, sets)
    nodes = Nodes(MIXED.capacity, exclusive, LINKS)
    PlanningSystem(nodes, ALLOCATORS[allocator], rules, outages_of(listed)).run(twins)
    assert_same(twins, done, held, exclusive)


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(80))
@given(powered(MIXED), st.booleans(), st.sampled_from(["first-fit", "best-fit", "worst-fit"]), st.data())
def test_a_power_cap_agrees_with_the_slow_reference(study, exclusive, allocator, data):
    jobs, listed, rules, batch = study
    rows = rows_of(MIXED, jobs)
    sets = sets_for(data.draw, len(rows))
    idle, busy, off = (np.array(column) for column in zip(*rules.power, strict=True))
    cap = PowerCap(PowerColumns(idle, busy, off), MIXED.cores, exclusive, rules.caps)
    batch |= {"allocator": allocator} | options(listed)
    _, done, held = simulate(MIXED, with_sets(rows, sets), exclusive=exclusive, cap=cap, **batch)
    twins = twins_of(rows, sets)
    nodes = Nodes(MIXED.capacity, exclusive, LINKS)
    PlanningSystem(nodes, ALLOCATORS[allocator], rules, outages_of(listed)).run(twins)
    assert_same(twins, done, held, exclusive)


@pytest.mark.slow
@pytest.mark.parametrize("policy", sorted(KEYS))
@pytest.mark.parametrize(
    "rule", [{"backfill": "none"}, *BACKFILLS], ids=lambda rule: "-".join(map(str, rule.values()))
)
def test_every_policy_backfilling_and_allocator(policy, rule):
    for seed, allocator in itertools.product(range(examples(3)), sorted(ALLOCATORS)):
        rng = random.Random(f"{policy} {allocator} {seed}")
        some = [tuple(rng.sample(range(N_NODES), rng.randint(1, 3))) for _ in range(2)]
        rows, sets = [], []
        for submit in sorted(quarters(rng, 24) for _ in range(12)):
            run = quarters(rng, 24)
            estimate = run if rng.random() < 0.5 else max(quarters(rng, 30), 0.25)
            rows.append((submit, run, estimate, rng.randint(1, N_NODES)))
            sets.append(rng.choice((None, *some)))
        batch = {"policy": policy, "allocator": allocator, "on_overrun": "kill", "weights": WEIGHTS, **rule}
        case = Case(("sets", "room"), rows, batch, sets=sets, matrix=True, unlike=seed % 2 == 1)
        case.requests = [(rng.randint(1, 2), rng.choice((0, 1))) for _ in rows] if case.unlike else []
        assert not difference(case), case


RULES = (
    st.sampled_from([{"backfill": "none"}, *BACKFILLS]),
    st.sampled_from(
        [
            {},
            {"backfill_interval": 1.5},
            {"pass_interval": 1.0},
            {"ties": "per-event"},
            {"ties": "ends-first"},
        ]
    ),
)


def assert_on_sets(sets, held) -> None:
    """No job is on a node that it may not use."""
    for row, job in enumerate(held.job):
        span = range(held.node[row], held.node[row] + held.count[row])
        assert sets[job] is None or set(span) <= sets[job]


@settings(deadline=None, max_examples=examples(100))
@given(
    SIMPLE,
    st.one_of(st.builds(lambda *rules: rules[0] | rules[1], *RULES), easy_of_others),
    st.lists(entries(), max_size=3),
    st.sampled_from(["node", "core"]),
    st.sampled_from(["first-fit", "random", "contiguous"]),
    st.data(),
)
def test_whatever_the_rules_no_job_is_on_another_node(jobs, rule, listed, mapping, allocator, data):
    if rule["backfill"] not in ("greedy", "easy"):
        rule.pop("backfill_interval", None)
    rows = block(*zip(*jobs, strict=True))
    sets = sets_for(data.draw, len(rows))
    strict = {"contiguity": "strict"} if allocator == "contiguous" and data.draw(st.booleans()) else {}
    batch = {
        "allocator": allocator,
        "on_failure": "die",
        "weights": WEIGHTS,
        **options(listed),
        **rule,
        **strict,
    }
    _, done, held = builders.simulate(with_sets(rows, sets), 4, mapping=mapping, node_sets=True, **batch)
    assert_on_sets(sets, held)
    small = np.array(
        [units <= len(nodes or range(4)) for units, nodes in zip(rows.processors, sets, strict=True)]
    )
    if not listed and not strict:
        assert (done.state[small] != JobState.REJECTED).all()
    assert (done.state[~small] == JobState.REJECTED).all()


@settings(deadline=None, max_examples=examples(60))
@given(SIMPLE, st.sampled_from(BACKFILLS), st.sampled_from(["any", "short-first"]), st.data())
def test_nodes_that_are_released_go_to_those_that_may_use_them(jobs, rule, released, data):
    rows = block(*zip(*jobs, strict=True))
    if released == "short-first" and (rule["backfill"] == "conservative" or "reservations" in rule):
        released = "any"
    sets = sets_for(data.draw, len(rows))
    times = st.lists(st.sampled_from([0.0, 0.25, 1.0, 2.0]))
    releases = {
        number: [time for time in sorted(data.draw(times))[: int(units) - 1] if time <= rows.run_time[number]]
        for number, units in enumerate(rows.processors)
    }
    coordination = {"rca": True, "released_nodes": released}
    rows = with_sets(rows, sets)
    _, _, held = builders.simulate(
        rows, 4, releases=releases, coordination=coordination, node_sets=True, **rule
    )
    assert_on_sets(sets, held)


# Worked cases


def run(jobs, sets, nodes=4, **others):
    return builders.simulate(with_sets(jobs, sets), nodes, node_sets=True, **others)


def test_a_job_waits_for_its_nodes_while_others_are_free():
    jobs = block([0, 0, 1], [10, 5, 2], [10, 5, 2], [2, 1, 3])
    _, done, _ = run(jobs, [{0, 1}, {1, 2}, None])
    assert done.start_time.tolist() == [0, 0, 10]
    _, done, held = run(jobs, [{0, 1}, {0, 1}, None], backfill="easy")
    assert done.start_time.tolist() == [0, 10, 10]
    assert held.node[held.job == 1].tolist() == [0]


@pytest.mark.parametrize(
    "rule", [{"backfill": "easy"}, {"backfill": "easy", "reservations": 2}, {"backfill": "conservative"}]
)
def test_a_job_on_other_nodes_does_not_delay_the_head(rule):
    # The head waits for both its nodes until 10; job 2 is longer than that, and on nodes that it may not use.
    jobs = block([0, 1, 1, 1], [10, 4, 20, 20], [10, 4, 20, 20], [1, 2, 1, 1])
    _, done, _ = run(jobs, [{0}, {0, 1}, {2}, {1, 2}], **rule)
    assert done.start_time.tolist() == [0, 10, 1, 14]
    assert done.backfilled.tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("units", "nodes", "batch", "reason"),
    [
        (3, {0, 2}, {}, "asks for 3 nodes; the 2 nodes that it may use have room for 2"),
        (2, {3}, {}, "asks for 2 nodes; the 1 node that it may use has room for 1"),
        (1, set(), {}, "asks for 1 nodes; the 0 nodes that it may use have room for 0"),
        (
            2,
            {0, 2},
            {"allocator": "contiguous", "contiguity": "strict"},
            "asks for 2 neighbouring nodes; the 2 nodes that it may use have 1 side by side at most",
        ),
        (5, {0}, {}, "asks for 5 nodes; the machine has 4"),
    ],
)
def test_a_job_that_its_nodes_cannot_hold_is_rejected(units, nodes, batch, reason):
    jobs = block([0, 0], [1, 1], [1, 1], [units, 1])
    system, done, _ = run(jobs, [nodes, None], **batch)
    assert done.state.tolist() == [JobState.REJECTED, JobState.COMPLETED]
    assert system.rejections().reasons == (reason,)


def test_units_of_several_resources_on_a_set():
    hardware = machine((2, 4, 0, {"gpu": 1}), (2, 4, 0, {}))
    rows = rows_of(hardware, [(0, 1, 1, 2, (1, 1)), (0, 1, 1, 1, (1, 1))])
    system, done, _ = simulate(hardware, with_sets(rows, [{1, 2, 3}, {1, 2, 3}]))
    assert done.state.tolist() == [JobState.REJECTED, JobState.COMPLETED]
    assert system.rejections().reasons == ("asks for 2 units; the 3 nodes that it may use have room for 1",)


def test_a_demand_aware_allocator_keeps_no_nodes_from_a_job_that_has_no_others():
    hardware = machine((3, 1, 0, {"gpu": 1}), (1, 1, 0, {}))
    rows = rows_of(hardware, [(0, 1, 1, 1, (1, 0)), (0, 1, 1, 1, (1, 0))])
    batch = {"allocator": "demand-aware", "reserve": 1.0, "demand": {"gpu": 1.0}}
    _, done, held = simulate(hardware, with_sets(rows, [{0, 1}, {2, 3}]), **batch)
    assert done.start_time.tolist() == [0, 0]
    assert held.node.tolist() == [0, 3]


@pytest.mark.parametrize("dispatcher", ["cp", "lists", "hcp1"])
def test_planners_refuse_jobs_with_sets(dispatcher):
    with pytest.raises(InputError, match=f"batch.dispatcher: {dispatcher} plans with all nodes"):
        builders.system(4, node_sets=True, dispatcher=dispatcher)


def test_a_state_without_sets_refuses_them():
    jobs, config = with_sets(block([0], [1], [1], [1]), [{0}]), BatchConfig()
    with pytest.raises(ValueError, match=r"Requests\.node_sets"):
        builders.simulate(jobs, 4)
    with pytest.raises(ValueError, match="replay_many counts units"):
        replay_many([jobs], config, 4)
    with pytest.raises(ValueError, match="replay_classes counts units"):
        replay_classes(jobs, config, 4, np.array([True]), np.array([1.0]), safeguard=False)


class Shown:
    """A dispatcher that starts each job on given nodes."""

    def __init__(self, nodes) -> None:
        self.nodes = nodes

    def dispatch(self, view):
        if view.now == 0:
            assert view.node_sets.tolist() == [[True] * 4, [False, True, True, False]]
            assert view.waiting.node_set.tolist() == [1, 0]
            assert not view.node_sets.flags.writeable
        for row, _ in enumerate(view.waiting.number.tolist()):
            yield Start(row, self.nodes.pop(0))


def dispatched(monkeypatch, nodes):
    monkeypatch.setattr("mlsim.batch.state.node_passes.make_plugin", lambda *_: Shown(nodes))
    return run(block([0, 0], [1, 1], [1, 1], [1, 1]), [{1, 2}, None], dispatcher="own.py:Shown")


def test_a_dispatcher_sees_the_sets(monkeypatch):
    _, _, held = dispatched(monkeypatch, [[2], [0]])
    assert held.node.tolist() == [2, 0]
    _, _, held = dispatched(monkeypatch, [None, None])
    assert held.node.tolist() == [1, 0]
    with pytest.raises(InputError, match=r"job 1 at 0 s: may not use node 3; see view\.node_sets"):
        dispatched(monkeypatch, [[3], [0]])


class LastFirst:
    """An allocator: the last nodes first."""

    def allocate(self, units, request, free, capacity):
        nodes = [node for node in reversed(range(len(free))) if free[node, 0] > 0][:units]
        return nodes if len(nodes) == units else None


@pytest.mark.parametrize("rule", [{"backfill": "none"}, *BACKFILLS])
def test_an_allocator_sees_only_the_nodes_of_a_set(monkeypatch, rule):
    monkeypatch.setattr("mlsim.batch.state.node_passes.make_plugin", lambda *_: LastFirst())
    jobs = block([0, 0, 0], [4, 4, 2], [4, 4, 2], [1, 2, 1])
    _, done, held = run(jobs, [{0, 1, 2}, {1, 2, 3}, {2}], allocator="own.py:LastFirst", **rule)
    assert done.start_time.tolist() == [0, 0, 4]
    assert held.node[held.job == 0].tolist() == [2]
    assert set(held.node[held.job == 2].tolist()) == {2}


class Slow(Scripted):
    """Applications that give up their last node in five seconds."""

    def request_release(self, slot, at, request):
        answer, forecast = super().request_release(slot, at, request)
        return answer, replace(forecast, idle=(replace(forecast.idle[0], time=at + 5), *forecast.idle[1:]))


@pytest.mark.parametrize(
    ("usable", "asked", "start"),
    [({2, 3}, [1], 7.5), ({0, 2}, [0, 1], 20), ({1, 3}, [0], 7.5)],
    ids=["of one", "of both, but not those that they give up", "of the first"],
)
def test_applications_are_asked_until_enough_usable_nodes_will_come(usable, asked, start):
    jobs = with_sets(block([0, 0, 2], [20, 30, 5], [20, 30, 5], [2, 2, 1]), [{0, 1}, {2, 3}, usable])
    coordination = {"rca": True, "requests": "head-of-queue", "answer": "always"}
    batch = builders.system(4, log=MessageLog(0.25), coordination=coordination, node_sets=True)
    applications = Slow(batch, {0: True, 1: True})
    batch.run([jobs], applications)
    assert [number for number, *_ in applications.asked] == asked
    assert batch.jobs().start_time.tolist() == [0, 0, start]


def test_sets_of_blocks_are_joined_and_selected():
    masks = np.array([[True, False, False], [True, True, True], [True, False, False]])
    sets = NodeSets.of(masks)
    assert sets.masks.tolist() == [[True, False, False], [True, True, True]]
    assert sets.of_job.tolist() == [1, 2, 1]
    rows = replace(block([0, 1, 2], [1] * 3, [1] * 3, [1] * 3), node_sets=sets)
    plain = block([3], [1], [1], [1])
    joined = JobBlock.concatenate([rows, plain, rows]).select(slice(2, 6))
    assert joined.node_sets is not None
    assert joined.node_sets.of_job.tolist() == [1, 0, 3, 4]
    assert joined.node_sets.masks[joined.node_sets.of_job[2] - 1].tolist() == [True, False, False]
    assert JobBlock.concatenate([plain, plain]).node_sets is None
