"""Distribution of slowdowns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["SLOWDOWN_BINS", "slowdown_histogram"]

SLOWDOWN_BINS = ("1", "(1,10]", "(10,100]", ">100")
"""Jobs that never waited, that waited a little, and that were scheduled badly (Zrigui 2021, Fig. 4.3)."""


def slowdown_histogram(values: NDArray[np.float64]) -> dict[str, int]:
    """Count the jobs whose slowdown is 1, in (1, 10], in (10, 100], above 100.

    Parameters
    ----------
    values
        Slowdowns, bounded or not, all at least 1; NaN stands for an undefined one and is in no bin.

    Returns
    -------
    dict
        Bin of :data:`SLOWDOWN_BINS` to number of jobs.
    """
    defined = values[~np.isnan(values)]
    places = np.searchsorted([1.0, 10.0, 100.0], defined, side="left")
    return dict(zip(SLOWDOWN_BINS, np.bincount(places, minlength=4).tolist(), strict=True))
