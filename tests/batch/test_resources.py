"""Several resources on every node: allocators and schedules against slow twins, and what must always hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.record import JobState
from tests.batch.hardware import jobs_with_requests, machine, nodes_of, simulate
from tests.batch.test_simulator import quarters
from tests.effort import examples
from tests.reference import allocators
from tests.reference.allocators import ALLOCATORS, Nodes
from tests.reference.resources import Job, ReferenceSystem, ReservingSystem

GROUPS = ((2, 4, 8, {"gpu": 2}), (3, 4, 4, {"mic": 1}), (1, 2, 16, {}))
STAR = machine(*GROUPS)
TREE = machine(*GROUPS, network={"topology": "fat-tree", "ports": 4})
LINKS = [TREE.network.links_from(node, TREE.n_nodes).tolist() for node in range(TREE.n_nodes)]
KEYS = {
    "FCFS": lambda job, now: job.submit,
    "SPF": lambda job, now: job.estimate,
    "LEXP": lambda job, now: -((now - job.submit + max(job.estimate, 1.0)) / max(job.estimate, 1.0)),
}

requests = st.tuples(st.integers(1, 4), st.integers(0, 8), st.integers(0, 2), st.integers(0, 1))
job_lists = st.lists(
    st.tuples(quarters, quarters, quarters.map(lambda t: t + 0.25), st.integers(1, 6), requests),
    min_size=1,
    max_size=20,
)

NAMES = sorted([*ALLOCATORS, "demand-aware"])
RESERVE = 0.7


def chosen(allocator):
    """Keys of a scenario; with a reserve that the few nodes here show."""
    return {"allocator": allocator} | ({"reserve": RESERVE} if allocator == "demand-aware" else {})


def twin_of(allocator):
    return allocators.DemandAware(RESERVE) if allocator == "demand-aware" else ALLOCATORS[allocator]


def unzipped(jobs):
    submit, run, estimate, units, asked = zip(*jobs, strict=True)
    return jobs_with_requests(STAR, submit, run, estimate, units, asked), asked


def twins_of(rows):
    asked = rows.asked
    request = np.column_stack([rows.processors // asked.units, asked.totals // asked.units[:, None]])
    return [
        Job(n, float(r), float(p), float(e), int(u), tuple(map(int, each)))
        for n, (r, p, e, u, each) in enumerate(
            zip(rows.submit_time, rows.run_time, rows.estimate, asked.units, request, strict=True)
        )
    ]


def check_held(hardware, twins, jobs, occupancy, exclusive) -> None:
    """Every unit of a job that started has its node; no node gives more than it has, of anything."""
    events = []
    for twin in twins:
        if jobs.state[twin.number] == JobState.REJECTED:
            assert not (occupancy.job == twin.number).any()
            continue
        assert jobs.start_time[twin.number] >= jobs.submit_time[twin.number]
        rows = np.flatnonzero(occupancy.job == twin.number)
        if exclusive:
            held = {node: 1 for row in rows for node in span(occupancy, row)}
        else:
            nodes = nodes_of(occupancy, twin.number, twin.request[0])
            held = {node: nodes.count(node) for node in set(nodes)}
        assert sum(held.values()) == twin.units
        for node, units in held.items():
            asked = np.array(twin.request) * units
            assert (asked <= hardware.capacity[node]).all()
            begin, end = jobs.start_time[twin.number], jobs.end_time[twin.number]
            if end > begin:
                taken = hardware.capacity[node] if exclusive else asked
                events += [(begin, 1, node, taken), (end, 0, node, -taken)]
    used = np.zeros_like(hardware.capacity)
    for _, _, node, change in sorted(events, key=lambda event: event[:3]):
        used[node] += change
        assert (used[node] >= 0).all()
        assert (used[node] <= hardware.capacity[node]).all()


def span(occupancy, row) -> range:
    return range(occupancy.node[row], occupancy.node[row] + occupancy.count[row])


@settings(deadline=None, max_examples=250)
@given(
    job_lists,
    st.sampled_from(NAMES),
    st.sampled_from(["none", "greedy", "easy"]),
    st.sampled_from(sorted(KEYS)),
    st.booleans(),
)
def test_agrees_with_the_reference(jobs, allocator, backfill, policy, exclusive):
    rows, _ = unzipped(jobs)
    _, done, occupancy = simulate(
        TREE, rows, exclusive=exclusive, **chosen(allocator), backfill=backfill, policy=policy
    )
    twins = twins_of(rows)
    nodes = Nodes(TREE.capacity, exclusive, LINKS)
    ReferenceSystem(nodes, twin_of(allocator), backfill, KEYS[policy]).run(twins)
    assert (done.state == JobState.REJECTED).tolist() == [twin.rejected for twin in twins]
    np.testing.assert_array_equal(done.start_time, [twin.start for twin in twins])
    np.testing.assert_array_equal(done.end_time, [twin.end for twin in twins])
    assert done.backfilled.tolist() == [twin.backfilled for twin in twins]
    for twin in twins:
        rows_of = np.flatnonzero(occupancy.job == twin.number)
        held = [node for row in rows_of for node in span(occupancy, row)]
        assert held == sorted(set(twin.nodes))
        if not exclusive:
            assert nodes_of(occupancy, twin.number, twin.request[0]) == sorted(twin.nodes)
    check_held(TREE, twins, done, occupancy, exclusive)


RESERVING = {
    "two": (2, {"backfill": "easy", "reservations": 2}),
    "four": (4, {"backfill": "easy", "reservations": 4}),
    "conservative": (None, {"backfill": "conservative"}),
    "one-round": (None, {"backfill": "conservative", "compression": "one-round"}),
}


@settings(deadline=None, max_examples=examples(80))
@given(
    job_lists,
    st.sampled_from(NAMES),
    st.sampled_from(sorted(RESERVING)),
    st.sampled_from(sorted(KEYS)),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 5), quarters, quarters.map(lambda t: t + 0.25)), max_size=3),
)
def test_reservations_of_nodes_agree_with_the_reference(jobs, allocator, rule, policy, exclusive, failures):
    """k reservations and conservative, node by node, with nodes that fail and come back."""
    rows, _ = unzipped(jobs)
    k, batch = RESERVING[rule]
    listed = [{"node": node, "at": at, "repair": repair} for node, at, repair in failures]
    _, done, occupancy = simulate(
        TREE, rows, exclusive=exclusive, **chosen(allocator), policy=policy, failures=listed, **batch
    )
    twins = twins_of(rows)
    system = ReservingSystem(
        Nodes(TREE.capacity, exclusive, LINKS),
        twin_of(allocator),
        KEYS[policy],
        k,
        [(node, at, at + repair) for node, at, repair in failures],
        one_round=rule == "one-round",
    )
    system.run(twins)
    assert (done.state == JobState.REJECTED).tolist() == [twin.rejected for twin in twins]
    np.testing.assert_array_equal(done.start_time, [twin.start for twin in twins])
    np.testing.assert_array_equal(done.end_time, [twin.end for twin in twins])
    assert done.backfilled.tolist() == [twin.backfilled for twin in twins]
    assert (done.state == JobState.FAILED).tolist() == [twin in system.lost for twin in twins]
    for twin in twins:
        held = [node for row in np.flatnonzero(occupancy.job == twin.number) for node in span(occupancy, row)]
        assert held == sorted(set(twin.nodes))


@settings(deadline=None, max_examples=60)
@given(job_lists, st.sampled_from(["none", "greedy", "easy"]))
def test_strict_contiguity_agrees_with_the_reference(jobs, backfill):
    rows, _ = unzipped(jobs)
    _, done, _ = simulate(TREE, rows, allocator="contiguous", contiguity="strict", backfill=backfill)
    twins = twins_of(rows)

    def strict(*arguments):
        return allocators.contiguous(*arguments, strict=True)

    ReferenceSystem(Nodes(TREE.capacity), strict, backfill, KEYS["FCFS"]).run(twins)
    np.testing.assert_array_equal(done.start_time, [twin.start for twin in twins])


@settings(deadline=None, max_examples=100)
@given(
    job_lists,
    st.sampled_from(NAMES),
    st.sampled_from([{"reservations": 2, "backfill": "easy"}, {"backfill": "conservative"}]),
    st.booleans(),
    st.sampled_from(["kill", "extend"]),
)
def test_nothing_is_held_twice(jobs, allocator, rule, exclusive, overrun):
    rows, _ = unzipped(jobs)
    _, done, occupancy = simulate(
        TREE, rows, exclusive=exclusive, **chosen(allocator), on_overrun=overrun, **rule
    )
    check_held(TREE, twins_of(rows), done, occupancy, exclusive)
    assert not np.isnan(done.end_time[done.state != JobState.REJECTED]).any()


@settings(deadline=None, max_examples=60)
@given(job_lists, st.booleans())
def test_conservative_keeps_its_promise_when_estimates_are_exact(jobs, exclusive):
    """With exact estimates nobody starts later for those who came after."""
    exact = [(r, p + 0.25, p + 0.25, n, asked) for r, p, _, n, asked in jobs]
    rows, _ = unzipped(exact)
    _, all_done, _ = simulate(STAR, rows, exclusive=exclusive, backfill="conservative")
    for last in range(1, len(rows)):
        _, done, _ = simulate(STAR, rows.select(slice(0, last)), exclusive=exclusive, backfill="conservative")
        np.testing.assert_array_equal(done.start_time, all_done.start_time[:last])


@settings(deadline=None, max_examples=60)
@given(
    job_lists, st.lists(st.tuples(st.integers(0, 5), quarters, quarters.map(lambda t: t + 0.25)), max_size=3)
)
def test_failed_nodes_hold_nothing(jobs, failures):
    rows, _ = unzipped(jobs)
    listed = [{"node": node, "at": at, "repair": repair} for node, at, repair in failures]
    _, done, occupancy = simulate(STAR, rows, backfill="easy", allocator="best-fit", failures=listed)
    check_held(STAR, twins_of(rows), done, occupancy, False)
    for node, at, repair in failures:
        for row in range(len(occupancy.job)):
            if node in span(occupancy, row):
                assert occupancy.end[row] <= at or occupancy.start[row] >= at + repair


def test_random_depends_on_the_seed_and_the_job_alone():
    rows = jobs_with_requests(STAR, [0.0] * 3, [5.0] * 3, [9.0] * 3, [2, 1, 2], [[1, 0, 0, 0]] * 3)
    alone = jobs_with_requests(STAR, [0.0], [5.0], [9.0], [2], [[1, 0, 0, 0]])
    held = {
        seed: nodes_of(simulate(STAR, rows, allocator="random", seed=seed)[2], 0, 1) for seed in range(20)
    }
    assert held[7] == nodes_of(simulate(STAR, alone, allocator="random", seed=7)[2], 0, 1)
    assert len(set(map(tuple, held.values()))) > 3


def test_heterogeneity_aware_keeps_plain_jobs_off_gpu_nodes():
    rows = jobs_with_requests(STAR, [0.0, 1.0], [9.0, 9.0], [9.0, 9.0], [3, 2], [[4, 0, 0, 0], [2, 0, 1, 0]])
    for allocator, gpu_start in (("heterogeneity-aware", 1.0), ("first-fit", 9.0)):
        _, done, _ = simulate(STAR, rows, allocator=allocator)
        assert done.start_time[1] == gpu_start


@pytest.mark.parametrize(("short_first", "start"), [(True, 10.0), (False, 2.0)])
def test_a_backfilled_job_must_leave_the_head_its_node(short_first, start):
    """Six cores are free at the head's reservation, two more than it needs; but it needs four on one node."""
    hardware = machine((2, 4, 0, {}))
    short, long = (0.0, 10.0, 10.0, 1, [2]), (0.0, 100.0, 100.0, 1, [2])  # on node 0 and 1, in their order
    head = (1.0, 5.0, 5.0, 1, [4])  # reserved: the node of the short one, at 10
    late = (2.0, 20.0, 20.0, 1, [2])  # both nodes have room for it now, and it gets node 0
    jobs = [short, long, head, late] if short_first else [long, short, head, late]
    rows = jobs_with_requests(hardware, *zip(*jobs, strict=True))
    _, done, _ = simulate(hardware, rows, backfill="easy", allocator="worst-fit")
    assert done.start_time[2:].tolist() == [10.0, start]


def test_jobs_that_never_fit_are_rejected_with_a_reason():
    rows = jobs_with_requests(
        STAR,
        [0.0] * 4,
        [1.0] * 4,
        [1.0] * 4,
        [1, 5, 1, 3],
        [[4, 0, 1, 1], [1, 0, 1, 0], [1, 0, 0, 0], [2, 0, 0, 1]],
    )
    system, done, _ = simulate(STAR, rows)
    assert (done.state == JobState.REJECTED).tolist() == [True, True, False, False]
    found = system.rejections()
    assert found.job.tolist() == [0, 1]
    assert [found.reasons[code] for code in found.reason] == [
        "asks for 4 cores, 1 gpu, 1 mic: all of them on one node; no node has them together",
        "asks for 5 gpu; the machine has 4",
    ]


def test_worked_example_of_the_constraint_programming_paper():
    """Galleguillos et al. 2019, Figs 2-4: four nodes of 4 cores and 4 memory, two GPUs or two MICs each."""
    hardware = machine((2, 4, 4, {"gpu": 2}), (2, 4, 4, {"mic": 2}))
    assert hardware.resources == ("cores", "memory", "gpu", "mic")
    j1 = (0.0, 100.0, 100.0, 1, [1, 3, 1, 0])
    j2 = (1.0, 100.0, 100.0, 1, [2, 4, 2, 0])
    j3 = (1.0, 100.0, 100.0, 2, [4, 1, 0, 0])
    j4 = (1.0, 100.0, 100.0, 1, [1, 1, 0, 1])
    rows = jobs_with_requests(hardware, *zip(j1, j2, j3, j4, strict=True))
    _, done, occupancy = simulate(hardware, rows, backfill="greedy")
    assert done.start_time.tolist() == [0.0, 1.0, 1.0, 101.0]
    assert [nodes_of(occupancy, job, cores) for job, cores in ((0, 1), (1, 2), (2, 4))] == [[0], [1], [2, 3]]


@pytest.mark.parametrize(("allocator", "expected"), [("best-fit", [0, 0, 0, 0]), ("worst-fit", [0, 1, 2, 3])])
def test_best_fit_packs_and_worst_fit_spreads(allocator, expected):
    hardware = machine((4, 4, 0, {}))
    rows = jobs_with_requests(hardware, [0.0], [1.0], [1.0], [4], [[1]])
    _, _, occupancy = simulate(hardware, rows, allocator=allocator)
    assert nodes_of(occupancy, 0, 1) == expected


def test_topology_aware_stays_under_one_switch():
    """On a fat-tree of 4 ports two nodes share an edge switch, and four a pod."""
    hardware = machine((16, 1, 0, {}), network={"topology": "fat-tree", "ports": 4})
    links = [hardware.network.links_from(node, 16).tolist() for node in range(16)]
    jobs = [(0.0, 9.0, 9.0, 3, [1]), (1.0, 9.0, 9.0, 2, [1]), (2.0, 9.0, 9.0, 4, [1])]
    rows = jobs_with_requests(hardware, *zip(*jobs, strict=True))
    wide = {}
    for allocator in ("first-fit", "topology-aware"):
        _, _, occupancy = simulate(hardware, rows, allocator=allocator)
        held = [nodes_of(occupancy, job, 1) for job in range(3)]
        wide[allocator] = [allocators.diameter(links, nodes) for nodes in held]
    assert wide == {"first-fit": [4, 6, 6], "topology-aware": [4, 2, 4]}


def test_demand_aware_keeps_jobs_off_what_others_ask_for():
    """Both kinds are as rare, so that heterogeneity-aware takes the busier node; but nobody asks for MICs."""
    hardware = machine((4, 4, 0, {"gpu": 2}), (4, 4, 0, {"mic": 2}))
    gpus = [(float(t), 1.0, 1.0, 1, [1, 1, 0]) for t in range(8)]
    plain, late = (8.0, 9.0, 9.0, 4, [4, 0, 0]), (9.0, 1.0, 1.0, 4, [4, 2, 0])
    rows = jobs_with_requests(hardware, *zip(*gpus, plain, late, strict=True))
    for allocator, start in (("demand-aware", 9.0), ("heterogeneity-aware", 17.0)):
        _, done, _ = simulate(hardware, rows, allocator=allocator)
        assert done.start_time[-1] == start


@pytest.mark.parametrize(("demand", "start"), [({"gpu": 1.0}, 9.0), ({"gpu": 0.4}, 1.0), (None, 1.0)])
@pytest.mark.parametrize("backfill", ["none", "greedy", "easy", "conservative"])
def test_a_part_of_the_nodes_is_kept_for_those_who_ask(demand, start, backfill):
    """The last of two GPU nodes, where demand x reserve x 2 is 1: the second job waits for the first one."""
    hardware = machine((2, 4, 0, {"gpu": 1}), (1, 4, 0, {}))
    jobs = [(0.0, 9.0, 9.0, 2, [4, 0]), (1.0, 9.0, 9.0, 1, [4, 0])]
    rows = jobs_with_requests(hardware, *zip(*jobs, strict=True))
    batch = {"allocator": "demand-aware", "reserve": 0.5, "backfill": backfill}
    _, done, occupancy = simulate(hardware, rows, **batch, **({"demand": demand} if demand else {}))
    assert done.start_time.tolist() == [0.0, start]
    if demand is not None:
        assert 2 in nodes_of(occupancy, 0, 4)  # the others have what somebody wants


def test_a_job_that_would_not_fit_elsewhere_has_the_kept_nodes():
    hardware = machine((2, 4, 0, {"gpu": 1}), (1, 4, 0, {}))
    rows = jobs_with_requests(hardware, [0.0], [9.0], [9.0], [3], [[4, 0]])
    _, done, _ = simulate(hardware, rows, allocator="demand-aware", reserve=1.0, demand={"gpu": 1.0})
    assert done.start_time[0] == 0.0


@settings(deadline=None, max_examples=examples(40))
@given(job_lists, st.booleans())
def test_reservations_beside_kept_nodes_are_promises(jobs, exclusive):
    """With exact estimates nobody starts later for those who came after, whatever these ask for."""
    exact = [(r, p + 0.25, p + 0.25, n, asked) for r, p, _, n, asked in jobs]
    rows, _ = unzipped(exact)
    rule = {"exclusive": exclusive, "backfill": "conservative", "allocator": "demand-aware", "reserve": 0.7}
    _, all_done, _ = simulate(STAR, rows, **rule)
    for last in range(1, len(rows)):
        _, done, _ = simulate(STAR, rows.select(slice(0, last)), **rule)
        np.testing.assert_array_equal(done.start_time, all_done.start_time[:last])
