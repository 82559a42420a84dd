"""An image of the Mandelbrot set: a loop over pixels, whose costs differ.

``python mandelbrot.py`` measures the cost of each pixel, and writes costs.csv.
``mpiexec -n 4 python mandelbrot.py SS`` computes the image on four ranks under SS, and records it in runs/SS.
"""

import sys
from pathlib import Path
from time import perf_counter

SIZE, STEPS = 128, 4000


def pixel(number):
    """Return how many steps a point takes to leave the circle of radius 2."""
    x, y = divmod(number, SIZE)
    c = complex(-2 + 2.5 * x / SIZE, -1.25 + 2.5 * y / SIZE)
    z, steps = 0j, 0
    while abs(z) < 2 and steps < STEPS:
        z, steps = z * z + c, steps + 1
    return steps


def measure():
    """Write the seconds that each pixel takes, one line per iteration."""
    lines = []
    for number in range(SIZE * SIZE):
        begin = perf_counter()
        pixel(number)
        lines.append(f"{perf_counter() - begin:.9f}\n")
    Path("costs.csv").write_text("".join(lines))
    print("costs.csv: the cost of each iteration in s")


def run(technique):
    """Compute the image on all ranks; a rank gets its next chunk of pixels when it has finished one."""
    from mpi4py import MPI

    from mlsim.mpi import LoopScheduler

    ranks, steps = MPI.COMM_WORLD, 0
    with LoopScheduler(
        ranks, n=SIZE * SIZE, technique=technique, model="dca", record=f"runs/{technique}"
    ) as loop:
        for start, size in loop:
            steps += sum(pixel(number) for number in range(start, start + size))
    steps = ranks.reduce(steps)
    if ranks.rank == 0:
        print(f"{steps} steps in {loop.report().loop.t_loop:.3f} s under {technique}: runs/{technique}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(sys.argv[1])
    else:
        measure()
