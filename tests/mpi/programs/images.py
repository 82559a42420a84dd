"""Applications give the same bytes under every model; rank 0 prints `ok`."""

from __future__ import annotations

from mpi4py import MPI

from mlsim.application.profiles.counted_costs import MandelbrotImage, SpinImage
from mlsim.mpi import LoopScheduler
from mlsim.mpi.apps.common import in_turns
from mlsim.mpi.apps.mandelbrot import Mandelbrot
from mlsim.mpi.apps.psia import Psia

comm = MPI.COMM_WORLD
makers = (lambda: Mandelbrot(MandelbrotImage(48), 500), lambda: Psia(300, 250, 1, SpinImage(bin_size=0.05)))
for make in makers:
    application = in_turns(comm, make)
    expected = application.expected()
    for model in ("cca", "dca", "hdca", "hmw"):
        for technique in ("STATIC", "SS", "GSS", "FAC2", "AF", "AWF-C", "RND"):
            application.begin()
            with LoopScheduler(comm, application.n, technique, model, ranks_per_node=2) as loop:
                for first, size in loop:
                    application.execute(first, size)
            result = application.result(comm)
            assert comm.rank > 0 or result == expected, (application.name, model, technique)
    assert any(expected), "an image of nothing"
if comm.rank == 0:
    print("ok", comm.size)
