"""The ``batch`` section: how the queue is served."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mlsim.scenario.kinds import Number, WordKind
from mlsim.scenario.section import Section
from mlsim.scenario.words import Allocator, Backfill, Dispatcher, OverrunRule, Policy

__all__ = ["BatchConfig"]


class BatchConfig(Section):
    """The dispatcher, and what it does to jobs that overrun."""

    dispatcher: Annotated[Dispatcher, WordKind(Dispatcher)] = Field(
        Dispatcher.QUEUE,
        description="Who decides: queue (policy, backfilling and allocator) or reject (rejects every job in "
        "the pass of its submission; what is left is the speed of the simulator itself).",
    )
    policy: Annotated[Policy, WordKind(Policy)] = Field(
        Policy.FCFS, description="Order in which the queue is served; `mlsim list policies` explains each."
    )
    backfill: Annotated[Backfill, WordKind(Backfill)] = Field(
        Backfill.NONE,
        description="Whether jobs may overtake: none (the walk stops at the first job that does not fit) or "
        "easy (later jobs start if they do not delay the one reservation).",
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
