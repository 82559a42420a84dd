"""Walltimes of Tsafrir, Etsion and Feitelson: the published sizes, and dealing out against a plain one."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest

from mlsim.errors import InputError
from mlsim.workload.models.tsafrir import Walltimes, _head_ranks, _head_times, distribution
from mlsim.workload.workload_jobs import JobBlock
from tests.reference.tsafrir import dealt

H = 3600


def block(run_time: list[float]) -> JobBlock:
    ones = np.ones(len(run_time), np.int64)
    times = np.array(run_time, float)
    return JobBlock(np.arange(1, len(times) + 1), times * 0, times, times, ones)


def counted(run_time: list[float]) -> tuple[np.ndarray, np.ndarray]:
    return np.unique(np.ceil(run_time).astype(np.int64), return_counts=True)


@pytest.mark.parametrize(
    ("jobs", "values"), [(500, 26), (1000, 35), (10_000, 90), (40_000, 215), (10**6, 565)]
)
@pytest.mark.parametrize("largest", [2 * H, 18 * H, 36 * H, 400 * H + 60])
def test_the_published_sizes(jobs: int, values: int, largest: int):
    for seed in range(5):
        times, counts = distribution(jobs, largest, np.random.default_rng(seed))
        assert counts.sum() == jobs
        assert len(times) == len(set(times.tolist())) <= values
        assert times[-1] == largest
        assert times[0] > 0
        # Twenty have 89 %, by 14.0491 e^(-0.177531 x) + 0.462513, and the first is the largest value.
        sizes = [14.0491 * math.exp(-0.177531 * x) + 0.462513 for x in range(2, 21)]
        sizes = [89 - sum(sizes), *sizes]
        popular = np.sort(counts)[::-1][: len(times)]
        assert counts[-1] == pytest.approx(sizes[0] * jobs / 100, abs=1)
        round_ = np.isin(times, [largest, *(m * 300 for m in range(1, 1 + largest // 300))])
        assert counts[round_].sum() >= 0.89 * jobs - 20
        if jobs >= 10_000:  # no rare value is as popular as the twentieth
            assert popular[:20] == pytest.approx(np.array(sizes) * jobs / 100, abs=1)
            rank = np.arange(21, 21 + len(times) - 20)
            tail = rank**-2.267
            assert popular[20:] == pytest.approx(11 * jobs / 100 * tail / tail.sum(), abs=1)


def test_the_twenty_values_of_a_day_and_a_half():
    times, counts = distribution(10**6, 36 * H, np.random.default_rng(1))
    popular = times[np.argsort(-counts)[:20]].tolist()
    joint = [300, 600, 900, 1200, 1800, *(h * H for h in (1, 2, 3, 4, 5, 6, 8, 10, 12, 18)), 36 * H]
    assert set(joint) <= set(popular)
    assert set(popular) - set(joint) == {h * H for h in (30, 20, 35, 25)}  # tens from above, then fives


def test_no_walltime_is_below_its_run_time_and_all_are_used():
    run = np.floor(np.random.default_rng(2).lognormal(6, 1.5, 3000).clip(1, 30 * H)).tolist()
    jobs = block(run)
    made = Walltimes(counted(run), 36 * H, 7)
    parts = [made.given(jobs.select(slice(at, at + 700))) for at in range(0, 3000, 700)]
    walltime = np.concatenate([part.walltime for part in parts])
    assert np.all(walltime >= jobs.run_time)
    times, counts = distribution(3000, 36 * H, np.random.default_rng((7, 5)))
    assert Counter(walltime.tolist()) == dict(zip(times.astype(float).tolist(), counts.tolist(), strict=True))
    assert np.array_equal(parts[0].run_time, jobs.run_time[:700])


def test_dealing_out_is_that_of_the_program():
    """The mean walltime of each third of the jobs, over many seeds, is that of dealing out job by job."""
    run = sorted(np.floor(np.random.default_rng(3).lognormal(6.0, 1.5, 600).clip(1, 9 * H)).tolist())
    thirds = [slice(0, 200), slice(200, 400), slice(400, 600)]
    ours, plain = [], []
    for seed in range(60):
        times, counts = distribution(600, 18 * H, np.random.default_rng((seed, 5)))
        ours.append(Walltimes(counted(run), 18 * H, seed).given(block(run)).walltime)
        plain.append(np.array(dealt(run, np.repeat(times, counts).tolist(), random.Random(seed))))
    for third in thirds:
        means = [np.array([each[third].mean() for each in some]) for some in (ours, plain)]
        spread = np.sqrt(sum(each.var() / each.size for each in means))
        assert abs(means[0].mean() - means[1].mean()) < 3.3 * spread


@pytest.mark.parametrize(
    ("run", "largest", "words"),
    [
        ([10.0] * 499, None, "499 jobs; allowed: 500 or more"),
        ([10.0] * 600, 3600.0, "max-estimate: 3600 s; allowed: whole seconds, 2 h or more"),
        ([50000.0] * 600, 40000.0, "allowed: the longest run time, 50000 s, or more"),
        ([50000.0] * 600, None, "600 jobs run longer than"),
    ],
)
def test_what_cannot_be_dealt_out(run: list[float], largest: float | None, words: str):
    with pytest.raises(InputError) as info:
        Walltimes(counted(run), largest, 1)
    assert words in str(info.value)


def test_popularity_is_drawn_near_that_in_logs():
    draws = [_head_ranks(np.random.default_rng(seed)) for seed in range(3000)]
    assert all(sorted(ranks) == list(range(1, 21)) and ranks[0] == 1 for ranks in draws)
    # After the largest value 3 is left of the first row (3, 1, 1, 1); the second one adds 3, 4 and 6. The
    # better of two draws from (3, 3, 4, 6) is 3 but for two of four, and 4 but for 6 twice.
    second = Counter(ranks[1] for ranks in draws)
    assert set(second) == {3, 4, 6}
    assert second[3] / 3000 == pytest.approx(3 / 4, abs=0.03)
    assert second[4] / 3000 == pytest.approx(3 / 16, abs=0.03)
    # No rank comes later than in any log: 2 has its last place in the ninth row of others, 3 in the eighth.
    assert max(ranks.index(2) for ranks in draws) <= 8
    assert max(ranks.index(3) for ranks in draws) <= 6


def test_jobs_are_as_many_as_a_values_popularity_says():
    sizes = [14.0491 * math.exp(-0.177531 * x) + 0.462513 for x in range(2, 21)]
    sizes = [89 - sum(sizes), *sizes]
    for seed in range(10):
        ranks = _head_ranks(np.random.default_rng(seed))  # what is drawn first
        times, counts = distribution(10_000, 36 * H, np.random.default_rng(seed))
        jobs = dict(zip(times.tolist(), counts.tolist(), strict=True))
        for time, rank in zip(_head_times(36 * H), ranks, strict=True):
            assert jobs[time] == pytest.approx(100 * sizes[rank - 1], abs=1)
