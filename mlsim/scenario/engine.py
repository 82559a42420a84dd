"""Whether a scenario can be simulated by compiled replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlsim.scenario.words import Allocator, ApplicationModel, Dispatcher, Policy, Predictor

if TYPE_CHECKING:
    from mlsim.scenario.schema import Scenario

__all__ = ["replay_obstacle"]


def replay_obstacle(scenario: Scenario) -> tuple[str, str] | None:
    """Say what keeps a scenario from compiled replay: the key and what it would have to be; None: nothing.

    Replay simulates jobs whose end is known when they start, on nodes that are always there.
    """
    batch, platform = scenario.batch, scenario.platform
    wanted = (
        (scenario.application.model is ApplicationModel.RIGID, "application.model", "rigid"),
        (not scenario.coordination.rca, "coordination.rca", "off"),
        (not platform.failures, "platform.failures", "empty"),
        (not platform.random_failures, "platform.random_failures", "empty"),
        (not platform.drains, "platform.drains", "empty"),
        (batch.dispatcher is Dispatcher.QUEUE, "batch.dispatcher", "queue"),
        (isinstance(batch.policy, Policy), "batch.policy", "one of the catalogue"),
        (batch.allocator is Allocator.FIRST_FIT, "batch.allocator", "first-fit"),
        (not platform.resource_names, "platform.nodes", "no memory and no other resources"),
        (scenario.workload.request.cores == 1, "workload.request.cores", "1"),
        (not scenario.workload.dependencies, "workload.dependencies", "off"),
        (batch.power_cap is None, "batch.power_cap", "empty"),
        (batch.predictor is Predictor.WALLTIME, "batch.predictor", "walltime"),
        (batch.pass_interval == 0, "batch.pass_interval", "0 s"),
        (batch.backfill_interval == 0, "batch.backfill_interval", "0 s"),
        (not batch.count_dispatch_time, "batch.count_dispatch_time", "off"),
        (not scenario.output.passes, "output.passes", "off"),
    )
    return next(((key, value) for is_so, key, value in wanted if not is_so), None)
