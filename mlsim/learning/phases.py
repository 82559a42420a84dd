"""Mixed and pure policies over phases of the cut into weeks: where weeks begin moves sums as policies do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from mlsim._arrays import Floats
from mlsim.errors import InputError
from mlsim.experiment.study.statistics import Spread, spread_of
from mlsim.experiment.weekly import check_weekly, weeks_of
from mlsim.learning.mixed import Searching, learn_mixed
from mlsim.scenario import Scenario
from mlsim.workload.weeks import WEEK

__all__ = ["PhaseBand", "learn_phases"]


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


def learn_phases(
    scenario: Scenario,
    count: int,
    train: tuple[int, int],
    test: tuple[int, int],
    searching: Searching,
    progress: Callable[[int, int], None] | None = None,
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
    progress
        Is told how many phases are done.

    Raises
    ------
    InputError
        As of :func:`mlsim.learning.mixed.learn_mixed`.
    """
    if count < 2:
        raise InputError(f"phases: {count}; allowed: 2 or more")
    check_weekly(scenario)
    config = scenario.workload.weeks
    assert config is not None, "checked above"
    phases = (config.phase + np.arange(count) * WEEK / count) % WEEK
    sums = []
    for place, phase in enumerate(phases.tolist()):
        cut = config.model_copy(update={"phase": phase})
        moved = scenario.model_copy(update={"workload": scenario.workload.model_copy(update={"weeks": cut})})
        sums.append(learn_mixed(weeks_of(moved), train, test, searching).sums())
        if progress is not None:
            progress(place + 1, count)
    parts = [{name: np.array([one[name][part] for one in sums]) for name in sums[0]} for part in (0, 1)]
    return PhaseBand(phases, *parts)
