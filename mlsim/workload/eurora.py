"""An Eurora-like machine and its jobs; no log of Eurora is public.

Published (Galleguillos 2020, §2.1.4, Table 2.1, ch. 4; Galleguillos, Kiziltan and Soto 2021):

- 64 nodes of two octa-core processors and 16 GB; 32 of them with two GPUs, 32 with two MICs.
- 404,866 jobs of 360 users, March 2014 to August 2015; 92 % of the users submitted more than one.
- Jobs that ask for processors only: 99,431, of 49:19 (min:s) in the mean; for MICs: 2,810, of 55:42; for
  GPUs: 302,625, of 7:26. (The table prints 76.75 % for GPUs; its own counts give 74.75 %.)
- 92.15 % of the jobs run less than an hour and take 8.94 % of 121,885 job-hours; 7.07 % run 1 to 5 hours and
  take 70.43 %; 0.78 % run longer and take 20.63 %. Hence the means of these lengths: 105 s, 3.00 h, 7.96 h.
- Walltimes are wrong by 225 min in the mean; 3.6 % of the jobs run longer than theirs.

How the lengths divide each class follows from the means of both: in every class, the jobs of more than an
hour divide as they do in the whole. The rest is ours: the sizes of requests, names and limits of queues, how
long campaigns are (:mod:`mlsim.workload.campaigns`). How many jobs a campaign has and how they come was
fitted so that as many jobs are in a model as in Table 5.3 of the thesis; ``calm`` jobs come as before that.
"""

from __future__ import annotations

from typing import Final

from mlsim.workload.campaigns import SyntheticWorkload, campaigns
from mlsim.workload.job_mix import BURSTS, DAY, HOUR, JobClass, Length, Mix, Queue, Shape

MACHINE: Final = """\
platform:
  nodes:
    - {name: gpu, count: 32, cores: 16, memory: 16 GB, resources: {gpu: 2}}
    - {name: mic, count: 32, cores: 16, memory: 16 GB, resources: {mic: 2}}
"""
"""The machine, as a scenario writes it."""

_JOBS = 404_866
_JOB_HOURS = 121_885.0
_SHORT, _MEDIUM, _LONG = 0.9215, 0.0707, 0.0078
_MEANS = tuple(
    hours * _JOB_HOURS * HOUR / (share * _JOBS)
    for hours, share in ((0.0894, _SHORT), (0.7043, _MEDIUM), (0.2063, _LONG))
)
_OVER_AN_HOUR = (_MEDIUM * _MEANS[1] + _LONG * _MEANS[2]) / (_MEDIUM + _LONG)


def _shares(jobs: int, mean: float) -> tuple[float, float, float]:
    """Return a class' share of all jobs that are short, medium and long, from its mean run time [s]."""
    over = (mean - _MEANS[0]) / (_OVER_AN_HOUR - _MEANS[0])
    medium = over * _MEDIUM / (_MEDIUM + _LONG)
    share = jobs / _JOBS
    return share * (1.0 - over), share * medium, share * (over - medium)


def _shapes(units: dict[int, float], cards: tuple[tuple[int, int], ...]) -> tuple[Shape, ...]:
    """Combine numbers of units with what one unit asks for; equal weights of the latter."""
    per_unit = ((1, 1000), (2, 2000), (4, 4000), (8, 8000), (16, 15000))
    return tuple(
        Shape(weight, count, cores, memory, card)
        for count, weight in units.items()
        for cores, memory in per_unit
        for card in cards
    )


EURORA: Final = Mix(
    jobs=_JOBS,
    period=548 * DAY,
    users=360,
    single=0.08,
    lengths=(
        Length("short", 1.0, HOUR, _MEANS[0], 1.8, 200.0),
        Length("medium", HOUR, 5 * HOUR, _MEANS[1], 1.0, 10.0),
        Length("long", 5 * HOUR, 24 * HOUR, _MEANS[2], 1.0, 2.0),
    ),
    classes=(
        JobClass(
            "cpu",
            _shares(99_431, 49 * 60 + 19),
            _shapes({1: 0.6, 2: 0.15, 4: 0.12, 8: 0.08, 16: 0.04, 32: 0.01}, ((0, 0),)),
        ),
        JobClass("mic", _shares(2_810, 55 * 60 + 42), _shapes({1: 0.8, 2: 0.2}, ((0, 1), (0, 2)))),
        JobClass(
            "gpu",
            _shares(302_625, 7 * 60 + 26),
            _shapes({1: 0.8, 2: 0.12, 4: 0.06, 8: 0.02}, ((1, 0), (2, 0))),
        ),
    ),
    resources=("memory", "gpu", "mic"),
    queues=(Queue("debug", 0.5 * HOUR), Queue("parallel", 6 * HOUR), Queue("longpar", 24 * HOUR)),
    walltime_error=225 * 60.0,
    late=0.036,
    arrivals=BURSTS,
)
_CALM: Final = EURORA.calm((25.0, 4.0, 2.0))


def eurora(
    jobs: int | None = None, *, seed: int = 0, load: float = 1.0, calm: bool = False
) -> SyntheticWorkload:
    """Make jobs as Eurora had them.

    Parameters
    ----------
    jobs, seed, load
        As of :func:`mlsim.workload.campaigns.campaigns`.
    calm
        Whether they come so that they hardly ever queue.
    """
    return campaigns(_CALM if calm else EURORA, jobs, seed, load)
