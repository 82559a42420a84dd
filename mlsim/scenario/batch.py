"""The ``batch`` section: how the queue is served."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from mlsim.scenario.amounts import Duration
from mlsim.scenario.kinds import Count, Number, WordKind
from mlsim.scenario.section import BrokenRule, Section
from mlsim.scenario.words import (
    Allocator,
    Backfill,
    Engine,
    OverrunRule,
    Policy,
    ShareOwner,
    TieOrder,
)

__all__ = ["BatchConfig", "FairshareConfig", "WeightsConfig"]

Weight = Annotated[float, Number(-1e12, 1e12)]
_NONE = "Default: 0, it does not count."


class WeightsConfig(Section):
    """The weights of policy linear: more than 0 prefers what the key names, less than 0 the opposite."""

    q: Weight = Field(0.0, description=f"Weight of few processors q (alone: SQF). {_NONE}")
    p: Weight = Field(0.0, description=f"Weight of a short estimate p (s; alone: SPF). {_NONE}")
    wait: Weight = Field(0.0, description=f"Weight of a long wait w (s; alone: FCFS). {_NONE}")
    ratio: Weight = Field(0.0, description=f"Weight of a small ratio p / q (alone: SRF). {_NONE}")
    exp: Weight = Field(
        0.0, description=f"Weight of a large expansion factor (w + p) / p (alone: LEXP). {_NONE}"
    )
    area: Weight = Field(0.0, description=f"Weight of a small estimated area p q (alone: SAF). {_NONE}")

    @property
    def normalised(self) -> tuple[float, ...]:
        """The six weights in the order of the keys, divided by the sum of their absolute values."""
        weights = (self.q, self.p, self.wait, self.ratio, self.exp, self.area)
        total = sum(map(abs, weights)) or 1.0
        return tuple(weight / total for weight in weights)


class FairshareConfig(Section):
    """Whose usage policy fairshare compares, and how it is forgotten."""

    by: Annotated[ShareOwner, WordKind(ShareOwner)] = Field(
        ShareOwner.USER, description="Whose processor-seconds add up: those of a job's user or group."
    )
    half_life: Duration = Field(
        604800.0,
        description="Time after which usage counts half (s). Default: 7 days, as Slurm's "
        "PriorityDecayHalfLife.",
    )


class BatchConfig(Section):
    """The dispatcher, and what it does to jobs that overrun."""

    policy: Annotated[Policy, WordKind(Policy)] = Field(
        Policy.FCFS, description="Order in which the queue is served; `mlsim list policies` explains each."
    )
    weights: WeightsConfig | None = Field(
        None, description="Weights of policy linear, scaled so that their absolute values sum to 1."
    )
    fairshare: FairshareConfig = Field(
        default_factory=FairshareConfig, description="What policy fairshare compares."
    )
    threshold: Duration | None = Field(
        None,
        description="Jobs that have waited longer than this (s) go to the head of the queue, first come "
        "first served among themselves (Zrigui 2021, §4.2). Default: none do.",
        examples=["20 h"],
    )
    backfill: Annotated[Backfill, WordKind(Backfill)] = Field(
        Backfill.NONE,
        description="Whether jobs may overtake: none (the walk stops at the first job that does not fit), "
        "greedy (it is skipped), easy (later jobs start if they do not delay the reservation), conservative "
        "(every waiting job has a reservation that is kept).",
    )
    backfill_order: Annotated[Policy, WordKind(Policy)] | None = Field(
        None,
        description="Policy by which jobs that may overtake are tried, with backfill greedy or easy. "
        "Default: the order of the queue.",
        examples=["SAF"],
    )
    reservations: Count = Field(
        1,
        description="How many jobs that do not fit get a reservation, with backfill easy. Default: one, as "
        "in EASY.",
    )
    ties: Annotated[TieOrder, WordKind(TieOrder)] = Field(
        TieOrder.DRAINED,
        description="What happens at one time: drained (ends, then submissions, then one pass) or per-event "
        "(a pass after every event, submissions before ends; see mlsim/batch/EASY.md).",
    )
    engine: Annotated[Engine, WordKind(Engine)] = Field(
        Engine.AUTO,
        description="What simulates the batch level: simpy, replay (compiled; the same results, for rigid "
        "jobs without messages or failures) or auto (replay where it can).",
    )
    allocator: Annotated[Allocator, WordKind(Allocator)] = Field(
        Allocator.FIRST_FIT, description="Which free nodes a job gets: first-fit takes them in node order."
    )
    on_overrun: Annotated[OverrunRule, WordKind(OverrunRule)] = Field(
        OverrunRule.KILL,
        description="What happens to a job at the end of its estimate: kill (as production systems do) or "
        "extend (it runs on).",
    )
    deadline_factor: Annotated[float, Number(0, low_belongs=False)] = Field(
        2.0, description="Deadline of a job = submit time + factor x estimate. Read by policy EDF only."
    )

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies that order something: of the queue, and of the walk of backfilling."""
        walks = self.backfill_order is not None and self.backfill in (Backfill.GREEDY, Backfill.EASY)
        return (self.policy, self.backfill_order) if walks and self.backfill_order else (self.policy,)

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Check that policy linear has weights."""
        if Policy.LINEAR in self.policies and (self.weights is None or not any(self.weights.normalised)):
            found = "missing" if self.weights is None else "all are 0, which orders nothing"
            message = f"{found}; policy linear needs at least one weight, e.g. {{p: 0.5, wait: 0.5}}"
            yield BrokenRule("weights", message, ("policy", "backfill_order"))
