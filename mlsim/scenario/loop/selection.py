"""The ``selection`` section: which technique a loop of several time steps takes next, by which method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from mlsim.scenario.loop.techniques import TechniqueKind
from mlsim.scenario.values.amounts import Seconds
from mlsim.scenario.values.field_types import FieldType, Number, OneOf, Whole
from mlsim.scenario.values.hints import shown
from mlsim.scenario.values.section import Section
from mlsim.scenario.words import KnownCosts, SelectionGoal, SelectionMethod, Technique, TemporalDifference

__all__ = ["READS", "SelectionConfig"]


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
    measured); see mlsim/application/selection/README.md.
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
    chunk_time: Seconds = 1e-7
    """Time that simulating one chunk takes (s), which the loop waits for before each time step. For method
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
    case. For method simulation.
    """
