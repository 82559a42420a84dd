"""What compiled replay needs of a scenario."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from mlsim.scenario.words import Allocator, ApplicationModel, Dispatcher, Policy, Predictor

if TYPE_CHECKING:
    from mlsim.scenario.whole.schema import Scenario

__all__ = ["REPLAY_NEEDS", "REPLAY_NEEDS_OF_JOBS", "ReplayNeed", "replay_needs", "replay_obstacle"]


class ReplayNeed(NamedTuple):
    """A key, the value that replay needs it to have, in words, and whether a scenario has it."""

    key: str
    value: str
    holds: Callable[[Scenario], bool]


REPLAY_NEEDS: Final = (
    ReplayNeed("application.model", "rigid", lambda s: s.application.model is ApplicationModel.RIGID),
    ReplayNeed("coordination.rca", "off", lambda s: not s.coordination.rca),
    ReplayNeed("platform.failures", "empty", lambda s: not s.platform.failures),
    ReplayNeed("platform.random_failures", "empty", lambda s: not s.platform.random_failures),
    ReplayNeed("platform.drains", "empty", lambda s: not s.platform.drains),
    ReplayNeed("batch.dispatcher", "queue", lambda s: s.batch.dispatcher is Dispatcher.QUEUE),
    ReplayNeed("batch.policy", "one of the catalogue", lambda s: isinstance(s.batch.policy, Policy)),
    ReplayNeed("batch.allocator", "first-fit", lambda s: s.batch.allocator is Allocator.FIRST_FIT),
    ReplayNeed("batch.easy", "another one than easy_bf", lambda s: not s.batch.names_nodes),
    ReplayNeed("platform.nodes", "no memory and no other resources", lambda s: not s.platform.resource_names),
    ReplayNeed("platform.shared", "empty", lambda s: not s.platform.shared),
    ReplayNeed("workload.request.cores", "1", lambda s: s.workload.request.cores == 1),
    ReplayNeed("workload.dependencies", "off", lambda s: not s.workload.dependencies),
    ReplayNeed("batch.power_cap", "empty", lambda s: s.batch.power_cap is None),
    ReplayNeed("batch.predictor", "walltime", lambda s: s.batch.predictor is Predictor.WALLTIME),
    ReplayNeed("batch.classifier", "empty", lambda s: s.batch.classifier is None),
    ReplayNeed("batch.pass_interval", "0 s", lambda s: s.batch.pass_interval == 0),
    ReplayNeed("batch.backfill_interval", "0 s", lambda s: s.batch.backfill_interval == 0),
    ReplayNeed("batch.count_dispatch_time", "off", lambda s: not s.batch.count_dispatch_time),
    ReplayNeed("output.passes", "off", lambda s: not s.output.passes),
)
"""All that a scenario must say for replay: it simulates jobs whose end is known when they start, on nodes
that are always there. The help of ``batch.engine`` is made from this; the batch page is held against it."""

REPLAY_NEEDS_OF_JOBS: Final = "no columns request_* in the workload"
"""What the workload itself must not say."""


def replay_needs() -> str:
    """Return all that replay needs, in one line for the help."""
    keys = ", ".join(f"{need.key}: {need.value}" for need in REPLAY_NEEDS)
    return f"{keys}; {REPLAY_NEEDS_OF_JOBS}"


def replay_obstacle(scenario: Scenario) -> tuple[str, str] | None:
    """Return what keeps a scenario from replay: the key and what it would have to be; None: nothing."""
    return next(((need.key, need.value) for need in REPLAY_NEEDS if not need.holds(scenario)), None)
