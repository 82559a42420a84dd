"""Whether the empty machine could hold a job; if not, what the job asks for and what there is."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Ints, Mask
from mlsim.batch.room.power import PowerCap
from mlsim.batch.room.requests import Requests
from mlsim.platform import Machine
from mlsim.scenario import CORES, MEMORY
from mlsim.workload.jobs import JobBlock

__all__ = ["Misfits"]

_MOST_REASONS = 100
"""Different reasons that name amounts; further ones do not, so that tables of reasons stay short."""


class Misfits:
    """Finds jobs that no set of nodes could hold, whatever else runs.

    Parameters
    ----------
    machine
        The nodes, all in use.
    requests
        How jobs ask for room.
    strict
        Whether a job needs neighbouring nodes.
    cap
        A cap on power, under which every unit adds as much.
    """

    def __init__(
        self, machine: Machine, requests: Requests, strict: bool = False, cap: PowerCap | None = None
    ) -> None:
        self._requests, self._strict, self._cap = requests, strict, cap
        self._shared = machine.shared
        # Neighbours matter only to jobs that need them.
        if strict:
            self._has, self._count = machine.capacity, np.ones(machine.n_nodes, np.int64)
        else:
            self._has, self._count = np.unique(machine.capacity, axis=0, return_counts=True)
        self._nouns = tuple("MB of memory" if name == MEMORY else name for name in machine.resources)
        self._named: set[str] = set()

    def find(self, units: Ints, request: Ints, shares: Ints) -> dict[str, Mask]:
        """Return which jobs the machine cannot hold, by reason.

        Parameters
        ----------
        units
            Of each job.
        request, shares
            What a unit of each asks for, and the job of the machine as a whole.
        """
        asked = np.column_stack([units, request, shares])
        distinct, of = np.unique(asked, axis=0, return_inverse=True)
        last = 1 + request.shape[1]
        reasons = [self._reason(int(row[0]), row[1:last], row[last:]) for row in distinct]
        return {
            reason: np.array([found == reason for found in reasons], np.bool_)[of.ravel()]
            for reason in sorted(set(reasons) - {""})
        }

    def find_in(self, jobs: JobBlock) -> dict[str, Mask]:
        """Return which jobs of a block the machine cannot hold, by reason."""
        units = self._requests.units_of(jobs)
        return self.find(units, self._requests.per_unit(jobs, units), self._requests.shares_of(jobs))

    def _reason(self, units: int, request: Ints, shares: Ints) -> str:
        exclusive = self._requests.exclusive
        largest, asked = self._has.max(axis=0), request > 0
        for r in np.flatnonzero(request > largest).tolist():
            return self.say(
                f"{request[r]:,} ", self._nouns[r], " on one node", f"the largest has {largest[r]:,}"
            )
        each = ", ".join(f"{request[r]:,} {self._nouns[r]}" for r in np.flatnonzero(asked).tolist())
        fit = (self._has[:, asked] // request[asked]).min(axis=1, initial=1 if exclusive else units)
        if not fit.any():
            return self.say(f"{each}: ", "all of them", " on one node", "no node has them together")
        total = self._count @ self._has
        for r in np.flatnonzero(units * request > total).tolist() if not exclusive else ():
            return self.say(f"{units * request[r]:,} ", self._nouns[r], "", f"the machine has {total[r]:,}")
        if (held := int(fit @ self._count)) < units:
            of_each = f" of {each} each" if request[1:].any() or not exclusive else ""
            there = f"the machine has {held:,}"
            return self.say(f"{units:,} ", "nodes" if exclusive else "units", of_each, there)
        for name, unit, asks, has in zip(
            self._shared.names, self._shared.units, shares, self._shared.capacity, strict=True
        ):
            if asks > has:
                noun = f"{unit} of {name}" if unit else name
                return self.say(f"{asks:,} ", noun, "", f"the machine has {has:,}")
        if self._strict and (longest := _most_in_a_row(fit)) < units:
            there = f"at most {longest:,} are side by side"
            return self.say(f"{units:,} ", f"neighbouring {'nodes' if exclusive else 'units'}", "", there)
        powered = units if exclusive else units * int(request[0])
        if self._cap is not None and powered > self._cap.largest:
            there = f"the power cap leaves {self._cap.largest:,}"
            return self.say(f"{powered:,} ", "nodes" if exclusive else CORES, "", there)
        return ""

    def say(self, amount: str, noun: str, where: str, there: str) -> str:
        """Return a reason; one without amounts if very many have been named already."""
        reason = f"asks for {amount}{noun}{where}; {there}"
        if reason not in self._named and len(self._named) >= _MOST_REASONS:
            return f"asks for more {noun}{' on one node' if where else ''} than there are"
        self._named.add(reason)
        return reason


def _most_in_a_row(fit: Ints) -> int:
    """Return the most units that neighbouring nodes, all with room, hold."""
    stretches = np.split(fit, np.flatnonzero(fit == 0))
    return max(int(stretch.sum()) for stretch in stretches)
