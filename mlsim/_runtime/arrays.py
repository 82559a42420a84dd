"""Types of arrays that most modules name."""

import numpy as np
from numpy.typing import NDArray as NDArray  # named here for all modules

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def ranges(first: Ints | int, counts: Ints) -> Ints:
    """Return ``first``, ``first + 1`` … of each range, ``counts`` numbers of it, one range after another."""
    begins = np.cumsum(counts) - counts
    numbers: Ints = np.arange(counts.sum()) + np.repeat(first - begins, counts)
    return numbers
