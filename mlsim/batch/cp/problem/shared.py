"""What the machine has as a whole, as a plan sees it: one more capacity, of no node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Ints
from mlsim.batch.view import StateView

__all__ = ["SharedPart", "shared_of"]


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
        How much there is, and what nobody holds now.
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

    def fits_now(self, n: int) -> NDArray[np.bool_]:
        """Return for which of ``n`` queued jobs enough is free now."""
        lacks = np.maximum(self.asked_by(n) - self.free, 0).sum(axis=1)
        return np.array(lacks == 0, np.bool_)

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
        names = tuple(map(str, data["names"]))
        return cls(
            names,
            np.asarray(data["capacity"], np.int64).reshape(len(names)),
            np.asarray(data["free"], np.int64).reshape(len(names)),
            np.asarray(data["asked"], np.int64).reshape(-1, len(names)),
            np.asarray(data["held"], np.int64).reshape(-1, len(names)),
            np.asarray(data["remaining"], np.int64).reshape(-1),
        )


def shared_of(view: StateView, remaining: Ints) -> SharedPart:
    """Make it of what a dispatcher sees; ``remaining`` is of each running job."""
    if not view.shared:
        return SharedPart()
    return SharedPart(
        view.shared,
        view.shared_capacity.copy(),
        view.shared_free.copy(),
        view.waiting.shares.copy(),
        view.running.shares.copy(),
        remaining,
    )
