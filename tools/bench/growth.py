"""How CPU time grows with jobs, bursts and nodes: curves, and the exponents fitted to them.

Usage: python tools/bench/growth.py [--curves jobs,burst-easy] [--largest N] [--repetitions 3]

What is measured is the simulation alone: a batch simulator in this process (mlsim.batch), from making it
to the end of its last job, with its kernels compiled before and the jobs in memory; reading and writing
are not part. Seconds are CPU seconds of the thread, the least of some repetitions. An exponent is the
slope of the line of least squares through log(size) and log(seconds); the last step is that between the
two largest sizes. A bar is what the exponent should not exceed. Nothing is asserted.

jobs                a synthetic workload on 256 units under EASY, the compiled clock
burst-easy          as many jobs, submitted at once
burst-conservative  the same under conservative backfilling
burst-exact         wide jobs at once (5 to 299 of 512 units), conservative, exact estimates: nothing moves
burst-users         the same jobs, estimates of users: they run for 1/4 to all of their limits
burst-100, burst-1000  the same under EASY with 100 and 1,000 reservations
burst-on-nodes      the same on 64 nodes of two kinds, by cores and memory: which nodes are free matters
nodes               20,000 jobs on more and more nodes under EASY, the compiled clock
nodes-best-fit      the same on nodes of two cores each under best-fit, the SimPy clock

On more nodes the same jobs, of 1 to 100 units, come faster, so that the machine is offered the same load.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import synthetic

from mlsim.batch.batch_system import BatchSystem
from mlsim.batch.clock.compiled_replay import CompiledBatch
from mlsim.batch.room.unit_requests import Requests
from mlsim.cosim.coupling import RigidApplications
from mlsim.platform import Machine, build_machine
from mlsim.scenario import BatchConfig, PlatformConfig
from mlsim.scenario.resources_section import RequestConfig
from mlsim.scenario.words import Mapping
from mlsim.workload.workload_jobs import JobBlock

UNITS, LOAD = 256, 0.8
WIDE_UNITS = 512
JOBS_ON_NODES, LARGEST_JOB = 20_000, 100

Run = Callable[[], None]


@dataclass(frozen=True)
class Curve:
    """Sizes, what is simulated at each, and the exponent that it should not exceed."""

    sizes: tuple[int, ...]
    bar: float
    prepare: Callable[[int], Run]


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Fit seconds ~ size^exponent by least squares of the logarithms."""
    x, y = np.log(sizes), np.log(seconds)
    return float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())


def _batch(nodes: int, cores: int, jobs: JobBlock, **options: object) -> Run:
    platform = PlatformConfig.model_validate({"nodes": [{"name": "n", "count": nodes, "cores": cores}]})
    machine = build_machine(platform)
    config = BatchConfig.model_validate({"policy": "FCFS", **options})
    requests = Requests.on(machine, Mapping.NODE if cores == 1 else Mapping.CORE)
    if cores == 1:
        return lambda: CompiledBatch(machine, config, requests).run([jobs])

    return lambda: _run(machine, config, requests, jobs)


def _run(machine: Machine, config: BatchConfig, requests: Requests, jobs: JobBlock) -> None:
    system = BatchSystem(machine, config, requests)
    system.run([jobs], RigidApplications(system))


def _jobs(size: int) -> Run:
    return _batch(UNITS, 1, synthetic.workload(size, UNITS, LOAD), backfill="easy")


def _at_once(size: int) -> JobBlock:
    drawn = synthetic.workload(size, UNITS, LOAD)
    return synthetic.block(np.zeros(size), drawn.run_time, drawn.walltime, drawn.processors)


def _wide_burst(longest: float) -> Callable[[int], Run]:
    """Make bursts of wide jobs whose limits are 1 to ``longest`` times their run times."""

    def prepare(size: int) -> Run:
        drawn = np.random.default_rng(1)
        limit, units = np.floor(drawn.uniform(60, 80_000, size)), drawn.integers(5, 300, size)
        run = np.maximum(np.floor(limit / drawn.uniform(1.0, longest, size)), 1.0)
        jobs = synthetic.block(np.zeros(size), run, limit, units)
        return _batch(WIDE_UNITS, 1, jobs, backfill="conservative")

    return prepare


def _burst(**options: object) -> Callable[[int], Run]:
    return lambda size: _batch(UNITS, 1, _at_once(size), **options)


def _burst_on_nodes(size: int) -> Run:
    kinds = [
        {"name": name, "count": UNITS // 8, "cores": 4, "memory": memory}
        for name, memory in (("small", "8 GiB"), ("large", "16 GiB"))
    ]
    machine = build_machine(PlatformConfig.model_validate({"nodes": kinds}))
    config = BatchConfig.model_validate({"policy": "FCFS", "backfill": "conservative"})
    requests = Requests.on(machine, Mapping.CORE, RequestConfig.model_validate({"default_memory": "2 GiB"}))
    return lambda: _run(machine, config, requests, _at_once(size))


def _on_nodes(cores: int, **options: object) -> Callable[[int], Run]:
    def prepare(nodes: int) -> Run:
        drawn = synthetic.workload(JOBS_ON_NODES, LARGEST_JOB, LOAD)
        submit = np.floor(drawn.submit_time * (LARGEST_JOB / (nodes * cores)))
        jobs = synthetic.block(submit, drawn.run_time, drawn.walltime, drawn.processors)
        return _batch(nodes, cores, jobs, backfill="easy", **options)

    return prepare


CURVES = {
    "jobs": Curve((10_000, 30_000, 100_000, 300_000, 1_000_000), 1.05, _jobs),
    "burst-easy": Curve((1_000, 3_000, 10_000, 30_000), 1.3, _burst(backfill="easy")),
    "burst-conservative": Curve((300, 600, 1_000, 3_000, 10_000), 2.0, _burst(backfill="conservative")),
    "burst-exact": Curve((400, 800, 1_600, 3_200), 2.0, _wide_burst(1.0)),
    "burst-users": Curve((400, 800, 1_600, 3_200), 2.3, _wide_burst(4.0)),
    "burst-100": Curve((300, 1_000, 3_000, 10_000), 2.0, _burst(backfill="easy", reservations=100)),
    "burst-1000": Curve((300, 1_000, 3_000, 10_000), 2.0, _burst(backfill="easy", reservations=1_000)),
    "burst-on-nodes": Curve((100, 300, 600, 1_000, 3_000), 2.0, _burst_on_nodes),
    "nodes": Curve((100, 1_000, 10_000, 100_000), 0.3, _on_nodes(1)),
    "nodes-best-fit": Curve((100, 1_000, 10_000, 100_000), 0.3, _on_nodes(2, allocator="best-fit")),
}


def seconds_of(run: Run, repetitions: int) -> float:
    """Return the least CPU seconds of some runs."""
    found = []
    for _ in range(repetitions):
        began = time.thread_time()
        run()
        found.append(time.thread_time() - began)
    return min(found)


def expected(sizes: Sequence[int], seconds: Sequence[float], size: int) -> float:
    """Extrapolate the last step to a size [s]; nothing is known of the first two."""
    if len(seconds) < 2:
        return 0.0
    last = max(exponent(sizes[-2:], seconds[-2:]), 1.0)
    return float(seconds[-1] * (size / sizes[-1]) ** last)


def measure(name: str, curve: Curve, largest: int, repetitions: int, longest: float = np.inf) -> None:
    """Print a curve and its exponent."""
    sizes: list[int] = []
    seconds: list[float] = []
    for size in (size for size in curve.sizes if size <= largest):
        if (left_out := expected(sizes, seconds, size)) > longest:
            print(f"{name:20} {size:>10,d} left out: about {left_out:,.0f} s a run; see --longest")
            break
        run = curve.prepare(size)
        if not seconds:
            run()  # compiles
        sizes.append(size)
        seconds.append(seconds_of(run, repetitions))
        print(f"{name:20} {size:>10,d} {seconds[-1]:10.4f}", flush=True)
    if len(sizes) > 1:
        fitted, last = exponent(sizes, seconds), exponent(sizes[-2:], seconds[-2:])
        verdict = "within" if fitted <= curve.bar else "BEYOND"
        print(f"{name:20} exponent {fitted:.2f}, last step {last:.2f}; {verdict} the bar of {curve.bar}\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--curves", default=",".join(CURVES), metavar="NAMES")
    parser.add_argument("--largest", type=int, default=1_000_000, metavar="N", help="no size above this")
    parser.add_argument(
        "--longest", type=float, default=30.0, metavar="S", help="no run that will take longer"
    )
    parser.add_argument("--repetitions", type=int, default=3, metavar="N")
    given = parser.parse_args()
    names = given.curves.split(",")
    if unknown := [name for name in names if name not in CURVES]:
        parser.error(f"unknown curve {unknown[0]}; there are {', '.join(CURVES)}")
    if given.repetitions < 1:
        parser.error("--repetitions must be 1 or more")
    print(f"{'curve':20} {'size':>10} {'CPU s':>10}")
    for name in names:
        measure(name, CURVES[name], given.largest, given.repetitions, given.longest)


if __name__ == "__main__":
    main()
