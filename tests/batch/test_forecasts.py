"""Forecasts of running jobs that EASY plans with: a slow reference, errors, and what else changes plans."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.columns import job_columns as at
from mlsim.batch.columns.job_columns import PLANNED
from mlsim.batch.events.forecasts import Forecasts, _Foreseen
from mlsim.batch.job_recorder import MessageLog
from mlsim.batch.room.unit_requests import PowerCap
from mlsim.batch.state.pool_state import PoolRoom
from mlsim.coordination import Forecast, NodeIdle, NodeReturned, ReleaseAccepted, ReleaseRejected
from mlsim.platform.machine import PowerColumns
from tests.batch import hardware
from tests.batch import test_announced as announced
from tests.batch.builders import RigidApplications, block, system
from tests.effort import examples
from tests.reference.allocators import ALLOCATORS, Nodes
from tests.reference.forecasts import Easy, Job, PlanningWithForecasts, Seen
from tests.reference.planning import Job as PlannedJob
from tests.reference.planning import Rules

NODES = 5
SCOPES = ["ends", "nodes", "remaining_work"]
MIXED = replace(announced.MIXED, speed=np.array([1.0, 1.0, 2.0, 2.0]))
TIMES = st.integers(1, 160).map(lambda n: n / 4)


class Working(RigidApplications):
    """Jobs that release nodes: ``releases[number]`` lists (offset, remaining work), in order of time."""

    def launch(self, slot: int, at: float) -> Forecast:
        table, occupancy = self.batch.state.table, self.batch.state.occupancy
        rows, number = self.batch.state.rows_of(slot), self.batch.state.number(slot)
        nodes = occupancy.ints[1, rows.start : rows.stop].tolist()
        end = at + float(table.column("run_time")[slot])
        idle = [
            NodeIdle(number, nodes.pop(), at + offset, 1, work)
            for offset, work in self.releases.get(number, [])
        ]
        return Forecast(end, (*idle, NodeIdle(number, nodes.pop(), end, 0, 0.0)))

    def request_release(self, slot, at, request):
        end = float(self.batch.state.table.floats[PLANNED, slot])
        return ReleaseRejected(request.job, at, "no"), Forecast(end)


@st.composite
def workloads(draw):
    rows = draw(st.lists(st.tuples(TIMES, TIMES, TIMES, st.integers(1, NODES)), min_size=1, max_size=12))
    rows.sort(key=lambda row: row[0])
    releases = {}
    for number, (_, run, _, units) in enumerate(rows):
        offsets = sorted(draw(st.lists(st.integers(0, int(run * 4)), max_size=units - 1)))
        releases[number] = [(n / 4, draw(st.integers(0, 400)) / 4) for n in offsets]
    return rows, releases


def run(rows, releases, scope, error=0.0, latency=0.0, seed=3, applications=Working, nodes=NODES, **batch):
    coordination = {"rca": True, "forecasts": {scope: error}, **batch.pop("coordination", {})}
    made = system(
        nodes, log=MessageLog(latency), coordination=coordination, seed=seed, **{"backfill": "easy", **batch}
    )
    of_jobs = applications(made, releases)
    made.run([block(*zip(*rows, strict=True))], of_jobs)
    return made


@settings(deadline=None, max_examples=200)
@given(
    workloads(),
    st.sampled_from(SCOPES),
    st.sampled_from([0.0, 0.1, 0.5, 2.0]),
    st.sampled_from(["kill", "extend"]),
    st.sampled_from([0.0, 0.25]),
    st.sampled_from(["FCFS", "SAF"]),
    st.sampled_from(["first-fit", "best-fit"]),  # a pool of units, and nodes by resources
    st.sampled_from(["node", "core"]),
)
def test_schedules_are_those_of_a_slow_reference(
    workload, scope, error, overrun, latency, policy, allocator, mapping
):
    rows, releases = workload
    options = {"on_overrun": overrun, "policy": policy, "allocator": allocator, "mapping": mapping}
    made = run(rows, releases, scope, error, latency, **options)
    jobs = [Job(number + 1, *row, idle=releases[number]) for number, row in enumerate(rows)]
    Easy(NODES, scope, error, overrun == "kill", latency, policy == "SAF", 3).simulate(jobs)
    done = made.jobs()
    assert done.start_time.tolist() == [job.start for job in jobs]
    assert done.end_time.tolist() == [job.end for job in jobs]
    assert not made.state.table.ints[at.SOON].any()
    assert set(made.occupancy_rows().released.tolist()) <= {True, False}


def drawn_study(seed: int):
    """Jobs, messages, outages, rules and options of a busy machine: small ones hardly need a reservation."""
    draw = random.Random(seed)

    def half(most: int) -> float:
        return draw.randint(0, 2 * most) / 2

    jobs = sorted(
        (
            half(10),
            half(40),
            half(40) + 0.5,
            draw.randint(1, 5),
            (draw.randint(1, 2), draw.randint(0, 2), 0, 0),
        )
        for _ in range(draw.randint(4, 14))
    )
    idle = {k: sorted((half(40), half(100)) for _ in range(draw.randint(1, 4))) for k in range(len(jobs))}
    outages = []
    for _ in range(draw.randint(0, 3)):
        kind, start, first = (
            draw.choice(["announced", "announced", "drained", "failed"]),
            half(20),
            draw.randint(0, 3),
        )
        last = first if kind == "failed" else draw.randint(first, 3)
        end = draw.choice([start + half(40) + 0.5, start + half(40) + 0.5, math.inf])
        told = draw.choice([0.0, start, start / 2]) if kind == "announced" else 0.0
        outages.append((kind, tuple(range(first, last + 1)), start, end, told))
    power = []
    for _ in range(4):
        off, more, busy = (draw.choice([0.0, 1.0, 2.5, 8.0]) for _ in range(3))
        power.append((off + more, off + more + busy, off))
    idle_power, busy_power = sum(row[0] for row in power), sum(row[1] for row in power)
    times = sorted(draw.sample(range(40), draw.randint(0, 3)))  # none: no cap
    caps = [
        (float(at), idle_power + draw.randint(1, 16) / 16 * (busy_power - idle_power) + 0.125) for at in times
    ]
    kill, restart = draw.random() < 0.5, draw.random() < 0.5
    rules = Rules("easy", kill=kill, restart=restart, power=tuple(power), caps=tuple(caps))
    batch = {"backfill": "easy", "on_overrun": "kill" if kill else "extend", **announced.options(outages)}
    batch |= {"on_failure": "restart", "max_restarts": rules.max_restarts} if restart else {}
    return jobs, idle, outages, rules, batch


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(200))
@given(
    st.integers(0, 2**32),
    st.booleans(),
    st.sampled_from(["first-fit", "best-fit", "worst-fit"]),
    st.sampled_from([*SCOPES, "nodes", "nodes"]),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([0.0, 0.25, 2.0]),
)
def test_schedules_agree_beside_outages_and_a_power_cap_on_mixed_nodes(
    seed, exclusive, allocator, scope, error, latency
):
    """Announced drains and others, failures, restarts, several resources, unequal speeds and power."""
    jobs, idle, outages, rules, batch = drawn_study(seed)
    rows, cap = announced.rows_of(MIXED, jobs), None
    if rules.caps:
        columns = [np.array(column) for column in zip(*rules.power, strict=True)]
        cap = PowerCap(PowerColumns(*columns), MIXED.cores, exclusive, rules.caps)
    made = hardware.system(
        MIXED,
        rows,
        exclusive=exclusive,
        cap=cap,
        seed=3,
        log=MessageLog(latency),
        coordination={"rca": True, "forecasts": {scope: error}},
        allocator=allocator,
        **batch,
    )
    made.run([rows], Leaving(made, idle))
    twins = announced.twins_of(rows)
    seen = Seen(scope, error, latency, 3, MIXED.speed.tolist())
    machine = Nodes(MIXED.capacity, exclusive), ALLOCATORS[allocator], rules, announced.outages_of(outages)
    PlanningWithForecasts(seen, idle, *machine).run(twins)
    announced.assert_same(twins, made.jobs(), made.occupancy_rows(), exclusive)


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(200))
@given(
    st.integers(0, 2**32),
    st.booleans(),
    st.sampled_from([1, 2]),
    st.sampled_from([*SCOPES, "nodes", "nodes"]),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([0.0, 0.25, 2.0]),
)
def test_schedules_agree_beside_outages_and_a_power_cap_where_units_are_counted(
    seed, exclusive, cores, scope, error, latency
):
    """Nodes all alike, failures, restarts, drains that nobody announces, and a cap."""
    jobs, idle, outages, rules, batch = drawn_study(seed)
    outages = [outage for outage in outages if outage[0] != "announced"]
    most = 4 if exclusive else 4 * cores
    rows = block(*zip(*(job[:3] + (1 + (seed + job[3]) % most,) for job in jobs), strict=True))
    steps = [
        (at, 4 * 2.0 + (1 + (seed + place) % 16) / 16 * 4 * 5.0) for place, (at, _) in enumerate(rules.caps)
    ]
    rules = replace(rules, power=((2.0, 7.0, 0.5),) * 4, caps=tuple(steps), counts=True)
    batch |= announced.options(outages) | {"mapping": "node" if exclusive else "core"}
    if steps:
        batch |= {
            "power": {"idle": 2.0, "busy": 7.0, "off": 0.5},
            "power_cap": [list(step) for step in steps],
        }
    made = system(
        4,
        cores,
        seed=3,
        log=MessageLog(latency),
        coordination={"rca": True, "forecasts": {scope: error}},
        **batch,
    )
    assert isinstance(made.state.room, PoolRoom)
    made.run([rows], Leaving(made, idle))
    columns = zip(rows.submit_time, rows.run_time, rows.estimate, rows.processors, strict=True)
    twins = [
        PlannedJob(number, float(submit), float(run), float(estimate), int(units), (1,))
        for number, (submit, run, estimate, units) in enumerate(columns)
    ]
    seen = Seen(scope, error, latency, 3, [1.0] * 4)
    machine = Nodes([(cores,)] * 4, exclusive), ALLOCATORS["first-fit"], rules, announced.outages_of(outages)
    PlanningWithForecasts(seen, idle, *machine).run(twins)
    announced.assert_same(twins, made.jobs(), made.occupancy_rows(), exclusive)


class Leaving(Working):
    """As :class:`Working`; what a job has no node for is left out."""

    def launch(self, slot, at):
        number = self.batch.state.number(slot)
        listed = self.releases[number]
        self.releases[number] = listed[: len(self.batch.state.rows_of(slot)) - 1]
        try:
            return super().launch(slot, at)
        finally:
            self.releases[number] = listed


class Giving(Working):
    """Jobs that forecast idle nodes, give one up on request, at once, and take it back."""

    def __init__(self, batch, releases) -> None:
        super().__init__(batch, releases)
        self.forecasts: dict[int, Forecast] = {}

    def launch(self, slot, at):
        self.forecasts[slot] = super().launch(slot, at)
        return self.forecasts[slot]

    def request_release(self, slot, at, request):
        *others, last = self.forecasts[slot].idle
        if not others or others[-1].time <= at:
            return ReleaseRejected(request.job, at, "no"), self.forecasts[slot]
        idle = sorted([*others, replace(last, time=at)], key=lambda message: message.time)
        self.forecasts[slot] = Forecast(self.forecasts[slot].end, tuple(idle))
        return ReleaseAccepted(request.job, at, (last.node,), (at,)), self.forecasts[slot]

    def apply_change(self, slot, at, change):
        if not isinstance(change, NodeReturned):
            return super().apply_change(slot, at, change)
        end, idle = self.forecasts[slot].end, self.forecasts[slot].idle
        self.forecasts[slot] = Forecast(end, (*idle, NodeIdle(slot, change.node, end, 0, 0.0)))
        return self.forecasts[slot]


def expected_reservation(made, head: int, now: float) -> float:
    """When a job fits by what each node is expected to be free at: no counts, node by node."""
    state, nodes = made.state, made.state.expected_nodes
    floats, running = state.table.floats, state.running()
    back = [now if not state.room.is_down(node) else math.inf for node in range(state.n_nodes)]
    for slot in running:
        rows = [*state.rows_of(slot), *state.returned.get(slot, {}).values()]
        end = floats[at.EXPECTED, slot]
        if end <= now:
            due = floats[at.PLANNED, slot] == now or floats[at.START, slot] == now
            end = now if due else now + 1.0
        for row in rows:
            node = int(state.occupancy.ints[1, row])
            if not state.is_held(row) or state.room.is_down(node):
                continue
            foreseen = nodes._times[nodes._rows[0] == row] if nodes is not None else []
            back[node] = max(foreseen[0], now) if len(foreseen) else end
    return sorted(back)[state.units(head) - 1]


OTHERS = [
    {},
    {"pass_interval": 4},
    {"backfill_interval": 3},
    {"ties": "per-event"},
    {"classifier": {"by": "actual", "safeguard": True}},
]
OUTAGES = st.lists(
    st.tuples(st.integers(0, NODES - 1), TIMES, TIMES), max_size=2, unique_by=lambda outage: outage[0]
)


@settings(deadline=None, max_examples=200)
@given(
    workloads(),
    st.sampled_from(SCOPES),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from(["first-fit", "best-fit"]),
    OUTAGES,
    OUTAGES,
    st.sampled_from(["never", "head-of-queue"]),
    st.sampled_from(["walltime", "L2", "EASY++"]),
    st.sampled_from(
        [
            {},
            {"pass_interval": 4},
            {"backfill_interval": 3},
            {"ties": "per-event"},
            {"classifier": {"by": "actual", "safeguard": True}},
        ]
    ),
)
def test_reservations_are_those_of_each_node(
    workload, scope, error, allocator, failures, drains, requests, predictor, others
):
    """With failures, restarts, drains, requests, predictors and rarer passes, at every pass."""
    rows, releases = workload
    coordination = {"rca": True, "forecasts": {scope: error}, "requests": requests, "reclaim": True}
    coordination["answer"] = "always"
    if requests == "never":
        coordination = {key: coordination[key] for key in ("rca", "forecasts")}
    made = system(
        NODES,
        log=MessageLog(0.25),
        coordination=coordination,
        failures=[{"node": node, "at": time, "repair": length} for node, time, length in failures],
        drains=[{"nodes": str(node), "start": time, "end": time + length} for node, time, length in drains],
        backfill="easy",
        on_failure="restart",
        on_overrun="extend",
        **{"allocator": allocator, "predictor": predictor, "policy": "SAF", **others},
    )
    applications = Giving(made, releases)
    state, floats, make_pass = made.state, made.state.table.floats, made._pass

    def check(now: float) -> None:
        make_pass(now)
        for slot in state.running() if error == 0 and scope != "remaining_work" else ():
            start, walltime = floats[[at.START, at.WALLTIME], slot]
            if start + 0.25 < now < min(start + walltime, floats[PLANNED, slot]):
                assert floats[at.EXPECTED, slot] == min(start + walltime, floats[PLANNED, slot])
        for head in state.waiting().tolist():
            assert state.room.reservation(head, now) == expected_reservation(made, head, now)

    made._pass = check
    jobs = block(*zip(*rows, strict=True))
    made.run([replace(jobs, user=np.ones(len(rows), np.int64))], applications)
    assert len(made.jobs().job_id) == len(rows)
    assert not made.state.table.ints[at.SOON].any()


def test_forecasts_do_not_matter_to_jobs_that_wait_for_nothing():
    rows = [(0.0, 8.0, 9.0, 2), (1.0, 8.0, 9.0, 3)]
    for scope in SCOPES:
        assert run(rows, {0: [(2.0, 1.0)]}, scope).jobs().start_time.tolist() == [0.0, 1.0]


def test_the_head_is_promised_nodes_that_come_back_before_the_end():
    # Job 1 holds 4 of 5 nodes for 40 s and releases two at 10; the head wants 3 nodes, job 3 one for 20 s.
    # By the end of job 1 the head starts at 40, and job 3 goes first; by its nodes that would delay the head.
    rows = [(0.0, 40.0, 80.0, 4), (1.0, 5.0, 5.0, 3), (2.0, 20.0, 20.0, 1)]
    releases = {0: [(10.0, 30.0), (10.0, 30.0)]}
    assert run(rows, releases, "ends").jobs().start_time.tolist() == [0, 22, 2]
    assert run(rows, releases, "nodes").jobs().start_time.tolist() == [0, 10, 15]


@pytest.mark.parametrize("told", [0, 5])
def test_a_node_in_an_announced_drain_is_expected_back_at_its_end(told):
    # Jobs 1 and 2 hold nodes 0 and 1, 2; job 2 releases node 2, drained from 5 to 20, at 10. The head, of
    # 2 nodes, is promised 20, and not 40, the end of job 2: job 4, of 20 s on the free node, waits.
    # Announced at 0, the drain keeps job 2 off node 2; then the head gets that node at 20.
    rows = [(0.0, 60.0, 60.0, 1), (0.0, 40.0, 40.0, 2), (6.0, 5.0, 5.0, 2), (7.0, 20.0, 20.0, 1)]
    drains = [{"nodes": "2", "start": 5, "end": 20, "announced": True, "announced_at": told}]
    for allocator in ("first-fit", "best-fit"):
        options = {"nodes": 4, "drains": drains, "allocator": allocator}
        done = run(rows, {1: [(10.0, 1.0)]}, "nodes", **options).jobs()
        assert done.start_time.tolist() == [0, 0, 20, 25]


def test_a_node_that_is_out_of_use_is_not_expected_back():
    # Job 1 releases node 4 at 6 and node 3, drained since 5, at 10. The head, of 2 nodes, starts at 40.
    rows = [(0.0, 40.0, 40.0, 5), (1.0, 5.0, 5.0, 2), (2.0, 20.0, 20.0, 1)]
    releases = {0: [(6.0, 1.0), (10.0, 1.0)]}
    drains = [{"nodes": "3", "start": 5, "end": 60}]
    for allocator in ("first-fit", "best-fit"):
        done = run(rows, releases, "nodes", drains=drains, allocator=allocator).jobs()
        assert done.start_time.tolist() == [0, 40, 6]
    assert run(rows, releases, "nodes").jobs().start_time.tolist() == [0, 10, 15]


@pytest.mark.parametrize("error", [0.1, 0.5, 1.0])
def test_forecasts_have_the_mean_and_the_spread_that_are_asked_for(error):
    made = run([(0.0, 1.0, 1.0, 1)], {}, "ends", error)
    forecasts, slot = made.handler(Forecasts), 0
    made.state.restarts.clear()
    drawn = []
    for job in range(20_000):
        made.state.table.ints[at.JOB_ID, slot] = job
        drawn.append(forecasts._draw(slot, _Foreseen()))
    assert np.mean(drawn) == pytest.approx(1.0, abs=4 * error / math.sqrt(20_000))
    assert np.std(drawn) == pytest.approx(error, rel=0.15)
