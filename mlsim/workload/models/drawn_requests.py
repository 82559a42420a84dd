"""Requests for memory, GPUs and other resources, drawn beside the processors of generated jobs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mlsim.errors import InputError
from mlsim.scenario.field_types import SIZE, parse_value
from mlsim.workload.workload_jobs import JobBlock, ResourceRequests

_KEY: Final = 6  # keeps these random numbers apart from those of models
_MEGA: Final = 1e6
_MOST: Final = 10**9


@dataclass(frozen=True, slots=True)
class DrawnRequest:
    """The amount of one resource per unit of a job: uniform in ``low`` … ``high`` (memory in MB)."""

    name: str
    low: int
    high: int
    share: float = 1.0  # of the jobs that request it
    gflops: float = 0.0  # speed of one of them [GFLOP/s]; 0: it does not compute


def parse_requests(
    given: Mapping[str, object], gflops: Mapping[str, float] | None = None
) -> tuple[DrawnRequest, ...]:
    """Read ranges ``LOW:HIGH`` or ``LOW:HIGH@SHARE`` of resources; an InputError if one makes no sense.

    Examples
    --------
    >>> parse_requests({"gpu": "1:2@0.25"})
    (DrawnRequest(name='gpu', low=1, high=2, share=0.25, gflops=0.0),)
    """
    speeds = dict(gflops or {})
    found = tuple(
        replace(_parsed(name.strip(), str(text)), gflops=speeds.pop(name, 0.0))
        for name, text in sorted(given.items())
    )
    for name, speed in speeds.items():
        raise InputError(f"gflops {name}={speed:g}: no request names {name}; give one, or leave this out")
    if any(not 0 <= request.gflops < np.inf for request in found):
        raise InputError("gflops: allowed: GFLOP/s of one, 0 or more")
    return found


def _parsed(name: str, text: str) -> DrawnRequest:
    limits, at, share_text = text.partition("@")
    low_text, colon, high_text = limits.partition(":")
    try:
        low, high = (_amount(name, part) for part in (low_text, high_text if colon else low_text))
        share = float(share_text) if at else 1.0
        if not (0 <= low <= high <= _MOST and 0 < share <= 1):
            raise ValueError
        if not name.isidentifier() or name == "cores":
            raise ValueError
    except ValueError:
        raise InputError(
            f"request {name}={text}: allowed: RESOURCE=LOW:HIGH, whole amounts per unit (memory in MB, or "
            "with its unit), with @SHARE of the jobs that request it, such as gpu=1:2@0.25; not cores"
        ) from None
    return DrawnRequest(name, low, high, share)


def _amount(name: str, text: str) -> int:
    if name == "memory" and not text.strip().isdecimal():
        return int(np.ceil(parse_value(text, SIZE)[0] / _MEGA))
    return int(text)


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
