"""What a chunk costs on MPI: python tools/bench/mpi_overhead.py [ranks [claims [technique,...]]].

Loops whose iterations do nothing, so that all time is scheduling; each is repeated until its ranks have
asked so many times (10,000), and costs are of a rank's time for each time that it asks. `bare` is a pair of
Fetch_and_op with Flush, what DCA needs for a chunk whose size follows from the step: after each loop as many
of them, by the same ranks at the same time. All MPIs that are found are measured.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

from mlsim.mpi.launch import find_launchers, launch

NEEDED = {
    "FSC": {"sigma": 1e-6, "h": 1e-6},
    "TAP": {"sigma": 1e-6, "mu": 1e-6},
    "FAC": {"sigma": 1e-6, "mu": 1e-6},
    "BOLD": {"sigma": 1e-6, "mu": 1e-6, "h": 1e-6},
}
ONE_PIECE = "AF pieces=1"
"""AF has the body execute a chunk in up to 16 pieces, each of which takes a tenth of a microsecond."""
OTHERS = (("cca", "SS"), ("hdca", "GSS+SS"), ("hmw", "GSS+SS"))
ITERATIONS = 20_000
MOST_LOOPS = 1_000


def on_ranks(claims: int, techniques: list[str]) -> None:
    from mpi4py import MPI

    from mlsim.application.catalogue import TECHNIQUES
    from mlsim.mpi.loop.context import Context

    comm = MPI.COMM_WORLD
    window = Context.of(comm, None).window(2)
    chosen = [("dca", name) for name in techniques or [*TECHNIQUES, ONE_PIECE]]
    rows = [_measured(comm, window, *pair, claims) for pair in (*chosen, *(() if techniques else OTHERS))]
    Context.of(comm, None).put_back(window)
    if comm.rank == 0:
        print(json.dumps({"library": MPI.Get_library_version().split(",")[0].strip("\0\n "), "rows": rows}))


def _measured(comm, window, model: str, technique: str, claims: int) -> list:
    """Return figures of a technique: the first quartile of its loops, as others may have had the cores."""
    import numpy as np
    from mpi4py import MPI

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    asked, spent, bare = np.array(_loops(comm, window, model, technique, claims)).T
    grown = comm.allreduce(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, MPI.MAX)
    cost = comm.allreduce(float(np.percentile(spent / asked, 25))) / comm.size
    pair = comm.allreduce(float(np.percentile(bare / asked, 25))) / comm.size
    total = comm.allreduce(int(asked.sum()))
    chunks = total / len(asked) - comm.size
    return [model, technique, total, chunks, cost * 1e6, pair * 1e6, grown]


def _loops(comm, window, model: str, technique: str, claims: int) -> list[tuple[int, float, float]]:
    """Return, of every loop, how often this rank asked, and the seconds of that and of as many bare pairs."""
    from mpi4py import MPI

    from mlsim.mpi import LoopScheduler
    from mlsim.mpi.transport.waiting import Patience
    from mlsim.mpi.transport.window import bare_pair

    patience = Patience("spin", comm.size)
    options = NEEDED.get(technique, {})
    if technique == ONE_PIECE:
        technique, options = "AF", {"pieces": 1}
    loops, everyone = [], 0
    n = ITERATIONS // 20 if "SS" in technique.split("+") else ITERATIONS
    while everyone < claims and len(loops) < MOST_LOOPS:
        with LoopScheduler(comm, n=n, technique=technique, model=model, wait="spin", **options) as loop:
            for _ in loop:
                pass
        report = loop.report()
        asked = report.chunks + 1
        patience.until(comm.Ibarrier().Test)  # as the loop begins
        bare = bare_pair(window, asked) * asked
        loops.append((asked, report.busy + report.overhead, bare))
        everyone += comm.allreduce(asked, MPI.SUM)
    return loops


def main() -> None:
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    claims = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    techniques = sys.argv[3].split(",") if len(sys.argv) > 3 else []
    program = [str(Path(__file__)), "--on-ranks", str(claims), ",".join(techniques)]
    for launcher in find_launchers().values():
        told = json.loads(launch(launcher.with_ranks(ranks), program, quiet=True).strip().splitlines()[-1])
        print(f"{told['library'].splitlines()[0]}, {ranks} ranks, no work in the iterations, ", end="")
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        print(
            "| model | technique | asked | chunks a loop | µs a chunk | bare pair | ratio | memory grown kB |"
        )
        print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        for model, technique, asked, chunks, cost, bare, grown in told["rows"]:
            print(
                f"| {model} | {technique} | {asked:,} | {chunks:,.0f} | {cost:.2f} | {bare:.2f} "
                f"| {cost / bare:.2f} | {grown:,} |"
            )


if __name__ == "__main__":
    if "--on-ranks" in sys.argv:
        on_ranks(int(sys.argv[-2]), [word for word in sys.argv[-1].split(",") if word])
    else:
        main()
