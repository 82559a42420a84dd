"""What the machine has as a whole: schedules against slow references, and what must hold whatever happens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.errors import InputError
from mlsim.record import JobState
from mlsim.workload.workload_jobs import ResourceRequests
from tests.batch import builders
from tests.batch.builders import block
from tests.batch.hardware import machine, simulate
from tests.batch.test_announced import LINKS, MIXED, assert_same, options, outages_of, rows_of, studies
from tests.batch.test_announced import twins_of as planned_twins
from tests.batch.test_coordination import run_asking
from tests.batch.test_dispatch import WEIGHTS, dispatchers, easy_of_others, run_reference
from tests.batch.test_dispatch import twins_of as pool_twins
from tests.batch.test_simulator import UNITS, columns, job_lists, quarters
from tests.batch.test_simulator import assert_same as assert_same_as_twins
from tests.effort import examples
from tests.reference.allocators import ALLOCATORS, Nodes
from tests.reference.planning import PlanningSystem

NAMES = ("matlab", "burst_buffer", "link")
FULL = 6


@st.composite
def shared_by(draw, n: int):
    """Amounts that a machine has, and what each of ``n`` jobs asks of them; 0 often, too much seldom."""
    capacity = draw(st.lists(st.integers(1, FULL), min_size=1, max_size=3))
    each = st.tuples(*[st.sampled_from([0, 0, 1, 1, 2, has // 2, has, has, FULL]) for has in capacity])
    return capacity, draw(st.lists(each, min_size=n, max_size=n))


def on(hardware, capacity):
    return replace(hardware, shared=replace(shared_machine(capacity).shared))


def shared_machine(capacity):
    return machine((1, 1, 0, {}), shared=dict(zip(NAMES, capacity, strict=False)))


def with_shares(rows, shares):
    """The same jobs, asking for amounts, one row a job in arrival order."""
    n, width = len(rows), len(shares[0])
    known = rows.asked or ResourceRequests.unspecified(n)
    totals = np.column_stack([known.totals, np.array(shares, np.int64).reshape(n, width)])
    return replace(rows, asked=ResourceRequests((*known.names, *NAMES[:width]), known.units, totals))


def named(capacity):
    return dict(zip(NAMES, capacity, strict=False))


def check_shared(done, shares, capacity, held=None) -> None:
    """At no time do jobs hold more than there is; a job holds its share through each of its attempts."""
    spans = [(done.start_time[n], done.end_time[n], n) for n in range(len(done.job_id))]
    if held is not None:  # a job that failures made start again has further spans, without releases
        for n in range(len(done.job_id)):
            rows = held.job == n
            for begin in np.unique(held.start[rows]):
                if begin < done.start_time[n]:
                    spans.append((begin, held.end[rows & (held.start == begin)].max(), n))
    changes = []
    for begin, end, n in spans:
        if end > begin:
            changes += [(begin, 1, np.array(shares[n])), (end, 0, -np.array(shares[n]))]
    used = np.zeros(len(capacity), np.int64)
    for _, _, change in sorted(changes, key=lambda change: change[:2]):
        used += change
        assert (used >= 0).all()
        assert (used <= capacity).all()
    assert not used.any()


def check_all_is_back(system, capacity) -> None:
    assert system.state.room.arrays.shared[0].tolist() == list(capacity)


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(200))
@given(studies(MIXED), st.booleans(), st.sampled_from(sorted(ALLOCATORS)), st.data())
def test_agrees_with_the_slow_reference_on_mixed_nodes(study, exclusive, allocator, data):
    """Every backfilling and allocator, several resources, failures, restarts, drains of all kinds."""
    jobs, listed, rules, batch = study
    listed = listed if data.draw(st.booleans()) else []
    capacity, shares = data.draw(shared_by(len(jobs)))
    hardware, rows = on(MIXED, capacity), with_shares(rows_of(MIXED, jobs), shares)
    system, done, held = simulate(
        hardware, rows, exclusive=exclusive, allocator=allocator, **batch, **options(listed)
    )
    twins = planned_twins(rows_of(MIXED, jobs))
    for twin, asks in zip(twins, shares, strict=True):
        twin.shares = asks
    nodes = Nodes(MIXED.capacity, exclusive, LINKS)
    PlanningSystem(nodes, ALLOCATORS[allocator], rules, outages_of(listed), shared=capacity).run(twins)
    assert_same(twins, done, held, exclusive)
    check_shared(done, shares, capacity, held)
    check_all_is_back(system, capacity)


def run_both(jobs, batch, capacity, shares, releases=None):
    """Run jobs on whole nodes that are all alike, here and in the reference."""
    rows = with_shares(block(*columns(jobs)), shares)
    system, done, _ = builders.simulate(
        rows, UNITS, weights=WEIGHTS, shared=named(capacity), releases=releases, **batch
    )
    twins = pool_twins(jobs)
    for number, (twin, asks) in enumerate(zip(twins, shares, strict=True)):
        twin.shares, twin.releases = asks, list((releases or {}).get(number, []))
    run_reference(jobs, batch, twins, shared=tuple(capacity))
    ran = [not twin.rejected for twin in twins]
    assert (done.state != JobState.REJECTED).tolist() == ran
    assert_same_as_twins([twin for twin in twins if not twin.rejected], rows_where(done, ran))
    check_shared(done, shares, capacity)
    check_all_is_back(system, capacity)


def rows_where(done, mask):
    kept = {name: getattr(done, name)[mask] for name in ("start_time", "end_time", "backfilled", "state")}
    return type("Rows", (), kept)


@settings(deadline=None, max_examples=examples(200))
@given(job_lists, dispatchers | easy_of_others, st.data())
def test_every_dispatcher_agrees_with_the_reference(jobs, batch, data):
    run_both(jobs, batch, *data.draw(shared_by(len(jobs))))


@settings(deadline=None, max_examples=examples(150))
@given(
    job_lists,
    st.sampled_from(
        [
            {"backfill": "none"},
            {"backfill": "greedy"},
            {"backfill": "easy"},
            {"backfill": "easy", "reservations": 2},
            {"backfill": "conservative"},
        ]
    ),
    st.sampled_from(["kill", "extend"]),
    st.data(),
)
def test_nodes_that_go_back_early_take_nothing_of_it_along(jobs, rule, overrun, data):
    rows = block(*columns(jobs))
    releases = {
        n: sorted(data.draw(st.lists(quarters, max_size=int(q) - 1)))
        for n, q in enumerate(rows.processors)
        if q > 1
    }
    releases = {n: [t for t in times if t <= rows.run_time[n]] for n, times in releases.items()}
    run_both(jobs, {"on_overrun": overrun, **rule}, *data.draw(shared_by(len(jobs))), releases)


@settings(deadline=None, max_examples=examples(80))
@given(job_lists, st.sampled_from(["none", "greedy", "easy"]), st.data())
def test_short_jobs_on_released_nodes_find_no_more_than_there_is(jobs, backfill, data):
    capacity, shares = data.draw(shared_by(len(jobs)))
    rows = with_shares(block(*columns(jobs)), shares)
    releases = {n: [0.25] * (int(q) - 1) for n, q in enumerate(rows.processors) if rows.run_time[n] > 0.25}
    system, done, _ = builders.simulate(
        rows,
        UNITS,
        shared=named(capacity),
        releases=releases,
        backfill=backfill,
        coordination={"rca": True, "released_nodes": "short-first"},
    )
    check_shared(done, shares, capacity)
    check_all_is_back(system, capacity)


def starts(jobs, shares, shared, nodes=4, **batch):
    rows = with_shares(block(*zip(*jobs, strict=True)), shares)
    return builders.simulate(rows, nodes, shared=shared, **batch)[1].start_time.tolist()


def test_a_licence_keeps_a_job_waiting_though_nodes_are_free():
    # Two licences; jobs 0 and 1 hold them, job 2 waits for the first to end, and job 3 needs none.
    jobs = [(0, 5, 5, 1), (0, 9, 9, 1), (1, 2, 2, 1), (2, 2, 2, 1)]
    shares = [[1], [1], [1], [0]]
    assert starts(jobs, shares, {"matlab": 2}) == [0, 0, 5, 5]
    assert starts(jobs, shares, {"matlab": 2}, backfill="greedy") == [0, 0, 5, 2]
    assert starts(jobs, shares, {"matlab": 3}) == [0, 0, 1, 2]


def test_easy_reserves_the_licence_for_the_head():
    # The head, job 1, is promised the licence at 10. Job 2 would hold it to 11; job 3 holds it to 4 only.
    jobs = [(0, 10, 10, 1), (1, 2, 2, 1), (2, 9, 9, 1), (2, 2, 2, 1)]
    shares = [[1], [2], [1], [1]]
    for rule in ({"backfill": "easy"}, {"backfill": "easy", "reservations": 2}, {"backfill": "conservative"}):
        assert starts(jobs, shares, {"matlab": 2}, **rule) == [0, 10, 12, 2]
    assert starts(jobs, shares, {"matlab": 2}, backfill="greedy") == [0, 12, 2, 10]


def test_a_job_that_asks_for_more_than_there_is_is_rejected():
    rows = with_shares(block([0, 0], [5, 5], [5, 5], [1, 1]), [[3], [2]])
    system, done, _ = builders.simulate(rows, 4, shared={"matlab": 2})
    assert (done.state == JobState.REJECTED).tolist() == [True, False]
    found = system.rejections()
    assert found.reasons == ("asks for 3 matlab; the machine has 2",)


def test_the_queue_asks_no_application_for_nodes_that_would_not_help():
    # Job 1 lacks a licence until 30, not a node.
    jobs = block([0, 2], [30, 5], [30, 5], [3, 1])
    _, applications, _ = run_asking(jobs, 3, {0: True})
    assert applications.asked
    rows = with_shares(jobs, [[1], [1]])
    _, applications, _ = run_asking(rows, 3, {0: True}, shared={"matlab": 1})
    assert not applications.asked


SEEING = """
from mlsim.batch.view import Start


class Mine:
    def dispatch(self, view):
        assert view.shared == ("matlab", "buffer")
        assert view.shared_capacity.tolist() == [2, 9]
        assert not view.shared_free.flags.writeable
        if view.now == 0.0:
            assert view.shared_free.tolist() == [2, 9]
            assert view.waiting.shares.tolist() == [[1, 4], [2, 0]]
            yield Start(0)
            if {greedy}:
                yield Start(1)
        elif len(view.waiting) and not len(view.running):
            assert view.shared_free.tolist() == [2, 9]
            yield Start(0)
        elif len(view.waiting):
            assert view.shared_free.tolist() == [1, 5]
            assert view.running.shares.tolist() == [[1, 4]]
"""


@pytest.mark.parametrize("greedy", [False, True])
def test_a_plugin_sees_what_is_free_and_cannot_take_more(tmp_path, greedy):
    file = tmp_path / "own.py"
    file.write_text(SEEING.format(greedy=greedy))
    rows = with_shares(block([0, 0], [5, 5], [5, 5], [1, 1]), [[1, 4], [2, 0]])
    rows = replace(rows, asked=replace(rows.asked, names=("matlab", "buffer")))
    common = {"dispatcher": f"{file}:Mine", "shared": {"matlab": 2, "buffer": 9}}
    if greedy:
        words = r"job 2 at 0 s: asks for \[2, 0\] of what the machine has as a whole, free are \[1, 5\]"
        with pytest.raises(InputError, match=words):
            builders.simulate(rows, 4, **common)
        return
    _, done, _ = builders.simulate(rows, 4, **common)
    assert done.start_time.tolist() == [0, 5]
