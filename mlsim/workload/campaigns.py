"""Jobs of a machine whose mix is published, but not its log: users run scripts in campaigns.

Published are the number of jobs, their classes by the resources they ask for, their lengths by run time, the
mean run time of each length, and the error of walltimes (:class:`mlsim.workload.job_mix.Mix`). This module
makes jobs that have these figures. The rest is ours, because it is not published:

- A *script* belongs to a user and fixes a class, the stem of its jobs' names and, in seven campaigns of ten,
  the request. The activity of users follows Zipf's law.
- A *campaign* is a series of jobs of one script with one level of run time; the next campaign of the script
  has another. This is the temporal locality that Galleguillos 2020 (§4.1) observed. Jobs of a campaign
  have the same run time, or differ by a few percent; they are named alike, or numbered.
- A user runs some campaigns in a session, which start within an hour of each other, so that jobs of
  different scripts alternate. Sessions start by a daily and weekly cycle. The jobs of a campaign arrive
  all at once, or each when the one before it has had the time to run. The shares of both decide queue lengths
  (:class:`mlsim.workload.job_mix.Arrivals`).
- The run times of a length are lognormal, cut to its limits, with the median that gives the published mean.
- A campaign's user asks for the limit of the queue, or for 1.2 to 3 times the longest run time. The share of
  scripts of the first kind gives the published error of walltimes, where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from mlsim._runtime.arrays import Floats, Ints, ranges
from mlsim.errors import InputError
from mlsim.workload import job_mix
from mlsim.workload.job_mix import Arrivals, Length, Mix, Scripts, Series
from mlsim.workload.log_fields import HOUR, Header
from mlsim.workload.workload_jobs import JobBlock, NamedJobs, ResourceRequests, numbered_by_appearance

_NUMBERED = 0.5
_PAUSE = 120.0
_DAY, _NIGHT, _WEEKEND = 3.0, 1.0, 0.4  # relative intensities of arrivals


def campaigns(mix: Mix, jobs: int | None, seed: int, load: float = 1.0) -> NamedJobs:
    """Make the jobs of a mix; the same arguments give the same jobs.

    ``jobs``: None: as many as published; fewer arrive in as much less time, from fewer users (as the square
    root). ``load``: factor of the arrival rate.
    """
    n_jobs = mix.jobs if jobs is None else jobs
    if n_jobs < 1:
        raise InputError(f"jobs: {n_jobs}; allowed: 1 or more")
    if not 0 < load < np.inf:
        raise InputError(f"load: {load:g}; allowed: a number above 0, such as 1 or 2.5")
    rng = np.random.default_rng(seed)
    n_users = max(1, round(mix.users * (n_jobs / mix.jobs) ** 0.5))
    scripts = job_mix.make_scripts(mix, n_users, rng)
    series = job_mix.make_series(mix, n_jobs, n_users, scripts, rng)
    row = np.repeat(np.arange(len(series)), series.jobs)
    place = ranges(0, series.jobs)
    times = job_times(mix, series, scripts, campaign_levels(mix, series, rng), row, rng)
    period = mix.period * n_jobs / mix.jobs / load
    begin = _begin_times(scripts.user[series.script], mix.arrivals.session, period, rng)
    submit = _submit_times(mix.arrivals, begin, row, place, times[0] / load, rng)
    code, names = _names(scripts, series, row, place, rng)
    block = _block(mix, scripts, series, row, submit, times, code)
    block = block.select(np.lexsort((place, row, submit)))
    # Numbers are given in the order of appearance.
    executable, named = numbered_by_appearance(block.executable)
    queue, queued = numbered_by_appearance(block.queue)
    user, _ = numbered_by_appearance(block.user)
    ids = np.arange(1, n_jobs + 1)
    header: Header = {
        "executable_names": [names[code] for code in named.tolist()],
        "queue_names": [list(mix.queues)[code] for code in queued.tolist()],
    }
    return NamedJobs(replace(block, job_id=ids, user=user, executable=executable, queue=queue), header)


def machine_jobs(
    machine: str, jobs: int | None = None, *, seed: int = 0, load: float = 1.0, calm: bool = False
) -> NamedJobs:
    """Make jobs like those of one of the ``MACHINES``; ``calm``: in arrivals that hardly ever queue."""
    mix = job_mix.read_mix(machine)
    return campaigns(mix.calm() if calm else mix, jobs, seed, load)


def _begin_times(user: Ints, in_session: int, period: float, rng: np.random.Generator) -> Floats:
    """Draw the time at which each campaign starts [s]; ``in_session`` campaigns of a user share a session."""
    hours = np.arange(max(1, int(np.ceil(period / HOUR))))
    by_day = (hours % 24 >= 9) & (hours % 24 < 19)
    weight = np.where(hours // 24 % 7 >= 5, _WEEKEND, np.where(by_day, _DAY, _NIGHT))
    order = np.lexsort((rng.random(user.size), user))
    rank = np.empty(user.size, np.int64)
    rank[order] = np.arange(user.size)
    session = (rank - np.searchsorted(user[order], user)) // in_session
    _, session = np.unique(np.stack([user, session], axis=1), axis=0, return_inverse=True)
    hour = rng.choice(hours, int(session.max()) + 1, p=weight / weight.sum())
    return (hour[session.ravel()] + rng.random(user.size)) * HOUR


def _submit_times(
    arrivals: Arrivals, begin: Floats, row: Ints, place: Ints, lasting: Floats, rng: np.random.Generator
) -> Floats:
    """Draw submit times, whole seconds from the first; ``lasting``: run times that the next job waits for."""
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
    return code.ravel(), [f"{job_mix.STEMS[stem]}{count or ''}" for stem, count in known.tolist()]


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


# Run times and walltimes

_SAME_RUN_TIME = 0.3
_SPREAD = 0.08
_SLACK = (1.2, 3.0)
_WALLTIME_STEP = 600.0
_LONGER_QUEUE = 0.75
_MINUTE = 60.0
_LATE_BY = 30
_LIMIT_SHARE = 0.5  # of scripts that ask for the limit, where nothing is published

Times = tuple[Floats, Floats, Ints]  # Run time and walltime [s] and queue of each job


def campaign_levels(mix: Mix, series: Series, rng: np.random.Generator) -> Floats:
    """Draw the level of run time of each campaign [s]: one from each part of its length's distribution."""
    levels = np.empty(len(series))
    for k, length in enumerate(mix.lengths):
        median = _median(length)
        of_length = np.flatnonzero(series.length == k)
        groups = [of_length]
        if mix.arrivals.steady:  # scripts have levels of their own: each class alone
            groups = [of_length[series.job_class[of_length] == each] for each in range(len(mix.classes))]
        for rows in groups:
            parts = (_places(mix, series, rows, rng) + rng.random(rows.size)) / max(rows.size, 1)
            levels[rows] = _quantiles(length, median, parts)
    return levels


def _places(mix: Mix, series: Series, rows: Ints, rng: np.random.Generator) -> Ints:
    """Place campaigns in the order of their levels: those of one script beside each other, or at random."""
    if not mix.arrivals.steady:
        return rng.permutation(rows.size)
    _, script = np.unique(series.script[rows], return_inverse=True)
    of_script = rng.random(rows.size)[script]
    key = np.where(rng.random(rows.size) < mix.arrivals.steady, of_script, rng.random(rows.size))
    places: Ints = np.empty(rows.size, np.int64)
    places[np.lexsort((rng.random(rows.size), key))] = np.arange(rows.size)
    return places


def _quantiles(length: Length, median: float, parts: Floats) -> Floats:
    """Return quantiles of the lognormal distribution truncated to the length's limits [s]."""
    normal = NormalDist(float(np.log(median)), length.sigma)
    low, high = normal.cdf(float(np.log(length.low))), normal.cdf(float(np.log(length.high)))
    inside = np.clip(low + parts * (high - low), 1e-15, 1.0 - 1e-15)
    logs = np.array([normal.inv_cdf(part) for part in inside.tolist()])
    cut: Floats = np.clip(np.exp(logs), length.low, length.high)
    return cut


def _median(length: Length) -> float:
    """Find the median with which the mean is the length's."""
    parts = (np.arange(500) + 0.5) / 500
    low, high = float(np.log(length.low)) - 2.0, float(np.log(length.high)) + 2.0
    log = _edge(lambda log: _quantiles(length, float(np.exp(log)), parts).mean() < length.mean, low, high)
    return float(np.exp(log))


def _edge(is_low: Callable[[float], object], low: float, high: float) -> float:
    """Find where a condition that holds for small values ends."""
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_low(middle) else (low, middle)
    return low


def job_times(
    mix: Mix, series: Series, scripts: Scripts, levels: Floats, row: Ints, rng: np.random.Generator
) -> Times:
    """Draw run time, walltime and queue of each job; ``row``: its campaign."""
    # Run times are drawn around each campaign's level: whole seconds inside the length's limits.
    spread = np.where(rng.random(len(series)) < _SAME_RUN_TIME, 0.0, _SPREAD)
    drawn = levels[row] * np.exp(spread[row] * rng.standard_normal(row.size))
    low, high = (
        np.array([getattr(length, name) for length in mix.lengths])[series.length[row]]
        for name in ("low", "high")
    )
    run_time = np.clip(np.round(drawn), np.ceil(low), np.ceil(high) - 1.0)
    longest = np.zeros(len(series))
    np.maximum.at(longest, row, run_time)
    limits = np.array(list(mix.queues.values()))
    queue = np.maximum(np.searchsorted(limits, longest), rng.random(len(series)) < _LONGER_QUEUE)
    limit = limits[queue]
    slack = rng.uniform(*_SLACK, len(series))
    needed = np.minimum(np.ceil(longest * slack / _WALLTIME_STEP) * _WALLTIME_STEP, limit)
    # Campaigns of a minute or more whose jobs run longer than their walltimes.
    rows = rng.permutation(np.flatnonzero(levels >= _MINUTE))
    late = np.zeros(len(series), np.bool_)
    late[rows[np.cumsum(series.jobs[rows]) <= mix.late * series.jobs.sum()]] = True
    minutes = np.floor(levels / _MINUTE) * _MINUTE
    run_time = np.where(late[row], minutes[row] + rng.integers(1, _LATE_BY, row.size), run_time)

    # The script at the edge of the share asks for the limit in some of its campaigns.
    rank = scripts.rank[series.script] + rng.random(len(series)) / len(scripts.rank)

    def asked(share: float) -> Floats:
        walltime = np.where(rank < share, limit, needed)
        return np.where(late, minutes, walltime)[row]

    share, error = _LIMIT_SHARE, mix.walltime_error
    if error is not None:
        share = _edge(lambda share: np.abs(asked(share) - run_time).mean() < error, 0.0, 1.0)
    return run_time, asked(share), queue[row]
