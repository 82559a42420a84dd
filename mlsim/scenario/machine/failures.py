"""Nodes out of use, in the ``platform`` section: failures, listed or random, and drains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from mlsim.scenario.values.amounts import Duration, Seconds
from mlsim.scenario.values.field_types import Natural, Number, Switch
from mlsim.scenario.values.lists import NodeChoice
from mlsim.scenario.values.section import Section, Violation

__all__ = ["DrainConfig", "FailureConfig", "RandomFailureConfig"]


class FailureConfig(Section):
    """One node fails at one time."""

    node: Natural = Field(examples=[0])
    """Number of the node, from 0 in platform order."""
    at: Seconds = Field(examples=["1 h"])
    """When it fails (s from the scenario's start). What becomes of the jobs on it is batch.on_failure's to
    say.
    """
    repair: Duration | None = None
    """How long it is out of use (s). Default: until the end of the run."""


class RandomFailureConfig(Section):
    """Nodes fail and are repaired again and again at random, each by itself."""

    nodes: NodeChoice | None = None
    """The nodes: numbers such as 0-3 7, or the name of a group. Default: all."""
    mtbf: Duration = Field(examples=["30 d"])
    """Mean time between failures of one node (s): from its repair, or time 0, to its next failure."""
    mttr: Duration = Field(examples=["4 h"])
    """Mean time to repair a node (s), exponentially distributed."""
    shape: Annotated[float, Number(0.1, 10.0)] = 1.0
    """Shape of the Weibull distribution of the times between failures. 1, the default: exponential; below 1,
    failures come in bursts (0.7 to 0.8 in Schroeder and Gibson 2006).
    """


class DrainConfig(Section):
    """Maintenance: no job starts on some nodes from a time on; jobs that run there may finish."""

    nodes: NodeChoice | None = None
    """The nodes: numbers such as 0-3 7, or the name of a group. Default: all."""
    start: Seconds = Field(examples=["8 h"])
    """From when on no job starts on them (s from the scenario's start)."""
    end: Duration | None = None
    """When they are in use again (s). Default: not before the end of the run."""
    announced: Switch = False
    """Whether dispatchers know of it before and plan around it: a job that is expected to run into it does
    not start on these nodes.
    """
    announced_at: Seconds = Field(0.0, examples=["1 d"])
    """From when on they know of it (s from the scenario's start). Needs announced: on."""

    def broken_rules(self) -> Iterator[Violation]:
        """Check the order of times."""
        if self.end is not None and self.end <= self.start:
            yield Violation("end", "is not after start; allowed: a later time than start", ("start",))
        if self.announced_at > 0.0 and not self.announced:
            message = "nobody is told of this drain; write announced: on, or take it out"
            yield Violation("announced_at", message, ("announced",))
        if self.announced_at > self.start:
            message = "is after start; allowed: start, or an earlier time"
            yield Violation("announced_at", message, ("start",))
