"""A technique as kernels take it: its code and a column of parameters."""

from __future__ import annotations

from typing import NamedTuple

from mlsim._arrays import Floats, Ints

(
    FIRST_NUMERATOR,
    FIRST_DENOMINATOR,
    STATIC_NUMERATOR,
    STATIC_DENOMINATOR,
    SIGMA,
    MU,
    OVERHEAD,
    ALPHA,
    BATCHES,
    GEOMETRIC,
    SEED_LOW,
    SEED_HIGH,
    ADDRESS,
    OF_BATCH,
    OF_LB4MPI,
    LOW_NUMERATOR,
    LOW_DENOMINATOR,
    HIGH_NUMERATOR,
    HIGH_DENOMINATOR,
    PIECES,
) = range(20)
PARAMETERS = 20

# Techniques of the user, which are not in the catalogue: a function that reads what is left, one that does
# not, and a class, which has a memory.
USER = 100
USER_BY_STEP = 101
USER_OBJECT = 102
OF_USER = (USER, USER_BY_STEP, USER_OBJECT)

UNTIMED = -1
"""In how many parts a technique times chunks that does not time their iterations."""

LB4MPI = 50
"""Added to the code of a technique that remembers more, or needs to know more, as LB4MPI sizes it."""

RAISED = -(2**63)
"""The size that stands for an exception in a technique of the user."""


class RuleSettings(NamedTuple):
    """A technique as the kernels take it; arrays but ``bad_size`` are read-only."""

    code: int
    """Which technique: its code in the catalogue, or one of ``OF_USER``."""
    min_chunk: int
    """Least chunk, 1 or more."""
    parameters: Floats
    """float64[PARAMETERS], 0 where the technique does not read them: ratio of AF's first chunk and of PLS's
    static part as numerator and denominator, σ and μ of the iteration times and h in s, α, batches (0: those
    of FAC2), 1 for VISS's geometric growth, the seed's lower 32 and upper bits, the address of a technique of
    the user, 1 where AWF-C and AWF-E weigh the batch's chunk, 1 where sizes are LB4MPI's,
    RND's bounds as shares of N/P, in how many parts a chunk is timed (0: each iteration; ``UNTIMED``).
    """
    weights: Floats
    """float64[P]: weight of each PE, of sum P; all 1 where the technique does not read them."""
    bad_size: Ints
    """int64[3]: receives step, PE and size where a technique of the user gives a size below 1."""
