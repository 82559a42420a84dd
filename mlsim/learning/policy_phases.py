"""Mixed and pure policies over phases of the cut into weeks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mlsim._arrays import Floats
from mlsim.errors import InputError
from mlsim.experiment.study.study_tables import Spread, spread_of
from mlsim.experiment.weekly_runs import check_weekly
from mlsim.learning.learning_parts import Part, Parts, Work, shared_weeks
from mlsim.learning.mixed_policies import PURE, Searches, Searching, Wanted, learn_mixed, searched
from mlsim.scenario import Scenario
from mlsim.workload.job_selection import WEEK_SECONDS

PROTOCOLS = ("w*", "w*_train", "w_greedy", *PURE)
"""Policies of :attr:`mlsim.learning.mixed_policies.Mixed.means`, in order."""


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


@dataclass(frozen=True)
class PhaseBand:
    """Sums of weekly mean bounded slowdowns, for each phase of the cut.

    Attributes
    ----------
    phases
        By how much weeks begin later than those of the scenario [s].
    train, test
        Policy to its sums over the training and the test weeks, one a phase.
    """

    phases: Floats
    train: Mapping[str, Floats]
    test: Mapping[str, Floats]

    def spread(self, policy: str, *, test: bool, reference: str | None = None) -> Spread:
        """Return the mean over phases, and the paired difference to a policy in the same phase.

        Phases overlap, so that its interval says how much the cut matters, and not how sure a result is.
        """
        sums = self.test if test else self.train

        def labelled(name: str) -> dict[str, float]:
            return {
                f"{phase:g}": value for phase, value in zip(self.phases, sums[name].tolist(), strict=True)
            }

        return spread_of(labelled(policy), None if reference is None else labelled(reference))


def at_phases(scenario: Scenario, count: int) -> tuple[Floats, list[Scenario]]:
    """Return phases of the cut, evenly spread over a week from its own on, and the scenario at each.

    Raises
    ------
    InputError
        If there are less than two, or the scenario's log is not cut into weeks.
    """
    if count < 2:
        raise InputError(f"phases: {count}; allowed: 2 or more")
    check_weekly(scenario)
    config = scenario.workload.weeks
    assert config is not None, "checked above"
    phases = (config.phase + np.arange(count) * WEEK_SECONDS / count) % WEEK_SECONDS
    moved = []
    for phase in phases.tolist():
        cut = config.model_copy(update={"phase": phase})
        workload = scenario.workload.model_copy(update={"weeks": cut})
        moved.append(scenario.model_copy(update={"workload": workload}))
    return phases, moved


def learn_phases(
    scenario: Scenario,
    count: int,
    train: tuple[int, int],
    test: tuple[int, int],
    searching: Searching,
    parts: Parts | None = None,
) -> PhaseBand:
    """Search and test mixed policies for phases of the cut that are evenly spread over a week.

    Parameters
    ----------
    scenario
        Whose log ``workload.weeks`` cuts; its phase is the first.
    count
        How many phases.
    train, test
        First and last week.
    searching
        How vectors are searched, anew for each phase.
    parts
        Who does them, a phase each; None: this process.

    Raises
    ------
    InputError
        As of :func:`at_phases`.
    MlsimError
        If a phase has no weeks to learn or test.
    """
    phases, moved = at_phases(scenario, count)
    work = PhaseSums(train, test, searching)
    wanted = [
        Part({"phase": phase_words(phase)}, one, work) for phase, one in zip(phases, moved, strict=True)
    ]
    found = (parts or Parts()).results(wanted)
    sums = np.array([one.reshape(len(PROTOCOLS), 2) for one in found])
    learned, tested = (
        {name: sums[:, place, part] for place, name in enumerate(PROTOCOLS)} for part in (0, 1)
    )
    return PhaseBand(phases, learned, tested)


def phase_words(phase: float) -> str:
    """Write by how much weeks begin later."""
    return f"{phase / 3600:g} h"
