"""In how many rounds a chosen technique is near the best one known afterwards, for real.

Usage: python tools/bench/selection.py [--ranks 4] [--rounds 10] [--loops 20] [--model dca] [--size 1024]
       [--within 0.05] [-- LAUNCHER ...]

A round executes the loop of Mandelbrot, then that of PSIA, LOOPS times in a row: with each technique of the
portfolio, and with technique auto, method simulation. What is compared are the sums of the loops' times, with
what choosing took. The best technique of a round is known afterwards only. One that took more than twice as
long as the best in the first round has no chance to be it, and is left out of the others. Run it on a quiet
machine: techniques take turns within a round, so that the load of others tells in the comparison.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

MLSIM = Path(sys.executable).with_name("mlsim")
SCENARIOS = Path(__file__).parents[2] / "scenarios" / "mpi"
PORTFOLIO = ("STATIC", "GSS", "TSS", "FAC2", "mFSC", "SS")
AUTO = "auto"
HOPELESS = 2.0
"""How much longer than the best a technique took that is left out of further rounds."""

Loops = Callable[[str, str], list[float]]
"""Executes the loops of an application by a technique; returns their times in s."""


class Outcome(NamedTuple):
    """What became of one application over all rounds."""

    application: str
    near: int
    """Rounds in which auto was near the best."""
    ratios: list[float]
    """Of each round, the time under auto as a share of that under the best technique."""
    best: list[str]
    """The best technique of each round."""


def compare(application: str, loops: Loops, rounds: int, within: float) -> Outcome:
    """Execute rounds; ``within``: how much more than the best counts as near, as a share."""
    ratios, best = [], []
    names: Sequence[str] = PORTFOLIO
    for number in range(rounds):
        times = {name: sum(loops(application, name)) for name in (*names, AUTO)}
        chosen = times.pop(AUTO)
        best.append(min(times, key=times.__getitem__))
        ratios.append(chosen / times[best[-1]])
        if number == 0:
            names = [name for name in names if times[name] <= HOPELESS * times[best[0]]]
    return Outcome(application, sum(ratio <= 1.0 + within for ratio in ratios), ratios, best)


def line(outcome: Outcome) -> str:
    """Return what became of an application in a line."""
    rounds = len(outcome.ratios)
    each = " ".join(f"{ratio:.3f}" for ratio in outcome.ratios)
    best = ", ".join(sorted(set(outcome.best)))
    return f"{outcome.application}: near the best in {outcome.near} of {rounds} rounds; {each}; best: {best}"


def real_loops(given: argparse.Namespace) -> Loops:
    """Return what executes loops for real."""
    sizes = {
        "mandelbrot": f"application.costs.parameters.size={given.size}",
        "psia": f"application.iterations.count={given.images}",
    }

    def loops(application: str, technique: str) -> list[float]:
        keys = [f"application.technique={technique}", f"application.execution.model={given.model}"]
        keys.append(sizes[application])
        if technique == AUTO:
            keys.append(f"application.selection={json.dumps({'portfolio': PORTFOLIO})}")
        words = [str(MLSIM), "mpi", "run", str(SCENARIOS / f"{application}.yaml")]
        words += ["--ranks", str(given.ranks), "--repetitions", str(given.loops), "--json"]
        words += [word for key in keys for word in ("--set", key)]
        words += ["--", *given.launcher] if given.launcher else []
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        found = [json.loads(text) for text in done.stdout.splitlines()]
        return [loop["t_loop"] + loop.get("selection_time", 0.0) for loop in found]

    return loops


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the options, execute, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--loops", type=int, default=20)
    parser.add_argument("--model", choices=("cca", "dca"), default="dca")
    parser.add_argument("--size", type=int, default=1024, help="width of the Mandelbrot image")
    parser.add_argument("--images", type=int, default=20000, help="spin images of PSIA")
    parser.add_argument("--within", type=float, default=0.05)
    parser.add_argument("launcher", nargs="*", help="how to start ranks, after --")
    given = parser.parse_args(arguments)
    loops = real_loops(given)
    for application in ("mandelbrot", "psia"):
        began = time.perf_counter()
        outcome = compare(application, loops, given.rounds, given.within)
        print(f"{line(outcome)} ({time.perf_counter() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
