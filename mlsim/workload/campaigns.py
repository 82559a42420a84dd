"""Jobs of a machine whose mix is published, but not its log: users run scripts in campaigns.

Published are, for such a machine, how many jobs there were, how they divide into classes by the resources
they ask for and into lengths by their run time, the mean run time of each length, and how wrong walltimes
were (:class:`mlsim.workload.job_mix.Mix`). This module makes jobs that have these figures. The rest is ours,
because it is not published:

- A *script* belongs to a user and fixes a class, the stem of its jobs' names and, in seven campaigns of ten,
  the request. The activity of users follows Zipf's law.
- A *campaign* is a series of jobs of one script with one level of run time; the next campaign of the script
  has another. This is the temporal locality that Galleguillos 2020 (§4.1) observed. Jobs of a campaign
  have the same run time, or differ by a few percent; they are named alike, or numbered.
- A user runs some campaigns in a session, which start within an hour of each other, so that jobs of
  different scripts alternate. Sessions start by a daily and weekly cycle. The jobs of a campaign come all at
  once, or each when the one before it has had the time to run. How many come at once, and in what sessions,
  decides how long queues are (:class:`mlsim.workload.job_mix.Arrivals`).
- The run times of a length are lognormal, cut to its limits, with the median that gives the published mean.
- A campaign's user asks for the limit of the queue, or for 1.2 to 3 times what its jobs need. The share of
  scripts of the first kind is what makes the published error of walltimes, where there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.workload.job_mix import (
    HOUR,
    STEMS,
    Arrivals,
    Mix,
    Scripts,
    Series,
    Times,
    campaign_levels,
    job_times,
    make_scripts,
    make_series,
)
from mlsim.workload.resource_requests import ResourceRequests
from mlsim.workload.swf_fields import Header
from mlsim.workload.workload_jobs import JobBlock

_NUMBERED = 0.5
_PAUSE = 120.0
_DAY, _NIGHT, _WEEKEND = 3.0, 1.0, 0.4  # relative intensities of arrivals


class SyntheticWorkload(NamedTuple):
    """The jobs in arrival order, and the names behind the codes of executables and queues."""

    jobs: JobBlock
    header: Header


def campaigns(mix: Mix, jobs: int | None, seed: int, load: float = 1.0) -> SyntheticWorkload:
    """Make the jobs of a machine.

    Parameters
    ----------
    mix
        What is known of the machine's jobs.
    jobs
        How many; as many as there were, if None. Fewer come in as much less time, from fewer users (as the
        square root).
    seed
        Of everything random. The same arguments give the same jobs.
    load
        How many times as fast they come.

    Raises
    ------
    InputError
        If an argument makes no sense.
    """
    n_jobs = mix.jobs if jobs is None else jobs
    if n_jobs < 1:
        raise InputError(f"jobs: {n_jobs}; allowed: 1 or more")
    if not 0 < load < np.inf:
        raise InputError(f"load: {load:g}; allowed: a number above 0, such as 1 or 2.5")
    rng = np.random.default_rng(seed)
    n_users = max(1, round(mix.users * (n_jobs / mix.jobs) ** 0.5))
    scripts = make_scripts(mix, n_users, rng)
    series = make_series(mix, n_jobs, n_users, scripts, rng)
    row = np.repeat(np.arange(len(series)), series.jobs)
    place = np.arange(n_jobs) - np.repeat(np.cumsum(series.jobs) - series.jobs, series.jobs)
    times = job_times(mix, series, scripts, campaign_levels(mix, series, rng), row, rng)
    period = mix.period * n_jobs / mix.jobs / load
    begin = _begin_times(scripts.user[series.script], mix.arrivals.session, period, rng)
    submit = _submit_times(mix.arrivals, begin, row, place, times[0] / load, rng)
    code, names = _names(scripts, series, row, place, rng)
    order = np.lexsort((place, row, submit))
    block = _block(mix, scripts, series, row, submit, times, code)
    return _by_arrival(block.select(order), names, [queue.name for queue in mix.queues])


def _begin_times(user: Ints, in_session: int, period: float, rng: np.random.Generator) -> Floats:
    """Draw the time at which each campaign starts [s]; so many campaigns of one user share a session."""
    hours = np.arange(max(1, int(np.ceil(period / HOUR))))
    by_day = (hours % 24 >= 9) & (hours % 24 < 19)
    weight = np.where(hours // 24 % 7 >= 5, _WEEKEND, np.where(by_day, _DAY, _NIGHT))
    order = np.lexsort((rng.random(user.size), user))
    rank = np.empty(user.size, np.int64)
    rank[order] = np.arange(user.size)
    session = (rank - np.searchsorted(user[order], user)) // in_session
    _, session = np.unique(np.stack([user, session], axis=1), axis=0, return_inverse=True)
    hour = rng.choice(hours, int(session.max()) + 1, p=weight / weight.sum())
    begin: Floats = (hour[session.ravel()] + rng.random(user.size)) * HOUR
    return begin


def _submit_times(
    arrivals: Arrivals, begin: Floats, row: Ints, place: Ints, lasting: Floats, rng: np.random.Generator
) -> Floats:
    """Draw submit times, whole seconds from the first; ``lasting``: seconds that the next job waits for."""
    at_once = (rng.random(begin.size) < arrivals.at_once)[row]
    pause = np.where(at_once, rng.uniform(*arrivals.apart, row.size), rng.exponential(_PAUSE, row.size))
    before = np.where(at_once, 0.0, np.concatenate([[0.0], lasting[:-1]]))
    total = np.cumsum(np.where(place > 0, pause + before, 0.0))
    submit: Floats = np.floor(begin[row] + total - total[np.arange(row.size) - place])
    from_first: Floats = submit - submit.min()
    return from_first


def _names(
    scripts: Scripts, series: Series, row: Ints, place: Ints, rng: np.random.Generator
) -> tuple[Ints, list[str]]:
    """Name the jobs of each campaign alike, or number them; return a code for each job, and the names."""
    numbered = rng.random(len(series)) < _NUMBERED
    number = np.where(numbered[row], place + 1, 0)
    keys = np.stack([scripts.stem[series.script[row]], number], axis=1)
    known, code = np.unique(keys, axis=0, return_inverse=True)
    return code.ravel(), [f"{STEMS[stem]}{count or ''}" for stem, count in known.tolist()]


def _block(
    mix: Mix, scripts: Scripts, series: Series, row: Ints, submit: Floats, times: Times, code: Ints
) -> JobBlock:
    """Make the columns of jobs, given the campaign of each."""
    run_time, walltime, queue = times
    shapes = [shape for each in mix.classes for shape in each.shapes]
    first = np.cumsum([0] + [len(each.shapes) for each in mix.classes])
    shape = (first[series.job_class] + series.shape)[row]
    units = np.array([each.units for each in shapes])[shape]
    totals = np.array([(each.cores, each.memory, *each.others) for each in shapes])[shape] * units[:, None]
    return JobBlock(
        job_id=np.full(row.size, -1, np.int64),
        submit_time=submit,
        run_time=run_time,
        walltime=walltime,
        processors=totals[:, 0],
        user=scripts.user[series.script[row]],
        executable=code,
        queue=queue,
        asked=ResourceRequests(mix.resources, units, totals[:, 1:]),
    )


def _by_arrival(jobs: JobBlock, names: Sequence[str], queues: Sequence[str]) -> SyntheticWorkload:
    """Assign numbers from 1 to jobs and codes in the order in which they appear, as the CSV reader does."""
    executable, executable_names = _codes(jobs.executable, names)
    queue, queue_names = _codes(jobs.queue, queues)
    user, _ = _codes(jobs.user, [])
    job_id = np.arange(1, len(jobs) + 1)
    jobs = replace(jobs, job_id=job_id, user=user, executable=executable, queue=queue)
    return SyntheticWorkload(jobs, {"executable_names": executable_names, "queue_names": queue_names})


def _codes(codes: Ints, names: Sequence[str]) -> tuple[Ints, list[str]]:
    present, first = np.unique(codes, return_index=True)
    arrived = present[np.argsort(first)]
    new = np.zeros(int(codes.max()) + 1, np.int64)
    new[arrived] = np.arange(1, arrived.size + 1)
    return new[codes], [names[code] for code in arrived.tolist()] if names else []
