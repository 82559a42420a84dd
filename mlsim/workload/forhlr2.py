"""A machine like KIT's ForHLR II, and its jobs."""

from __future__ import annotations

from typing import Final

from mlsim.workload.campaigns import SyntheticWorkload, campaigns
from mlsim.workload.job_mix import BURSTS, DAY, HOUR, JobClass, Length, Mix, Queue, Shape

MACHINE: Final = """\
platform:
  nodes:
    - {name: thin, count: 1152, cores: 20, memory: 64 GB}
    - {name: fat, count: 21, cores: 48, memory: 1 TB, resources: {gpu: 4}}
"""
"""The machine, as a scenario writes it."""

_JOBS = 114_355
_JOB_HOURS = 562_772.0
_SHARES = (0.6626, 0.1119, 0.2255)
_MEANS = tuple(
    hours * _JOB_HOURS * HOUR / (share * _JOBS)
    for hours, share in zip((0.0204, 0.0588, 0.9208), _SHARES, strict=True)
)
# Nodes, and how often.
_WIDTHS = {
    1: 0.38,
    2: 0.15,
    4: 0.14,
    8: 0.115,
    16: 0.09,
    32: 0.06,
    64: 0.035,
    128: 0.018,
    256: 0.007,
    512: 0.003,
    1152: 0.002,
}
_PARTS_OF_A_NODE = ((1, 3000), (2, 6000), (4, 12000), (10, 30000))


KIT: Final = Mix(
    jobs=_JOBS,
    period=548 * DAY,
    users=150,
    single=0.05,
    lengths=(
        Length("short", 1.0, HOUR, _MEANS[0], 1.8, 12.0),
        Length("medium", HOUR, 5 * HOUR, _MEANS[1], 1.0, 8.0),
        Length("long", 5 * HOUR, 72 * HOUR, _MEANS[2], 1.0, 6.0),
    ),
    classes=(
        JobClass(
            "cpu",
            _SHARES,
            (
                *(Shape(weight, units, 20, 60_000) for units, weight in _WIDTHS.items()),
                *(Shape(0.05, 1, cores, memory) for cores, memory in _PARTS_OF_A_NODE),
            ),
        ),
    ),
    resources=("memory",),
    queues=(Queue("develop", 1 * HOUR), Queue("normal", 24 * HOUR), Queue("long", 72 * HOUR)),
    walltime_error=None,
    late=0.03,
    arrivals=BURSTS,
)
_CALM: Final = KIT.calm((12.0, 8.0, 6.0))


def kit(
    jobs: int | None = None, *, seed: int = 0, load: float = 1.0, calm: bool = False
) -> SyntheticWorkload:
    """Make jobs as ForHLR II had them.

    Parameters
    ----------
    jobs, seed, load
        As of :func:`mlsim.workload.campaigns.campaigns`.
    calm
        Whether they come so that they hardly ever queue.
    """
    return campaigns(_CALM if calm else KIT, jobs, seed, load)
