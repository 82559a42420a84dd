"""Value of a learned mixed policy on other logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.experiment.study.study_tables import Spread
from mlsim.experiment.weekly_runs import LogWeeks
from mlsim.learning.learning_parts import Part, Parts, Work, shared_weeks
from mlsim.learning.mixed_policies import (
    PURE,
    Searches,
    Searching,
    Wanted,
    learned_of,
    paired,
    parts_of,
    pure_means,
    searched,
    searched_here,
    weekly_means,
)
from mlsim.learning.policy_phases import at_phases, phase_words
from mlsim.scenario import BatchConfig, Scenario
from mlsim.workload.workload_jobs import JobBlock


@dataclass(frozen=True)
class Transfer:
    """Policies learned on the first weeks of each log, on the last weeks of all.

    Attributes
    ----------
    weights
        Log to the vector that was learned on it, of the six weights.
    weeks
        Log to the numbers of its weeks for testing.
    means
        Log of the test to policy to its mean bounded slowdown in each of these weeks; policies are the logs
        on which they were learned, and the pure ones.
    """

    weights: Mapping[str, Floats]
    weeks: Mapping[str, Ints]
    means: Mapping[str, Mapping[str, Floats]]

    def against(self, log: str, policy: str, reference: str) -> Spread:
        """Return a policy's mean over the test weeks of a log, and the paired difference to another one's."""
        return paired(self.weeks[log], self.means[log][policy], self.means[log][reference])


def learn_transfer(
    logs: Mapping[str, LogWeeks],
    share: float,
    searching: Searching,
    searches: Searches = searched_here,
) -> Transfer:
    """Learn a mixed policy on the first weeks of each log, and test all of them on the last weeks of each.

    Parameters
    ----------
    logs
        Name to weeks.
    share
        Of the weeks with jobs, how many are for learning, the first ones; above 0 and below 1.
    searching
        How vectors are searched.
    searches
        Who does the searches.

    Raises
    ------
    InputError
        If a log has too few weeks.
    """
    splits = {name: split_of(name, log, share) for name, log in logs.items()}
    wanted: dict[str, list[Wanted]] = {}
    ways: dict[str, Searching] = {}
    for name, log in logs.items():
        learn, _ = splits[name]
        ways[name] = searching.over([log.blocks[number] for number in learn])
        wanted[name] = parts_of(log, learn, ways[name])
    found = iter(searches([one for part in wanted.values() for one in part]))
    weights = {name: learned_of(islice(found, len(part)), ways[name]) for name, part in wanted.items()}
    weeks = {name: np.array(test, np.int64) for name, (_, test) in splits.items()}
    tests = {name: [log.blocks[number] for number in splits[name][1]] for name, log in logs.items()}
    vectors = np.array(list(weights.values()))
    means = {
        name: tested(tests[name], log.scenario.batch, log.units, list(weights), vectors)
        for name, log in logs.items()
    }
    return Transfer(weights, weeks, means)


def split_of(name: str, log: LogWeeks, share: float) -> tuple[list[int], list[int]]:
    """Return the weeks with jobs of a log for learning, the first ones, and those for testing.

    Raises
    ------
    InputError
        If there are too few.
    """
    numbers = [n for n, block in sorted(log.blocks.items()) if (block.processors <= log.units).any()]
    first = round(share * len(numbers))
    if not 0 < first < len(numbers):
        raise InputError(
            f"{name}: {len(numbers)} weeks with jobs, {first} of them to learn by a share of {share:g}; "
            "needed: one to learn, and one to test"
        )
    return numbers[:first], numbers[first:]


def tested(
    blocks: list[JobBlock], config: BatchConfig, units: int, names: list[str], vectors: Floats
) -> dict[str, Floats]:
    """Return the weekly means of learned vectors and of pure policies."""
    found = weekly_means(blocks, config, units, vectors)
    return dict(zip(names, found.T, strict=True)) | pure_means(blocks, config, units)


@dataclass(frozen=True)
class TransferBand:
    """Policies learned on the first weeks of each log, for each phase of the cut into weeks.

    Attributes
    ----------
    phases
        By how much the weeks of each log begin later than those of its scenario [s]: log to phases.
    means
        Log of the test to policy to its mean over the test weeks, one a phase.
    """

    phases: Mapping[str, Floats]
    means: Mapping[str, Mapping[str, Floats]]

    def relative(self, log: str, policy: str, reference: str) -> Floats:
        """Return the difference to a policy as a share of that one's mean, one a phase."""
        base = self.means[log][reference]
        found: Floats = (self.means[log][policy] - base) / base
        return found


def transfer_phases(
    scenarios: Sequence[Scenario], count: int, share: float, searching: Searching, parts: Parts | None = None
) -> TransferBand:
    """Learn and test as :func:`learn_transfer` does, for phases of the cut, evenly spread over a week.

    In each phase the vectors learned in it are tested on the weeks that it cuts.

    Parameters
    ----------
    scenarios
        Of the logs, each with a name of its own.
    count
        How many phases.
    share, searching
        As of :func:`learn_transfer`.
    parts
        Who does them: a log in a phase each, once to learn and once to test; None: this process.

    Raises
    ------
    InputError
        As of :func:`mlsim.learning.policy_phases.at_phases`.
    MlsimError
        If a log has too few weeks.
    """
    hands = parts or Parts()
    names = [scenario.name for scenario in scenarios]
    cuts = {scenario.name: at_phases(scenario, count) for scenario in scenarios}

    def part(name: str, place: int, does: str, work: Work) -> Part:
        phases, moved = cuts[name]
        labels = {"log": name, "phase": phase_words(float(phases[place])), "part": does}
        return Part(labels, moved[place], work)

    places = [(name, place) for name in names for place in range(count)]
    learning = _Learned(share, searching)
    learned = hands.results([part(*where, "learn", learning) for where in places])
    vectors = dict(zip(places, learned, strict=True))
    testing = [
        part(name, place, "test", _Tested(share, np.array([vectors[one, place] for one in names])))
        for name, place in places
    ]
    found = dict(zip(places, hands.results(testing), strict=True))
    means = {
        name: {
            policy: np.array([found[name, phase][k] for phase in range(count)])
            for k, policy in enumerate((*names, *PURE))
        }
        for name in names
    }
    return TransferBand({name: phases for name, (phases, _) in cuts.items()}, means)


@dataclass(frozen=True)
class _Learned(Work):
    """Learns a vector on the first weeks."""

    share: float
    searching: Searching

    def found(self, scenario: Scenario) -> Floats:
        """Return the vector."""
        log = shared_weeks(scenario)
        learn, _ = split_of(scenario.name, log, self.share)
        way = self.searching.over([log.blocks[number] for number in learn])
        return learned_of(map(searched, parts_of(log, learn, way)), way)


@dataclass(frozen=True)
class _Tested(Work):
    """Tests vectors on the last weeks."""

    share: float
    vectors: Floats

    def found(self, scenario: Scenario) -> Floats:
        """Return the mean of the weekly means of each vector, and of each pure policy."""
        log = shared_weeks(scenario)
        _, weeks = split_of(scenario.name, log, self.share)
        blocks = [log.blocks[number] for number in weeks]
        names = [str(place) for place in range(len(self.vectors))]
        means = tested(blocks, scenario.batch, log.units, names, self.vectors)
        return np.array([values.mean() for values in means.values()])
