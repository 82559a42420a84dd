"""Iteration costs, speeds and overheads estimated from chunks."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.application.iteration_costs import CostSums, prefix_sums
from mlsim.application.selection.selector import ExecutedChunks
from mlsim.execution_models import MODELS

_BINS, _CHUNKS_A_BIN = 512, 4
_ROUNDS = 12
_NEAR = 1.0 / 8.0
"""Distance, as a share of the loop, over which the weight of a known bin decreases by a factor of e."""


class Estimate(NamedTuple):
    """Costs along the loop and speeds of the PEs; speed 1 is the mean speed in the last time step."""

    mean: Floats  # float64[B]: mean cost of an iteration per bin, in s at speed 1
    bounds: Floats  # float64[B + 1]: bounds of the bins, as iterations
    deviation: float  # standard deviation of an iteration's cost about the mean of its bin, in s at speed 1
    speed: Floats  # float64[P]: speeds in the last time step

    def costs(self, n: int, random: np.random.Generator) -> Floats:
        """Draw the costs of ``n`` iterations, in s at speed 1: gamma about the means of their bins."""
        return self._sample(np.arange(n, dtype=np.float64) + 0.5, 1, random)

    def draw_sums(self, n: int, random: np.random.Generator, draws: int) -> CostSums:
        """Draw the costs of ``n`` iterations with at most ``draws`` random numbers, one per block."""
        length = max(-(-n // draws), 1)
        begin = np.arange(0, n, length, dtype=np.float64)
        count = np.minimum(begin + length, n) - begin
        return CostSums(n, length, prefix_sums(self._sample(begin + 0.5 * count, length, random) * count))

    def _sample(self, middle: Floats, length: int, random: np.random.Generator) -> Floats:
        """Draw the mean cost of ``length`` iterations around each of some positions."""
        mean = self.mean[np.clip(np.searchsorted(self.bounds, middle) - 1, 0, len(self.mean) - 1)]
        if self.deviation <= 0.0:
            return mean
        shape = (mean / self.deviation) ** 2 * length
        drawn = random.gamma(np.maximum(shape, 1e-3)) * np.divide(
            self.deviation**2 / length, mean, out=np.zeros(len(mean)), where=mean > 0.0
        )
        return np.where(shape > 1e-3, drawn, mean)

    def work(self, chunks: ExecutedChunks) -> Floats:
        """Return the expected time of each chunk at speed 1, in s."""
        row, place, overlap = _by_bins(chunks.first, chunks.size, self.bounds)
        return np.bincount(row, overlap * self.mean[place], len(chunks.size)).astype(np.float64)


class ByProfile(NamedTuple):
    """Known costs, and speeds of the PEs, which absorb a common error of all costs."""

    profile: Floats  # float64[N]: costs of the iterations, in s at speed 1
    speed: Floats  # float64[P]: speeds in the last time step

    def work(self, chunks: ExecutedChunks) -> Floats:
        """Return the expected time of each chunk at speed 1, in s."""
        return _work_by_profile(self.profile, chunks)


def speeds_with(speed: Floats, before: Floats, seen: Mask) -> Floats:
    """Return ``speed`` with the speeds ``before`` for PEs that were not ``seen`` in the last step."""
    if not seen.any() or seen.all():
        return speed
    # Relative to the others, as all PEs may have become faster or slower.
    scale = float(np.median(speed[seen] / before[seen]))
    return np.where(seen, speed, before * scale)


def when_free(known: Estimate | ByProfile, running: ExecutedChunks, p: int) -> tuple[Floats, Floats]:
    """Return when each PE is free, in s from now, and its speed.

    ``running``: at most one chunk per PE, with the ``seconds`` since its start. An overdue one is expected to
    become twice as late as it is now; its PE has the resulting speed.
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


def by_profile(costs: Floats, step: ExecutedChunks, p: int) -> ByProfile:
    """Return known costs, with the speed of each PE from the chunks of a time step."""
    speed = np.ones(p)
    _find_speeds(step.pe, step.seconds, _work_by_profile(costs, step), 0, speed)
    return ByProfile(costs, speed)


def _work_by_profile(costs: Floats, chunks: ExecutedChunks) -> Floats:
    prefix = prefix_sums(costs)
    work: Floats = prefix[chunks.first + chunks.size] - prefix[chunks.first]
    return work


def estimate(steps: Sequence[ExecutedChunks], n: int, p: int) -> Estimate:
    """Estimate costs and speeds from the chunks of time steps of a loop, in order; one chunk or more."""
    pe, first, size, seconds = (np.concatenate(column) for column in zip(*steps, strict=True))
    before = np.cumsum([0, *(len(step.size) for step in steps)])
    return Estimate(*_estimate(pe, first, size, seconds, before, n, p))


class _Columns(NamedTuple):
    """Chunks of all time steps, and their parts within a bin."""

    pe: Ints  # s·P + p in step s on PE p
    size: Ints
    seconds: Floats
    before: Ints  # chunks before each time step, and in total
    row: Ints  # chunk of each part
    place: Ints  # bin of each part
    overlap: Floats  # iterations of each part


@kernel
def _estimate(
    pe: Ints, first: Ints, size: Ints, seconds: Floats, before: Ints, n: int, p: int
) -> tuple[Floats, Floats, float, Floats]:
    """Estimate from the chunks of all time steps, in order; return the fields of an Estimate."""
    known, steps = len(size), len(before) - 1
    bins = min(n, _BINS, max(known // _CHUNKS_A_BIN, 1))
    bounds = np.linspace(0.0, n, bins + 1)
    row, place, overlap = _by_bins(first, size, bounds)
    step_of, of_all = np.zeros(known, np.int64), np.zeros(known, np.int64)
    executes = np.zeros(steps * p, np.bool_)
    for step in range(steps):
        step_of[before[step] : before[step + 1]] = step
    for chunk in range(known):
        of_all[chunk] = step_of[chunk] * p + pe[chunk]
        executes[of_all[chunk]] = True
    equal = _Columns(step_of, size, seconds, before, row, place, overlap)
    mean, one_speed, deviation, squares = _fit(equal, bins, 1)
    speed = np.full(p, one_speed[-1])
    if p > 1:
        each = _Columns(of_all, size, seconds, before, row, place, overlap)
        of_each = _fit(each, bins, p)
        by_chance = np.log(max(known, 3)) ** (-2.0 * (executes.sum() - steps) / known)
        if of_each[3] < squares * by_chance:  # a speed per PE fits better than by chance
            mean, speeds, deviation, _ = of_each
            speed = _damped_speeds(speeds, executes, p)
    return mean, bounds, deviation, speed


@kernel
def _damped_speeds(speeds: Floats, executes: Mask, p: int) -> Floats:
    """Return the speeds expected in the next time step, with a mean of 1: damped if they do not last.

    Speeds that change from step to step as much as they differ between PEs predict nothing. A single change
    does not count: the smallest of the last changes decides.
    """
    steps = len(speeds) // p
    last = speeds[(steps - 1) * p :]
    deviation = np.zeros((steps, p))
    both = executes[(steps - 1) * p :].copy()
    for step in range(max(steps - 3, 0), steps):
        both &= executes[step * p : (step + 1) * p]
    count = both.sum()
    if steps < 2 or count < 2:
        return last.copy()
    for step in range(max(steps - 3, 0), steps):
        own = np.log(speeds[step * p : (step + 1) * p])
        deviation[step] = own - own[both].mean()
    changes = np.inf
    for step in range(max(steps - 3, 0), steps - 1):
        change = (deviation[step + 1] - deviation[step])[both]
        changes = min(changes, 0.5 * (change**2).sum())
    squares = (deviation[steps - 1][both] ** 2).sum()
    found = last ** (max(1.0 - changes / squares, 0.0) if squares > 0.0 else 1.0)
    scaled: Floats = found * (p / found.sum())
    return scaled


@kernel
def _by_bins(first: Ints, size: Ints, bounds: Floats) -> tuple[Ints, Ints, Floats]:
    """Split chunks at the bounds of bins; return the chunk, the bin and the iterations of each part."""
    begin, end = np.searchsorted(bounds, first, "right") - 1, np.searchsorted(bounds, first + size)
    parts = (end - begin).sum()
    row, place, overlap = np.zeros(parts, np.int64), np.zeros(parts, np.int64), np.zeros(parts)
    part = 0
    for chunk in range(len(size)):
        for here in range(begin[chunk], end[chunk]):
            low, high = max(bounds[here], first[chunk]), min(bounds[here + 1], first[chunk] + size[chunk])
            row[part], place[part], overlap[part] = chunk, here, high - low
            part += 1
    return row, place, overlap


@kernel
def _fit(columns: _Columns, bins: int, p: int) -> tuple[Floats, Floats, float, float]:
    """Fit costs and speeds alternately to the chunks' times.

    Returns the mean cost per bin, the speeds of all time steps in order (the last step has the mean 1), the
    standard deviation of an iteration's cost in s at speed 1, and Σ residual²/size of the chunks in s².
    """
    pe, size, seconds, before, row, place, overlap = columns
    steps = len(before) - 1
    speed = np.ones(steps * p)
    mean, expected = np.zeros(bins), np.zeros(len(size))
    for _ in range(_ROUNDS):
        _find_costs(columns, speed, mean)
        _expect(row, place, overlap, mean, expected)
        for step in range(steps):
            a, b, first = before[step], before[step + 1], step * p
            _find_speeds(pe[a:b], seconds[a:b], expected[a:b], first, speed[first : first + p])
        _scale(speed, mean, p)
    _expect(row, place, overlap, mean, expected)
    work = time = 0.0
    for chunk in range(len(size)):
        fast = speed[pe[chunk]]
        error = seconds[chunk] * fast - expected[chunk]
        work += error**2 / size[chunk]
        time += (error / fast) ** 2 / size[chunk]
    deviation = np.sqrt(work / max(len(size), 1))
    return mean, speed, deviation, time


@kernel
def _find_costs(columns: _Columns, speed: Floats, mean: Floats) -> None:
    """Find the mean cost in each bin from its chunks, weighted by 1/size, as small chunks are more local.

    A bin without chunks has the mean of all others, weighted by their closeness.
    """
    pe, size, seconds, _, row, place, overlap = columns
    bins = len(mean)
    work, weight = np.zeros(bins), np.zeros(bins)
    for part in range(len(row)):
        chunk = row[part]
        share = overlap[part] / size[chunk]
        work[place[part]] += share * seconds[chunk] * speed[pe[chunk]] / size[chunk]
        weight[place[part]] += share
    for here in range(bins):
        if weight[here] > 0.0:
            mean[here] = work[here] / weight[here]
    for here in range(bins):
        if weight[here] > 0.0:
            continue
        total = counted = 0.0
        for other in range(bins):
            if weight[other] > 0.0:
                counts = weight[other] * np.exp((1.0 - abs(other - here)) / (_NEAR * bins))
                total += counts * mean[other]
                counted += counts
        mean[here] = total / counted if counted > 0.0 else 0.0


@kernel
def _expect(row: Ints, place: Ints, overlap: Floats, mean: Floats, expected: Floats) -> None:
    """Compute the expected time of each chunk at speed 1, in s."""
    for chunk in range(len(expected)):
        expected[chunk] = 0.0
    for part in range(len(row)):
        expected[row[part]] += overlap[part] * mean[place[part]]


@kernel
def _find_speeds(pe: Ints, seconds: Floats, expected: Floats, first: int, speed: Floats) -> None:
    """Find the speeds of the PEs from number ``first`` on: expected by measured time of their chunks.

    PEs without chunks have the median speed.
    """
    p = len(speed)
    work, took, known = np.zeros(p), np.zeros(p), np.zeros(p)
    for chunk in range(len(pe)):
        work[pe[chunk] - first] += expected[chunk]
        took[pe[chunk] - first] += seconds[chunk]
    count = 0
    for one in range(p):
        if took[one] > 0.0 and work[one] > 0.0:
            known[count] = speed[one] = work[one] / took[one]
            count += 1
    if count == p:
        return
    middle = 1.0
    if count > 0:
        known[:count].sort()
        middle = 0.5 * (known[(count - 1) // 2] + known[count // 2])
    for one in range(p):
        if not (took[one] > 0.0 and work[one] > 0.0):
            speed[one] = middle


@kernel
def _scale(speed: Floats, mean: Floats, p: int) -> None:
    """Scale speeds and costs so that the last ``p`` speeds, those of the last time step, have the mean 1."""
    total = 0.0
    for one in range(len(speed) - p, len(speed)):
        total += speed[one]
    scale = total / p
    for one in range(len(speed)):
        speed[one] /= scale
    for here in range(len(mean)):
        mean[here] *= scale


def has_masters(model: str) -> bool:
    """Whether PEs request chunks from a master, under a built-in model."""
    return any(model == known.name and known.properties.masters for known in MODELS.values())


class Waits(NamedTuple):
    """Waiting times of a loop's requests."""

    typical: float  # median [s]
    beyond: float  # excess of the mean over the median [s], 0 or more: a rank may have to wait for a core


def charges_of_waits(model: str, waits: Waits) -> dict[str, float]:
    """Return the keys of ``application.execution`` to which the waits of a loop are charged, with values [s].

    With masters the typical wait is their work, longer ones are queueing; otherwise it is the two atomics of
    a chunk, which all PEs share, and the excess delays a single PE.
    """
    if has_masters(model):
        return {"chunk_assignment": waits.typical}
    return {"atomic_service": waits.typical / 2.0, "chunk_calculation": waits.beyond}


def waits_of(pe: Ints, requested: Floats, start: Floats, end: Floats) -> Waits:
    """Return the waits [s] of PEs for their chunks, from the request or the end of the previous chunk."""
    order = np.lexsort((start, pe))
    pe, free = pe[order], requested[order]
    same = pe[1:] == pe[:-1]
    free[1:][same] = np.maximum(free[1:], end[order][:-1])[same]
    waited = start[order] - free
    typical = float(np.median(waited))
    return Waits(typical, max(float(waited.mean()) - typical, 0.0))
