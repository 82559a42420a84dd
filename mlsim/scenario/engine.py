"""Whether a scenario can be simulated by compiled replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlsim.scenario.words import Allocator, ApplicationModel, Dispatcher, Policy

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
    if scenario.batch.dispatcher is not Dispatcher.QUEUE:
        return "batch.dispatcher", "queue"
    if not isinstance(scenario.batch.policy, Policy):
        return "batch.policy", "one of the catalogue"
    if scenario.batch.allocator is not Allocator.FIRST_FIT:
        return "batch.allocator", "first-fit"
    if scenario.platform.resource_names:
        return "platform.nodes", "no memory and no other resources"
    if scenario.workload.request.cores > 1:
        return "workload.request.cores", "1"
    return None
