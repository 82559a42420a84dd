"""The layout of a technique's numbers in the kernels' arrays, and the codes of techniques without a record.

The scenario reads these numbers, too, so this module loads no compiler.
"""

from typing import NamedTuple

from mlsim._runtime.arrays import Floats, Ints

# Indices into a rule's integers, which are 0 before a technique is prepared. The first five are set for
# every technique; each technique uses the others as it needs them, mostly for:
# SIZE: the constant size, or that of the first chunk (RND: the smallest).
# SLOPE: the change of the size per step or batch (RND: the largest size).
# PREVIOUS: the chunk size of the batch.
# BATCH, LEFT: a batch and the iterations left at its start (LB4MPI: left in the batch).
# KEY: the key of the random numbers. USERS: the address of a user-defined technique.
# MEMORY: the length of the memory of a user-defined class, where it is passed between ranks.
CODE, ITERATIONS, PES, MIN_CHUNK, CONSTANT, SIZE, SLOPE, PREVIOUS, BATCH, LEFT, KEY, USERS, MEMORY = range(13)
RULE_NUMBERS = 13
RULE_REALS = 3  # the first of the technique's own ``values``

# Indices into the array of parameters. OWN: the first of the technique's own ``values``.
ADDRESS, PIECES, OF_LB4MPI, OWN = range(4)
MOST_OWN = 8
PARAMETERS = OWN + MOST_OWN

LB4MPI = 50  # added to the code of a technique for which LB4MPI has another rule

# User-defined techniques, which have no record: a function of the remaining iterations, a function of the
# step, and a class with memory.
USER = 100
USER_BY_STEP = 101
USER_OBJECT = 102
OF_USER = (USER, USER_BY_STEP, USER_OBJECT)

UNTIMED = -1  # number of timed parts per chunk under techniques that do not time iterations
RAISED = -(2**63)  # in place of a size: the user-defined technique raised an exception


class RuleSettings(NamedTuple):
    """A technique in the kernels' format; all arrays except ``bad_size`` are read-only.

    ``parameters``, float64[PARAMETERS], 0 where unused: the address of a user-defined technique, the number
    of timed parts per chunk (0: each iteration; ``UNTIMED``), 1 for the sizes of LB4MPI, and the technique's
    own ``values``.
    """

    code: int  # of the technique, plus ``LB4MPI`` where the library has another rule; or one of ``OF_USER``
    min_chunk: int  # 1 or more
    parameters: Floats
    weights: Floats  # float64[P]: weight per PE, with the sum P; all 1 where unused
    bad_size: Ints  # int64[3]: step, PE and size if a user-defined technique returns a size below 1
