"""Ends that are due at the time of a pass: promises hold with every order of events, room and engine."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.clock.compiled_replay import CompiledBatch
from mlsim.batch.clock.replay_many import replay_many
from mlsim.batch.room.unit_requests import Requests
from mlsim.batch.state import pool_state
from mlsim.scenario import BatchConfig
from mlsim.scenario.words import Mapping
from tests.batch.builders import block, machine, simulate
from tests.effort import examples
from tests.reference.batch import Job, ReferenceBatchSystem

NODES = 4
TIES = ["drained", "per-event", "ends-first"]
RULES = {
    "easy": {"backfill": "easy"},
    "two reservations": {"backfill": "easy", "reservations": 2},
    "conservative": {"backfill": "conservative"},
    "one round": {"backfill": "conservative", "compression": "one-round"},
    "batsched": {"backfill": "easy", "easy": "batsched"},
}


def starts(rows, ties: str, rule: dict, engine: str) -> list[float]:
    """Simulate (submit, run time, estimate, units) with FCFS."""
    jobs = block(*(np.array(column, float) for column in zip(*rows, strict=True)))
    options = {**rule, "ties": ties}
    if engine == "compiled":
        hardware = machine(NODES)
        batch = CompiledBatch(
            hardware, BatchConfig.model_validate(options), Requests.on(hardware, Mapping.NODE)
        )
        batch.run([jobs])
        return batch.jobs().start_time.tolist()
    if engine == "many":
        found = replay_many([jobs], BatchConfig.model_validate(options), NODES, starts=True)
        return found.starts[0][0].tolist()
    with pytest.MonkeyPatch.context() as patch:
        if engine == "matrix":
            patch.setattr(pool_state, "needs_resources", lambda *_: True)
        if engine == "announced":  # reservations are of nodes then
            options["drains"] = [{"nodes": "0", "start": 1e6, "end": 1e6 + 1, "announced": True}]
        return simulate(jobs, NODES, **options)[1].start_time.tolist()


ENGINES = ["simpy", "compiled", "many", "matrix", "announced"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("ties", TIES)
def test_a_job_whose_end_is_still_to_be_handled_is_expected_now(ties, rule, engine):
    """Two jobs end at 5; between their ends job 3 would fit for a second, were the other expected later."""
    rows = [(0, 5, 5, 2), (0, 5, 5, 1), (1, 3, 3, 4), (1, 1, 1, 3)]
    assert starts(rows, ties, RULES[rule], engine) == [0, 0, 5, 8]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("ties", TIES)
def test_a_job_of_no_time_that_starts_now_is_expected_now(ties, rule, engine):
    """At 5 job 1 starts for no time, so job 2 starts at 5 as well, and job 3 cannot be in its way."""
    rows = [(0, 5, 5, 4), (1, 0, 0, 1), (1, 5, 5, 4), (1, 1, 1, 3)]
    assert starts(rows, ties, RULES[rule], engine) == [0, 5, 5, 10]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("ties", TIES)
def test_who_is_reserved_behind_a_job_of_no_time_does_not_wait_for_the_next_event(ties, rule, engine):
    rows = [(0, 0, 0, 4), (0, 5, 5, 4), (100, 1, 1, 4)]
    assert starts(rows, ties, RULES[rule], engine) == [0, 0, 100]


@pytest.mark.parametrize("ties", ["per-event", "ends-first"])
def test_others_may_start_beside_a_job_that_waits_for_an_end_of_this_time(ties):
    """At 5 job 2 (3 nodes) waits for the second end; job 3 is reserved for the fourth node from 5 on."""
    rows = [(0, 5, 5, 2), (0, 5, 5, 2), (1, 3, 3, 3), (1, 9, 9, 1)]
    for rule in ("easy", "two reservations", "conservative"):
        for engine in ENGINES:
            assert starts(rows, ties, RULES[rule], engine) == [0, 0, 5, 5]


exact = st.lists(
    st.tuples(st.integers(0, 24), st.sampled_from([0, 1, 1, 2, 3, 5, 12, 20]), st.integers(1, NODES)),
    min_size=1,
    max_size=20,
).map(lambda jobs: [(r / 4, p / 4, p / 4, q) for r, p, q in sorted(jobs, key=lambda job: job[0])])


@settings(deadline=None, max_examples=examples(150))
@given(
    exact,
    st.sampled_from(TIES),
    st.sampled_from(["easy", "two reservations", "conservative"]),
    st.sampled_from(["simpy", "compiled", "matrix", "announced"]),
)
def test_with_exact_estimates_no_job_starts_after_its_first_reservation(rows, ties, rule, engine):
    jobs = [Job(n, r, p, e, q) for n, (r, p, e, q) in enumerate(rows)]
    ReferenceBatchSystem(
        NODES,
        str(RULES[rule]["backfill"]),
        reservations=int(RULES[rule].get("reservations", 1)),
        per_event=ties != "drained",
        ends_first=ties == "ends-first",
    ).run(jobs)
    found = starts(rows, ties, RULES[rule], engine)
    assert found == [job.start for job in jobs]
    assert all(start <= job.first_promise for start, job in zip(found, jobs, strict=True))
    if rule == "conservative":
        assert all(job.first_promise < math.inf for job in jobs)
