"""Compiled grouping of rows: which rows have which key, without a comparison sort."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Ints
from mlsim._jit import kernel

__all__ = ["group"]


@kernel
def group(keys: Ints, groups: int) -> tuple[Ints, Ints]:
    """Group rows by key, keeping their order inside a group.

    Parameters
    ----------
    keys
        The group of each row, from 0 to ``groups - 1``.
    groups
        How many groups there are.

    Returns
    -------
    first, order
        The rows of group k are ``order[first[k]:first[k + 1]]``.
    """
    first = np.zeros(groups + 1, np.int64)
    for key in keys:
        first[key + 1] += 1
    for k in range(groups):
        first[k + 1] += first[k]
    place = first[:-1].copy()
    order = np.empty(len(keys), np.int64)
    for row in range(len(keys)):
        order[place[keys[row]]] = row
        place[keys[row]] += 1
    return first, order
