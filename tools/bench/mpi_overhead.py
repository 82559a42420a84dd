"""What a chunk costs on MPI: python tools/bench/mpi_overhead.py [ranks [claims [technique,...]]] [--parts].

Loops whose iterations do nothing, so that all time is scheduling; each is repeated until its ranks have
asked so many times (10,000), and costs are of a rank's time for each time that it asks. `bare` is a pair of
Fetch_and_op with Flush, what DCA needs for a chunk whose size follows from the step: after each loop as many
of them, by the same ranks at the same time. All MPIs that are found are measured. A technique may name its
model, such as `hdca:GSS+SS`; without one it is DCA's.

With `--parts`, where the time of one loop goes, of which every chunk is recorded: the calls of `PARTS` are
timed, each of which takes 0.1 µs longer by that.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from pathlib import Path

from mlsim.mpi.launch import find_launchers, launch

NEEDED = {"sigma": 1e-6, "mu": 1e-6, "h": 1e-6}
"""Parameters, which only some techniques read."""
ONE_PIECE = "AF pieces=1"
"""AF has the body execute a chunk in up to 16 pieces, each of which takes a tenth of a microsecond."""
OTHERS = (("cca", "SS"), ("hdca", "GSS+SS"), ("hmw", "GSS+SS"))
PARTS = {
    "dca": {"queue": "_model._queue._fetch_add", "calculation": "_model._queue._chunk"},
    "hdca": {
        "queue and calculation": "_model._take",
        "waiting": "_model._relay.wait",
        "refill": "_model._refill",
        "of that, global queue": "_model._queue.claim",
    },
}
"""Calls of a loop, by model and part. A queue includes waiting in the compiled call, for about 2 µs."""
ALL_PARTS = {"recording": "_times.keep", "claim, all of it": "_claim"}
ITERATIONS = 20_000
MOST_LOOPS = 1_000


def on_ranks(claims: int, techniques: list[str], by_parts: bool) -> None:
    from mpi4py import MPI

    from mlsim.mpi.loop_context import Context
    from mlsim.techniques import TECHNIQUES

    comm = MPI.COMM_WORLD
    window = Context.of(comm, None).window(2)
    chosen = [_pair(word) for word in techniques] or [("dca", name) for name in (*TECHNIQUES, ONE_PIECE)]
    if by_parts:
        chosen = [pair for pair in chosen if pair[0] in PARTS] if techniques else [("dca", "SS"), OTHERS[1]]
        rows = [_parts(comm, *pair, claims) for pair in chosen]
    else:
        chosen += [] if techniques else OTHERS
        rows = [_measured(comm, window, *pair, claims) for pair in chosen]
    Context.of(comm, None).put_back(window)
    if comm.rank == 0:
        print(json.dumps({"library": MPI.Get_library_version().split(",")[0].strip("\0\n "), "rows": rows}))


def _pair(word: str) -> tuple[str, str]:
    """Return model and technique of a word such as ``hdca:GSS+SS``; without a model it is DCA's."""
    model, _, technique = word.rpartition(":")
    return model or "dca", technique


def _measured(comm, window, model: str, technique: str, claims: int) -> list:
    """Return figures of a technique: the first quartile of its loops, as others may have had the cores."""
    import numpy as np
    from mpi4py import MPI

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    asked, spent, bare = np.array(_loops(comm, window, model, technique, claims)).T
    grown = comm.allreduce(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, MPI.MAX)
    asked, spent, bare = (comm.allreduce(of_loops) for of_loops in (asked, spent, bare))
    cost, pair = np.percentile(spent / asked, 25), np.percentile(bare / asked, 25)
    total = int(asked.sum())
    chunks = total / len(asked) - comm.size
    return [model, technique, total, chunks, cost * 1e6, pair * 1e6, grown]


def _timed(loop, name: str, spent: dict[str, float], part: str) -> None:
    """Have the calls of a function of a loop timed."""
    *way, last = name.split(".")
    holder = loop
    for word in way:
        holder = getattr(holder, word)
    original = getattr(holder, last)
    spent[part] = 0.0

    def call(*arguments):
        begin = time.perf_counter()
        try:
            return original(*arguments)
        finally:
            spent[part] += time.perf_counter() - begin

    setattr(holder, last, call)


def _parts(comm, model: str, technique: str, claims: int) -> list:
    """Return µs for each request of a technique, by part: the first quartile of its loops."""
    import numpy as np
    from mpi4py import MPI

    from mlsim.mpi import LoopScheduler

    loops, everyone = [], 0
    while everyone < claims and len(loops) < MOST_LOOPS:
        spent: dict[str, float] = {}
        n = _iterations(technique)
        with LoopScheduler(comm, n=n, technique=technique, model=model, record=True) as loop:
            for part, name in (PARTS[model] | ALL_PARTS).items():
                _timed(loop, name, spent, part)
            begin = time.perf_counter()
            for _ in loop:
                pass
            spent["loop, all of it"] = time.perf_counter() - begin
        mine = np.array([*spent.values(), loop.report().chunks + 1])
        total = comm.allreduce(mine, MPI.SUM)
        loops.append(total[:-1] / total[-1])
        everyone += int(total[-1])
    figures = np.percentile(loops, 25, axis=0) * 1e6
    return [model, technique, everyone, dict(zip(spent, figures.tolist(), strict=True))]


def _iterations(technique: str) -> int:
    """Return how many iterations a loop has."""
    return ITERATIONS // 20 if "SS" in technique.split("+") else ITERATIONS


def _loops(comm, window, model: str, technique: str, claims: int) -> list[tuple[int, float, float]]:
    """Return, of every loop, how often this rank asked, and the seconds of that and of as many bare pairs."""
    from mpi4py import MPI

    from mlsim.mpi import LoopScheduler
    from mlsim.mpi.rank_waiting import Patience

    patience = Patience("spin", comm.size)
    options = dict(NEEDED)
    if technique == ONE_PIECE:
        technique, options = "AF", {"pieces": 1}
    loops, everyone = [], 0
    n = _iterations(technique)
    while everyone < claims and len(loops) < MOST_LOOPS:
        with LoopScheduler(comm, n=n, technique=technique, model=model, **options) as loop:
            for _ in loop:
                pass
        report = loop.report()
        asked = report.chunks + 1
        patience.until(comm.Ibarrier().Test)  # as the loop begins
        bare = _bare_pair(window, asked) * asked
        loops.append((asked, report.busy + report.overhead, bare))
        everyone += comm.allreduce(asked, MPI.SUM)
    return loops


def _bare_pair(window, repetitions: int) -> float:
    """Measure what two bare ``Fetch_and_op`` with ``Flush`` take, in s: the least a chunk costs under DCA."""
    import numpy as np
    from mpi4py import MPI

    win, given, got = window.handle, np.ones(1, np.int64), np.zeros(1, np.int64)
    os.sched_yield()
    begin = time.perf_counter()
    for _ in range(repetitions):
        for place in (0, 1):
            win.Fetch_and_op(given, got, window.holder, place, MPI.SUM)
            win.Flush(window.holder)
    return (time.perf_counter() - begin) / repetitions


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--parts"]
    ranks, claims, techniques = (*words, *("2", "10000", "")[len(words) :])
    by_parts = "--parts" in sys.argv
    program = [str(Path(__file__)), "--on-ranks", claims, techniques, str(by_parts)]
    for launcher in find_launchers().values():
        text = launch(launcher.with_ranks(int(ranks)), program, quiet=True)
        # Numba may print escape sequences for colours before and behind it.
        told, _ = json.JSONDecoder().raw_decode(text[text.index("{") :])
        print(f"{told['library'].splitlines()[0]}, {ranks} ranks, no work in the iterations, ", end="")
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        (_print_parts if by_parts else _print_costs)(told["rows"])


def _print_costs(rows: list) -> None:
    print("| model | technique | asked | chunks a loop | µs a chunk | bare pair | ratio | memory grown kB |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for model, technique, asked, chunks, cost, bare, grown in rows:
        print(
            f"| {model} | {technique} | {asked:,} | {chunks:,.0f} | {cost:.2f} | {bare:.2f} "
            f"| {cost / bare:.2f} | {grown:,} |"
        )


def _print_parts(rows: list) -> None:
    print("| model | technique | asked | part | µs a chunk |")
    print("| --- | --- | ---: | --- | ---: |")
    for model, technique, asked, parts in rows:
        for part, cost in parts.items():
            print(f"| {model} | {technique} | {asked:,} | {part} | {cost:.2f} |")


if __name__ == "__main__":
    if "--on-ranks" in sys.argv:
        given, names, parts = sys.argv[-3:]
        on_ranks(int(given), [word for word in names.split(",") if word], parts == "True")
    else:
        main()
