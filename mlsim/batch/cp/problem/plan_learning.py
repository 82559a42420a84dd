"""Model reduction, and what ``cp`` learns while it dispatches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.batch.allocators.node_fit import note_request
from mlsim.batch.cp.problem.instance import NODE, Instance
from mlsim.batch.cp.problem.plan import LATER, Plan
from mlsim.batch.cp.problem.unit_packing import first_that_fit
from mlsim.batch.view import StateView

_FORGET = 0.999
"""What an observation is worth when the next one has been made."""
_BINS_PER_OCTAVE = 2
_N_BINS = 96
_MUCH_SHORTER = 13
"""Bins between a job and those for which it leaves room: 2^(13/2), 90 times shorter."""


class Experience:
    """What the passes so far have shown.

    Attributes
    ----------
    expected : dict of int to float
        The end that was expected of each running job when it was first seen, by number.
    """

    def __init__(self) -> None:
        self.expected: dict[int, float] = {}
        self._began: dict[int, float] = {}
        self._right = 0.0
        self._seen = 0.0
        self._before = -np.inf  # time of the pass before
        self._arrivals = np.zeros(_N_BINS)
        self._newest = -1
        self._asked: Floats = np.zeros(1)  # the last one counts arrivals

    def observe(self, view: StateView) -> None:
        """Take note of the jobs that have gone and of those that have come since the last pass."""
        running = view.running
        now_running = dict(zip(running.number.tolist(), range(len(running)), strict=True))
        for number in [number for number in self.expected if number not in now_running]:
            began = self._began.pop(number)
            estimate = self.expected.pop(number) - began
            # It ended after the pass before and not after this one. Where that leaves open whether the
            # estimate was right, nothing is learned.
            least, most = max(self._before - began, 1.0), max(view.now - began, 1.0)
            right = 0.5 * most <= estimate <= 2.0 * least
            if right or estimate < 0.5 * least or estimate > 2.0 * most:
                self._seen = self._seen * _FORGET + 1.0
                self._right = self._right * _FORGET + right
        for number, row in now_running.items():
            if number not in self.expected:
                self.expected[number] = float(running.expected_end[row])
                self._began[number] = float(running.start_time[row])
        self._before = view.now
        new = view.waiting.number > self._newest
        if new.any():
            self._newest = int(view.waiting.number[new].max())
            for place in _bins(view.waiting.estimate[new]).tolist():
                self._arrivals *= _FORGET
                self._arrivals[place] += 1.0
            if len(self._asked) == 1:
                self._asked = np.zeros(view.waiting.request.shape[1] + 1)
            for request in np.array(view.waiting.request[new], np.int64, order="C"):
                note_request(request, self._asked)

    @property
    def trust(self) -> float:
        """How far to trust estimates, 0 to 1.

        0 where less than nine in ten of the jobs that ended ran within a factor of 2 of their estimate, and
        before 20 have ended; 1 where all did.
        """
        if self._seen < 20.0:
            return 0.0
        return max(10.0 * self._right / self._seen - 9.0, 0.0)

    def asked(self, resources: int) -> Floats:
        """Return how many arrivals request each resource type, and how many there were.

        Where nodes are given whole, an instance has ``node`` before the types of the view, for which all
        ask.
        """
        asked: Floats = np.full(resources + 1, self._asked[-1])
        asked[resources + 1 - len(self._asked) :] = self._asked
        return asked

    def share_much_shorter(self, durations: Ints) -> Floats:
        """Return, for each duration, the share of arrivals that are at least 90 times shorter."""
        below = np.cumsum(self._arrivals)
        place = _bins(durations.astype(np.float64)) - _MUCH_SHORTER
        share: Floats = np.where(place >= 0, below[np.maximum(place, 0)], 0.0) / max(below[-1], 1.0)
        return share


def _bins(seconds: Floats) -> Ints:
    places = np.floor(_BINS_PER_OCTAVE * np.log2(np.maximum(seconds, 1.0))).astype(np.int64)
    clipped: Ints = np.clip(places, 0, _N_BINS - 1)
    return clipped


_ROUNDING = 1e-9
"""Share by which sums of doubles may be too large."""


def least_makespan(instance: Instance) -> int:
    """Return the seconds from now before which the queued jobs cannot all have ended.

    Until then as much amount x time of each resource type must have been free, over all nodes, as they ask
    for, and of each amount that the machine has as a whole; of a power cap, what they add at least.
    """
    queued, running = instance.queued, instance.running
    asked = queued.request * queued.units[:, None]
    held = running.request * running.units[:, None]
    needs = (asked * queued.duration[:, None].astype(np.float64)).sum(axis=0)
    free = instance.free.sum(axis=0)
    ends = running.remaining
    filled = [_filled(ends, held[:, r], int(free[r]), float(needs[r])) for r in range(len(free))]
    whole = instance.shared
    needs = (whole.asked_by(len(queued)) * queued.duration[:, None].astype(np.float64)).sum(axis=0)
    filled += [
        _filled(whole.remaining, whole.held[:, k], int(whole.free[k]), float(needs[k]))
        for k in range(len(whole.names))
    ]
    power = instance.power
    if power:
        need = float(power.least.astype(np.float64) @ queued.duration)
        filled.append(_filled(power.remaining, power.held, power.free, need))
    return max(filled, default=0)


def _filled(ends: Ints, held: Ints, free: int, need: float) -> int:
    """Return when as much of a type has been free as is needed."""
    order = np.argsort(ends, kind="stable")
    time, left, rate = 0, need * (1 - _ROUNDING), float(free)
    for end, amount in zip(ends[order].tolist(), held[order].tolist(), strict=True):
        usable = max(rate, 0.0)  # less than nothing is free where a cap has fallen
        if left <= usable * (end - time):
            break
        left -= usable * (end - time)
        time, rate = end, rate + amount
    return time + (int(np.ceil(left / rate)) if left > 0 and rate > 0 else 0)


@dataclass(frozen=True, slots=True)
class Reduced:
    """The part of an instance that a model is made for."""

    instance: Instance
    """Queued jobs in order of priority, and the resource types that matter to them."""
    rows: Ints
    """Which queued jobs of the whole instance they are."""
    whole: int
    """How many queued jobs the whole instance has."""

    def widen(self, plan: Plan) -> Plan:
        """Make a plan for the whole instance of one for this part."""
        start = np.full(self.whole, LATER, np.int64)
        start[self.rows] = plan.start
        nodes: list[Ints | None] = [None] * self.whole
        for row, chosen in zip(self.rows.tolist(), plan.nodes, strict=True):
            nodes[row] = chosen
        return Plan(start, tuple(nodes))


def by_priority(priority: Floats, arrival: Floats) -> Ints:
    """Order jobs: larger priority first, then earlier arrival, then as they come."""
    return np.lexsort((arrival, -priority))


def needed_resources(instance: Instance) -> Ints:
    """Return the indices of the resource types that can keep a queued job from starting.

    A type that no queued job asks for is dropped; so is, where nodes are given whole, one of which every
    node in use has enough for every job.
    """
    if not len(instance.queued):
        return np.arange(min(1, len(instance.resources)))
    largest = instance.queued.request.max(axis=0)
    matters = largest > 0
    if instance.resources[0] == NODE:
        in_use = instance.capacity[:, 0] > 0
        enough = (instance.capacity[in_use] >= largest).all(axis=0)
        matters &= ~enough
        matters[0] = True
    return np.flatnonzero(matters)


def reduce(instance: Instance, most: int, priority: Floats | None = None) -> Reduced:
    """Keep the first ``most`` jobs that could start now, and the resource types that somebody asks for.

    Jobs are considered in order of priority, then arrival. A job could start now if enough of every type
    and of what the machine has as a whole is free, and enough units fit on the nodes, on some such that a
    power cap allows it. The others stay queued, out of the model.
    """
    queued = instance.queued
    order = by_priority(instance.priority() if priority is None else priority, queued.arrival)
    order = order[instance.shared.fits_now(len(queued))[order]]
    rows = first_that_fit(order, most, queued.units, queued.request, instance.free, instance.power)
    part = instance.with_queued(rows)
    return Reduced(part.without_resources(needed_resources(part)), rows, len(queued))
