"""Simulate random workloads in which two features meet, and compare them with the slow reference.

Usage: python tools/pairs.py N [--seed S] [--only WORD ...] [--jobs J]

Of each pair of features (backfilling, ties, threshold, drains, caps on power, shared resources, dependencies,
failures, classes, engine, room, sets of nodes), or of those in which one of --only is, N workloads are drawn.
What becomes of each job, its times, nodes and flags, must be what `tests/reference/planning.py` says. Prints
a table of pairs and counts, and for each pair the first workloads that differ, which `tests/batch/pairs.py`
draws again from pair and seed. The exit code is 1 where anything differs.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.batch.pairs import FEATURES, PAIRS, REFUSED, difference, drawn  # noqa: E402  (the project first)

_SHOWN = 3
"""Workloads that differ which are shown of each pair."""


def differing(pair: tuple[str, str], first: int, n: int) -> list[tuple[int, str]]:
    """Return the seeds of the workloads that differ, and what does."""
    found = []
    for seed in range(first, first + n):
        try:
            said = difference(drawn(pair, seed))
        except Exception as error:  # the other workloads are tried all the same
            said = f"{type(error).__name__}: {error}"
        if said:
            found.append((seed, said))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("n", type=int, metavar="N", help="workloads of each pair")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the first one of each pair")
    parser.add_argument("--only", nargs="+", default=[], choices=FEATURES, metavar="WORD")
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="processes")
    given = parser.parse_args()
    pairs = [
        pair for pair in PAIRS if pair not in REFUSED and (not given.only or set(given.only) & set(pair))
    ]
    wrong = 0
    print(f"| pair | workloads | differ |\n| --- | ---: | ---: |{_refused()}", flush=True)
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        for pair, found in zip(
            pairs, pool.map(differing, pairs, repeat(given.seed), repeat(given.n)), strict=True
        ):
            print(f"| {pair[0]} x {pair[1]} | {given.n} | {len(found)} |", flush=True)
            for seed, said in found[:_SHOWN]:
                print(f"seed {seed}: {said}", file=sys.stderr, flush=True)
            wrong += len(found)
    sys.exit(1 if wrong else 0)


def _refused() -> str:
    return "".join(f"\n| {a} x {b} | refused | |" for a, b in PAIRS if (a, b) in REFUSED)


if __name__ == "__main__":
    main()
