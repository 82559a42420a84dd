"""How fast loops are simulated: chunks a second on one core, by execution model, technique and PEs.

``python tools/bench/loops.py`` prints a table; a figure is the best of some runs of one loop of 262,144
iterations with all costs above zero, in million chunks a second. ``--records`` keeps a row for every chunk,
``--free`` sets all costs to zero, ``--models``, ``--techniques`` and ``--pes`` choose. Loops of few chunks
take the time of the call, some 0.1 ms, whatever they do. Where there is a C compiler, a second table compares
DCA with SS, by CPU time, with the least that gives the same finish times: a heap in C (``dca_heap.c``).
Instead of the tables,

- ``--reference`` compares with the slow simulations of ``tests/reference`` on a small loop,
- ``--long`` simulates 10^8 SS chunks on 4,096 PEs and says how much memory that took,
- ``--growth`` measures CPU time by PEs, from 1,024 to 65,536, and fits the exponent with which it grows,
- ``--compile`` measures how long the kernels take to compile on a machine that has none in its cache.
"""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import dca_heap
import numpy as np
from growth import exponent

from mlsim._runtime.arrays import Floats
from mlsim.application import TECHNIQUES, LoopOutcome, simulate
from mlsim.errors import InputError
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.technique_section import ParametersConfig
from mlsim.scenario.words import ExecutionModel

ITERATIONS = 262_144
PES_A_NODE = 16
LATENCY, INTRA_LATENCY = 500e-9, 100e-9
COSTLY = {
    "chunk_calculation": 200e-9,
    "chunk_assignment": 50e-9,
    "atomic_service": 100e-9,
    "injected_delay": 1e-6,
}
REPEATS, ENOUGH = 5, 1.0
"""A loop is run so often, unless its runs have taken so many seconds before."""
MODELS = [model.value for model in ExecutionModel]
PAIRS = ["STATIC+SS", "GSS+STATIC", "GSS+SS", "GSS+GSS", "FAC2+SS"]


def costs_of(pes: int, n: int, free: bool) -> tuple[Floats, Floats]:
    """Return the prefix sums of iteration costs, and the latency of each PE, in s."""
    cost = np.random.default_rng(1).exponential(1e-3, n)
    latency = np.full(pes, 0.0 if free else LATENCY)
    latency[0] = 0.0
    return np.concatenate([[0.0], np.cumsum(cost)]), latency


def loop(model: str, technique: str, pes: int, n: int, free: bool = False) -> Callable[[bool], LoopOutcome]:
    """Prepare a loop; what is given simulates it, with chunk rows or without."""
    prefix, latency = costs_of(pes, n, free)
    execution = ExecutionConfig(model=ExecutionModel(model), **({} if free else COSTLY))
    parameters = ParametersConfig(sigma=1e-3, mu=1e-3, overhead=2e-6)
    speed, node = np.ones(pes), np.arange(pes) // PES_A_NODE

    def run(record: bool) -> LoopOutcome:
        return simulate(
            prefix,
            speed,
            latency,
            technique,
            execution,
            record=record,
            parameters=parameters,
            node_of_pe=node,
            intra_latency=0.0 if free else INTRA_LATENCY,
        )

    return run


def best_of(run: Callable[[bool], LoopOutcome], record: bool) -> tuple[LoopOutcome, float]:
    """Run a loop some times, after a first one for the compiler; give it and its shortest time."""
    outcome = run(record)
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < ENOUGH:
        began = time.perf_counter()
        outcome = run(record)
        times.append(time.perf_counter() - began)
    return outcome, min(times)


def table(models: list[str], techniques: list[str], pes: list[int], record: bool, free: bool) -> None:
    """Print million chunks a second, one row a technique and model, one column a number of PEs."""
    print("million chunks a second" + (", with chunk records" if record else ""))
    print(f"{'model':11s} {'technique':10s} " + " ".join(f"{count:>6,d} PEs" for count in pes))
    for model in models:
        for technique in techniques:
            rates = [_rate(model, technique, count, record, free) for count in pes]
            if any(rate != "-" for rate in rates):
                print(
                    f"{model:11s} {technique:10s} " + " ".join(f"{rate:>10s}" for rate in rates), flush=True
                )


def _rate(model: str, technique: str, pes: int, record: bool, free: bool) -> str:
    try:
        outcome, seconds = best_of(loop(model, technique, pes, ITERATIONS, free), record)
    except InputError:
        return "-"  # the model does not have this technique
    return f"{outcome.steps / seconds / 1e6:.2f}"


def heap_table(pes: list[int], free: bool) -> None:
    """Print how fast DCA with SS is compared with a heap in C, by PEs."""
    with tempfile.TemporaryDirectory() as directory:
        simulate = dca_heap.compiled(Path(directory))
        if simulate is None:
            print("no cc, so no comparison with a heap in C")
            return
        print("DCA with SS: million chunks a second of CPU time")
        for count in pes:
            prefix, latency = costs_of(count, ITERATIONS, free)
            heap = dca_heap.rival(simulate, prefix, latency, {} if free else COSTLY)
            ours, theirs = dca_heap.compare(loop("dca", "SS", count, ITERATIONS, free), heap)
            rates = f"mlsim {ITERATIONS / ours / 1e6:6.2f}, heap in C {ITERATIONS / theirs / 1e6:6.2f}"
            print(f"{count:>6,d} PEs: {rates}, {theirs / ours:.2f} times as fast", flush=True)


def reference(models: list[str], n: int = 2_000, pes: int = 16) -> None:
    """Compare with the reference simulations, which must be importable: run it in the repository."""
    sys.path.insert(0, str(Path(__file__).parents[2]))
    case_of = importlib.import_module("tests.reference.loops").Case
    prefix = tuple(np.concatenate([[0.0], np.cumsum(np.full(n, 2.0**-10))]).tolist())
    near = INTRA_LATENCY if pes <= PES_A_NODE else LATENCY
    print(f"{n:,} iterations on {pes} PEs")
    for model in models:
        technique = "SS" if model in ("cca", "dca", "steal") else "GSS+SS"
        case = case_of(
            technique,
            prefix,
            (1.0,) * pes,
            (0.0, *(near,) * (pes - 1)),
            node_of_pe=tuple(pe // PES_A_NODE for pe in range(pes)),
            intra=INTRA_LATENCY,
        )
        slow = importlib.import_module(f"tests.reference.{model.split('+')[-1]}")
        began = time.perf_counter()
        slow.simulate(case)
        seconds = time.perf_counter() - began
        _, ours = best_of(loop(model, technique, pes, n), False)
        both = f"reference {seconds * 1e3:8.1f} ms, kernel {ours * 1e3:6.2f} ms"
        print(f"{model:11s} {technique:7s} {both}, {seconds / ours:,.0f} times as fast", flush=True)


def growth(models: list[str], technique: str = "SS") -> None:
    """Print the CPU time of one loop by PEs, its chunks as many, and the exponents fitted to it."""
    sizes = [1024, 4096, 16384, 65536]
    print("CPU ms of a loop of 262,144 iterations; exponent of all sizes, and of the last two")
    for model in models:
        seconds = []
        for pes in sizes:
            run = loop(model, technique, pes, ITERATIONS)
            run(False)
            seconds.append(min(_cpu_time(run) for _ in range(3)))
        shown = "  ".join(f"{pes:,} PEs {1e3 * each:,.1f}" for pes, each in zip(sizes, seconds, strict=True))
        fits = f"{exponent(sizes, seconds):.2f}, {exponent(sizes[-2:], seconds[-2:]):.2f}"
        print(f"{model:11s} {technique:3s} {shown}  exponent {fits}", flush=True)


def _cpu_time(run: Callable[[bool], LoopOutcome]) -> float:
    began = time.thread_time()
    run(False)
    return time.thread_time() - began


def long() -> None:
    """Simulate the largest loop there is a promise about."""
    n, pes = 100_000_000, 4096
    prefix = np.arange(n + 1, dtype=np.float64)
    prefix *= 1e-3
    latency = np.full(pes, LATENCY)
    latency[0] = 0.0
    before = _memory()
    began = time.perf_counter()
    outcome = simulate(prefix, np.ones(pes), latency, "SS", ExecutionConfig(**COSTLY))
    seconds = time.perf_counter() - began
    rate = outcome.steps / seconds / 1e6
    print(f"{outcome.steps:,} chunks on {pes:,} PEs: {seconds:.1f} s, {rate:.1f} million chunks a second")
    print(f"memory: {before:.0f} MB before (costs {prefix.nbytes / 1e6:.0f} MB), {_memory():.0f} MB at most")


def _memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def compile_time() -> None:
    code = (
        "import numpy as np; from mlsim._jit import compile_seconds; "
        "from mlsim.application import simulate; from mlsim.scenario import ExecutionConfig\n"
        f"for model in {MODELS}:\n"
        "    simulate(np.arange(9.0), np.ones(2), np.zeros(2), 'SS', ExecutionConfig(model=model))\n"
        "    print(f'{model}: {compile_seconds():.1f} s so far', flush=True)"
    )
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--techniques", default=",".join([*TECHNIQUES, *PAIRS]))
    parser.add_argument("--pes", default="16,256,4096")
    for flag in ("--records", "--free", "--reference", "--long", "--growth", "--compile"):
        parser.add_argument(flag, action="store_true")
    return parser.parse_args()


def main() -> None:
    chosen = _arguments()
    models = chosen.models.split(",")
    if chosen.compile:
        compile_time()
    elif chosen.long:
        long()
    elif chosen.growth:
        growth([model for model in models if model in ("dca", "steal")])
    elif chosen.reference:
        reference(models)
    else:
        counts = [int(count) for count in chosen.pes.split(",")]
        table(models, chosen.techniques.split(","), counts, chosen.records, chosen.free)
        heap_table(counts, chosen.free)


if __name__ == "__main__":
    main()
