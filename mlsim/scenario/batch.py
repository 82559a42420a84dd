"""The ``batch`` section: how the queue is served."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from mlsim.scenario.amounts import Duration
from mlsim.scenario.kinds import Natural, Number, WordKind
from mlsim.scenario.power import PowerCaps
from mlsim.scenario.section import BrokenRule, Section
from mlsim.scenario.words import Allocator, Backfill, FailureRule, OverrunRule, Policy

__all__ = ["BatchConfig"]

_MOST_RESTARTS = 5


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
        description="What happens to a job at the end of its estimate: kill (as production systems do) or "
        "extend (it runs on).",
    )
    deadline_factor: Annotated[float, Number(0, low_belongs=False)] = Field(
        2.0, description="Deadline of a job = submit time + factor x estimate. Read by policy EDF only."
    )
    power_cap: PowerCaps | None = Field(
        None,
        description="No pass starts a job that would push the power of the machine above this (W). A list "
        "sets it anew from time to time. Needs platform.nodes.N.power, and that each whole node (with "
        "mapping core: each core) adds the same power when a job holds it. Default: no cap.",
        examples=["20 kW"],
    )
    on_failure: Annotated[FailureRule, WordKind(FailureRule)] = Field(
        FailureRule.DIE,
        description="What becomes of a job when a node it holds fails: die, restart (it goes back to the "
        "queue with its own submit time and starts from the beginning) or resume (it goes on where it "
        "stopped, or at its last checkpoint; not for application.model: loop).",
    )
    max_restarts: Natural | None = Field(
        None,
        description="How often a job may start again before it dies. For on_failure: restart and resume. "
        "Default: 5, as in Slurm (MaxBatchRequeue).",
    )
    checkpoint: Duration | None = Field(
        None,
        description="Run time of an attempt (s) after which its state is saved, again and again; what came "
        "since is lost. Saving takes no time. For on_failure: resume. Default: nothing is lost.",
        examples=["10 min"],
    )

    @property
    def most_restarts(self) -> int:
        """How often a job may start again."""
        return _MOST_RESTARTS if self.max_restarts is None else self.max_restarts

    def broken_rules(self) -> Iterator[BrokenRule]:
        """Check that what goes with restarts has them."""
        readers = {
            "max_restarts": (FailureRule.RESTART, FailureRule.RESUME),
            "checkpoint": (FailureRule.RESUME,),
        }
        for key, rules in readers.items():
            if getattr(self, key) is not None and self.on_failure not in rules:
                needed = " or ".join(rules)
                message = (
                    f"needs on_failure: {needed}, and it is {self.on_failure}; write that, or take it out"
                )
                yield BrokenRule(key, message, ("on_failure",))
