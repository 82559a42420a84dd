"""The selector that a section of a scenario describes."""

from __future__ import annotations

from mlsim._arrays import Floats
from mlsim.application.selection.by_simulation import BySimulation, Simulate
from mlsim.application.selection.expert import Expert
from mlsim.application.selection.learning import Learner
from mlsim.application.selection.selector import ByTrial, RandomSelector, Selector
from mlsim.scenario import KnownCosts, SelectionConfig, SelectionMethod

__all__ = ["make_selector"]


def make_selector(
    config: SelectionConfig,
    n: int,
    p: int,
    seed: int,
    simulate: Simulate,
    measured: bool = False,
    profile: Floats | None = None,
    speed: Floats | None = None,
) -> Selector:
    """Make it.

    Parameters
    ----------
    config
        Method, portfolio and their options.
    n, p
        Iterations and PEs of the loop.
    seed
        Of random numbers.
    simulate
        For method simulation.
    measured
        Whether simulating takes as long as it is measured to, not as long as the section says.
    profile
        float64[N]: costs of the iterations, in s at speed 1, for ``costs: profile``.
    speed
        float64[P]: speeds of the PEs before any is measured, for ``costs: profile``.
    """
    portfolio, goal = config.portfolio, config.goal
    match config.method:
        case SelectionMethod.EXPERT:
            return Expert(portfolio, goal)
        case SelectionMethod.EXHAUSTIVE:
            return ByTrial(portfolio, goal, config.threshold)
        case SelectionMethod.RANDOM:
            return RandomSelector(portfolio, goal, seed)
        case SelectionMethod.RL:
            rates = config.learning_rate, config.discount, config.exploration
            return Learner(portfolio, goal, seed, config.learner, *rates)
    chunk_time = None if measured else config.chunk_time
    known = profile if config.costs is KnownCosts.PROFILE else None
    return BySimulation(
        portfolio, goal, n, p, simulate, seed, config.samples, config.share, chunk_time, known, speed
    )
