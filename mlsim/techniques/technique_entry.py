"""The record of a technique: its formulas, its compiled functions, what it needs and what it learns.

Stands below the scenario, which takes the names of techniques from these records, and loads no compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from mlsim._arrays import Floats, Ints

# Places in a rule's whole numbers, which are 0 before a technique is prepared. The first five are set for
# every technique. The others are its own; their names say what most techniques keep there:
# SIZE: the size where it is constant, or of the first chunk; of RND: the smallest. SLOPE: by what it changes;
# of AWF: whether it weighs what is left at every request; of RND: the largest. PREVIOUS: the size of the
# batch. BATCH, LEFT: a batch and what is left at its start; of LB4MPI: what is left of the batch. KEY: of
# random numbers. USERS: address of a user-defined technique. MEMORY: length of the memory of a user-defined
# class, where it travels between ranks.
CODE, ITERATIONS, PES, MIN_CHUNK, CONSTANT, SIZE, SLOPE, PREVIOUS, BATCH, LEFT, KEY, USERS, MEMORY = range(13)
RULE_NUMBERS = 13
# Its real numbers are the first of its own ``values``.
RULE_REALS = 3

# Places in the column of parameters. OWN: the first of those that a technique's ``values`` returns.
ADDRESS, PIECES, OF_LB4MPI, OWN = range(4)
MOST_OWN = 8
PARAMETERS = OWN + MOST_OWN

LB4MPI = 50
"""Added to the code of a technique that LB4MPI sizes by another rule."""

# User-defined techniques, which have no record: a function that reads what is left, one that does not, and
# a class, which has a memory.
USER = 100
USER_BY_STEP = 101
USER_OBJECT = 102
OF_USER = (USER, USER_BY_STEP, USER_OBJECT)

UNTIMED = -1
"""In how many parts a technique times chunks that does not time their iterations."""

RAISED = -(2**63)
"""The size that stands for an exception in a technique of the user."""


class RuleSettings(NamedTuple):
    """A technique as the kernels take it; arrays but ``bad_size`` are read-only."""

    code: int
    """Code of the technique, plus ``LB4MPI`` where the library has another rule; or one of ``OF_USER``."""
    min_chunk: int
    """Least chunk, 1 or more."""
    parameters: Floats
    """float64[PARAMETERS], 0 where the technique does not read them: the address of a user-defined technique,
    in how many parts a chunk is timed (0: each iteration; ``UNTIMED``), 1 where sizes are LB4MPI's, then the
    technique's own ``values``.
    """
    weights: Floats
    """float64[P]: weight of each PE, of sum P; all 1 where the technique does not read them."""
    bad_size: Ints
    """int64[3]: receives step, PE and size where a technique of the user gives a size below 1."""


class Need(NamedTuple):
    """A parameter without which a technique cannot size chunks."""

    key: str
    """In ``application.parameters``."""
    meaning: str
    positive: bool
    """Whether 0 is refused."""


SIGMA_NEEDED = Need("sigma", "the standard deviation of the iteration times", False)
MU_NEEDED = Need("mu", "the mean of the iteration times", True)
OVERHEAD_NEEDED = Need("overhead", "the scheduling overhead of one chunk", True)


class Given(NamedTuple):
    """What a technique can make its own values of."""

    parameters: Any
    """Section ``application.parameters`` of the scenario."""
    first_chunk: float
    """``application.parameters.first_chunk``."""
    seed: int
    sigma: float
    """Standard deviation of the iteration times in s, given or profiled; 0 if the rule does not need it."""
    mu: float
    """Their mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The compiled functions of one way to size chunks, and what they need.

    The functions are called by the names of their parameters, in any number and order, of those that
    :mod:`mlsim.techniques.technique_rules` lists for each. Sizes below ``min_chunk`` are raised to it.
    """

    prepare: Callable[..., None] | None = None
    """Prepares ``rule`` for a loop, where zeros will not do."""
    size: Callable[..., int] | None = None
    """Chunk size from what is left; the size of all chunks where it is ``constant``."""
    size_by_step: Callable[..., int] | None = None
    """Chunk size from the step alone; None where there is no such form. A queue is then locked from reading
    what remains to assigning the chunk.
    """
    learn: Callable[..., None] | None = None
    """Learns from an executed chunk whose iteration costs are known, in a simulation."""
    learn_measured: Callable[..., None] | None = None
    """Learns from an executed chunk that was timed."""
    constant: bool = False
    """Whether all chunks of a loop have one size."""
    counts_overhead: bool = False
    """Whether the time of a chunk begins when the PE asks for it."""
    counts_breaks: bool = False
    """Whether the time of a chunk includes a master's breaks amid it, but not the wait for the chunk."""
    times_iterations: bool = False
    """Whether it learns from the times of single iterations, or of few."""
    follows_chunks: bool = False
    """Whether it sizes chunks by the clock, and by which PE got how much and when."""
    needs: tuple[Need, ...] = ()
    """Parameters that must be given."""
    values: Callable[[Given], tuple[float, ...]] | None = None
    """Makes the technique's own values, at most ``MOST_OWN``: from place ``OWN`` of the column on, and the
    first three in ``reals``.
    """

    @property
    def adaptive(self) -> bool:
        """Whether it learns within a loop."""
        return self.learn is not None

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

    code: int
    """Number of the technique in the kernels; techniques are listed in this order."""
    name: str
    """The word in a scenario file (upper and lower case are the same there)."""
    title: str
    """Full name."""
    recursive: str
    """Chunk size from what is left, as CCA computes it. N iterations, P PEs, R remaining, i the scheduling
    step from 0, b = ⌊i/P⌋ the batch. Every chunk is finally min(max(K, min_chunk), R).
    """
    reference: str
    """Where it comes from."""
    rule: Rule
    """How it sizes chunks."""
    straightforward: str = ""
    """Chunk size from i alone, as DCA computes it; empty where there is no such form."""
    options: tuple[str, ...] = ()
    """Keys of a scenario file that the technique reads besides ``application.min_chunk``."""
    notes: str = ""
    """What the page of techniques says besides, in Markdown."""
    aliases: tuple[str, ...] = ()
    """Other names of it."""
    lb4mpi: Rule | None = None
    """How the library LB4MPI sizes its chunks, maybe by the same rule; None where it lacks the technique."""
    openmp: str = ""
    """OpenMP's schedule for it inside a node (Eleliemy 2021, Table 5.1); empty where there is none."""

    @property
    def constant(self) -> bool:
        """Whether all chunks of a loop have one size."""
        return self.rule.constant

    @property
    def adaptive(self) -> bool:
        """Whether it learns within a loop from measured times."""
        return self.rule.adaptive

    @property
    def counts_overhead(self) -> bool:
        """Whether what it learns from includes the time from the request for a chunk to its start."""
        return self.rule.counts_overhead


_PARAMETERS = "application.parameters."


def parameter_keys(*keys: str) -> tuple[str, ...]:
    """Return the full names of keys of ``application.parameters``."""
    return tuple(_PARAMETERS + key for key in keys)


STATISTICS_KEYS = parameter_keys("sigma", "mu", "statistics")

_DENOMINATOR = 10**9


@cache
def ratio(share: float) -> tuple[int, int]:
    """Return a share as the fraction of its decimal digits: 0.1 is a tenth; one of 30 rounds up to 3."""
    exact = Fraction(repr(float(share))).limit_denominator(_DENOMINATOR)
    return exact.numerator, exact.denominator
