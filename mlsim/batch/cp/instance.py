"""An instance: the dispatching problem of one pass, and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.cp.plan_power import (
    MOST,
    PowerPart,
    SharedPart,
    names_of,
    power_of,
    seconds,
    section_of,
    shared_of,
    whole_numbers,
    whole_rows,
)
from mlsim.batch.view import StateView
from mlsim.errors import InputError

NODE = "node"  # the resource of which every node has one where nodes are given whole
_NEEDED = ("now", "resources", "running", "queued", "capacity", "free")
_ANY = -(2**63)
_LEAST = {"units": 1, "remaining": 1, "job_id": _ANY}
"""Lower bounds of the columns of running jobs, other than 0."""


@dataclass(frozen=True, slots=True)
class Running:
    """Boxes of running jobs, one row per (job, node)."""

    job_id: Ints  # int64[b]: the job
    node: Ints  # int64[b]: where the units are
    units: Ints  # int64[b]: units of the job on this node
    request: Ints  # int64[b, R]: amounts held by one unit
    remaining: Ints
    """int64[b]: seconds from now until the expected end, at least 1: less would shrink the horizon."""
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
    ewt: Floats
    """float64[n]: expected waiting time of the job's submission queue (s), above 0; versions 1 and 2 only."""

    def __len__(self) -> int:
        return self.job_id.size

    def take(self, rows: Ints) -> Queued:
        """Return the queued jobs of some rows."""
        return Queued(
            self.job_id[rows],
            self.arrival[rows],
            self.units[rows],
            self.request[rows],
            self.duration[rows],
            self.ewt[rows],
        )


@dataclass(frozen=True, slots=True)
class Instance:
    """One dispatching problem. Times of plans count from ``now``."""

    now: float  # seconds from the scenario's start
    resources: tuple[str, ...]
    """Names of the R resource types; where nodes are given whole, ``node`` comes first."""
    capacity: Ints  # int64[N, R]: what every node has
    free: Ints  # int64[N, R]: free amounts of every node
    running: Running
    queued: Queued
    shared: SharedPart = field(default_factory=SharedPart)  # machine-wide amounts
    power: PowerPart = field(default_factory=PowerPart)  # A power cap where nodes add unequal power

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.capacity.shape[0])

    def priority(self) -> Floats:
        """Return each queued job's slowdown if it started now; larger goes first (paper, section 2.2)."""
        d = self.queued.duration
        priority: Floats = (self.now - self.queued.arrival + d) / d
        return priority

    def without_resources(self, kept: Ints) -> Instance:
        """Keep only the resource types with these indices."""
        return Instance(
            self.now,
            tuple(self.resources[r] for r in kept.tolist()),
            np.ascontiguousarray(self.capacity[:, kept]),
            np.ascontiguousarray(self.free[:, kept]),
            replace(self.running, request=np.ascontiguousarray(self.running.request[:, kept])),
            replace(self.queued, request=np.ascontiguousarray(self.queued.request[:, kept])),
            self.shared,
            self.power,
        )

    def with_queued(self, rows: Ints) -> Instance:
        """Keep only some queued jobs, in the order given."""
        return replace(
            self, queued=self.queued.take(rows), shared=self.shared.take(rows), power=self.power.take(rows)
        )

    def as_json(self) -> dict[str, Any]:
        """Return lists and numbers for :meth:`from_json`."""
        return {
            "now": self.now,
            "resources": list(self.resources),
            "capacity": self.capacity.tolist(),
            "free": self.free.tolist(),
            "running": {name: getattr(self.running, name).tolist() for name in Running.__slots__},
            "queued": {name: getattr(self.queued, name).tolist() for name in Queued.__slots__},
            **({"shared": self.shared.as_json()} if self.shared.names else {}),
            **({"power": self.power.as_json()} if self.power else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], place: str = "instance") -> Instance:
        """Read an instance.

        Raises
        ------
        InputError
            If something is missing or of another shape; the message begins with ``place``.
        """
        try:
            if missing := [key for key in _NEEDED if key not in data]:
                raise KeyError(missing[0])
            running, queued = section_of(data, "running"), section_of(data, "queued")
            names = names_of(data, "resources")
            wide = len(names)
            instance = cls(
                float(seconds({"now": [data["now"]]}, "now")[0]),
                names,
                whole_rows(data, "capacity", wide),
                whole_rows(data, "free", wide),
                Running(
                    *(
                        whole_rows(running, name, wide, of="running.")
                        if name == "request"
                        else whole_numbers(running, name, of="running.", least=_LEAST.get(name, 0))
                        for name in Running.__slots__
                    )
                ),
                Queued(
                    whole_numbers(queued, "job_id", of="queued.", least=_ANY),
                    seconds(queued, "arrival", of="queued."),
                    whole_numbers(queued, "units", of="queued.", least=1),
                    whole_rows(queued, "request", wide, of="queued."),
                    whole_numbers(queued, "duration", of="queued.", least=1),
                    seconds(queued, "ewt", of="queued.", above=0.0),
                ),
                SharedPart.from_json(section_of(data, "shared")) if "shared" in data else SharedPart(),
            )
            instance._check()
            if "power" in data:
                asks = instance.queued
                power = section_of(data, "power")
                part = PowerPart.from_json(power, asks.units, asks.request, instance.capacity)
                instance = replace(instance, power=part)
        except KeyError as error:
            raise InputError(f"{place}: no {error.args[0]!r}; an instance needs it") from error
        except ValueError as error:
            raise InputError(f"{place}: not an instance: {error}") from error
        return instance

    def _check(self) -> None:
        """Raise ValueError where columns do not belong together, or more is held than exists."""
        running, queued, shared = self.running, self.queued, self.shared
        lengths = {
            "running": {len(getattr(running, name)) for name in Running.__slots__},
            "queued": {len(getattr(queued, name)) for name in Queued.__slots__},
            "nodes": {len(self.capacity), len(self.free)},
        }
        for name, found in lengths.items():
            if len(found) > 1:
                raise ValueError(f"columns of {name} have different lengths: {sorted(found)}")
        if len(running) and running.node.max() >= self.n_nodes:
            raise ValueError(f"running.node: allowed: 0 to {self.n_nodes - 1}")
        for name, table, units in (
            ("capacity", self.capacity, np.ones(self.n_nodes)),
            ("running.request", running.request, running.units),
            ("queued.request", queued.request, queued.units),
            ("shared.capacity", shared.capacity[:, None], np.ones(1)),
            ("shared.asked", shared.asked, np.ones(1)),
            ("shared.held", shared.held, np.ones(1)),
        ):
            if (table * np.asarray(units, np.float64)[:, None]).sum() > MOST:
                raise ValueError(f"{name}: allowed: numbers whose sum, with units, stays below 2^62")
        if float(queued.duration.sum(dtype=np.float64)) + running.remaining.max(initial=0) > MOST:
            raise ValueError("queued.duration: allowed: times whose sum stays below 2^62")
        held = np.zeros_like(self.capacity)
        np.add.at(held, running.node, running.request * running.units[:, None])
        for node, r in np.argwhere(self.free > self.capacity - held)[:1].tolist():
            raise ValueError(
                f"free: node {node}, {self.resources[r]}: {self.free[node, r]} free and {held[node, r]} held "
                f"of {self.capacity[node, r]}"
            )
        if shared.names and len(shared.asked) != len(queued):
            raise ValueError("shared.asked: allowed: a row for each queued job")
        if shared.names and len(shared.held) != len(shared.remaining):
            raise ValueError("shared.held: allowed: a row for each number of shared.remaining")


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
