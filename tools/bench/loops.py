"""How fast loops are simulated: chunks a second on one core, by execution model, technique and PEs.

Run it with ``python tools/bench/loops.py``; each figure is the best of five runs. With
``--compile`` it measures instead how long the kernels take to compile on a machine that has none of
them in its cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from itertools import product

import numpy as np

from mlsim.application import LoopOutcome, simulate
from mlsim.scenario import ExecutionConfig

ITERATIONS = 262_144
REPEATS = 5
LATENCY = 500e-9
TECHNIQUES = ("SS", "GSS", "TSS", "FAC2", "AF")
FREE = {"chunk_calculation": 0.0}
COSTLY = {
    "chunk_calculation": 200e-9,
    "chunk_assignment": 50e-9,
    "atomic_service": 100e-9,
    "injected_delay": 1e-6,
}


def loop(
    model: str, technique: str, pes: int, costs: dict[str, float], latency: float, record: bool, n: int
) -> LoopOutcome:
    prefix = np.concatenate([[0.0], np.cumsum(np.random.default_rng(1).exponential(1e-3, n))])
    latencies = np.full(pes, latency)
    latencies[0] = 0.0
    execution = ExecutionConfig(model=model, **costs)
    best = np.inf
    for _ in range(REPEATS):
        began = time.perf_counter()
        outcome = simulate(prefix, np.ones(pes), latencies, technique, execution, record=record)
        best = min(best, time.perf_counter() - began)
    print(
        f"{model}  {technique:6s} {pes:6d} PEs  {'costs ' if latency else 'no costs'}  "
        f"{'records' if record else '       '}  {outcome.steps:9,d} chunks  "
        f"{best / outcome.steps * 1e9:7.1f} ns/chunk  {outcome.steps / best / 1e6:6.1f} M chunks/s",
        flush=True,
    )
    return outcome


def speed() -> None:
    for model in ("dca", "cca"):
        for pes, (costs, latency), record in product(
            (16, 256), ((FREE, 0.0), (COSTLY, LATENCY)), (False, True)
        ):
            loop(model, "SS", pes, costs, latency, record, ITERATIONS)
        for technique, pes in product(TECHNIQUES[1:], (16, 256)):
            loop(model, technique, pes, COSTLY, LATENCY, False, ITERATIONS)
        loop(model, "SS", 4096, COSTLY, LATENCY, False, ITERATIONS)
        loop(model, "SS", 256, COSTLY, LATENCY, True, 10_000_000)


def compile_time() -> None:
    code = (
        "import numpy as np; from mlsim._jit import compile_seconds; "
        "from mlsim.application import simulate; from mlsim.scenario import ExecutionConfig\n"
        "for model in ('dca', 'cca'):\n"
        "    simulate(np.arange(9.0), np.ones(2), np.zeros(2), 'SS', ExecutionConfig(model=model))\n"
        "    print(f'{model}: {compile_seconds():.1f} s so far')"
    )
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)


if __name__ == "__main__":
    compile_time() if "--compile" in sys.argv[1:] else speed()
