"""Power caps and shared resources as a plan sees them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.view import StateView

MOST = 2**62  # upper bound of sums of columns, so that none overflows 64 bits
_EXACT = 2.0**53  # whole numbers above this are not all doubles


def section_of(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a section of an instance."""
    section = data[name]
    if not isinstance(section, Mapping):
        raise ValueError(f"{name}: allowed: columns by name")
    return section


def names_of(data: Mapping[str, Any], key: str, *, of: str = "") -> tuple[str, ...]:
    """Read a list of names."""
    names = data[key]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{of}{key}: allowed: a list of names, one at least")
    return tuple(names)


def whole_numbers(data: Mapping[str, Any], key: str, *, of: str = "", least: int = 0) -> Ints:
    """Read a column of whole numbers, ``least`` or more; ``of`` names the section in messages."""
    allowed = f"{of}{key}: allowed: a list of whole numbers" + (f", {least} and more" if least >= 0 else "")
    return _whole(data[key], 1, allowed, least)


def whole_rows(data: Mapping[str, Any], key: str, wide: int, *, of: str = "", each: str = "resource") -> Ints:
    """Read a table of whole numbers, 0 or more, with ``wide`` of them in each row."""
    allowed = f"{of}{key}: allowed: rows of {wide} whole numbers, 0 and more, one a {each}"
    table = _whole(data[key], 2, allowed, 0)
    if not table.size:
        return np.zeros((0, wide), np.int64)
    if table.shape[1] != wide:
        raise ValueError(allowed)
    return table


def seconds(data: Mapping[str, Any], key: str, *, of: str = "", above: float = -np.inf) -> Floats:
    """Read a column of times (s), all above a limit."""
    column = _numbers(data[key])
    if column is None or column.ndim != 1:
        raise ValueError(f"{of}{key}: allowed: a list of numbers")
    column = column.astype(np.float64)
    if not ((column > above) & (column < np.inf)).all():
        raise ValueError(f"{of}{key}: allowed: numbers above {above:g}, not infinite")
    return column


def _whole(values: Any, dimensions: int, allowed: str, least: int) -> Ints:
    table = _numbers(values)
    if table is not None and not table.size and isinstance(values, list):
        return np.zeros((0,) * dimensions, np.int64)
    if table is None or table.ndim != dimensions:
        raise ValueError(allowed)
    if table.dtype.kind == "f" and not ((table == np.floor(table)) & (np.abs(table) < _EXACT)).all():
        raise ValueError(allowed)
    whole = table.astype(np.int64)
    if (whole < least).any():
        raise ValueError(f"{allowed}; there is {whole.min()}")
    return whole


def _numbers(values: Any) -> NDArray[Any] | None:
    """Return an array of numbers, all below 2^63 in size; None if there are others."""
    try:
        table = np.asarray(values)
    except (ValueError, OverflowError):  # rows of unequal length
        return None
    return table if table.dtype.kind in "if" else None


NO_PLACE = np.iinfo(np.int64).max // 4
"""Power (microwatts) where not all units of a job fit: more than any cap."""
_MOST = 2**62  # power x time that CP-SAT may add up


def _none() -> Ints:
    return np.zeros(0, np.int64)


class PowerLimit(NamedTuple):
    """A cap as seen by kernels that place units now."""

    of_node: Ints  # int64[N]: power that a held node, or core, adds (microwatts)
    cheapest: Ints  # int64[N]: nodes by power, the least first
    counts: Ints  # int64[n]: nodes, or cores, per unit of each job that count for power
    left: int  # power that jobs may add now (microwatts)


@dataclass(frozen=True, slots=True)
class PowerPart:
    """A cap on power and what jobs take of it; empty where no cap can keep a job waiting."""

    of_node: Ints = field(default_factory=_none)
    """int64[N]: power that a held node, or core if nodes are shared, adds (microwatts)."""
    free: int = 0
    """Power that jobs may add now (microwatts); below 0 where a cap has fallen below what running jobs take.
    """
    counts: Ints = field(default_factory=_none)
    """int64[n]: nodes, or cores, per unit of each queued job that count for power."""
    least: Ints = field(default_factory=_none)
    """int64[n]: the least power of each queued job on an empty machine (microwatts); NO_PLACE if it does not
    fit.
    """
    held: Ints = field(default_factory=_none)  # int64[m]: power of each running job (microwatts)
    remaining: Ints = field(default_factory=_none)
    """int64[m]: seconds from now until its expected end, at least 1."""

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
        shares: Floats = self.least / max(self.capacity, 1)
        return shares

    def added(self, job: int, nodes: Ints) -> int:
        """Return the power of a queued job with its units on these nodes (microwatts)."""
        return int(self.counts[job]) * int(self.of_node[nodes].sum())

    def take(self, rows: Ints) -> PowerPart:
        """Keep only some queued jobs, in the order given."""
        if not self:
            return self
        return PowerPart(
            self.of_node, self.free, self.counts[rows], self.least[rows], self.held, self.remaining
        )

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

    def as_json(self) -> dict[str, Any]:
        """Return lists and numbers for :meth:`from_json`."""
        columns = {name: getattr(self, name).tolist() for name in ("of_node", "counts", "held", "remaining")}
        return {"free": self.free, **columns}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], units: Ints, request: Ints, capacity: Ints) -> PowerPart:
        """Read what :meth:`as_json` returned; units, request and capacity are those of the instance."""
        of_node, counts, held, remaining = (
            whole_numbers(data, name, of="power.", least=int(name == "remaining"))
            for name in ("of_node", "counts", "held", "remaining")
        )
        if len(of_node) != len(capacity) or len(counts) != len(units) or len(held) != len(remaining):
            raise ValueError("power: not a number for each node, and each job")
        free = int(whole_numbers({"free": [data["free"]]}, "free", of="power.", least=-MOST)[0])
        most = max(float(units @ counts.astype(np.float64)) * of_node.max(initial=0), float(free))
        if most + held.sum(dtype=np.float64) > MOST:
            raise ValueError("power: allowed: numbers whose sums stay below 2^62")
        return cls.of(of_node, free, counts, held, remaining, units, request, capacity)

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
        return cls(of_node, free, counts, least, held, remaining)


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


POWER_CAP = "power cap"  # name of the amount that represents the cap; names in a platform contain no space


def _no_amounts() -> Ints:
    return np.zeros((0, 0), np.int64)


@dataclass(frozen=True, slots=True)
class SharedPart:
    """Machine-wide amounts that a job holds from its start to its end."""

    names: tuple[str, ...] = ()  # of the S amounts
    capacity: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # int64[S]: amounts of the machine
    free: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """int64[S]: free amounts; below 0 where a cap has fallen below what running jobs hold."""
    asked: Ints = field(default_factory=_no_amounts)  # int64[n, S]: request of each queued job
    held: Ints = field(default_factory=_no_amounts)  # int64[m, S]: held by each running job
    remaining: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """int64[m]: seconds from now until its expected end, at least 1."""

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
        if not self.names:
            return self
        return SharedPart(self.names, self.capacity, self.free, self.asked[rows], self.held, self.remaining)

    def as_json(self) -> dict[str, Any]:
        """Return lists for :meth:`from_json`."""
        columns = {name: getattr(self, name).tolist() for name in self.__slots__ if name != "names"}
        return {"names": list(self.names), **columns}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SharedPart:
        """Read what :meth:`as_json` returned."""
        names = names_of(data, "names", of="shared.")
        wide = len(names)
        free = whole_numbers(data, "free", of="shared.", least=-MOST)  # a cap may have fallen
        capacity = whole_numbers(data, "capacity", of="shared.")
        if len(free) != wide or len(capacity) != wide:
            raise ValueError(f"shared.free, shared.capacity: allowed: {wide} whole numbers, one a name")
        return cls(
            names,
            capacity,
            free,
            whole_rows(data, "asked", wide, of="shared.", each="name"),
            whole_rows(data, "held", wide, of="shared.", each="name"),
            whole_numbers(data, "remaining", of="shared.", least=1),
        )


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
