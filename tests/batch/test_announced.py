"""Announced drains: schedules against a slow reference, and what must hold whatever else happens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.room.unit_requests import PowerCap
from mlsim.errors import InputError
from mlsim.platform.machine import PowerColumns
from mlsim.record import JobState, OutageKind
from mlsim.scenario import from_mapping
from tests.batch import builders
from tests.batch.builders import block
from tests.batch.hardware import jobs_with_requests, machine, simulate
from tests.batch.test_coordination import run_asking
from tests.effort import examples
from tests.reference.allocators import ALLOCATORS, Nodes
from tests.reference.planning import FOREVER, Job, Outage, PlanningSystem, Rules

quarters = st.integers(0, 40).map(lambda n: n / 4)
lengths = st.integers(1, 40).map(lambda n: n / 4)

PLAIN = machine((4, 2, 0, {}))
MIXED = machine((2, 4, 8, {"gpu": 2}), (2, 4, 4, {"mic": 1}), network={"topology": "star"})
LINKS = [MIXED.network.links_from(node, MIXED.n_nodes).tolist() for node in range(MIXED.n_nodes)]
BACKFILLS = [
    {"backfill": "none"},
    {"backfill": "greedy"},
    {"backfill": "easy"},
    {"backfill": "easy", "reservations": 2},
    {"backfill": "easy", "reservations": 3},
    {"backfill": "conservative"},
]
KEYS = {"FCFS": lambda job, now: job.submit, "SPF": lambda job, now: job.estimate}


def job_lists(units: int, resources: int):
    asked = (st.integers(0, 4), st.integers(0, 1), st.integers(0, 1))[: resources - 1]
    request = st.tuples(st.integers(1, 2), *asked)
    submit = st.one_of(quarters, quarters, quarters.map(lambda time: 2 * time))  # also when drains are over
    job = st.tuples(submit, quarters, lengths, st.integers(1, units), request)
    return st.lists(job, min_size=1, max_size=16)


@st.composite
def entries(draw, kinds=("announced", "announced", "drained", "failed")):
    """A failure of a node, or a drain of some: (kind, nodes, start, end, announced at)."""
    kind, start, length = draw(st.sampled_from(kinds)), draw(quarters), draw(lengths)
    first = draw(st.integers(0, 3))
    last = first if kind == "failed" else draw(st.integers(first, 3))
    end = draw(st.sampled_from([start + length, start + length, FOREVER]))
    told = draw(st.sampled_from([0.0, 0.0, start / 2, start])) if kind == "announced" else 0.0
    return kind, tuple(range(first, last + 1)), start, end, told


def outages_of(listed) -> list[Outage]:
    return [
        Outage(node, start, end, kind, told) for kind, nodes, start, end, told in listed for node in nodes
    ]


def options(listed) -> dict[str, object]:
    """What the simulator takes for these entries."""
    failures = [
        {"node": nodes[0], "at": start} | ({} if end == FOREVER else {"repair": end - start})
        for kind, nodes, start, end, _ in listed
        if kind == "failed"
    ]
    drains = [
        {"nodes": f"{nodes[0]}-{nodes[-1]}", "start": start, "announced": kind == "announced"}
        | ({} if end == FOREVER else {"end": end})
        | ({"announced_at": told} if told else {})
        for kind, nodes, start, end, told in listed
        if kind != "failed"
    ]
    return {"failures": failures, "drains": drains}


def rows_of(hardware, jobs):
    submit, run, estimate, units, asked = zip(*jobs, strict=True)
    return jobs_with_requests(hardware, submit, run, estimate, units, asked)


def twins_of(rows) -> list[Job]:
    asked = rows.asked
    request = np.column_stack([rows.processors // asked.units, asked.totals // asked.units[:, None]])
    columns = (rows.submit_time, rows.run_time, rows.estimate, asked.units, request)
    return [
        Job(n, float(r), float(p), float(e), int(u), tuple(map(int, each)))
        for n, (r, p, e, u, each) in enumerate(zip(*columns, strict=True))
    ]


def assert_same(twins, done, held, exclusive: bool) -> None:
    assert [JobState(code).name.lower() for code in done.state] == [twin.state for twin in twins]
    np.testing.assert_array_equal(done.start_time, [twin.start for twin in twins])
    np.testing.assert_array_equal(done.end_time, [twin.end for twin in twins])
    ran = [twin.state in ("completed", "killed") for twin in twins]
    backfilled = np.array([twin.backfilled for twin in twins])
    assert done.backfilled[ran].tolist() == backfilled[ran].tolist()
    for twin in twins:
        stays = []
        for row in np.flatnonzero(held.job == twin.number):
            for node in range(held.node[row], held.node[row] + held.count[row]):
                units = 1 if exclusive else held.cores[row] // twin.request[0]
                stays += [(held.start[row], held.end[row], node)] * units
        there = [(begin, end, node) for begin, end, nodes in twin.stays for node in nodes]
        assert sorted(stays) == sorted(there)


@st.composite
def studies(draw, hardware, kinds=("announced", "announced", "drained", "failed")):
    jobs = draw(job_lists(5, len(hardware.resources)))
    listed = draw(st.lists(entries(kinds), min_size=1, max_size=5))
    rule = draw(st.sampled_from(BACKFILLS))
    rules = Rules(
        rule["backfill"],
        rule.get("reservations", 1),
        kill=draw(st.booleans()),
        restart=draw(st.booleans()),
        max_restarts=draw(st.sampled_from([1, 5])),
    )
    batch = rule | {"on_overrun": "kill" if rules.kill else "extend"}
    batch |= {"on_failure": "restart", "max_restarts": rules.max_restarts} if rules.restart else {}
    return jobs, listed, rules, batch


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(120))
@given(studies(PLAIN), st.booleans(), st.sampled_from(sorted(KEYS)))
def test_agrees_with_the_slow_reference(study, exclusive, policy):
    """Nodes all alike, of which a pool would do without announced drains."""
    jobs, listed, rules, batch = study
    listed = [*listed, ("announced", (1, 2), 6.0, 8.0, 0.0)]
    rows = rows_of(PLAIN, jobs)
    _, done, held = simulate(PLAIN, rows, exclusive=exclusive, policy=policy, **batch, **options(listed))
    twins = twins_of(rows)
    nodes = Nodes(PLAIN.capacity, exclusive)
    PlanningSystem(nodes, ALLOCATORS["first-fit"], rules, outages_of(listed), KEYS[policy]).run(twins)
    assert_same(twins, done, held, exclusive)


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(120))
@given(studies(MIXED), st.booleans(), st.sampled_from(sorted(ALLOCATORS)))
def test_agrees_with_the_slow_reference_on_mixed_nodes(study, exclusive, allocator):
    """Several resources and all allocators, with and without announced drains."""
    jobs, listed, rules, batch = study
    rows = rows_of(MIXED, jobs)
    _, done, held = simulate(
        MIXED, rows, exclusive=exclusive, allocator=allocator, **batch, **options(listed)
    )
    twins = twins_of(rows)
    nodes = Nodes(MIXED.capacity, exclusive, LINKS)
    PlanningSystem(nodes, ALLOCATORS[allocator], rules, outages_of(listed)).run(twins)
    assert_same(twins, done, held, exclusive)


@st.composite
def powered(draw, hardware):
    """The same with power and a cap whose level changes, for what goes with a cap."""
    jobs, listed, rules, batch = draw(
        studies(hardware).filter(
            lambda study: study[2].backfill != "conservative" and study[2].reservations == 1
        )
    )
    listed = listed if draw(st.booleans()) else []
    watts = st.sampled_from([0.0, 1.0, 2.5, 8.0])
    power = []
    for _ in hardware.cores:
        off = draw(watts)
        idle = off + draw(watts)
        power.append((idle, idle + draw(watts), off))
    idle, busy = sum(row[0] for row in power), sum(row[1] for row in power)
    times = sorted(draw(st.sets(st.integers(0, 12), min_size=1, max_size=3)))
    levels = [idle + draw(st.integers(1, 16)) / 16 * (busy - idle) + 0.125 for _ in times]
    caps = tuple(zip(map(float, times), levels, strict=True))
    return jobs, listed, replace(rules, power=tuple(power), caps=caps), batch


@settings(deadline=None, max_examples=examples(120))
@given(powered(MIXED), st.booleans(), st.sampled_from(["first-fit", "best-fit", "worst-fit"]))
def test_a_power_cap_agrees_with_the_slow_reference(study, exclusive, allocator):
    """Several resources, unequal power, levels that change, outages of all kinds."""
    jobs, listed, rules, batch = study
    rows = rows_of(MIXED, jobs)
    idle, busy, off = (np.array(column) for column in zip(*rules.power, strict=True))
    cap = PowerCap(PowerColumns(idle, busy, off), MIXED.cores, exclusive, rules.caps)
    batch |= {"allocator": allocator} | options(listed)
    _, done, held = simulate(MIXED, rows, exclusive=exclusive, cap=cap, **batch)
    twins = twins_of(rows)
    nodes = Nodes(MIXED.capacity, exclusive, LINKS)
    PlanningSystem(nodes, ALLOCATORS[allocator], rules, outages_of(listed)).run(twins)
    assert_same(twins, done, held, exclusive)


def check_none_meets_a_drain(listed, jobs, held) -> None:
    """No job that keeps within its estimate is on a node while a drain lasts that was known at its start."""
    for kind, nodes, start, end, told in listed:
        for row in range(len(held.job) if kind == "announced" else 0):
            job, span = held.job[row], range(held.node[row], held.node[row] + held.count[row])
            begin, expected = jobs.start_time[job], jobs.start_time[job] + jobs.walltime[job]
            if begin < told or not set(span) & set(nodes):
                continue
            assert begin >= end or min(held.end[row], expected) <= start


SIMPLE = st.lists(st.tuples(quarters, quarters, lengths, st.integers(1, 4)), min_size=1, max_size=14)
MORE_RULES = [
    *BACKFILLS,
    {"backfill": "easy", "backfill_order": "SPF"},
    {"backfill": "greedy", "backfill_interval": 1.5},
    {"backfill": "easy", "pass_interval": 1.0},
]


@settings(deadline=None, max_examples=examples(100))
@given(
    SIMPLE,
    st.lists(entries(), min_size=1, max_size=4),
    st.sampled_from(MORE_RULES),
    st.sampled_from(["node", "core"]),
    st.sampled_from(["drained", "per-event"]),
    st.sampled_from(["kill", "extend"]),
    st.sampled_from(["first-fit", "random", "contiguous"]),
    st.sampled_from(["FCFS", "SAF", "LEXP", "fairshare"]),
)
def test_whatever_the_rules_no_job_runs_into_a_drain(
    jobs, listed, rule, mapping, ties, overrun, allocator, policy
):
    rows = block(*zip(*jobs, strict=True))
    others = {"allocator": allocator, "policy": policy, "on_failure": "die", **options(listed)}
    _, done, held = builders.simulate(
        rows, 4, mapping=mapping, ties=ties, on_overrun=overrun, **rule, **others
    )
    check_none_meets_a_drain(listed, done, held)
    if all(kind != "failed" and end < FOREVER for kind, _, _, end, _ in listed):
        assert (done.state != JobState.REJECTED).all()


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(60))
@given(
    SIMPLE,
    st.lists(entries(("announced", "announced", "drained")), min_size=1, max_size=3),
    st.sampled_from(BACKFILLS),
    st.sampled_from(["any", "short-first"]),
    st.data(),
)
def test_released_nodes_are_planned_with(jobs, listed, rule, released, data):
    rows = block(*zip(*jobs, strict=True))
    if released == "short-first" and (rule["backfill"] == "conservative" or "reservations" in rule):
        released = "any"
    releases = {
        number: sorted(data.draw(st.lists(st.sampled_from([0.0, 0.25, 1.0, 2.0]), max_size=int(units) - 1)))
        for number, units in enumerate(rows.processors)
        if units > 1
    }
    releases = {n: [time for time in times if time <= rows.run_time[n]] for n, times in releases.items()}
    coordination = {"rca": True, "released_nodes": released}
    _, done, held = builders.simulate(
        rows, 4, releases=releases, coordination=coordination, **rule, **options(listed)
    )
    check_none_meets_a_drain(listed, done, held)


def drain(nodes, start, end=None, **keys):
    return {"nodes": nodes, "start": start, "announced": True} | ({} if end is None else {"end": end}) | keys


def starts(jobs, nodes, *drains, **others):
    return builders.simulate(jobs, nodes, drains=list(drains), **others)[1].start_time.tolist()


def test_a_job_starts_where_it_ends_in_time():
    # 3 nodes, the first two drained from 5 to 9. Six seconds do not fit before it, five do.
    jobs = block([0, 0, 0], [6, 5, 4], [6, 5, 4], [1, 1, 1])
    system, done, held = builders.simulate(jobs, 3, drains=[drain("0-1", 5, 9)])
    assert done.start_time.tolist() == [0, 0, 0]
    assert held.node.tolist() == [2, 0, 1]
    rows = system.outage_rows()
    assert rows.kind.tolist() == [OutageKind.ANNOUNCED_DRAIN] * 2
    assert (rows.start.tolist(), rows.end.tolist()) == ([5, 5], [9, 9])
    # Where nobody knows of it, the first job is on the first node.
    _, _, held = builders.simulate(jobs, 3, drains=[{"nodes": "0-1", "start": 5, "end": 9}])
    assert held.node.tolist() == [0, 1, 2]


@pytest.mark.parametrize("told", [3.0, 0.0])
def test_reservations_do_not_outlive_an_announcement(told):
    """Job 1 was reserved for 6, and could start at 5, until the drain was announced that it would meet."""
    jobs = block([0, 0], [5, 1], [6, 20], [1, 3])
    drain = {"nodes": "1", "start": 16, "end": 36, "announced": True} | (
        {"announced_at": told} if told else {}
    )
    _, done, _ = builders.simulate(jobs, 3, backfill="conservative", drains=[drain])
    assert done.start_time.tolist() == [0, 36]


def test_the_head_is_promised_the_end_of_the_drain():
    # Job 0 has one node to 4. The head wants both for 3 s, and they are drained from 6 to 10: it gets 10, and
    # job 2 may take the idle node for 5 s meanwhile, as it ends by 6. Job 3 would not.
    jobs = block([0, 1, 1, 1], [4, 3, 5, 6], [4, 3, 5, 6], [1, 2, 1, 1])
    for rule in BACKFILLS[2:]:
        assert starts(jobs, 2, drain("0-1", 6, 10), **rule) == [0, 10, 1, 13]
    # One that is not announced does not keep the head from 4, and it goes on to 7.
    assert starts(jobs, 2, {"nodes": "0-1", "start": 6, "end": 10}, backfill="easy") == [0, 4, 10, 10]


def test_the_end_is_known_while_the_drain_lasts():
    # Node 0 is drained to 10. The head wants 2 nodes: job 2, of 8 s, would delay it; one of 7 s does not.
    jobs = block([0, 3, 3], [2, 3, 8], [2, 3, 8], [1, 2, 1])
    assert starts(jobs, 2, drain(0, 2, 10), backfill="easy") == [0, 10, 13]
    jobs = block([0, 3, 3], [2, 3, 7], [2, 3, 7], [1, 2, 1])
    assert starts(jobs, 2, drain(0, 2, 10), backfill="easy") == [0, 10, 3]
    # Of one that is not announced nobody knows the end: the head has no reservation.
    jobs = block([0, 3, 3], [2, 3, 8], [2, 3, 8], [1, 2, 1])
    assert starts(jobs, 2, {"nodes": 0, "start": 2, "end": 10}, backfill="easy") == [0, 11, 3]


def test_a_job_that_outlives_its_estimate_goes_on_through_the_drain():
    jobs = block([0, 6], [9, 1], [4, 1], [1, 1])
    assert starts(jobs, 1, drain(0, 5, 7), on_overrun="extend") == [0, 9]
    assert starts(jobs, 1, drain(0, 5, 7), on_overrun="kill") == [0, 7]


def test_before_the_announcement_nobody_knows():
    jobs = block([0, 2], [12, 9], [12, 9], [1, 1])
    # Job 0 starts before it is told, and goes on; job 1 would end after 10.
    assert starts(jobs, 2, drain("0-1", 10, 12, announced_at=1)) == [0, 12]
    assert starts(jobs, 2, drain("0-1", 10, 12)) == [12, 12]
    assert starts(jobs, 2, drain("0-1", 10, 12, announced_at=3)) == [0, 2]


def test_a_short_job_is_not_taken_for_one_that_was_refused():
    # Jobs 1 and 2 want the same; job 1 runs into the drain of node 0, and job 2 does not.
    jobs = block([0, 1, 1], [20, 9, 3], [20, 9, 3], [1, 1, 1])
    assert starts(jobs, 2, drain(0, 5, 7), backfill="greedy") == [0, 7, 1]


def test_a_drain_for_good_leaves_jobs_that_need_its_nodes_without_hope():
    jobs = block([0, 0], [4, 4], [6, 4], [2, 1])
    _, done, _ = builders.simulate(jobs, 2, drains=[drain(1, 5)], backfill="easy")
    assert done.state.tolist() == [JobState.REJECTED, JobState.COMPLETED]


def test_a_node_that_would_be_drained_does_not_go_back_to_its_owner():
    # As in test_coordination: job 0 lends a node at 2.5 to job 1, which ends at 7.5; job 0 ends at 30.
    jobs = block([0, 2], [30, 5], [30, 5], [3, 1])
    for start, returned in ((30, [(0, 2, 7.75)]), (29, [])):
        _, applications, _ = run_asking(
            jobs, 3, {0: True}, reclaim=True, drains=[drain(2, start, announced_at=1)]
        )
        assert applications.returned == returned


def test_drains_that_are_over_shut_nothing():
    # At 1 job 1 is promised 4, on nodes 0 and 1, as node 2 is drained from 8. Later job 4 needs all three,
    # and is promised 20, when job 3 ends; job 5 would delay it.
    jobs = block([0, 1, 1, 11, 12, 13], [4, 5, 5, 9, 2, 8], [4, 5, 5, 9, 2, 8], [2, 2, 1, 1, 3, 1])
    assert starts(jobs, 3, drain(2, 8, 10), backfill="easy") == [0, 4, 1, 11, 20, 22]


def test_reservations_move_forward_when_the_return_of_a_node_becomes_known():
    # Node 0 fails at 3 and is drained from 5 to 12, so at 4 job 1 is promised 20, the end of job 0 on node 1.
    # From the repair at 8 on 12 is known: job 1 moves there before job 2 comes.
    jobs = block([0, 4, 9], [20, 3, 3], [20, 3, 3], [1, 1, 1])
    failures = [{"node": 0, "at": 3, "repair": 5}]
    rule = {"backfill": "conservative", "failures": failures, "on_failure": "die"}
    first = [{"nodes": 0, "start": 0, "end": 1}]  # so that job 0 is on node 1
    assert starts(jobs, 2, drain(0, 5, 12), *first, **rule) == [0, 12, 15]


def test_two_drains_of_a_node_and_a_failure_meanwhile():
    # Drained 5-8 and 7-10, and fails 9-11: nobody knows of the repair, so 10 is a promise no more.
    jobs = block([0, 6, 6, 9.5], [5, 2, 4, 9], [5, 2, 4, 9], [1, 2, 1, 1])
    drains = [drain(0, 5, 8), drain(0, 7, 10)]
    assert starts(jobs, 2, *drains, backfill="easy") == [0, 10, 6, 12]
    failures = [{"node": 0, "at": 9, "repair": 2}]
    assert starts(jobs, 2, *drains, backfill="easy", failures=failures) == [0, 19, 6, 10]


SEEING = """
from mlsim.batch.view import Start


class Mine:
    def dispatch(self, view):
        assert view.drains.node.tolist() == [1, 2]
        assert view.drains.start.tolist() == [5.0, 5.0] and view.drains.end.tolist() == [9.0, 9.0]
        assert not view.drains.node.flags.writeable
        if view.now == 0.0:
            yield Start(0, nodes={nodes})
"""


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ("[0, 3]", None),
        (
            "[0, 2]",
            "job 1 at 0 s: an announced drain of node 2 begins at 5 s, and the job is expected to end at 6",
        ),
        ("None", None),
    ],
)
def test_a_plugin_sees_drains_and_may_not_start_jobs_into_them(tmp_path, nodes, words):
    file = tmp_path / "own.py"
    file.write_text(SEEING.format(nodes=nodes))
    jobs = block([0], [6], [6], [2])
    common = {"dispatcher": f"{file}:Mine", "drains": [drain("1-2", 5, 9)]}
    if words is None:
        _, done, held = builders.simulate(jobs, 4, **common)
        assert (done.start_time.tolist(), held.node.tolist()) == ([0], [0, 3])
        return
    with pytest.raises(InputError, match=words):
        builders.simulate(jobs, 4, **common)


def test_a_plugin_that_leaves_the_nodes_to_the_allocator_is_told_why_there_are_none(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(SEEING.format(nodes="None"))
    with pytest.raises(InputError, match="on nodes without an announced drain before it is expected to end"):
        builders.simulate(
            block([0], [6], [6], [3]), 4, dispatcher=f"{file}:Mine", drains=[drain("1-2", 5, 9)]
        )


PLATFORM = {"nodes": [{"name": "n", "count": 4, "cores": 2, "power": {"idle": 10, "busy": 30}}]}


@pytest.mark.parametrize(
    ("entry", "batch", "words"),
    [
        ({"announced_at": 1}, {}, "this drain is not announced"),
        ({"announced": "on", "announced_at": "9 s"}, {}, "is after start"),
        ({"announced": "perhaps"}, {}, "neither on nor off"),
        ({"announced": "on"}, {"dispatcher": "hcp19"}, "hcp19 plans as if its nodes were there for ever"),
        ({"announced": "on"}, {"engine": "replay"}, "platform.drains: empty"),
        (
            {"announced": "on"},
            {"power_cap": 100, "backfill": "conservative"},
            "plan around drains with one reservation at most",
        ),
        (
            {"announced": "on"},
            {"power_cap": 100, "reservations": 2, "backfill": "easy"},
            "one reservation at most",
        ),
    ],
)
def test_what_cannot_be_is_refused_when_the_scenario_is_read(entry, batch, words):
    platform = PLATFORM | {"drains": [{"start": 5, "end": 9} | entry]}
    scenario = {"platform": platform, "workload": {"path": "log.swf", "mapping": "node"}, "batch": batch}
    with pytest.raises(InputError, match=words):
        from_mapping(scenario)


def test_the_power_that_a_node_takes_when_it_comes_back_is_not_promised():
    # Idle nodes take 10 W, busy ones 30, of 85. Node 2 is off to 6. Job 0 has a node to 20, job 1 one to 4.
    # The head wants two: at 6 the nodes are there, but 30 W idle and 20 W of job 0 leave 35 W, not 40. So it
    # is promised 20, and job 3 may have a node from 4 to 14.
    power = {"idle": 10, "busy": 30, "off": 0}
    jobs = block([0, 0, 1, 1], [20, 4, 5, 10], [20, 4, 5, 10], [1, 1, 2, 1])
    rule = {"power": power, "power_cap": 85, "backfill": "easy"}
    assert starts(jobs, 3, drain(2, 0, 6), **rule) == [0, 0, 20, 4]
