"""What the state knows of the room of the machine, and of who makes passes over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mlsim.batch.room.announced import AnnouncedDrain
from mlsim.record import Solves
from mlsim.workload.jobs import JobBlock

__all__ = ["MachineRoom", "Passes"]

Ints = NDArray[np.int64]


class MachineRoom(Protocol):
    """What jobs take units of: a pool of equal units, or nodes by resources."""

    @property
    def arrays(self) -> Any:
        """The room, as a tuple of arrays."""
        ...

    @property
    def address(self) -> int:
        """Where kernels find written down where the arrays are."""
        ...

    @property
    def holds_back(self) -> bool:
        """Whether jobs hold parts of nodes that are out of use, which must not be given on."""
        ...

    def end(self, slot: int, now: float, /) -> None:
        """End a job: free what it still holds."""
        ...

    def release_row(self, slot: int, row: int, now: float, /) -> None:
        """Free the nodes of an occupancy row of a job that goes on."""
        ...

    def return_node(self, slot: int, node: int, now: float, /) -> int:
        """Return a free node to a job that had released it; return the new occupancy row."""
        ...

    def reservation(self, slot: int, now: float, /) -> float:
        """Return when a waiting job could start, by estimates, in s; infinity if that is not known."""
        ...

    def ensure_capacity(self) -> None:
        """Make the arrays, those of jobs too, large enough for the next pass."""
        ...

    def never_fit(self, slots: Ints, block: JobBlock, /) -> dict[str, NDArray[np.bool_]]:
        """Return which of the jobs that come no set of nodes could hold, by reason."""
        ...

    def room_for(self, slot: int, now: float, /) -> int:
        """Units of a job that could start now; maybe more than it asks for."""
        ...

    def is_free(self, node: int) -> bool:
        """Whether nobody holds any part of a node, and a job may have it."""
        ...

    def lacks_shared(self, slot: int, /) -> bool:
        """Whether a job waits for what the machine has as a whole, whatever nodes are free."""
        ...

    def is_down(self, node: int) -> bool:
        """Whether a node is out of use."""
        ...

    def may_take(self, slot: int, node: int, now: float, /) -> bool:
        """Whether no announced drain of a node keeps a job off it."""
        ...

    def units_of_cores(self, slot: int, cores: int, /) -> int:
        """Units that so many cores on one node are to a job."""
        ...

    def begin_timestamp(self, now: float, /) -> None:
        """Prepare for the ends and the arrivals of a time, if something is held back."""
        ...

    def update_free(self) -> None:
        """Take note that jobs have given something back."""
        ...

    def prepare_release(self, slot: int, row: int, /) -> None:
        """Take note that a job is about to give the nodes of an occupancy row back."""
        ...

    def take_down(self, node: int, holders: Mapping[int, int]) -> None:
        """Take a node out of use; what jobs hold of it they keep, but it does not come back at their ends.

        Parameters
        ----------
        node
            Number of the node.
        holders
            Slots of the jobs that hold part of it, and the units each holds there.
        """
        ...

    def bring_up(self, node: int, holders: Mapping[int, int]) -> None:
        """Take a node back into use, if there is no other reason for it to be out of use.

        Parameters
        ----------
        node, holders
            As when it was taken down; those who have left since are not among them.
        """
        ...

    def know_of(self, drains: Sequence[AnnouncedDrain], /) -> None:
        """Plan around these announced drains from now on; nodes out of use for them will come back."""
        ...

    def set_power_cap(self, watts: float) -> None:
        """Have another cap from now on; what runs goes on."""
        ...


class Passes(Protocol):
    """Who makes passes over the queue."""

    rejected: list[tuple[int, str]]
    """Slots, with reasons, of jobs that a dispatcher turned away; the batch system empties it."""

    def advance(
        self, now: float, ended: list[int], arrivals: Ints, first: int, last: int, released: Ints, /
    ) -> int:
        """End jobs, let others arrive, then make a pass; return how many start."""
        ...

    def admit(self, block: JobBlock) -> None:
        """Keep what plugins may see of jobs that have come."""
        ...

    def next_wake(self, now: float, /) -> float:
        """Return when a dispatcher wants to be asked, at the earliest after now, in s; infinity: never."""
        ...

    def solves(self) -> Solves:
        """Return how the passes of a dispatcher that plans went."""
        ...
