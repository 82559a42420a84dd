"""The record of a technique: its formulas, compiled functions, parameters and learning.

The scenario takes the names of techniques from these records, so this module loads no compiler.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple


class Need(NamedTuple):
    """A required parameter of a technique."""

    key: str  # in ``application.parameters``
    meaning: str
    positive: bool  # whether 0 is rejected


SIGMA = Need("sigma", "the standard deviation of the iteration times", False)
MU = Need("mu", "the mean of the iteration times", True)
OVERHEAD = Need("overhead", "the scheduling overhead of one chunk", True)


class Given(NamedTuple):
    """The scenario's values from which a technique computes its own ``values``."""

    parameters: Any  # section ``application.parameters`` of the scenario
    seed: int
    sigma: float  # standard deviation of the iteration times in s, given or profiled; 0 if not needed
    mu: float  # their mean in s, likewise
    spread: float  # shortest over longest of sampled iteration times; 0 if not needed


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
    samples: bool = False  # whether it may read the costs of a sample of iterations
    needs: tuple[Need, ...] = ()
    values: Callable[[Given], tuple[float, ...]] | None = None
    """Computes the technique's own values, at most ``MOST_OWN``: in ``parameters`` from index ``OWN``, and
    the first three in ``reals``.
    """

    @property
    def needs_statistics(self) -> bool:
        """Whether it needs σ, or σ and μ, of the iteration times."""
        return any(need.key == SIGMA.key for need in self.needs)


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
