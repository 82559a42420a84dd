"""What models of two levels have in common: techniques at work between nodes, and again and again inside."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim.application.techniques.adaptive import RATE, RISK, put
from mlsim.application.techniques.random import random_key
from mlsim.application.techniques.rules import KEY, reset_rule

__all__ = ["publish", "refill_rule"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_NUMBERS = 32


@kernel
def publish(
    own: Floats, own_sums: Floats, measured: Floats, sums: Floats, weights: Floats, node: int
) -> None:
    """Make known to all what a node has measured (``own``) until now."""
    leaf = sums.shape[1] // 2 + node
    if own_sums[RATE, leaf] > 0.0:
        if sums[RATE, leaf] == 0.0:
            sums[0, 0] += 1.0
            sums[1, 0] += weights[node]
        put(sums, RATE, node, own_sums[RATE, leaf])
        put(sums, RISK, node, own_sums[RISK, leaf])
    for row in range(len(measured)):
        measured[row, node] = own[row, node]


@kernel
def refill_rule(
    rule: Ints,
    reals: Floats,
    code: int,
    n: int,
    p: int,
    min_chunk: int,
    parameters: Floats,
    node: int,
    number: int,
) -> None:
    """Prepare the inside technique for a chunk of n iterations that a node got as its ``number``-th.

    RND gets random numbers of its own for each chunk.
    """
    reset_rule(rule, reals, code, n, p, min_chunk, parameters)
    rule[KEY] = random_key(rule[KEY], (node << _NUMBERS) + number)
