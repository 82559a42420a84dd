"""How long first calls take on a machine that has no kernels in its cache: CPU seconds by room and run.

Usage: python tools/bench/first_calls.py [--rooms pool,nodes,loops] [--kernels 15]

For each room, small runs follow each other in a process of their own with an empty cache, and each compiles
what those before it have not: a pool of units and nodes by resources under every backfilling, and loops under
every execution model with techniques of every kind. A line is a run, with the CPU seconds spent in compiling
kernels of the batch level, or of loops, and how many these were, callees among them; the sum also has the CPU
seconds of the whole process. ``--kernels`` names the kernels that took most, each without its callees, and
how often each was compiled.

The mlsim that is measured is that of the Python that runs it, be it of another tree: so two are compared.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numba.core import event

import mlsim

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
Run = tuple[str, str, dict[str, Any]]

_RIGID: dict[str, Any] = {"platform.drains": []}
_BACKFILLS = ("none", "greedy", "easy", "conservative")
_TECHNIQUES = ("STATIC", "SS", "GSS", "RND", "AF")
_ONE_LEVEL, _TWO_LEVELS = ("cca", "dca", "steal"), ("hdca", "hmw", "mpi+openmp")
_PAIRS = ("STATIC+STATIC", "SS+GSS", "GSS+SS", "AF+GSS", "GSS+AF")
_ROOMS = ("pool", "nodes", "loops")


class Compiling(event.Listener):
    """Sums up the CPU seconds that compiling takes, by kernel without its callees.

    Parameters
    ----------
    package
        The kernels that count are those of this package, and what they call.

    Attributes
    ----------
    seconds
        Of all these kernels.
    by_kernel
        Seconds of each signature of each kernel.
    """

    def __init__(self, package: str) -> None:
        self.seconds = 0.0
        self._package = package
        self._counts = False
        self.by_kernel: dict[str, list[float]] = defaultdict(list)
        self._open: list[list[float]] = []  # when it began, and seconds of callees

    def on_start(self, event: event.Event) -> None:
        """Store when a kernel begins to compile."""
        if not self._open:
            self._counts = _name(event.data["dispatcher"].py_func).startswith(self._package)
        self._open.append([time.process_time(), 0.0])

    def on_end(self, event: event.Event) -> None:
        """Add what a kernel took."""
        began, callees = self._open.pop()
        if not self._counts:
            return
        took = time.process_time() - began
        self.by_kernel[_name(event.data["dispatcher"].py_func)].append(took - callees)
        if self._open:
            self._open[-1][1] += took
        else:
            self.seconds += took

    @property
    def n_kernels(self) -> int:
        """How many there were, each signature counted."""
        return sum(map(len, self.by_kernel.values()))


def _name(function: Any) -> str:
    module = function.__module__
    return f"{module.removeprefix('mlsim.')}.{function.__name__}"


def runs_of(room: str) -> Iterator[Run]:
    """List the runs of a room: name, scenario, and what is set on top of it."""
    if room in ("pool", "nodes"):
        options = {} if room == "pool" else {"batch.allocator": "best-fit"}
        for backfill in _BACKFILLS:
            yield f"{backfill}", "maintenance", {**_RIGID, **options, "batch.backfill": backfill}
        yield "reservations", "maintenance", {**_RIGID, **options, "batch.reservations": 3}
        yield "order", "maintenance", {**_RIGID, **options, "batch.backfill_order": "SAF"}
        if room == "pool":
            yield "simpy", "maintenance", {**_RIGID, "batch.engine": "simpy"}
        else:
            yield "drains", "maintenance", {"batch.backfill": "conservative"}
        yield "releases", "quickstart", {**options, "coordination.rca": "on"}
        return
    for model in _ONE_LEVEL + _TWO_LEVELS:
        for technique in _TECHNIQUES if model in _ONE_LEVEL else _PAIRS:
            chosen = {"application.execution.model": model, "application.technique": technique}
            rca = "on" if technique == "STATIC" else "off"
            yield f"{model} {technique}", "quickstart", {**chosen, "coordination.rca": rca}


def measure(room: str, n_kernels: int) -> None:
    """Run what a room has, and print what compiling took."""
    compiling = Compiling("application." if room == "loops" else "batch.")
    event.register("numba:compile", compiling)
    print(f"{room:24} {'CPU s':>8} {'kernels':>8}")
    for name, scenario, options in runs_of(room):
        seconds, kernels = compiling.seconds, compiling.n_kernels
        try:
            mlsim.run(SCENARIOS / f"{scenario}.yaml", {"output.pictures": "off", **options})
        except mlsim.MlsimError:
            print(f"  {name:22} {'-':>8}")  # what this mlsim does not have
            continue
        seconds, kernels = compiling.seconds - seconds, compiling.n_kernels - kernels
        if kernels > 0:
            print(f"  {name:22} {seconds:8.1f} {kernels:8d}", flush=True)
    whole = f"of {time.process_time():.1f} CPU s in all"
    print(f"  {'sum':22} {compiling.seconds:8.1f} {compiling.n_kernels:8d}  {whole}", flush=True)
    most = sorted(compiling.by_kernel.items(), key=lambda item: -sum(item[1]))
    for name, each in most[:n_kernels]:
        print(f"    {name:58} {sum(each):6.2f} {len(each):4d}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rooms", default=",".join(_ROOMS))
    parser.add_argument("--kernels", type=int, default=0, metavar="N")
    parser.add_argument("--here", action="store_true", help="in this process, with the cache that there is")
    return parser.parse_args()


def main() -> None:
    chosen = _arguments()
    for room in chosen.rooms.split(","):
        if room not in _ROOMS:
            sys.exit(f"rooms are {', '.join(_ROOMS)}, not {room!r}")
        if chosen.here:
            measure(room, chosen.kernels)
            continue
        again = [sys.executable, __file__, "--here", "--rooms", room, "--kernels", str(chosen.kernels)]
        with tempfile.TemporaryDirectory() as cache:
            subprocess.run(again, env={**os.environ, "NUMBA_CACHE_DIR": cache}, check=True)


if __name__ == "__main__":
    main()
