"""Whether a scenario can be simulated by compiled replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlsim.scenario.words import ApplicationModel, Predictor

if TYPE_CHECKING:
    from mlsim.scenario.schema import Scenario

__all__ = ["replay_obstacle"]


def replay_obstacle(scenario: Scenario) -> tuple[str, str] | None:
    """Say what keeps a scenario from compiled replay: the key and what it would have to be; None: nothing.

    Replay simulates jobs whose end is known when they start, on nodes that are always there.
    """
    batch = scenario.batch
    wanted = (
        (scenario.application.model is ApplicationModel.RIGID, "application.model", "rigid"),
        (not scenario.coordination.rca, "coordination.rca", "off"),
        (not scenario.platform.failures, "platform.failures", "empty"),
        (batch.predictor is Predictor.WALLTIME, "batch.predictor", "walltime"),
        (batch.pass_interval == 0, "batch.pass_interval", "0 s"),
        (not batch.count_dispatch_time, "batch.count_dispatch_time", "off"),
        (not scenario.output.passes, "output.passes", "off"),
    )
    return next(((key, value) for is_so, key, value in wanted if not is_so), None)
