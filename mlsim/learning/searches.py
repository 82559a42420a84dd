"""Searches of weight vectors as parts, which executors do and the store keeps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mlsim._arrays import Floats
from mlsim.learning.mixed import PURE, Searches, Searching, Wanted, learn_mixed, searched
from mlsim.learning.parts import Part, Parts, Work, shared_weeks
from mlsim.scenario import Scenario

__all__ = ["PROTOCOLS", "PhaseSums", "kept_searches"]

PROTOCOLS = ("w*", "w*_train", "w_greedy", *PURE)
"""Policies of :attr:`mlsim.learning.mixed.Mixed.means`, in order."""


@dataclass(frozen=True)
class _Search(Work):
    """Searches vectors on some weeks."""

    weeks: tuple[int, ...]
    searching: Searching

    def found(self, scenario: Scenario) -> Floats:
        """Return what the search gives."""
        return searched(Wanted(shared_weeks(scenario), self.weeks, self.searching))


@dataclass(frozen=True)
class PhaseSums(Work):
    """All protocols, and pure policies, on one cut into weeks."""

    train: tuple[int, int]
    test: tuple[int, int]
    searching: Searching

    def found(self, scenario: Scenario) -> Floats:
        """Return the sums of each policy of :data:`PROTOCOLS` over the training and the test weeks."""
        sums = learn_mixed(shared_weeks(scenario), self.train, self.test, self.searching).sums()
        return np.array([sums[name] for name in PROTOCOLS]).ravel()


def kept_searches(parts: Parts) -> Searches:
    """Return what has searches done as parts."""

    def searches(wanted: Sequence[Wanted]) -> Iterator[Floats]:
        return parts.results([_part(one) for one in wanted])

    return searches


def _part(wanted: Wanted) -> Part:
    first, last = wanted.weeks[0], wanted.weeks[-1]
    weeks = f"{first}" if first == last else f"{first}-{last}"
    scenario = wanted.log.scenario
    labels = {"log": scenario.name, "weeks": weeks}
    return Part(labels, scenario, _Search(wanted.weeks, wanted.searching))
