"""What chunks tell of iteration costs and of the PEs' speeds, where neither is known.

A chunk of PE p took t = C / s_p seconds: C the sum of its iterations' costs, s_p the speed of the PE. Costs
are averaged over bins of neighbouring iterations, which all time steps share; speeds are of each time step.
Both are found in turns, a few times: costs from the times at the speeds known, then speeds from the costs.
What is left of the times gives the standard deviation of one iteration about its bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mlsim._arrays import Floats, Mask
from mlsim._jit import kernel
from mlsim.application.costs import prefix_sums
from mlsim.application.selection.facts import ExecutedChunks

__all__ = ["ByProfile", "Estimate", "by_profile", "estimate", "speeds_by_profile", "speeds_with", "when_free"]

_BINS, _CHUNKS_A_BIN = 512, 4
_ROUNDS = 12
_NEAR = 1.0 / 8.0
"""Share of the loop over which what is known of its costs comes to count less by a factor of e elsewhere."""


class Estimate(NamedTuple):
    """Costs along the loop and speeds of the PEs; at speed 1 a PE is as fast as the mean of the last step."""

    mean: Floats
    """float64[B]: mean cost of an iteration in each bin, in s at speed 1."""
    bounds: Floats
    """float64[B + 1]: where bins begin and end, as iterations."""
    deviation: float
    """Standard deviation of an iteration's cost about the mean of its bin, in s at speed 1."""
    speed: Floats
    """float64[P]: speeds in the last time step."""

    def costs(self, n: int, random: np.random.Generator) -> Floats:
        """Draw the costs of ``n`` iterations, in s at speed 1: gamma about the means of their bins."""
        return self._drawn(np.arange(n, dtype=np.float64) + 0.5, 1, random)

    def draw_prefix(self, prefix: Floats, random: np.random.Generator, draws: int) -> None:
        """Draw the prefix sums of costs, float64[N+1], with so many random numbers at most.

        Where there are more iterations, neighbours share the mean of as many costs.
        """
        n = len(prefix) - 1
        length = max(-(-n // draws), 1)
        begin = np.arange(0, n, length, dtype=np.float64)
        middle = 0.5 * (begin + np.minimum(begin + length, n))
        sum_blocks(self._drawn(middle, length, random), length, prefix)

    def _drawn(self, middle: Floats, length: int, random: np.random.Generator) -> Floats:
        """Draw the mean cost of ``length`` iterations about each of some places."""
        mean = self.mean[np.clip(np.searchsorted(self.bounds, middle) - 1, 0, len(self.mean) - 1)]
        if self.deviation <= 0.0:
            return mean
        shape = (mean / self.deviation) ** 2 * length
        drawn = random.gamma(np.maximum(shape, 1e-3)) * np.divide(
            self.deviation**2 / length, mean, out=np.zeros(len(mean)), where=mean > 0.0
        )
        return np.where(shape > 1e-3, drawn, mean)

    def work(self, chunks: ExecutedChunks) -> Floats:
        """Return what each chunk should take at speed 1, in s."""
        row, place, overlap = _by_bins(chunks, self.bounds)
        return np.bincount(row, overlap * self.mean[place], len(chunks.size)).astype(np.float64)


@kernel
def sum_blocks(mean: Floats, length: int, prefix: Floats) -> None:
    """Sum up the costs of iterations, of which each ``length`` neighbours cost their block's mean."""
    n = len(prefix) - 1
    prefix[0] = total = 0.0
    for block in range(len(mean)):
        first = block * length
        for k in range(first, min(first + length, n)):
            prefix[k + 1] = total + (k + 1 - first) * mean[block]
        total = prefix[min(first + length, n)]


class ByProfile(NamedTuple):
    """Known costs, and speeds of the PEs, which take up what all costs are too high or too low by."""

    profile: Floats
    """float64[N]: costs of the iterations, in s at speed 1."""
    speed: Floats
    """float64[P]: speeds in the last time step."""

    def work(self, chunks: ExecutedChunks) -> Floats:
        """Return what each chunk should take at speed 1, in s."""
        return _work_by_profile(self.profile, chunks)


def speeds_with(speed: Floats, before: Floats, seen: Mask) -> Floats:
    """Return speeds where PEs that were not ``seen`` in the last step are as fast as ``before``.

    That is, in proportion to the others: the whole may have become faster or slower.
    """
    if not seen.any() or seen.all():
        return speed
    scale = float(np.median(speed[seen] / before[seen]))
    return np.where(seen, speed, before * scale)


def when_free(known: Estimate | ByProfile, running: ExecutedChunks, p: int) -> tuple[Floats, Floats]:
    """Return from now when each PE comes free, in s, and its speed.

    A chunk takes what its iterations cost at the PE's speed. One that has taken longer already is expected to
    take as long again as it is late by now, and its PE to be as slow as that tells.

    Parameters
    ----------
    known
        Costs and speeds.
    running
        The chunks that PEs execute, one a PE at most; ``seconds`` since the begin of each.
    p
        PEs; those without a chunk are free now.
    """
    free, speed = np.zeros(p), known.speed.copy()
    work = known.work(running)
    length = work / speed[running.pe]
    late = running.seconds - length
    length = np.where(late > 0.0, running.seconds + late, length)
    free[running.pe] = length - running.seconds
    overdue = (late > 0.0) & (work > 0.0)
    speed[running.pe[overdue]] = work[overdue] / length[overdue]
    return free, speed


def speeds_by_profile(costs: Floats, step: ExecutedChunks, p: int) -> Floats:
    """Return the speed of each PE that the chunks of a time step tell where costs are known.

    Speeds take up what all costs are too high or too low by.
    """
    return _speeds_of(step, _work_by_profile(costs, step), p)


def by_profile(costs: Floats, step: ExecutedChunks, p: int) -> ByProfile:
    """Return what is known where the costs of the iterations are, and the chunks of a time step."""
    return ByProfile(costs, speeds_by_profile(costs, step, p))


def _work_by_profile(costs: Floats, chunks: ExecutedChunks) -> Floats:
    prefix = prefix_sums(costs)
    work: Floats = prefix[chunks.first + chunks.size] - prefix[chunks.first]
    return work


def estimate(steps: Sequence[ExecutedChunks], n: int, p: int) -> Estimate:
    """Estimate costs and speeds from the chunks of time steps of one loop.

    Parameters
    ----------
    steps
        The chunks of each, the last one at the end; one or more, and not all without a chunk.
    n, p
        Iterations and PEs of the loop.
    """
    known = sum(len(step.size) for step in steps)
    bounds = np.linspace(0.0, n, min(n, _BINS, max(known // _CHUNKS_A_BIN, 1)) + 1)
    chunks = [_by_bins(step, bounds) for step in steps]
    speeds = [np.ones(p) for _ in steps]
    mean = np.zeros(len(bounds) - 1)
    for _ in range(_ROUNDS):
        mean = _costs(steps, chunks, speeds, len(bounds) - 1)
        speeds = [_speeds(step, *parts, mean, p) for step, parts in zip(steps, chunks, strict=True)]
        scale = speeds[-1].mean()
        speeds = [speed / scale for speed in speeds]
        mean = mean * scale
    squares = counted = 0.0
    for step, (row, place, overlap), speed in zip(steps, chunks, speeds, strict=True):
        expected = np.bincount(row, overlap * mean[place], len(step.size))
        error = step.seconds * speed[step.pe] - expected
        squares += float((error**2 / step.size).sum())
        counted += len(step.size)
    return Estimate(mean, bounds, float(np.sqrt(squares / max(counted, 1.0))), speeds[-1])


def _by_bins(step: ExecutedChunks, bounds: Floats) -> tuple[np.ndarray, np.ndarray, Floats]:
    """Cut chunks at the bounds of bins; return of each part its chunk, its bin and its iterations."""
    begin, end = step.first.astype(np.float64), (step.first + step.size).astype(np.float64)
    first = np.searchsorted(bounds, begin, "right") - 1
    last = np.searchsorted(bounds, end, "left")
    count = last - first
    row = np.repeat(np.arange(len(begin)), count)
    place = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    overlap = np.minimum(bounds[place + 1], end[row]) - np.maximum(bounds[place], begin[row])
    return row, place, overlap


def _costs(
    steps: Sequence[ExecutedChunks],
    chunks: Sequence[tuple[np.ndarray, np.ndarray, Floats]],
    speeds: Sequence[Floats],
    bins: int,
) -> Floats:
    """Return the mean cost in each bin; a small chunk, which tells more of its place, counts for more.

    A bin of which nothing is known has the mean of all others, of which near ones count for more.
    """
    work, weight = np.zeros(bins), np.zeros(bins)
    for step, (row, place, overlap), speed in zip(steps, chunks, speeds, strict=True):
        cost = step.seconds * speed[step.pe] / step.size
        share = overlap / step.size[row]
        work += np.bincount(place, share * cost[row], bins)
        weight += np.bincount(place, share, bins)
    known = weight > 0.0
    mean: Floats = np.divide(work, weight, out=np.zeros(bins), where=known)
    if not known.all() and known.any():
        unknown, here = np.flatnonzero(~known), np.flatnonzero(known)
        away = np.abs(unknown[:, None] - here[None, :]) - 1.0
        counts = weight[here] * np.exp(-away / (_NEAR * bins))
        mean[unknown] = counts @ mean[here] / counts.sum(axis=1)
    return mean


def _speeds(
    step: ExecutedChunks, row: np.ndarray, place: np.ndarray, overlap: Floats, mean: Floats, p: int
) -> Floats:
    """Return the speed of each PE in a time step; one that executed nothing is as fast as the median."""
    expected: Floats = np.bincount(row, overlap * mean[place], len(step.size)).astype(np.float64)
    return _speeds_of(step, expected, p)


def _speeds_of(step: ExecutedChunks, expected: Floats, p: int) -> Floats:
    """Return the speed of each PE, by what its chunks cost at speed 1; others are as fast as the median."""
    work = np.bincount(step.pe, expected, p)
    seconds = np.bincount(step.pe, step.seconds, p)
    known = (seconds > 0.0) & (work > 0.0)
    speed = np.ones(p)
    if known.any():
        speed[known] = work[known] / seconds[known]
        speed[~known] = float(np.median(speed[known]))
    return speed
