"""The random forest that tells how long jobs run, from their features."""

from __future__ import annotations

from typing import Final

import numpy as np

from mlsim._arrays import Floats, Ints

__all__ = ["RunTimeForest"]

_TREES: Final = 30
_LEAST_IN_LEAF: Final = 5
_FEATURES: Final = 1 / 3
"""Share of the features among which each split is found, as is usual for regression."""


class RunTimeForest:
    """Tells the mean of jobs' run times, or a quantile.

    Trees are grown on logarithms of run times, as these are over five orders of magnitude. Each one's answer
    is the mean, or the quantile, of the run times of all known jobs of the same leaf; the forest's is their
    mean, where Meinshausen 2006 weighs all jobs of all leaves.

    Parameters
    ----------
    values : ndarray of float64, shape (jobs, 20)
        Features of jobs whose run time is known.
    run_time
        Their run times [s].
    quantile
        Above 0 and below 1; None: the mean.
    seed
        Of the forest's random choices.
    """

    def __init__(self, values: Floats, run_time: Floats, quantile: float | None, seed: int) -> None:
        from sklearn.ensemble import RandomForestRegressor

        self._forest = RandomForestRegressor(
            _TREES, min_samples_leaf=_LEAST_IN_LEAF, max_features=_FEATURES, random_state=seed, n_jobs=1
        )
        self._forest.fit(values.astype(np.float32), np.log1p(run_time))
        leaves = self._forest.apply(values.astype(np.float32)).T
        self._answers = [
            _by_leaf(leaf, run_time, quantile, tree.tree_.node_count)
            for leaf, tree in zip(leaves, self._forest.estimators_, strict=True)
        ]

    def run_times(self, values: Floats) -> Floats:
        """Return what jobs are predicted to run, from their features, shape (jobs, 20) [s]."""
        leaves = self._forest.apply(values.astype(np.float32)).T
        answers = [answer[leaf] for answer, leaf in zip(self._answers, leaves, strict=True)]
        found: Floats = np.mean(answers, axis=0)
        return found


def _by_leaf(leaf: Ints, run_time: Floats, quantile: float | None, nodes: int) -> Floats:
    """Return the mean or a quantile of the run times in each leaf of a tree."""
    order = np.lexsort((run_time, leaf))
    sizes = np.bincount(leaf, minlength=nodes)
    first = np.cumsum(sizes) - sizes
    filled = np.flatnonzero(sizes)
    found, ordered = np.zeros(nodes), run_time[order]
    if quantile is None:
        found[filled] = np.add.reduceat(ordered, first[filled]) / sizes[filled]
    else:  # the smallest value that so many are not above
        found[filled] = ordered[first[filled] + np.ceil(quantile * sizes[filled]).astype(np.int64) - 1]
    return found
