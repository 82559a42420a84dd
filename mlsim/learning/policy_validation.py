"""Learned policies validated over phases of the cut into weeks and on other logs; the files of results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl

from mlsim._runtime.arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.experiment.study import study_plan, study_tables
from mlsim.experiment.weekly_runs import LogWeeks, check_weekly
from mlsim.learning import mixed_policies as mixed
from mlsim.learning.learning_parts import Part, Parts, shared_weeks, write_tables
from mlsim.learning.mixed_policies import FEATURES, PURE, Searching
from mlsim.scenario import Policy, Scenario, batch_section, scenario_text
from mlsim.workload.job_selection import WEEK_SECONDS

PROTOCOLS = ("w*", "w*_train", "w_greedy", *PURE)  # policies of `mixed_policies.Mixed.means`, in order


def phase_sums(
    scenario: Scenario, train: tuple[int, int], test: tuple[int, int], searching: Searching
) -> Floats:
    """Return the sums of each of :data:`PROTOCOLS` over the training and the test weeks of one cut."""
    sums = mixed.learn_mixed(shared_weeks(scenario), train, test, searching).sums()
    return np.array([sums[name] for name in PROTOCOLS]).ravel()


@dataclass(frozen=True)
class PhaseBand:
    """Sums of weekly mean bounded slowdowns, for each phase of the cut."""

    phases: Floats  # delay of the begin of weeks to those of the scenario (s)
    train: Mapping[str, Floats]  # policy to its sums over the training weeks, one per phase
    test: Mapping[str, Floats]  # likewise over the test weeks


def at_phases(scenario: Scenario, count: int) -> tuple[Floats, list[Scenario]]:
    """Return evenly spaced phases of the weekly cut, beginning with its own, and the scenario at each."""
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
    """Search and test mixed policies for ``count`` evenly spaced phases of the cut, each a part."""
    phases, moved = at_phases(scenario, count)
    wanted = [
        Part({"phase": f"{phase / 3600:g} h"}, one, phase_sums, (train, test, searching))
        for phase, one in zip(phases.tolist(), moved, strict=True)
    ]
    found = (parts or Parts()).results(wanted)
    sums = np.array([one.reshape(len(PROTOCOLS), 2) for one in found])
    learned, tested = (
        {name: sums[:, place, part] for place, name in enumerate(PROTOCOLS)} for part in (0, 1)
    )
    return PhaseBand(phases, learned, tested)


@dataclass(frozen=True)
class Transfer:
    """Policies learned on the first weeks of each log, tested on the last weeks of all."""

    weights: Mapping[str, Floats]  # log to the six weights learned on it
    weeks: Mapping[str, Ints]  # log to the numbers of its test weeks
    # Test log and policy (log of learning, or pure) to the mean bounded slowdown in each of these weeks.
    means: Mapping[str, Mapping[str, Floats]]

    def against(self, log: str, policy: str, reference: str) -> study_tables.Spread:
        """Return a policy's mean over the test weeks of a log, and the paired difference to another."""
        return mixed.paired(self.weeks[log], self.means[log][policy], self.means[log][reference])


def learn_transfer(
    logs: Mapping[str, LogWeeks],
    share: float,
    searching: Searching,
    parts: Parts | None = None,
    later: int = 0,
) -> Transfer:
    """Learn a mixed policy on the first ``share`` of the weeks of each log; test all on the other weeks.

    ``later``: how many parts the caller will run afterwards, for their progress.
    """
    splits = {name: split_of(name, log, share) for name, log in logs.items()}
    wanted: dict[str, list[mixed.Wanted]] = {}
    ways: dict[str, Searching] = {}
    for name, log in logs.items():
        learn, _ = splits[name]
        ways[name] = searching.over([log.blocks[number] for number in learn])
        wanted[name] = mixed.parts_of(log, learn, ways[name])
    if parts is not None:
        parts.plan(sum(map(len, wanted.values())) + later)
    found = iter(mixed.searches([one for part in wanted.values() for one in part], parts))
    weights = {name: mixed.learned_of(islice(found, len(part)), ways[name]) for name, part in wanted.items()}
    weeks = {name: np.array(test, np.int64) for name, (_, test) in splits.items()}
    vectors = np.array(list(weights.values()))
    means = {}
    for name, log in logs.items():
        of = [log.blocks[number] for number in splits[name][1]], log.scenario.batch, log.units
        learned = mixed.weekly_means(*of, vectors)
        means[name] = dict(zip(weights, learned.T, strict=True)) | mixed.pure_means(*of)
    return Transfer(weights, weeks, means)


def split_of(name: str, log: LogWeeks, share: float) -> tuple[list[int], list[int]]:
    """Return the weeks with jobs of a log for learning, the first ones, and those for testing."""
    numbers = [n for n, block in sorted(log.blocks.items()) if (block.processors <= log.units).any()]
    first = round(share * len(numbers))
    if not 0 < first < len(numbers):
        raise InputError(
            f"{name}: {len(numbers)} weeks with jobs, {first} of them to learn by a share of {share:g}; "
            "needed: one to learn, and one to test"
        )
    return numbers[:first], numbers[first:]


@dataclass(frozen=True)
class TransferBand:
    """Policies learned on the first weeks of each log, for each phase of the cut into weeks."""

    phases: Mapping[str, Floats]  # log to the delays of the begin of its weeks (s)
    means: Mapping[str, Mapping[str, Floats]]  # test log and policy to the mean of its weeks, one per phase

    def relative(self, log: str, policy: str, reference: str) -> Floats:
        """Return the difference to a policy as a share of that policy's mean, one per phase."""
        base = self.means[log][reference]
        return (self.means[log][policy] - base) / base


def transfer_phases(
    scenarios: Sequence[Scenario], count: int, share: float, searching: Searching, parts: Parts | None = None
) -> TransferBand:
    """Learn and test as :func:`learn_transfer`, for ``count`` phases, two parts per log and phase."""
    hands = parts or Parts()
    names = [scenario.name for scenario in scenarios]
    cuts = {scenario.name: at_phases(scenario, count) for scenario in scenarios}

    def part(name: str, place: int, does: str, function: Callable[..., Floats], *options: object) -> Part:
        phases, moved = cuts[name]
        labels = {"log": name, "phase": f"{float(phases[place]) / 3600:g} h", "part": does}
        return Part(labels, moved[place], function, options)

    places = [(name, place) for name in names for place in range(count)]
    learned = hands.results([part(*where, "learn", _learned, share, searching) for where in places])
    vectors = dict(zip(places, learned, strict=True))
    testing = [
        part(name, place, "test", _tested, share, np.array([vectors[one, place] for one in names]))
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


def _learned(scenario: Scenario, share: float, searching: Searching) -> Floats:
    log = shared_weeks(scenario)
    learn, _ = split_of(scenario.name, log, share)
    way = searching.over([log.blocks[number] for number in learn])
    return mixed.learned_of(mixed.searches(mixed.parts_of(log, learn, way), None), way)


def _tested(scenario: Scenario, share: float, vectors: Floats) -> Floats:
    """Return the mean of the weekly means of each vector, and of each pure policy, on the last weeks."""
    log = shared_weeks(scenario)
    _, weeks = split_of(scenario.name, log, share)
    blocks = [log.blocks[number] for number in weeks]
    learned = mixed.weekly_means(blocks, scenario.batch, log.units, vectors)
    pure = mixed.pure_means(blocks, scenario.batch, log.units)
    return np.array([values.mean() for values in (*learned.T, *pure.values())])


def write_mixed(directory: Path, found: mixed.Mixed, scenario: Scenario) -> None:
    """Write ``weeks.csv``, and ``learned.yaml``: the scenario under w*_train, with absolute paths."""
    parts = ["train" if t else "test" if u else "" for t, u in zip(found.train, found.test, strict=True)]
    weights = {f"best {name}": found.best[:, place] for place, name in enumerate(FEATURES)}
    frame = pl.DataFrame({"week": found.weeks, "part": parts, **found.means, **weights})
    named = dict(zip(FEATURES, found.learned.tolist(), strict=True))
    linear = {"policy": Policy.LINEAR, "weights": batch_section.WeightsConfig(**named)}
    learned = scenario.model_copy(update={"batch": scenario.batch.model_copy(update=linear)})
    given = study_plan.located(scenario_text.plain(learned), scenario.directory)
    write_tables(directory, {"weeks.csv": frame, "learned.yaml": scenario_text.mapping_text(given)})


def write_transfer(directory: Path, found: Transfer, reference: str) -> None:
    """Write ``transfer.csv``, a row per policy and test log with its difference, and ``weights.csv``."""
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
    write_tables(directory, {"transfer.csv": pl.DataFrame(rows), "weights.csv": pl.DataFrame(weights)})


def write_phases(directory: Path, band: PhaseBand | TransferBand | None) -> None:
    """Write ``phases.csv``, a row per policy (, test log) and phase; without a band remove it."""
    frames: list[pl.DataFrame] = []
    if isinstance(band, PhaseBand):
        for name, sums in band.test.items():
            columns = {"phase": band.phases, "train": band.train[name], "test": sums}
            frames.append(pl.DataFrame({"policy": name, **columns}))
    elif band is not None:
        for log, means in band.means.items():
            for policy, values in means.items():
                columns = {"phase": band.phases[log], "mean": values}
                frames.append(pl.DataFrame({"policy": policy, "tested on": log, **columns}))
    write_tables(directory, {"phases.csv": pl.concat(frames) if frames else None})
