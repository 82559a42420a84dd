"""What a chunk costs on MPI: python tools/bench/mpi_overhead.py [ranks [chunks]].

Loops of SS whose iterations do nothing, so that all time is scheduling. `bare` is a pair of Fetch_and_op with
Flush by the same ranks at the same time in the same run: what DCA cannot do without.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

from mlsim.mpi.launch import launch, launcher_of

MODELS = (("dca", "SS"), ("dca", "GSS"), ("dca", "AF"), ("cca", "SS"), ("hdca", "GSS+SS"), ("hmw", "GSS+SS"))


def on_ranks(chunks: int) -> None:
    from mpi4py import MPI

    from mlsim.mpi import LoopScheduler
    from mlsim.mpi.context import Context

    comm = MPI.COMM_WORLD
    context = Context.of(comm, None)
    window = context.window(2)
    rows = []
    for model, technique in MODELS:
        n = chunks if (model, technique) == ("dca", "SS") else min(chunks, 20_000)
        bare = _bare(comm, window)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with LoopScheduler(comm, n=n, technique=technique, model=model, wait="spin") as loop:
            for _ in loop:
                pass
        grown = comm.allreduce(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, MPI.MAX)
        bare = (bare + _bare(comm, window)) / 2  # before and after: machines are not always as busy
        report = loop.report()
        if report.loop is not None:
            steps = report.loop.steps
            # there is no work, so all the ranks' time is scheduling
            cost = comm.size * report.loop.t_loop / steps
            rows.append([model, technique, steps, cost * 1e6, bare * 1e6, steps / report.loop.t_loop, grown])
    context.put_back(window)
    if comm.rank == 0:
        print(json.dumps({"library": MPI.Get_library_version().split(",")[0].strip("\0\n "), "rows": rows}))


def _bare(comm, window) -> float:
    """Give the seconds of a bare pair, all ranks at once."""
    from mlsim.mpi.window import bare_pair

    comm.Barrier()
    bare_pair(window, 1000)
    comm.Barrier()
    return comm.allreduce(bare_pair(window, 20_000)) / comm.size


def main() -> None:
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    chunks = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    program = [str(Path(__file__)), "--on-ranks", str(chunks)]
    told = json.loads(launch(launcher_of([], ranks), program, quiet=True).strip().splitlines()[-1])
    print(f"{told['library'].splitlines()[0]}, {ranks} ranks, no work in the iterations")
    print("| model | technique | chunks | µs a chunk | bare pair µs | ratio | chunks/s | memory grown kB |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for model, technique, steps, cost, bare, rate, grown in told["rows"]:
        print(
            f"| {model} | {technique} | {steps:,} | {cost:.2f} | {bare:.2f} | {cost / bare:.2f} | "
            f"{rate:,.0f} | {grown:,} |"
        )


if __name__ == "__main__":
    if "--on-ranks" in sys.argv:
        on_ranks(int(sys.argv[-1]))
    else:
        main()
