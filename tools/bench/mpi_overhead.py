"""What a chunk costs on MPI: python tools/bench/mpi_overhead.py [ranks [claims [technique,...]]].

Loops whose iterations do nothing, so that all time is scheduling; each is repeated until its ranks have
asked so many times (20,000), and costs are of a rank's time for each time that it asks. `bare` is a pair of
Fetch_and_op with Flush, what DCA cannot do without: after each loop as many of them, by the same ranks at the
same time. All MPIs that are found are measured.
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
}
OTHERS = (("cca", "SS"), ("hdca", "GSS+SS"), ("hmw", "GSS+SS"))
ITERATIONS = 20_000
MOST_LOOPS = 2_000


def on_ranks(claims: int, techniques: list[str]) -> None:
    from mpi4py import MPI

    from mlsim.application.catalogue import TECHNIQUES
    from mlsim.mpi.context import Context

    comm = MPI.COMM_WORLD
    window = Context.of(comm, None).window(2)
    chosen = [("dca", name) for name in techniques or TECHNIQUES]
    rows = [_measured(comm, window, *pair, claims) for pair in (*chosen, *(() if techniques else OTHERS))]
    Context.of(comm, None).put_back(window)
    if comm.rank == 0:
        print(json.dumps({"library": MPI.Get_library_version().split(",")[0].strip("\0\n "), "rows": rows}))


def _measured(comm, window, model: str, technique: str, claims: int) -> list:
    """Give the figures of a technique: the median of five parts, each with bare pairs before and after it."""
    import numpy as np

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    parts = [_part(comm, window, model, technique, claims // 5) for _ in range(5)]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    parts = np.array(comm.allgather(parts)).mean(axis=0)
    cost, bare, asked, loops = parts.T
    ratio = float(np.median(cost / bare))
    mean_chunks = asked.sum() * comm.size / loops.sum() - comm.size
    return [model, technique, mean_chunks, np.median(cost) * 1e6, np.median(bare) * 1e6, ratio, grown]


def _part(comm, window, model: str, technique: str, claims: int) -> tuple[float, float, int, int]:
    """Give seconds a claim and a bare pair, and how many claims and loops there were, on this rank."""
    from mpi4py import MPI

    from mlsim.mpi import LoopScheduler

    bare = _bare(comm, window)
    spent, asked, loops, everyone = 0.0, 0, 0, 0
    while everyone < claims and loops < MOST_LOOPS:
        n = claims if technique == "SS" else ITERATIONS
        options = NEEDED.get(technique, {})
        with LoopScheduler(comm, n=n, technique=technique, model=model, wait="spin", **options) as loop:
            for _ in loop:
                pass
        report = loop.report()
        spent += report.busy + report.overhead
        asked += report.chunks + 1
        loops += 1
        everyone = comm.allreduce(asked, MPI.SUM)
    return spent / asked, (bare + _bare(comm, window)) / 2, asked, loops


def _bare(comm, window) -> float:
    """Give the seconds of a bare pair, all ranks at once."""
    from mlsim.mpi.window import bare_pair

    comm.Barrier()
    bare_pair(window, 200)
    comm.Barrier()
    return comm.allreduce(bare_pair(window, 3_000)) / comm.size


def main() -> None:
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    claims = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    techniques = sys.argv[3].split(",") if len(sys.argv) > 3 else []
    program = [str(Path(__file__)), "--on-ranks", str(claims), ",".join(techniques)]
    for launcher in find_launchers().values():
        told = json.loads(launch(launcher.with_ranks(ranks), program, quiet=True).strip().splitlines()[-1])
        print(f"{told['library'].splitlines()[0]}, {ranks} ranks, no work in the iterations, ", end="")
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        print("| model | technique | chunks a loop | µs a chunk | bare pair µs | ratio | memory grown kB |")
        print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
        for model, technique, chunks, cost, bare, ratio, grown in told["rows"]:
            print(
                f"| {model} | {technique} | {chunks:,.0f} | {cost:.2f} | {bare:.2f} | {ratio:.2f} "
                f"| {grown:,} |"
            )


if __name__ == "__main__":
    if "--on-ranks" in sys.argv:
        on_ranks(int(sys.argv[-2]), [word for word in sys.argv[-1].split(",") if word])
    else:
        main()
