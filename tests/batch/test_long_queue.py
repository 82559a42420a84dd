"""Queues of many blocks: which of the waiting jobs a pass looks at is nobody's business."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import numpy as np
import pytest

from mlsim.batch.clock.compiled_replay import CompiledBatch
from mlsim.batch.columns.job_columns import PLACES, QUEUED
from mlsim.batch.order.queue_blocks import BLOCK, GONE
from mlsim.batch.room.unit_requests import Requests
from mlsim.batch.state.pool_state import state_on_nodes, state_on_pool
from mlsim.scenario import BatchConfig
from mlsim.scenario.words import Mapping
from mlsim.workload.workload_jobs import JobBlock
from tests.batch.builders import block, machine
from tests.reference.batch import Job, ReferenceBatchSystem

UNITS = 64
NOTHING = np.empty(0, np.int64)

Key = Callable[[int, float], float]


def jobs_of(seed: int, n: int, spread: float) -> JobBlock:
    """Draw jobs that come at once, or faster than they can be served; many are alike."""
    rng = np.random.default_rng(seed)
    estimate = rng.choice([30.0, 400.0, 401.0, 5000.0, 20000.0], n) + rng.integers(0, 3, n)
    run = np.floor(estimate * rng.uniform(0, 1, n))
    submit = np.sort(np.floor(rng.uniform(0, spread * n * 500, n)))
    return block(submit, run, estimate, np.minimum(UNITS, 2 ** rng.integers(0, 7, n) + rng.integers(0, 2, n)))


def wfp(job: Job, now: float) -> float:
    """The key of WFP."""
    return -(((now - job.submit) / job.estimate) ** 3) * float(job.units)


class LookingAtAll:
    """Greedy and EASY, which sort the whole queue in every pass and look at every job of it.

    Parameters
    ----------
    jobs
        Jobs that run no longer than their estimates.
    options
        As of the section ``batch``.
    """

    def __init__(self, jobs: JobBlock, options: dict[str, object]) -> None:
        self.jobs, self.backfill = jobs, options["backfill"]
        self.key = self._key(options["policy"])
        self.walk_key = self._key(options.get("backfill_order", options["policy"]))
        self.threshold = options.get("threshold", math.inf)
        self.free = UNITS
        self.running: list[int] = []
        self.starts = [math.nan] * len(jobs.job_id)
        self.overtakes = [False] * len(jobs.job_id)

    def _key(self, policy: object) -> Key:
        submit, p, q = self.jobs.submit_time, self.jobs.estimate, self.jobs.processors
        keys: dict[object, Key] = {
            "FCFS": lambda k, now: submit[k],
            "SPF": lambda k, now: p[k],
            "SAF": lambda k, now: p[k] * float(q[k]),
            "WFP": lambda k, now: -(((now - submit[k]) / p[k]) ** 3) * float(q[k]),
        }
        chosen = keys[policy]
        if policy == "FCFS":
            return chosen
        return lambda k, now: -math.inf if now - submit[k] > self.threshold else chosen(k, now)

    def run(self) -> list[tuple[float, bool]]:
        """Return when each job starts, and whether it overtakes another one."""
        ends: list[tuple[float, int]] = []
        waiting: list[int] = []
        come = 0
        while come < len(self.starts) or ends:
            arrival = self.jobs.submit_time[come] if come < len(self.starts) else math.inf
            now = min(arrival, ends[0][0] if ends else math.inf)
            while ends and ends[0][0] == now:
                gone = heapq.heappop(ends)[1]
                self.running.remove(gone)
                self.free += self.jobs.processors[gone]
            while come < len(self.starts) and self.jobs.submit_time[come] == now:
                waiting.append(come)
                come += 1
            for job in self._pass(waiting, now):
                waiting.remove(job)
                heapq.heappush(ends, (now + self.jobs.run_time[job], job))
        return list(zip(self.starts, self.overtakes, strict=True))

    def _start(self, job: int, now: float) -> None:
        self.free -= self.jobs.processors[job]
        self.starts[job] = now
        self.running.append(job)

    def _pass(self, waiting: list[int], now: float) -> list[int]:
        estimate, asked = self.jobs.estimate, self.jobs.processors
        queue = sorted(waiting, key=lambda job: (self.key(job, now), job))
        n = 0
        while n < len(queue) and asked[queue[n]] <= self.free:
            self._start(queue[n], now)
            n += 1
        started = queue[:n]
        if n == len(queue) or self.backfill == "none":
            return started
        time, beside = math.inf, 0
        if self.backfill == "easy":
            time, beside = self._reservation(queue[n], now)
        for job in sorted(queue[n + 1 :], key=lambda job: (self.walk_key(job, now), job)):
            in_time = now + estimate[job] <= time
            if asked[job] <= self.free and (in_time or asked[job] <= beside):
                beside -= 0 if in_time else asked[job]
                self.overtakes[job] = True
                self._start(job, now)
                started.append(job)
        return started

    def _reservation(self, head: int, now: float) -> tuple[float, int]:
        """Return when the head is expected to fit, and how many units it leaves then."""
        expected = {job: self.starts[job] + self.jobs.estimate[job] for job in self.running}
        free, over = self.free, sorted(expected, key=lambda job: expected[job])
        time = now
        while free < self.jobs.processors[head]:
            time = expected[over[0]]
            if time <= now:
                time = now + 1.0  # it should have ended
            while over and expected[over[0]] <= time:
                free += self.jobs.processors[over.pop(0)]
        return time, free - self.jobs.processors[head]


@pytest.mark.parametrize(
    "options",
    [
        {"policy": "FCFS", "backfill": "none"},
        {"policy": "FCFS", "backfill": "easy"},
        {"policy": "FCFS", "backfill": "greedy"},
        {"policy": "FCFS", "backfill": "easy", "backfill_order": "SPF"},
        {"policy": "SAF", "backfill": "easy"},
        {"policy": "SAF", "backfill": "none"},
        {"policy": "SAF", "backfill": "easy", "threshold": 9000.0},
        {"policy": "WFP", "backfill": "easy"},
        {"policy": "WFP", "backfill": "none"},
        {"policy": "WFP", "backfill": "easy", "backfill_order": "SAF", "threshold": 9000.0},
    ],
    ids=lambda options: "-".join(str(value) for value in options.values()),
)
@pytest.mark.parametrize(("seed", "spread"), [(1, 0.0), (2, 0.2), (3, 0.5)])
def test_a_long_queue_gives_the_starts_of_one_that_is_looked_at_as_a_whole(options, seed, spread):
    jobs, room = jobs_of(seed, 10 * BLOCK, spread), machine(UNITS)
    batch = CompiledBatch(room, BatchConfig.model_validate(options), Requests.on(room, Mapping.NODE))
    batch.run([jobs])
    rows = batch.jobs()
    found = list(zip(rows.start_time.tolist(), rows.backfilled.astype(bool).tolist(), strict=True))
    assert found == LookingAtAll(jobs, options).run()


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({"policy": "FCFS", "reservations": 3}, {}),
        ({"policy": "FCFS", "reservations": 40}, {}),
        (
            {"policy": "FCFS", "reservations": 20, "backfill_order": "SPF"},
            {"walk_key": lambda job, _now: job.estimate},
        ),
        ({"policy": "SAF", "reservations": 20}, {"key": lambda job, _now: job.estimate * job.units}),
        ({"policy": "WFP", "reservations": 20}, {"key": wfp}),
        ({"policy": "FCFS", "easy": "cqsim"}, {"easy": "cqsim"}),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if "policy" in value else "",
)
def test_reservations_in_a_long_queue_are_those_of_the_reference(options, keys):
    """Only those are made that may keep a job from starting, and most searches begin late."""
    jobs, room = jobs_of(4, 2 * BLOCK + 30, 0.05), machine(UNITS)
    config = BatchConfig.model_validate({**options, "backfill": "easy"})
    batch = CompiledBatch(room, config, Requests.on(room, Mapping.NODE))
    batch.run([jobs])
    rows = batch.jobs()
    columns = (jobs.job_id, jobs.submit_time, jobs.run_time, jobs.estimate, jobs.processors)
    twins = [Job(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    ReferenceBatchSystem(UNITS, "easy", reservations=options.get("reservations", 1), **keys).run(twins)
    assert rows.start_time.tolist() == [job.start for job in twins]
    assert rows.backfilled.astype(bool).tolist() == [job.backfilled for job in twins]


@pytest.mark.parametrize("make", [state_on_pool, state_on_nodes])
def test_waiting_jobs_are_in_order_where_others_have_left_gaps(make):
    room, n = machine(UNITS), 3 * BLOCK
    config = BatchConfig.model_validate({"policy": "SPF", "backfill": "easy"})
    state = make(room, config, Requests.on(room, Mapping.NODE), nodes_one_by_one=False)
    estimate = np.tile([300.0, 100.0, 200.0], n // 3)
    jobs = block(np.zeros(n), estimate, estimate, np.where(np.arange(n) % 8 == 1, 1, UNITS - 1))
    slots = state.table.admit(jobs, state.requests.units(jobs.processors))
    state.ensure_capacity()
    assert not any(unfit.any() for unfit in state.never_fit(slots, jobs).values())
    n_started = state.passes.advance(0.0, [], slots, 0, n - 9, NOTHING)
    started = state.started[:n_started].tolist()
    counts = state.columns.counts
    assert counts[PLACES] > counts[QUEUED], "some that stood in between have started"
    state.enter_queue(1.0, slots, n - 9, n)
    waiting = state.empty_queue()
    assert sorted(waiting + started) == sorted(slots.tolist())
    assert GONE not in waiting
    assert waiting == sorted(waiting, key=lambda slot: (state.table.column("estimate")[slot], slot))
    assert state.n_waiting == 0
