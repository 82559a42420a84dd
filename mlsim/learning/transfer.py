"""What a mixed policy that was learned on one log is worth on others: a matrix of logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.experiment.study.statistics import Spread, spread_of
from mlsim.experiment.weekly import LogWeeks
from mlsim.learning.mixed import Searching, learn_vector, pure_means, weekly_means
from mlsim.scenario import BatchConfig
from mlsim.workload.jobs import JobBlock

__all__ = ["Transfer", "learn_transfer"]


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
        weeks = self.weeks[log].tolist()
        one, other = (
            {str(week): value for week, value in zip(weeks, self.means[log][name].tolist(), strict=True)}
            for name in (policy, reference)
        )
        return spread_of(one, other)


def learn_transfer(
    logs: Mapping[str, LogWeeks],
    share: float,
    searching: Searching,
    progress: Callable[[int, int], None] | None = None,
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
    progress
        Is told how many logs are done.

    Raises
    ------
    InputError
        If a log has too few weeks.
    """
    weights, weeks, tests = {}, {}, {}
    for place, (name, log) in enumerate(logs.items()):
        numbers = [n for n, block in sorted(log.blocks.items()) if (block.processors <= log.units).any()]
        first = round(share * len(numbers))
        if not 0 < first < len(numbers):
            raise InputError(f"{name}: {len(numbers)} weeks with jobs; needed: one to learn, and one to test")
        blocks = [log.blocks[number] for number in numbers]
        weights[name] = learn_vector(blocks[:first], log.scenario.batch, log.units, searching)
        weeks[name], tests[name] = np.array(numbers[first:], np.int64), blocks[first:]
        if progress is not None:
            progress(place + 1, len(logs))
    vectors = np.array(list(weights.values()))
    means = {
        name: _tested(tests[name], log.scenario.batch, log.units, list(weights), vectors)
        for name, log in logs.items()
    }
    return Transfer(weights, weeks, means)


def _tested(
    blocks: list[JobBlock], config: BatchConfig, units: int, names: list[str], vectors: Floats
) -> dict[str, Floats]:
    """Return the weekly means of learned vectors and of pure policies."""
    found = weekly_means(blocks, config, units, vectors)
    return dict(zip(names, found.T, strict=True)) | pure_means(blocks, config, units)
