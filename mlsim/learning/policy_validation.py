"""Learned policies validated over phases of the cut into weeks and on other logs; the files of results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl

from mlsim._runtime.arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.experiment.study.study_plan import located
from mlsim.experiment.study.study_tables import Spread, spread_of
from mlsim.experiment.weekly_runs import LogWeeks, check_weekly
from mlsim.learning.learning_parts import Part, Parts, Work, shared_weeks, write_tables
from mlsim.learning.mixed_policies import (
    PURE,
    Mixed,
    Searches,
    Searching,
    Wanted,
    learn_mixed,
    learned_of,
    paired,
    parts_of,
    pure_means,
    searched,
    searched_here,
    weekly_means,
)
from mlsim.learning.weight_search import FEATURES
from mlsim.scenario import BatchConfig, Policy, Scenario, WeightsConfig
from mlsim.scenario.scenario_text import mapping_text, plain
from mlsim.workload.job_selection import WEEK_SECONDS
from mlsim.workload.workload_jobs import JobBlock

PROTOCOLS = ("w*", "w*_train", "w_greedy", *PURE)
"""Policies of :attr:`mlsim.learning.mixed_policies.Mixed.means`, in order."""


@dataclass(frozen=True)
class _Search(Work):
    """Searches vectors on some weeks."""

    weeks: tuple[int, ...]
    searching: Searching

    def found(self, scenario: Scenario) -> Floats:
        """Return the result of the search."""
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


def searches_in_parts(parts: Parts) -> Searches:
    """Return a function that runs searches as parts."""

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
    """Sums of weekly mean bounded slowdowns, for each phase of the cut."""

    phases: Floats
    """Delay of the begin of weeks to those of the scenario (s)."""
    train: Mapping[str, Floats]
    """Policy to its sums over the training weeks, one per phase."""
    test: Mapping[str, Floats]
    """Policy to its sums over the test weeks, one per phase."""

    def spread(self, policy: str, *, test: bool, reference: str | None = None) -> Spread:
        """Return the mean over phases, and the paired difference to a policy in the same phase.

        Phases overlap, so its interval shows the influence of the cut, not the certainty of a result.
        """
        sums = self.test if test else self.train

        def labelled(name: str) -> dict[str, float]:
            return {
                f"{phase:g}": value for phase, value in zip(self.phases, sums[name].tolist(), strict=True)
            }

        return spread_of(labelled(policy), None if reference is None else labelled(reference))


def at_phases(scenario: Scenario, count: int) -> tuple[Floats, list[Scenario]]:
    """Return evenly spaced phases of the weekly cut, beginning with its own, and the scenario at each.

    Raises InputError if there are less than two, or the scenario's log is not cut into weeks.
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
        Part({"phase": phase_label(phase)}, one, work) for phase, one in zip(phases, moved, strict=True)
    ]
    found = (parts or Parts()).results(wanted)
    sums = np.array([one.reshape(len(PROTOCOLS), 2) for one in found])
    learned, tested = (
        {name: sums[:, place, part] for place, name in enumerate(PROTOCOLS)} for part in (0, 1)
    )
    return PhaseBand(phases, learned, tested)


def phase_label(phase: float) -> str:
    """Return the delay of the begin of weeks as text."""
    return f"{phase / 3600:g} h"


@dataclass(frozen=True)
class Transfer:
    """Policies learned on the first weeks of each log, tested on the last weeks of all."""

    weights: Mapping[str, Floats]
    """The six weights learned on each log."""
    weeks: Mapping[str, Ints]
    """Numbers of the test weeks of each log."""
    means: Mapping[str, Mapping[str, Floats]]
    """By test log and policy, the mean bounded slowdown in each of these weeks; policies are the logs of
    learning, and the pure ones.
    """

    def against(self, log: str, policy: str, reference: str) -> Spread:
        """Return a policy's mean over the test weeks of a log, and the paired difference to another."""
        return paired(self.weeks[log], self.means[log][policy], self.means[log][reference])


def learn_transfer(
    logs: Mapping[str, LogWeeks], share: float, searching: Searching, searches: Searches = searched_here
) -> Transfer:
    """Learn a mixed policy on the first weeks of each log, and test all of them on the last weeks of each.

    ``share`` (above 0, below 1) of the weeks with jobs, the first ones, are for learning. Raises InputError
    if a log has too few weeks.
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

    Raises InputError if there are too few.
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
    """Policies learned on the first weeks of each log, for each phase of the cut into weeks."""

    phases: Mapping[str, Floats]
    """Delays of the begin of each log's weeks (s)."""
    means: Mapping[str, Mapping[str, Floats]]
    """By test log and policy, the means over the test weeks, one per phase."""

    def relative(self, log: str, policy: str, reference: str) -> Floats:
        """Return the difference to a policy as a share of that policy's mean, one per phase."""
        base = self.means[log][reference]
        found: Floats = (self.means[log][policy] - base) / base
        return found


def transfer_phases(
    scenarios: Sequence[Scenario], count: int, share: float, searching: Searching, parts: Parts | None = None
) -> TransferBand:
    """Learn and test as :func:`learn_transfer`, for ``count`` phases of the cut, evenly spaced over a week.

    In each phase the vectors learned in it are tested on the weeks that it cuts. A log in a phase is two
    parts, one to learn and one to test. Raises InputError as :func:`at_phases`, MlsimError if a log has too
    few weeks.
    """
    hands = parts or Parts()
    names = [scenario.name for scenario in scenarios]
    cuts = {scenario.name: at_phases(scenario, count) for scenario in scenarios}

    def part(name: str, place: int, does: str, work: Work) -> Part:
        phases, moved = cuts[name]
        labels = {"log": name, "phase": phase_label(float(phases[place])), "part": does}
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


def write_mixed(directory: Path, found: Mixed, scenario: Scenario) -> None:
    """Write weekly values and the scenario with the learned weights.

    ``weeks.csv`` has a row per week (part, mean bounded slowdown of each policy, the best weights in
    hindsight); ``learned.yaml`` is the scenario under w*_train, with absolute paths, so that it runs from
    there.
    """
    parts = ["train" if t else "test" if u else "" for t, u in zip(found.train, found.test, strict=True)]
    weights = {f"best {name}": found.best[:, place] for place, name in enumerate(FEATURES)}
    frame = pl.DataFrame({"week": found.weeks, "part": parts, **found.means, **weights})
    named = dict(zip(FEATURES, found.learned.tolist(), strict=True))
    batch = scenario.batch.model_copy(update={"policy": Policy.LINEAR, "weights": WeightsConfig(**named)})
    text = mapping_text(located(plain(scenario.model_copy(update={"batch": batch})), scenario.directory))
    write_tables(directory, {"weeks.csv": frame.write_csv(), "learned.yaml": text})


def write_transfer(directory: Path, found: Transfer, reference: str) -> None:
    """Write the value of policies learned on each log on all of them.

    ``transfer.csv`` has a row per policy and test log (weeks, mean bounded slowdown of a week, paired
    difference to the reference with its interval and p), ``weights.csv`` the weights learned on each log.
    """
    rows = []
    for log, means in found.means.items():
        for policy in means:
            spread = found.against(log, policy, reference)
            rows.append(
                {
                    "policy": policy,
                    "tested on": log,
                    "weeks": len(found.weeks[log]),
                    "mean": spread.mean,
                    f"difference to {reference}": spread.difference,
                    "difference_low": spread.difference_low,
                    "difference_high": spread.difference_high,
                    "p": spread.p,
                }
            )
    weights = [
        {"learned on": log} | dict(zip(FEATURES, vector.tolist(), strict=True))
        for log, vector in found.weights.items()
    ]
    write_tables(
        directory,
        {"transfer.csv": pl.DataFrame(rows).write_csv(), "weights.csv": pl.DataFrame(weights).write_csv()},
    )


def write_phases(directory: Path, band: PhaseBand | None) -> None:
    """Write ``phases.csv``, a row per policy and phase with its sums; without a band remove it."""
    if band is None:
        write_tables(directory, {"phases.csv": None})
        return
    rows = [
        {"policy": name, "phase": phase, "train": train, "test": test}
        for name in band.test
        for phase, train, test in zip(
            band.phases.tolist(), band.train[name].tolist(), band.test[name].tolist(), strict=True
        )
    ]
    write_tables(directory, {"phases.csv": pl.DataFrame(rows).write_csv()})


def write_transfer_phases(directory: Path, band: TransferBand | None) -> None:
    """Write ``phases.csv``, a row per policy, test log and phase with its mean; without a band remove it."""
    if band is None:
        write_tables(directory, {"phases.csv": None})
        return
    rows = [
        {"policy": policy, "tested on": log, "phase": phase, "mean": mean}
        for log, means in band.means.items()
        for policy, values in means.items()
        for phase, mean in zip(band.phases[log].tolist(), values.tolist(), strict=True)
    ]
    write_tables(directory, {"phases.csv": pl.DataFrame(rows).write_csv()})
