"""Requests for memory, GPUs and other resources, drawn beside the processors of generated jobs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from mlsim.errors import InputError
from mlsim.scenario.resources_section import DrawnRequest
from mlsim.workload.workload_jobs import JobBlock, ResourceRequests

_KEY: Final = 6  # keeps these random numbers apart from those of models


def with_requests(
    blocks: Iterator[JobBlock],
    requests: Sequence[DrawnRequest],
    per_unit: int,
    seed: int,
    processor_gflops: float,
) -> Iterator[JobBlock]:
    """Yield the jobs with requests, in units of at most ``per_unit`` processors.

    Sizes above ``per_unit`` are rounded up to multiples of it, as all units of a job are identical. Where a
    resource computes, run times and walltimes are those of the same work on all that the job requests.
    """
    speeds = np.array([request.gflops for request in requests])
    amounts, shares = (
        [np.random.default_rng((seed, _KEY, kind, k)) for k in range(len(requests))] for kind in (0, 1)
    )
    for block in blocks:
        if block.asked is not None:
            raise InputError("request: the jobs of this model have requests of their own; leave it out")
        units = -(-block.processors // per_unit)
        totals = np.empty((len(block), len(requests)), np.int64)
        for k, request in enumerate(requests):
            drawn = amounts[k].integers(request.low, request.high + 1, len(block))
            totals[:, k] = np.where(shares[k].random(len(block)) < request.share, drawn, 0) * units
        processors = np.where(units > 1, units * per_unit, block.processors)
        asked = ResourceRequests(tuple(request.name for request in requests), units, totals)
        block = replace(block, processors=processors, asked=asked)
        if speeds.any():
            own = block.processors * processor_gflops
            faster = own / (own + totals @ speeds)
            times = {name: getattr(block, name) * faster for name in ("run_time", "walltime")}
            block = replace(block, **{name: np.maximum(np.ceil(time), 1.0) for name, time in times.items()})
        yield block


def request_words(requests: Sequence[DrawnRequest], per_unit: int) -> str:
    """Return the header's words on drawn requests."""
    each = [
        f"{r.name} {r.low} to {r.high} in {r.share!r} of the jobs"
        + (f" at {r.gflops!r} GFLOP/s" if r.gflops else "")
        for r in requests
    ]
    return f"requests per unit of up to {per_unit} processors: {', '.join(each)}"
