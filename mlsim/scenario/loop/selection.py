"""The ``selection`` section: which technique a loop of several time steps takes next, by which method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from mlsim.scenario.loop.techniques import TechniqueKind
from mlsim.scenario.values.amounts import Seconds
from mlsim.scenario.values.field_types import FieldType, Number, OneOf, Whole
from mlsim.scenario.values.hints import shown
from mlsim.scenario.values.section import Section
from mlsim.scenario.words import (
    Compat,
    ExecutionModel,
    KnownCosts,
    LockOrder,
    SelectionGoal,
    SelectionMethod,
    Technique,
    TemporalDifference,
)

__all__ = ["READS", "SelectionConfig", "cannot_stop", "learner_amid_loop"]


@dataclass(frozen=True)
class PortfolioKind(FieldType[tuple[str, ...]]):
    """Techniques to choose from, each once, two or more."""

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return "a list of two techniques or more, each once, such as [STATIC, GSS, AF]; not auto"

    def parse(self, value: object) -> tuple[str, ...]:
        """Read the names; those of the catalogue in upper or lower case."""
        if not isinstance(value, list | tuple) or len(value) < 2:
            raise ValueError(f"{shown(value)} is no portfolio; allowed: {self.allowed}")
        names = tuple(map(TechniqueKind(selects=False).parse, value))
        twice = [name for row, name in enumerate(names) if name in names[:row]]
        if twice:
            raise ValueError(f"{twice[0]} stands there twice; allowed: {self.allowed}")
        return names

    def show(self, value: tuple[str, ...]) -> object:
        """Return the names as a list."""
        return [TechniqueKind(selects=False).show(name) for name in value]

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return {"type": "array", "items": TechniqueKind(selects=False).json(), "minItems": 2}


_PORTFOLIO = (
    *(Technique.STATIC, Technique.GSS, Technique.TSS, Technique.FAC2),
    *(Technique.MFSC, Technique.AF, Technique.SS),
)

READS = {
    "threshold": SelectionMethod.EXHAUSTIVE,
    "learner": SelectionMethod.RL,
    "learning_rate": SelectionMethod.RL,
    "discount": SelectionMethod.RL,
    "exploration": SelectionMethod.RL,
    "every": SelectionMethod.SIMULATION,
    "chunk_time": SelectionMethod.SIMULATION,
    "share": SelectionMethod.SIMULATION,
    "samples": SelectionMethod.SIMULATION,
    "costs": SelectionMethod.SIMULATION,
}
"""Keys that one method alone reads -> that method."""


class SelectionConfig(Section):
    """How technique: auto chooses."""

    method: OneOf[SelectionMethod] = SelectionMethod.SIMULATION
    """expert (fuzzy rules on imbalance and times), exhaustive (each technique in one time step, then the
    best), random, rl (Q-learning or SARSA), or simulation (of the portfolio, with costs and speeds as
    measured); see docs/reference/selection.md.
    """
    portfolio: Annotated[tuple[str, ...], PortfolioKind()] = _PORTFOLIO
    """Techniques to choose from. For method expert in order of their chunks, the largest first."""
    goal: OneOf[SelectionGoal] = SelectionGoal.T_LOOP
    """What is to be least: t_loop, the time of a time step, or imbalance, the percent imbalance of the PEs'
    finish times (Eleliemy 2021, Eq. 2.16).
    """
    threshold: Annotated[float, Number(0)] = 10.0
    """Change of the percent imbalance, in percentage points, after which exhaustive tries all techniques
    again.
    """
    learner: OneOf[TemporalDifference] = TemporalDifference.Q_LEARNING
    """q-learning or sarsa. For method rl."""
    learning_rate: Annotated[float, Number(0, 1, low_belongs=False)] = 0.5
    """How far a value moves towards what was just seen. For method rl. Default: our choice."""
    discount: Annotated[float, Number(0, 1)] = 0.6
    """What the next time step counts, as a share of this one. For method rl. Default: our choice."""
    exploration: Annotated[float, Number(0, 1)] = 0.1
    """Probability of a random technique, once each has been tried. For method rl. Default: our choice."""
    every: Annotated[float, Number(0, 1, low_belongs=False)] | None = None
    """Share of a loop's iterations to be executed between two choices amid the loop, for what is left of it;
    models cca and dca. For method simulation. Default: choices are made before time steps only.
    """
    chunk_time: Seconds = 1e-7
    """Time that simulating one chunk takes (s), which the loop waits for at each choice. For method
    simulation. Default: 10 million chunks a second, what one core does.
    """
    share: Annotated[float, Number(0, 1)] = 0.01
    """Share of the loop's time so far that all simulations together may take; techniques with many chunks
    wait for their turn. For method simulation.
    """
    samples: Annotated[int, Whole(1, 1000)] = 1
    """How many loops with different random costs are simulated of each technique; the mean decides. For
    method simulation.
    """
    costs: OneOf[KnownCosts] = KnownCosts.MEASURED
    """What is taken for the costs of the iterations: those measured so far, or the loop's own profile
    (application.costs), as if it had been stored by an earlier run; speeds of PEs are measured in either
    case, but those before the first time step with a profile, which are the platform's. For method
    simulation.
    """

    @property
    def chooses_within(self) -> bool:
        """Whether techniques are chosen amid loops as well."""
        return self.every is not None and self.method is SelectionMethod.SIMULATION


def cannot_stop(model: str, lock: str, compat: str, request_ahead: int) -> Iterator[str]:
    """Yield why a loop cannot stop for a choice amid it.

    Parameters
    ----------
    model, lock, request_ahead
        As in a scenario's ``application.execution``.
    compat
        As in its ``application.parameters``.
    """
    if model not in _STOPPING:
        yield (
            f"model {model} has several queues, or is your own, and only the rest of one can have another "
            f"technique; allowed: models {', '.join(_STOPPING)}, or choices between time steps, without every"
        )
    elif model is ExecutionModel.DCA and lock == LockOrder.POLLING:
        yield "who chooses holds the window, which has no order of turns with lock: polling; allowed: fifo"
    if model is ExecutionModel.CCA and request_ahead > 0:
        yield (
            "a worker that asks ahead has its next chunk while it executes another, and the master does not "
            "know which; allowed: request_ahead: 0"
        )
    if compat == Compat.LB4MPI:
        yield "LB4MPI has one technique for a loop; allowed: parameters.compat: none"


def learner_amid_loop(technique: str) -> str:
    """Return why a class of the user cannot be chosen amid a loop."""
    return f"{technique} is a class, which remembers its loop from the begin; allowed: functions and names"


_STOPPING = (ExecutionModel.CCA, ExecutionModel.DCA)
