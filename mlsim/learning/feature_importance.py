"""Importance of the features by which forests predict classes of jobs (Zrigui 2021, §6.3.4)."""

from typing import Final

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.predictors.weekly_forests import FEATURE_NAMES, Forest

TYPES: Final = {
    "job features": (0, 1),
    "temporal features": tuple(range(2, 8)),
    "lag features": tuple(range(8, 17)),
    "aggregation features": (17, 18, 19),
}
"""Columns of the types of features of the source's Table 6.3."""
FEATURES: Final = (*FEATURE_NAMES, *TYPES)
_COLUMNS: Final = (*((column,) for column in range(len(FEATURE_NAMES))), *TYPES.values())


def importance_of(forest: Forest, values: Floats, small: Ints, seed: int) -> Floats:
    """Return Gini importance, then loss of accuracy on jobs not learned from, of each of :data:`FEATURES`.

    The loss is that of values permuted among these jobs, of a type all its columns together. NaN where the
    forest knows one class only.
    """
    gini, rng = forest.importances(), np.random.default_rng(seed)
    tried = np.repeat(values[np.newaxis], len(FEATURES) + 1, axis=0)
    for one, columns in zip(tried[1:], _COLUMNS, strict=True):
        one[:, columns] = values[rng.permutation(len(values))][:, columns]
    said = forest.are_small(tried.reshape(-1, values.shape[1])).reshape(len(tried), -1)
    accuracy = (said == (small == 1)).mean(axis=1)
    return np.array([*(gini[list(columns)].sum() for columns in _COLUMNS), *(accuracy[0] - accuracy[1:])])


def importance_rows(log: str, weeks: Ints, weekly: Floats) -> list[dict[str, object]]:
    """Return a row per week and feature, in % of Gini importance and in points of accuracy."""
    return [
        {"log": log, "week": week, "feature": feature, "gini %": gini, "accuracy lost": lost}
        for week, row in zip(weeks.tolist(), (100 * weekly).tolist(), strict=True)
        for feature, gini, lost in zip(FEATURES, row, row[len(FEATURES) :], strict=False)
    ]


def importance_table(logs: dict[str, tuple[Floats, Ints]]) -> list[dict[str, object]]:
    """Return a row per feature: of each log the median over weeks of Gini importance, and the accuracy lost.

    Accuracy is that of all jobs: weeks weigh by their ``jobs``.
    """
    rows: list[dict[str, object]] = [{"feature": feature} for feature in FEATURES]
    for log, (weekly, jobs) in logs.items():
        judged = ~np.isnan(weekly).any(axis=1)
        found = 100 * weekly[judged]
        if not len(found):
            continue
        middle, lost = np.median(found, axis=0), np.average(found, axis=0, weights=jobs[judged])
        for k, row in enumerate(rows):
            row |= {f"{log}: gini %": middle[k].item(), f"{log}: lost": lost[len(FEATURES) + k].item()}
    return rows
