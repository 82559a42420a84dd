"""The ``batch`` section: how the queue is served."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mlsim.scenario.kinds import Number, WordKind
from mlsim.scenario.predictors import PredictorName
from mlsim.scenario.section import Section
from mlsim.scenario.words import Allocator, Backfill, OverrunRule, Policy, Predictor

__all__ = ["BatchConfig"]


class BatchConfig(Section):
    """The dispatcher, and what it does to jobs that overrun."""

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
        description="What happens to a job at the end of its walltime: kill (as production systems do) or "
        "extend (it runs on). A job that outlives a shorter prediction goes on in any case.",
    )
    predictor: PredictorName = Field(
        Predictor.WALLTIME,
        description="What predicts run times for the dispatcher: walltime (what the user asked), actual (an "
        "oracle), D, D2, L2 or EASY++ (learn from completed jobs), a class in a file, or an installed one; "
        "`mlsim list predictors` explains each.",
    )
    deadline_factor: Annotated[float, Number(0, low_belongs=False)] = Field(
        2.0, description="Deadline of a job = submit time + factor x estimate. Read by policy EDF only."
    )
