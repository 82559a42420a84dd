"""Types of arrays that most modules name."""

import numpy as np
from numpy.typing import NDArray as NDArray  # named here for all modules

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
