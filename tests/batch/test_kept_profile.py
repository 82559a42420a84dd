"""Conservative backfilling with a profile that is kept: the same as with one made anew in every pass."""

from __future__ import annotations

import heapq
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.columns.job_columns import KEPT, RESERVED, ROOM
from mlsim.batch.room.unit_requests import Requests
from mlsim.batch.state import batch_columns
from mlsim.batch.state.pool_state import state_on_nodes, state_on_pool
from mlsim.platform import Machine, build_machine
from mlsim.scenario import BatchConfig, PlatformConfig
from mlsim.scenario.resources_section import RequestConfig
from mlsim.scenario.words import Mapping
from mlsim.workload.workload_jobs import JobBlock

NOTHING = np.empty(0, np.int64)
UNITS = 24

ALIKE = {"nodes": [{"name": "n", "count": UNITS, "cores": 1}]}
UNLIKE = {
    "nodes": [
        {"name": "a", "count": 4, "cores": 6, "memory": "8 GiB"},
        {"name": "b", "count": 4, "cores": 4, "memory": "16 GiB"},
        {"name": "c", "count": 4, "cores": 3, "memory": "8 GiB"},
    ]
}
"""It has room for as many units of one core and 2 GiB as are asked for at most, and more, on any nodes."""

FULL = {
    "nodes": [
        {"name": "a", "count": 2, "cores": 6, "memory": "64 GiB"},
        {"name": "b", "count": 3, "cores": 4, "memory": "32 GiB"},
    ]
}
"""The largest jobs ask for all of it."""


def on_alike(machine: Machine) -> Requests:
    return Requests.on(machine, Mapping.NODE)


def on_unlike(machine: Machine) -> Requests:
    return Requests.on(machine, Mapping.CORE, RequestConfig(default_memory="2 GiB"))


def burst(seed: int, n: int, narrow: int, spread: float) -> JobBlock:
    rng = np.random.default_rng(seed)
    estimate = rng.integers(1, rng.choice([5, 60, 4000]), n) * 1.0
    run = np.minimum(estimate, np.floor(estimate * rng.uniform(0, 1.5, n)))
    submit = np.sort(np.floor(rng.uniform(0, spread * estimate.sum() / UNITS + 1, n)))
    processors = np.minimum(UNITS, rng.integers(1, narrow, n))
    return JobBlock(np.arange(1, n + 1), submit, run, estimate, processors, *([np.full(n, -1)] * 9))


def is_kept(state) -> bool:
    return bool(state.columns.counts[KEPT] == state.columns.counts[ROOM] + 1)


def promises(
    make, jobs: JobBlock, options: dict[str, str], anew: bool, grows: int, platform=ALIKE, on=on_alike
) -> list[object]:
    """Run jobs; return what each pass starts and promises. ``anew``: nothing is kept between passes."""
    machine = build_machine(PlatformConfig.model_validate(platform))
    config = BatchConfig.model_validate({"backfill": "conservative", **options})
    state = make(machine, config, on(machine), nodes_one_by_one=False)
    slots = state.table.admit(jobs, state.requests.units(jobs.processors))
    state.ensure_capacity()
    assert not any(unfit.any() for unfit in state.never_fit(slots, jobs).values())
    ends: list[tuple[float, int]] = []
    found, next_job, now = [], 0, -1.0
    while ends or next_job < len(slots) or state.n_waiting:
        times = [end for end, _ in ends[:1]] + jobs.submit_time[next_job : next_job + 1].tolist()
        now = min([*times, state.next_reservation(now)] if state.wakes else times)
        ended = []
        while ends and ends[0][0] == now:
            ended.append(heapq.heappop(ends)[1])
        last = int(np.searchsorted(jobs.submit_time, now, side="right"))
        if len(found) == grows:
            state.table.admit(jobs, state.requests.units(jobs.processors))  # for nothing but that arrays grow
        state.ensure_capacity()
        counts = state.columns.counts
        counts[ROOM] += anew  # as if something else had changed the room
        n = state.passes.advance(now, ended, slots, next_job, last, NOTHING)
        started = state.started[:n].tolist()
        for slot in started:
            heapq.heappush(ends, (now + float(jobs.run_time[slots == slot][0]), slot))
        next_job = last
        waiting = state.columns.queue[: state.n_waiting]
        found.append((now, started, state.table.floats[RESERVED, waiting].tolist()))
    return found


@pytest.mark.parametrize("make", [state_on_pool, state_on_nodes])
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 90),
    narrow=st.sampled_from([3, 9, UNITS + 6]),
    spread=st.sampled_from([0.0, 0.2, 1.0]),
    options=st.sampled_from(
        [
            {"policy": "FCFS"},
            {"policy": "SAF"},
            {"policy": "WFP"},
            {"policy": "FCFS", "compression": "one-round"},
            {"policy": "SAF", "compression": "every-end"},
        ]
    ),
    grows=st.sampled_from([-1, 3, 40]),
    lists=st.sampled_from([batch_columns.LISTED_GAPS, 0]),
)
def test_a_kept_profile_promises_what_one_made_anew_does(
    make, seed, n, narrow, spread, options, grows, lists
):
    jobs = burst(seed, n, narrow, spread)
    with mock.patch.object(batch_columns, "LISTED_GAPS", lists):
        kept = promises(make, jobs, options, anew=False, grows=grows)
    assert kept == promises(make, jobs, options, anew=True, grows=-1)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    narrow=st.sampled_from([3, 9, UNITS + 6]),
    spread=st.sampled_from([0.0, 0.2, 1.0]),
    policy=st.sampled_from(["FCFS", "SAF", "WFP"]),
    allocator=st.sampled_from(["first-fit", "best-fit", "random", "heterogeneity-aware"]),
    compression=st.sampled_from(["full", "one-round", "every-end", "conservative_bf"]),
    grows=st.sampled_from([-1, 3, 40]),
    platform=st.sampled_from([UNLIKE, FULL]),
)
def test_a_kept_profile_of_nodes_promises_what_one_made_anew_does(
    seed, n, narrow, spread, policy, allocator, compression, grows, platform
):
    jobs, options = burst(seed, n, narrow, spread), {"policy": policy, "allocator": allocator}
    if compression != "full":
        options["compression"] = compression
    kept = promises(state_on_nodes, jobs, options, False, grows, platform, on_unlike)
    assert kept == promises(state_on_nodes, jobs, options, True, -1, platform, on_unlike)


def test_the_profile_is_kept_where_jobs_end_early():
    """Else the test above would compare nothing."""
    jobs = burst(1, 60, 9, 0.2)
    machine = build_machine(
        PlatformConfig.model_validate({"nodes": [{"name": "n", "count": UNITS, "cores": 1}]})
    )
    config = BatchConfig.model_validate({"backfill": "conservative"})
    state = state_on_pool(machine, config, Requests.on(machine, Mapping.NODE), nodes_one_by_one=False)
    slots = state.table.admit(jobs, state.requests.units(jobs.processors))
    state.ensure_capacity()
    n = state.passes.advance(0.0, [], slots, 0, len(slots), NOTHING)
    assert is_kept(state)
    assert 0 < n < len(slots)
    state.passes.advance(0.5, [int(state.started[0])], NOTHING, 0, 0, NOTHING)
    assert is_kept(state)
