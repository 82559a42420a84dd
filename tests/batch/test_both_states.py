"""The general state against the one for a pool: on machines of one sort of node they are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.state import pool_state
from tests.batch.builders import block, simulate
from tests.batch.test_simulator import columns, quarters
from tests.effort import examples

NODES = 6
jobs_of = st.lists(
    st.tuples(quarters, quarters, quarters.map(lambda t: t + 0.25), st.integers(1, 2 * NODES)),
    min_size=1,
    max_size=25,
)
RULES = st.sampled_from(
    [
        {"backfill": "none"},
        {"backfill": "greedy"},
        {"backfill": "easy"},
        {"backfill": "easy", "backfill_order": "SAF"},
        {"backfill": "easy", "reservations": 2},
        {"backfill": "easy", "reservations": 3, "backfill_order": "SPF"},
        {"backfill": "conservative"},
        {"backfill": "conservative", "compression": "one-round"},
        {"backfill": "conservative", "compression": "every-end"},
        {"backfill": "conservative", "pass_interval": 1.5},
        {"backfill": "easy", "pass_interval": 1.5},
        {"backfill": "easy", "easy": "cqsim"},
        {"backfill": "easy", "easy": "cqsim", "backfill_order": "SPF"},
        {"backfill": "easy", "backfill_interval": 2.0},
        {"backfill": "greedy", "backfill_interval": 1.5},
        {"backfill": "easy", "backfill_interval": 1.5, "reservations": 2},
    ]
)
POLICIES = st.sampled_from(["FCFS", "SPF", "LQF", "SAF", "LEXP", "WFP", "fairshare"])


FCFS_ONLY = st.sampled_from(
    [
        {"backfill": "easy", "easy": "accasim"},
        {"backfill": "easy", "easy": "batsched"},
        {"backfill": "easy", "easy": "accasim", "backfill_interval": 2.0},
        {"backfill": "easy", "easy": "batsched", "pass_interval": 1.5},
    ]
)


@pytest.fixture(scope="module")
def both():
    """Simulate with each of the two states."""

    def simulate_twice(jobs, **options):
        first = simulate(jobs, NODES, **options)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pool_state, "needs_resources", lambda *_: True)
            second = simulate(jobs, NODES, **options)
        assert type(first[0].state.room).__name__ == "PoolRoom"
        assert type(second[0].state.room).__name__ == "NodesRoom"
        return first, second

    return simulate_twice


def assert_same(first, second) -> None:
    for name in ("job_id", "start_time", "end_time", "state", "backfilled", "cores", "working"):
        np.testing.assert_array_equal(getattr(first[1], name), getattr(second[1], name), name)
    for name in ("job", "node", "count", "cores", "start", "end", "released"):
        np.testing.assert_array_equal(getattr(first[2], name), getattr(second[2], name), name)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(
    jobs_of,
    POLICIES,
    RULES,
    st.booleans(),
    st.sampled_from(["node", "packed", "core"]),
    st.sampled_from(["drained", "per-event", "ends-first"]),
    st.sampled_from([None, 3.0]),
)
def test_same_schedule(both, jobs, policy, rule, kill, mapping, ties, threshold):
    rows = block(*columns(jobs))
    overrun = "kill" if kill else "extend"
    options = {"policy": policy, "mapping": mapping, "on_overrun": overrun, "ties": ties, **rule}
    assert_same(*both(rows, cores=2, threshold=threshold, **options))


@settings(deadline=None, max_examples=examples(60))
@given(
    jobs_of,
    FCFS_ONLY,
    st.booleans(),
    st.sampled_from(["node", "packed", "core"]),
    st.sampled_from(["drained", "per-event", "ends-first"]),
    st.lists(st.tuples(st.integers(0, NODES - 1), quarters, quarters.map(lambda t: t + 0.25)), max_size=3),
)
def test_same_schedule_with_a_reservation_that_is_kept(both, jobs, rule, kill, mapping, ties, failures):
    rows = block(*columns(jobs))
    listed = [{"node": node, "at": at, "repair": repair} for node, at, repair in failures]
    overrun = "kill" if kill else "extend"
    options = {"mapping": mapping, "on_overrun": overrun, "ties": ties, "failures": listed, **rule}
    assert_same(*both(rows, cores=2, **options))


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(jobs_of, st.data(), RULES, st.sampled_from(["any", "short-first"]))
def test_same_schedule_when_nodes_are_released(both, jobs, data, rule, released):
    rows = block(*columns(jobs))
    releases = {
        n: sorted(data.draw(st.lists(quarters, max_size=int(q) - 1)))
        for n, q in enumerate(rows.processors)
        if 1 < q <= NODES
    }
    releases = {n: [t for t in times if t <= rows.run_time[n]] for n, times in releases.items()}
    coordination = {"rca": True, "released_nodes": released}
    assert_same(*both(rows, releases=releases, coordination=coordination, **rule))


@settings(deadline=None, max_examples=150)
@given(
    jobs_of,
    RULES,
    st.lists(st.tuples(st.integers(0, NODES - 1), quarters, quarters.map(lambda t: t + 0.25)), max_size=4),
    st.sampled_from(["node", "core"]),
)
def test_same_schedule_when_nodes_fail(both, jobs, rule, failures, mapping):
    rows = block(*columns(jobs))
    listed = [{"node": node, "at": at, "repair": repair} for node, at, repair in failures]
    assert_same(*both(rows, cores=2, mapping=mapping, failures=listed, **rule))
