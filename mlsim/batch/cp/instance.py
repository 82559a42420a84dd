"""An instance: the dispatching problem of one pass."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats, Ints, NDArray
from mlsim.batch.view import StateView

NODE = "node"  # the resource of which every node has one where nodes are given whole
MOST = 2**62  # upper bound of sums of columns, so that none overflows 64 bits
NO_PLACE = np.iinfo(np.int64).max // 4  # power where not all units of a job fit: more than any cap
_MOST = 2**62  # power x time that CP-SAT may add up


@dataclass(frozen=True, slots=True)
class Running:
    """Boxes of running jobs, one row per (job, node)."""

    job_id: Ints  # int64[b]: the job
    node: Ints  # int64[b]: where the units are
    units: Ints  # int64[b]: units of the job on this node
    request: Ints  # int64[b, R]: amounts held by one unit
    remaining: Ints  # int64[b]: seconds from now until the expected end, at least 1
    elapsed: Ints  # int64[b]: seconds since the start
    late: Ints  # int64[b]: seconds since the end that was expected when the job started, 0 before it

    def __len__(self) -> int:
        return self.job_id.size


@dataclass(frozen=True, slots=True)
class Queued:
    """Waiting jobs, one row each, in order of arrival."""

    job_id: Ints  # int64[n]: the job
    arrival: Floats  # float64[n]: submission time in seconds
    units: Ints  # int64[n]: identical units
    request: Ints  # int64[n, R]: request of one unit
    duration: Ints  # int64[n]: expected duration in whole seconds, rounded up, at least 1
    ewt: Floats  # float64[n]: expected wait in the submission queue (s), above 0; for versions 1 and 2

    def __len__(self) -> int:
        return self.job_id.size

    def take(self, rows: Ints) -> Queued:
        """Return the queued jobs of some rows."""
        return Queued(**{name: getattr(self, name)[rows] for name in self.__slots__})


def _none() -> Ints:
    return np.zeros(0, np.int64)


def _no_rows() -> Ints:
    return np.zeros((0, 0), np.int64)


class PowerLimit(NamedTuple):
    """A cap as seen by kernels that place units now."""

    of_node: Ints  # int64[N]: power that a held node, or core, adds (microwatts)
    cheapest: Ints  # int64[N]: nodes by power, the least first
    counts: Ints  # int64[n]: nodes, or cores, per unit of each job that count for power
    left: int  # power that jobs may add now (microwatts)


@dataclass(frozen=True, slots=True)
class PowerPart:
    """A cap on power and what jobs take of it; empty where no cap can keep a job waiting."""

    # Power is in microwatts; of a node, or a core if nodes are shared.
    free: int = 0  # that jobs may add now; below 0 where a cap has fallen below what running jobs take
    of_node: Ints = field(default_factory=_none)  # int64[N]: that a held node adds
    counts: Ints = field(default_factory=_none)  # int64[n]: nodes that count per unit of each queued job
    least: Ints = field(default_factory=_none)  # int64[n]: of each, the least; NO_PLACE if it does not fit
    held: Ints = field(default_factory=_none)  # int64[m]: power of each running job
    remaining: Ints = field(default_factory=_none)  # int64[m]: s until its expected end, at least 1

    def __bool__(self) -> bool:
        return len(self.of_node) > 0

    @property
    def capacity(self) -> int:
        """Power that all jobs together may add (microwatts)."""
        return max(self.free + int(self.held.sum()), 0)

    def counts_of(self, n: int) -> Ints:
        """Return the counts of ``n`` queued jobs; 0 without a cap."""
        return self.counts if self else np.zeros(n, np.int64)

    def shares(self) -> Floats:
        """Return the least power of each queued job as a fraction of what all may add."""
        return self.least / max(self.capacity, 1)

    def added(self, job: int, nodes: Ints) -> int:
        """Return the power of a queued job with its units on these nodes (microwatts)."""
        return int(self.counts[job]) * int(self.of_node[nodes].sum())

    def take(self, rows: Ints) -> PowerPart:
        """Keep only some queued jobs, in the order given."""
        return replace(self, counts=self.counts[rows], least=self.least[rows]) if self else self

    def limit(self) -> PowerLimit:
        """Return the cap for kernels that place units now."""
        return PowerLimit(self.of_node, np.argsort(self.of_node, kind="stable"), self.counts, self.free)

    def measure(self, horizon: int, more: int = 0) -> int:
        """Return the unit of power (microwatts) of CP-SAT models for plans of this horizon (s).

        It divides the power of every node, or core, so that nothing is rounded. Only where power x time would
        exceed 2^62 units it is larger, by as little as possible; ``more`` is added to the cap.
        """
        exact = max(math.gcd(*self.of_node.tolist()), 1)
        return max(exact, math.ceil((self.capacity + more) * max(horizon, 1) / _MOST))

    @classmethod
    def of(
        cls,
        of_node: Ints,
        free: int,
        counts: Ints,
        held: Ints,
        remaining: Ints,
        units: Ints,
        request: Ints,
        capacity: Ints,
    ) -> PowerPart:
        """Make the part from its columns, the requests of queued jobs and the capacities of nodes."""
        least = least_powers(units, request, counts, of_node, capacity)
        return cls(free, of_node, counts, least, held, remaining)


def ranks_of(power: Ints) -> Ints:
    """Return the rank of each power, 0 for the least; equal powers have equal ranks."""
    if not len(power):
        return power
    _, ranks = np.unique(power, return_inverse=True)
    return ranks.reshape(-1).astype(np.int64)


def least_powers(units: Ints, request: Ints, counts: Ints, of_node: Ints, room: Ints) -> Ints:
    """Return the least power of each job (microwatts); NO_PLACE where not all units fit.

    ``units`` (n,) and ``request`` (n, R) are those of jobs, ``room`` (N, R) is that of nodes.
    """
    alike, sizes = np.unique(np.column_stack((of_node, room)), axis=0, return_counts=True)
    rooms = np.ascontiguousarray(alike[:, 1:])
    return _least_powers(units, request, counts, alike[:, 0].copy(), sizes.astype(np.int64), rooms)


@kernel
def _least_powers(units: Ints, request: Ints, counts: Ints, powers: Ints, sizes: Ints, rooms: Ints) -> Ints:
    """Fill classes of nodes in their order, those of least power first."""
    least = np.empty(len(units), np.int64)
    for job in range(len(units)):
        left, total = units[job], 0
        for c in range(len(powers)):
            fit = left
            for r in range(request.shape[1]):
                if request[job, r] > 0:
                    fit = min(fit, rooms[c, r] // request[job, r])
            here = min(left, fit * sizes[c])
            total += here * powers[c]
            left -= here
        least[job] = total * counts[job] if left == 0 else NO_PLACE
    return least


POWER_CAP = "power cap"  # name of the amount that represents the cap; names in a platform contain no space


@dataclass(frozen=True, slots=True)
class SharedPart:
    """Machine-wide amounts that a job holds from its start to its end."""

    names: tuple[str, ...] = ()  # of the S amounts
    capacity: Ints = field(default_factory=_none)  # int64[S]: amounts of the machine
    free: Ints = field(default_factory=_none)  # int64[S]: below 0 where a cap has fallen
    asked: Ints = field(default_factory=_no_rows)  # int64[n, S]: request of each queued job
    held: Ints = field(default_factory=_no_rows)  # int64[m, S]: held by each running job
    remaining: Ints = field(default_factory=_none)  # int64[m]: s until its expected end, at least 1

    def __bool__(self) -> bool:
        return len(self.names) > 0

    def asked_by(self, n: int) -> Ints:
        """Return the requests of ``n`` queued jobs, also where nothing is shared."""
        return self.asked if self.names else np.zeros((n, 0), np.int64)

    def held_by(self, n: int) -> Ints:
        """Return the amounts held by ``n`` running jobs, also where nothing is shared."""
        return self.held if self.names else np.zeros((n, 0), np.int64)

    def fits_now(self, n: int) -> NDArray[np.bool_]:
        """Return for which of ``n`` queued jobs enough is free now."""
        asked = self.asked_by(n)
        return np.array(((asked <= self.free) | (asked == 0)).all(axis=1), np.bool_)

    def dominant(self, n: int) -> Floats:
        """Return for each of ``n`` queued jobs the largest fraction of an amount that it asks for."""
        shares: Floats = (self.asked_by(n) / np.maximum(self.capacity, 1)).max(axis=1, initial=0.0)
        return shares

    def take(self, rows: Ints) -> SharedPart:
        """Keep only some queued jobs, in the order given."""
        return replace(self, asked=self.asked[rows]) if self else self


@dataclass(frozen=True, slots=True)
class Instance:
    """One dispatching problem. Times of plans count from ``now``."""

    now: float  # seconds from the scenario's start
    resources: tuple[str, ...]  # names of the R types; where nodes are given whole, `node` comes first
    capacity: Ints  # int64[N, R]: what every node has
    free: Ints  # int64[N, R]: free amounts of every node
    running: Running
    queued: Queued
    shared: SharedPart = field(default_factory=SharedPart)  # machine-wide amounts
    power: PowerPart = field(default_factory=PowerPart)  # a power cap where nodes add unequal power

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.capacity.shape[0])

    def priority(self) -> Floats:
        """Return each queued job's slowdown if it started now; larger goes first (paper, section 2.2)."""
        d = self.queued.duration
        return (self.now - self.queued.arrival + d) / d

    def without_resources(self, kept: Ints) -> Instance:
        """Keep only the resource types with these indices."""

        def columns(table: Ints) -> Ints:
            return np.ascontiguousarray(table[:, kept])

        return replace(
            self,
            resources=tuple(self.resources[r] for r in kept.tolist()),
            capacity=columns(self.capacity),
            free=columns(self.free),
            running=replace(self.running, request=columns(self.running.request)),
            queued=replace(self.queued, request=columns(self.queued.request)),
        )

    def with_queued(self, rows: Ints) -> Instance:
        """Keep only some queued jobs, in the order given."""
        return replace(
            self, queued=self.queued.take(rows), shared=self.shared.take(rows), power=self.power.take(rows)
        )


def instance_of(
    view: StateView,
    ewt: Mapping[int, float] | None = None,
    default_ewt: float = 1.0,
    expected: Mapping[int, float] | None = None,
) -> Instance:
    """Make an instance from a dispatcher's view.

    ``ewt`` maps submission queues to expected waiting times (s), and ``expected`` the numbers of running jobs
    to the ends that were expected at their starts.
    """
    waiting, running = view.waiting, view.running
    held = running.held_job
    names, capacity, free = view.resources, view.capacity, view.free
    box_request, request = running.request[held], waiting.request
    if view.exclusive:
        whole = (capacity.max(axis=1, initial=0) > 0).astype(np.int64)
        untouched = whole * (free == capacity).all(axis=1)
        names = (NODE, *names)
        capacity, free = np.column_stack((whole, capacity)), np.column_stack((untouched, free))
        # However many units of a job lie on a node given whole, the node is taken once.
        box_request = np.column_stack(
            (np.ones(len(held), np.int64), box_request * running.held_units[:, None])
        )
        request = np.column_stack((np.ones(len(waiting), np.int64), request))
        units = np.ones(len(held), np.int64)
    else:
        units = running.held_units.astype(np.int64)
    remaining = np.maximum(np.ceil(running.expected_end - view.now), 1).astype(np.int64)
    elapsed = np.floor(view.now - running.start_time).astype(np.int64)
    late = np.zeros(len(running), np.int64)
    if expected:
        ends = [expected.get(number, np.inf) for number in running.number.tolist()]
        late = np.floor(np.maximum(view.now - np.array(ends), 0.0)).astype(np.int64)
    waits = np.full(len(waiting), default_ewt)
    if ewt:
        waits = np.array([ewt.get(int(queue), default_ewt) for queue in waiting.queue])
    # Copies: a view's columns are read-only, and kernels would be compiled once more for such.
    capacity, request = np.array(capacity, np.int64, order="C"), np.array(request, np.int64, order="C")
    units_asked = waiting.units.copy()
    return Instance(
        float(view.now),
        tuple(names),
        capacity,
        np.array(free, np.int64, order="C"),
        Running(
            running.job_id[held],
            running.held_node.copy(),
            units,
            np.array(box_request, np.int64, order="C"),
            remaining[held],
            elapsed[held],
            late[held],
        ),
        Queued(
            waiting.job_id.copy(),
            waiting.submit_time.copy(),
            units_asked,
            request,
            np.maximum(np.ceil(waiting.estimate), 1).astype(np.int64),
            np.maximum(waits, 1.0),
        ),
        shared_of(view, remaining),
        power_of(view, units_asked, request, capacity, remaining),
    )


def power_of(view: StateView, units: Ints, request: Ints, capacity: Ints, remaining: Ints) -> PowerPart:
    """Return the cap as a dispatcher sees it; empty if no waiting job can be kept from starting by it."""
    if view.power_left is None or view.power_units is not None:
        return PowerPart()
    of_node, free = view.power_added.astype(np.int64), int(view.power_left)
    waiting, running = view.waiting, view.running
    counts, held_counts = np.ones(len(waiting), np.int64), np.ones(len(running.held_job), np.int64)
    sizes = (view.capacity.max(axis=1, initial=0) > 0).astype(np.int64)
    if not view.exclusive:
        counts = waiting.request[:, 0].astype(np.int64)
        held_counts = running.held_units * running.request[running.held_job, 0]
        sizes = view.capacity[:, 0]
    of_boxes = held_counts * of_node[running.held_node]
    held = np.zeros(len(running), np.int64)
    np.add.at(held, running.held_job, of_boxes)
    # Nodes out of use may be held; they are no longer counted among those that jobs may have.
    most = int(of_node @ sizes) + int(of_boxes[sizes[running.held_node] == 0].sum())
    asked = int((units * counts).sum()) * int(of_node.max(initial=0))
    if asked <= free or most <= free + int(held.sum()):
        return PowerPart()
    return PowerPart.of(of_node, free, counts, held, remaining, units, request, capacity)


def shared_of(view: StateView, remaining: Ints) -> SharedPart:
    """Return the machine-wide amounts in a dispatcher's view; ``remaining`` is that of each running job."""
    part = SharedPart()
    if view.shared:
        part = SharedPart(
            view.shared,
            view.shared_capacity.copy(),
            view.shared_free.copy(),
            view.waiting.shares.copy(),
            view.running.shares.copy(),
            remaining,
        )
    return _capped(part, view, remaining)


def _capped(part: SharedPart, view: StateView, remaining: Ints) -> SharedPart:
    """Add a cap on equal power as one more amount, if it can keep a waiting job from starting."""
    free = view.power_units
    if free is None:
        return part
    waiting, running = view.waiting, view.running
    asked, held = waiting.units.copy(), running.units.copy()
    if not view.exclusive:
        asked, held = asked * waiting.request[:, 0], held * running.request[:, 0]
    if asked.sum() <= free:
        return part
    capacity = max(free + int(held.sum()), 0)
    return SharedPart(
        (*part.names, POWER_CAP),
        np.append(part.capacity, capacity),
        np.append(part.free, free),
        np.column_stack((part.asked_by(len(waiting)), asked)),
        np.column_stack((part.held_by(len(running)), held)),
        remaining,
    )
