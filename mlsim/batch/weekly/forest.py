"""The random forest that tells small jobs from large ones (Zrigui 2021, §6.3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mlsim._arrays import Floats, Ints, Mask
from mlsim.errors import InputError

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestClassifier

__all__ = ["Forest", "check_library"]

_LEAST_IN_LEAF = 2


def check_library() -> None:
    """Check that scikit-learn is there.

    Raises
    ------
    InputError
        It is not.
    """
    try:
        import sklearn.ensemble  # noqa: F401 - whether it can be imported is the question
    except ImportError as error:
        raise InputError(
            "classes are learned by scikit-learn, which is not installed; pip install 'mlsim[learning]'"
        ) from error


class Forest:
    """Tells which jobs are small, from their features.

    Parameters
    ----------
    values : ndarray of float64, shape (jobs, 20)
        Features of jobs whose class is known.
    small : ndarray of int64, shape (jobs,)
        1 where they were small, else 0.
    trees
        Of the forest.
    seed
        Of its random choices.
    """

    def __init__(self, values: Floats, small: Ints, trees: int, seed: int) -> None:
        self._only = bool(small[0]) if small.min() == small.max() else None
        self._forest: RandomForestClassifier | None = None
        if self._only is None:
            from sklearn.ensemble import RandomForestClassifier

            self._forest = RandomForestClassifier(
                trees, min_samples_leaf=_LEAST_IN_LEAF, random_state=seed, n_jobs=1
            )
            self._forest.fit(values.astype(np.float32), small)

    def are_small(self, values: Floats) -> Mask:
        """Return which jobs are taken for small, from their features, shape (jobs, 20)."""
        if self._forest is None:
            return np.full(len(values), self._only)
        found: Mask = self._forest.predict(values.astype(np.float32)) == 1
        return found
