"""Time compiled replay on one core: all of HPC2N, and a thousand weeks of a thousand jobs in one call.

Needs the log HPC2N-2002-2.2-cln.swf.gz in a directory of MLSIM_TRACES for the first table. Wall-clock and CPU
seconds after reading; the best of three.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mlsim.batch.clock.compiled_replay import CompiledBatch
from mlsim.batch.clock.replay_many import replay_many
from mlsim.batch.room.unit_requests import Requests
from mlsim.platform import machine_of
from mlsim.scenario import BatchConfig, load
from mlsim.scenario.scenario_paths import resolve_path
from mlsim.workload import open_workload

SCENARIO = Path(__file__).parents[2] / "scenarios" / "hpc2n.yaml"
CLEANING = {"zero_run_time": "drop", "unknown_run_time": "drop", "underestimate": "clamp"}
DISPATCHERS = {
    "FCFS": {"policy": "FCFS", "backfill": "none"},
    "EASY-FCFS": {"policy": "FCFS", "backfill": "easy"},
    "EASY-SAF-SAF": {"policy": "SAF", "backfill": "easy"},
    "EASY-SPF-FCFS": {"policy": "SPF", "backfill": "easy", "backfill_order": "FCFS"},
    "EASY-WFP-SAF": {"policy": "WFP", "backfill": "easy", "backfill_order": "SAF", "threshold": 200000},
}


def best(work: Callable[[], object]) -> tuple[float, float]:
    """Return the least wall-clock and CPU seconds of three times."""
    found = []
    for _ in range(3):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(wall for wall, _ in found), min(cpu for _, cpu in found)


def whole_log() -> None:
    scenario = load(SCENARIO)
    machine = machine_of(scenario)
    requests = Requests.on(machine, scenario.workload.mapping)
    path = resolve_path(scenario, scenario.workload.path)
    blocks = list(open_workload(scenario.workload, path, requests.largest).blocks())
    print(f"HPC2N, {sum(map(len, blocks)):,} jobs")
    print(f"{'dispatcher':20} {'wall s':>7} {'CPU s':>7}")
    for name, options in DISPATCHERS.items():
        config = BatchConfig.model_validate(options)
        wall, cpu = best(lambda config=config: CompiledBatch(machine, config, requests).run(blocks))
        print(f"{name:20} {wall:7.2f} {cpu:7.2f}")


def weeks() -> None:
    """Weeks of a busy machine of 256 units: offered load about 0.95."""
    from mlsim.workload.workload_jobs import JobBlock

    rng = np.random.default_rng(1)
    unknown = np.full(1000, -1, np.int64)

    def week() -> JobBlock:
        processors = 2 ** rng.integers(0, 7, 1000)
        run = rng.lognormal(8.0, 1.3, 1000).round() + 1
        load = (processors * run).sum() / 256 / 0.95
        submit = np.sort(rng.uniform(0, load, 1000)).round()
        estimate = np.ceil(run * rng.uniform(1, 5, 1000))
        ids = np.arange(1, 1001)
        return JobBlock(ids, submit, run, estimate, processors, *([unknown] * 9))

    print("\n1,000 weeks of 1,000 jobs")
    print(f"{'dispatcher':20} {'wall s':>7} {'CPU s':>7}")
    some = [week() for _ in range(1000)]
    cases = dict(DISPATCHERS, linear={"policy": "linear", "weights": {"p": 1}, "backfill": "easy"})
    for name, options in cases.items():
        config = BatchConfig.model_validate(options)
        wall, cpu = best(lambda config=config: replay_many(some, config, 256))
        print(f"{name:20} {wall:7.2f} {cpu:7.2f}")
    config = BatchConfig.model_validate(cases["linear"])
    vectors = rng.normal(size=(100, 6))
    wall, cpu = best(lambda: replay_many(some[:10], config, 256, vectors))
    print(f"{'10 weeks x 100 linear':20} {wall:6.2f} {cpu:7.2f}")


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if any(Path(place, "HPC2N-2002-2.2-cln.swf.gz").exists() for place in _places()):
        whole_log()
    weeks()


def _places() -> list[str]:
    return [place for place in os.environ.get("MLSIM_TRACES", "").split(os.pathsep) if place]


if __name__ == "__main__":
    main()
