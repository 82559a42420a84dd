"""Offered load of a workload, and the one factor on times between arrivals by which it is reached.

The load is that of Lublin and Feitelson's program: the sum of run time x processors over the machine's
processors x the time until the last submission. Scaling keeps jobs, their order, sizes, run times and
walltimes; times between arrivals, and with them hours and days of a daily cycle, become longer or shorter by
one factor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mlsim.errors import InputError
from mlsim.workload.jobs import JobBlock
from mlsim.workload.models.drawing import MOST_JOBS, cut

__all__ = ["Extent", "extent_of_load", "stretched"]


@dataclass(frozen=True, slots=True)
class Extent:
    """Which jobs of a stream a workload has, and by what its times are multiplied.

    Attributes
    ----------
    jobs
        How many at most; None: as many as there are in the time.
    end
        Those that the model submits before this time [s]; None: until there are so many.
    stretch
        Factor of the submit times.
    """

    jobs: int | None
    end: float | None
    stretch: float = 1.0


def extent_of_load(
    stream: Iterator[JobBlock], jobs: int | None, end: float | None, load: float, processors: int
) -> Extent:
    """Return the jobs of a stream that offer a load, and the factor of their submit times.

    Parameters
    ----------
    stream
        Jobs in arrival order.
    jobs
        How many; with `end` of the first of them.
    end
        How long jobs are submitted in the result [s]; the load is over that time.
    load
        The offered load.
    processors
        Of the machine.

    Raises
    ------
    InputError
        If no factor leads to that load.
    """
    if end is not None:
        return replace(_extent_of_time(stream, end, load, processors), jobs=jobs)
    work = last = 0.0
    for block in cut(stream, jobs, None):
        work += float(np.sum(block.run_time * block.processors))
        last = float(block.submit_time[-1])
    stretch = work / (processors * load * last) if last else 0.0
    if not stretch > 0:
        raise InputError(
            f"load: {load:g}: the {jobs} jobs come at one time, or have no work; allowed: more jobs"
        )
    return Extent(jobs, None, stretch)


def _extent_of_time(stream: Iterator[JobBlock], end: float, load: float, processors: int) -> Extent:
    """Return the first jobs whose work is at most that of the load; the next one comes at the end."""
    wanted, work, jobs = load * processors * end, 0.0, 0
    for block in stream:
        done = work + np.cumsum(block.run_time * block.processors)
        row = int(np.searchsorted(done, wanted, "right"))
        if row < len(block):
            after = float(block.submit_time[row])
            if jobs + row == 0 or not after > 0:
                raise InputError(
                    f"load: {load:g}: the first job alone has more work; "
                    "allowed: a higher load or a longer time"
                )
            return Extent(None, after, end / after)
        jobs, work = jobs + len(block), float(done[-1])
        if jobs >= MOST_JOBS:
            break
    raise InputError(
        f"load: {load:g}: all {jobs:,} jobs of the model have less work; "
        "allowed: a lower load or a shorter time"
    )


def stretched(blocks: Iterator[JobBlock], factor: float) -> Iterator[JobBlock]:
    """Yield the jobs, submitted after a multiple of their time, in whole seconds; by 1 as they are."""
    if factor == 1.0:
        return blocks
    return (replace(block, submit_time=np.floor(block.submit_time * factor)) for block in blocks)
