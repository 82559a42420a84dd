"""Time single passes over a queue of 1,000 jobs, or more, on one core, in microseconds.

Usage: python tools/bench/passes.py [--room pool|nodes] [--only WORD] [--queue 900] [--starting]

A machine of 512 units with 4 free, about 1,000 waiting jobs that need more, and one arrival in each pass, so
that nothing starts and every pass looks at the whole queue.

With --starting a running job ends in each pass, and only those passes count in which others start. "Keys us"
is what computing the keys of all waiting jobs takes, where they depend on the time: what such a pass cannot
do without.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

import numpy as np

from mlsim._jit import by_numba, kernel
from mlsim.batch.columns.job_columns import KEY, PLACES, POLICY, columns_at
from mlsim.batch.columns.running_jobs import running_slots
from mlsim.batch.order.policies import is_live
from mlsim.batch.order.queue import key_of
from mlsim.batch.order.queue_blocks import GONE
from mlsim.batch.room.unit_requests import Requests
from mlsim.batch.state.batch_state import BatchState
from mlsim.batch.state.pool_state import state_on_nodes, state_on_pool
from mlsim.platform import build_machine
from mlsim.scenario import BatchConfig, PlatformConfig
from mlsim.scenario.words import Mapping
from mlsim.workload.workload_jobs import JobBlock

UNITS, PASSES = 512, 200
NOTHING = np.empty(0, np.int64)  # nodes released early
WEIGHTS = {"p": 0.5, "wait": 0.3, "area": 0.2}
DISPATCHERS = {
    "FCFS": {"policy": "FCFS"},
    "EASY-FCFS": {"policy": "FCFS", "backfill": "easy"},
    "EASY-SAF-SAF": {"policy": "SAF", "backfill": "easy"},
    "EASY-SPF-FCFS": {"policy": "SPF", "backfill": "easy", "backfill_order": "FCFS"},
    "EASY-WFP-WFP": {"policy": "WFP", "backfill": "easy"},
    "EASY-WFP-SAF, 200000 s": {
        "policy": "WFP",
        "backfill": "easy",
        "backfill_order": "SAF",
        "threshold": 200000,
    },
    "EASY-linear-linear": {"policy": "linear", "backfill": "easy"},
    "EASY-fairshare": {"policy": "fairshare", "backfill": "easy"},
    "greedy-FCFS-SAF": {"policy": "FCFS", "backfill": "greedy", "backfill_order": "SAF"},
    "5 reservations": {"policy": "FCFS", "backfill": "easy", "reservations": 5},
    "100 reservations": {"policy": "FCFS", "backfill": "easy", "reservations": 100},
    "conservative-FCFS": {"policy": "FCFS", "backfill": "conservative"},
}


def jobs(n: int, submit: np.ndarray, estimate: np.ndarray, processors: np.ndarray, seed: int) -> JobBlock:
    unknown = np.full(n, -1, np.int64)
    users = np.random.default_rng(seed).integers(0, 60, n)
    return JobBlock(np.arange(1, n + 1), submit, estimate, estimate, processors, users, *([unknown] * 8))


def state_with_queue(options: dict[str, object], room: str, queue: int) -> BatchState:
    """Make a machine with 4 units free and a queue of jobs that need more."""
    rng = np.random.default_rng(7)
    machine = build_machine(
        PlatformConfig.model_validate({"nodes": [{"name": "n", "count": UNITS, "cores": 1}]})
    )
    config = BatchConfig.model_validate({"weights": WEIGHTS, **options})
    make: Any = {"pool": state_on_pool, "nodes": state_on_nodes}[room]
    state: BatchState = make(machine, config, Requests.on(machine, Mapping.NODE), nodes_one_by_one=False)
    running = jobs(127, np.zeros(127), rng.integers(20_000, 90_000, 127) * 1.0, np.full(127, 4), 1)
    slots = state.table.admit(running, state.requests.units(running.processors))
    state.ensure_capacity()
    assert not any(unfit.any() for unfit in state.never_fit(slots, running).values())
    state.passes.advance(0.0, [], slots, 0, 127, NOTHING)
    n = queue + PASSES + 20
    submit = np.sort(rng.uniform(1, 9000, n))
    waiting = jobs(n, submit, rng.integers(60, 80_000, n) * 1.0, rng.integers(5, 300, n), 2)
    slots = state.table.admit(waiting, state.requests.units(waiting.processors))
    state.ensure_capacity()
    assert not any(unfit.any() for unfit in state.never_fit(slots, waiting).values())
    state.passes.advance(10_000.0, [], slots, 0, queue, NOTHING)
    return state


def measure(options: dict[str, object], room: str, queue: int) -> np.ndarray:
    """Return the seconds of each pass."""
    state = state_with_queue(options, room, queue)
    arrivals = np.flatnonzero(np.isnan(state.table.floats[3]))  # slots of jobs that have not started
    waiting = set(state.columns.queue[: state.n_waiting].tolist())
    new = np.array([slot for slot in arrivals.tolist() if slot not in waiting and state.units(slot)])
    found = []
    for k in range(PASSES):
        now = 10_010.0 + 10.0 * k
        state.table.floats[0, new[k]] = now
        began = time.perf_counter()
        started = state.passes.advance(now, [], new, k, k + 1, NOTHING)
        assert state.n_waiting >= queue
        found.append(time.perf_counter() - began)
        assert started == 0, "nothing fits on 4 units"
    return np.array(found)


@kernel
def keys_anew(now: float, address: int) -> bool:
    """Compute the key of each waiting job, and do nothing with it; whether keys depend on the time."""
    columns = columns_at(address)
    if not is_live(columns.rules[POLICY]):
        return False
    for place in range(columns.counts[PLACES]):
        slot = columns.queue[place]
        if slot != GONE:
            columns.floats[KEY, slot] = key_of(slot, columns.rules[POLICY], now, columns)
    return True


def measure_starting(options: dict[str, object], room: str, queue: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the seconds of each pass in which jobs start, and of computing the keys then."""
    state = state_with_queue(options, room, queue)
    found, keys, now = [], [], 10_000.0
    for _ in range(PASSES):
        now += 10.0
        state.ensure_capacity()
        ending = [int(slot) for slot in running_slots(state.columns)[:1]]
        began = time.perf_counter()
        if keys_anew(now, state.address):
            keys.append(time.perf_counter() - began)
        began = time.perf_counter()
        started = state.passes.advance(now, ending, NOTHING, 0, 0, NOTHING)
        if started:
            found.append(time.perf_counter() - began)
    return np.array(found), np.array(keys or [np.nan])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--room", choices=("pool", "nodes"), default="pool")
    parser.add_argument("--only", default="", metavar="WORD", help="of a dispatcher's name")
    parser.add_argument(
        "--queue", type=int, default=900, metavar="N", help="jobs that wait before the first pass"
    )
    parser.add_argument("--starting", action="store_true", help="passes in which jobs start")
    return parser.parse_args()


def main() -> None:
    chosen = _arguments()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    by_numba()  # passes are measured here, not how a short process calls them
    print(
        f"{'dispatcher':24} {'median us':>10} {'p90 us':>8}"
        + chosen.starting * f" {'keys us':>8} {'passes':>7}"
    )
    for name, options in DISPATCHERS.items():
        if chosen.only not in name:
            continue
        if chosen.starting:
            times, keys = (each * 1e6 for each in measure_starting(options, chosen.room, chosen.queue))
            figures = f"{np.median(times):10.1f} {np.percentile(times, 90):8.1f} {np.median(keys):8.1f}"
            print(f"{name:24} {figures} {len(times):7}")
            continue
        times = measure(options, chosen.room, chosen.queue) * 1e6
        print(f"{name:24} {np.median(times):10.1f} {np.percentile(times, 90):8.1f}")


if __name__ == "__main__":
    main()
