"""What the machine has as a whole, as a plan sees it: one more capacity, of no node.

A cap on power is such an amount where each node, or core, adds the same power when it is held: the number of
nodes, or cores, that jobs may hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim.batch.cp.problem.reading import MOST, names_of, whole_numbers, whole_rows
from mlsim.batch.view import StateView

__all__ = ["POWER_CAP", "SharedPart", "shared_of"]

POWER_CAP = "power cap"
"""The amount that stands for it; names of a platform's own have no space."""


def _none() -> Ints:
    return np.zeros((0, 0), np.int64)


@dataclass(frozen=True, slots=True)
class SharedPart:
    """Amounts of which a job holds so much from its start to its end.

    Attributes
    ----------
    names
        Of the S amounts.
    capacity, free : ndarray of int64, shape (S,)
        How much there is, and what nobody holds now; less than nothing is free where a cap has fallen below
        what running jobs hold.
    asked : ndarray of int64, shape (n, S)
        What each queued job asks for.
    held : ndarray of int64, shape (m, S)
        What each running job holds.
    remaining : ndarray of int64, shape (m,)
        Seconds from now until its expected end, at least 1.
    """

    names: tuple[str, ...] = ()
    capacity: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    free: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    asked: Ints = field(default_factory=_none)
    held: Ints = field(default_factory=_none)
    remaining: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def asked_by(self, n: int) -> Ints:
        """Return what each of ``n`` queued jobs asks for, also where nothing is shared."""
        return self.asked if self.names else np.zeros((n, 0), np.int64)

    def held_by(self, n: int) -> Ints:
        """Return what each of ``n`` running jobs holds, also where nothing is shared."""
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
        """Return lists that :meth:`from_json` reads."""
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
    """Make it of what a dispatcher sees; ``remaining`` is of each running job."""
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
    """Add the power cap, if it may keep a waiting job from starting."""
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
