"""Whether a scenario can be simulated by compiled replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlsim.scenario.words import ApplicationModel

if TYPE_CHECKING:
    from mlsim.scenario.schema import Scenario

__all__ = ["replay_obstacle"]


def replay_obstacle(scenario: Scenario) -> tuple[str, str] | None:
    """Say what keeps a scenario from compiled replay: the key and what it would have to be; None: nothing.

    Replay simulates jobs whose end is known when they start, on nodes that are always there.
    """
    if scenario.application.model is not ApplicationModel.RIGID:
        return "application.model", "rigid"
    if scenario.coordination.rca:
        return "coordination.rca", "off"
    if scenario.platform.failures:
        return "platform.failures", "empty"
    return None
