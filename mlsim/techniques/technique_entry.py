"""The record of a technique: its formulas, compiled functions, parameters and learning.

The scenario takes the names of techniques from these records, so this module loads no compiler.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

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


class Need(NamedTuple):
    """A required parameter of a technique."""

    key: str  # in ``application.parameters``
    meaning: str
    positive: bool  # whether 0 is rejected


SIGMA_NEEDED = Need("sigma", "the standard deviation of the iteration times", False)
MU_NEEDED = Need("mu", "the mean of the iteration times", True)
OVERHEAD_NEEDED = Need("overhead", "the scheduling overhead of one chunk", True)


class Given(NamedTuple):
    """The scenario's values from which a technique computes its own ``values``."""

    parameters: Any  # section ``application.parameters`` of the scenario
    seed: int
    sigma: float  # standard deviation of the iteration times in s, given or profiled; 0 if not needed
    mu: float  # their mean in s, likewise


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The compiled functions of one chunk size rule, and their requirements.

    mlsim calls each function with the arguments that its parameters name, in any number and order;
    :mod:`mlsim.techniques.technique_rules` lists the allowed names. mlsim raises sizes below
    ``min_chunk`` to it.
    """

    prepare: Callable[..., None] | None = None  # prepares ``rule`` for a loop, if zeros do not suffice
    size: Callable[..., int] | None = None
    """Chunk size from the remaining iterations; the size of all chunks if ``constant``."""
    size_by_step: Callable[..., int] | None = None
    """Chunk size from the step alone. None: there is no such form, and a queue is locked from reading the
    remaining iterations to assigning the chunk.
    """
    learn: Callable[..., None] | None = None
    """Learns from an executed chunk whose iteration costs are known, in a simulation."""
    learn_measured: Callable[..., None] | None = None
    """Learns from an executed chunk that was timed, in a real run."""
    constant: bool = False  # whether all chunks of a loop have one size
    counts_overhead: bool = False  # whether the time of a chunk starts at the request for it
    counts_breaks: bool = False
    """Whether the time of a chunk includes a master's breaks within it, but not the wait for the chunk."""
    times_iterations: bool = False  # whether it learns from times of iterations or of parts of chunks
    follows_chunks: bool = False
    """Whether it sizes chunks by the clock and by the size and start of the chunk on each PE."""
    needs: tuple[Need, ...] = ()
    values: Callable[[Given], tuple[float, ...]] | None = None
    """Computes the technique's own values, at most ``MOST_OWN``: in ``parameters`` from index ``OWN``, and
    the first three in ``reals``.
    """

    @property
    def needs_statistics(self) -> bool:
        """Whether it needs σ, or σ and μ, of the iteration times."""
        return any(need.key == SIGMA_NEEDED.key for need in self.needs)


@dataclass(frozen=True, slots=True, kw_only=True)
class TechniqueEntry:
    """One technique: its name, its formulas in words, and how it sizes chunks.

    A module of :mod:`mlsim.techniques` that holds such a record adds a technique to mlsim: the scenario's
    names, the kernels and the lists of techniques are made of the records.
    """

    code: int  # in the kernels; techniques are listed in this order
    name: str  # in a scenario file, where case does not matter
    title: str
    recursive: str
    """Chunk size from the remaining iterations, as CCA computes it. N iterations, P PEs, R remaining, i the
    scheduling step from 0, b = ⌊i/P⌋ the batch. Every chunk is finally min(max(K, min_chunk), R).
    """
    reference: str
    rule: Rule
    straightforward: str = ""  # chunk size from i alone, as DCA computes it; empty if there is no such form
    options: tuple[str, ...] = ()
    """Keys of a scenario file that the technique reads besides ``application.min_chunk``."""
    notes: str = ""  # further text of the page of techniques, in Markdown
    aliases: tuple[str, ...] = ()
    lb4mpi: Rule | None = None
    """Rule of the library LB4MPI, perhaps the same; None if the library lacks the technique."""
    openmp: str = ""
    """OpenMP's schedule for it inside a node (Eleliemy 2021, Table 5.1); empty if there is none."""

    @property
    def adaptive(self) -> bool:
        """Whether it learns within a loop from measured times."""
        return self.rule.learn is not None


def parameter_keys(*keys: str) -> tuple[str, ...]:
    """Return the full names of keys of ``application.parameters``."""
    return tuple(f"application.parameters.{key}" for key in keys)


STATISTICS_KEYS = parameter_keys("sigma", "mu", "statistics")

_DENOMINATOR = 10**9


@cache
def ratio(share: float) -> tuple[int, int]:
    """Return a share as the fraction of its decimal digits, so that 0.1 of 30 rounds up to 3, not to 4."""
    exact = Fraction(repr(float(share))).limit_denominator(_DENOMINATOR)
    return exact.numerator, exact.denominator
