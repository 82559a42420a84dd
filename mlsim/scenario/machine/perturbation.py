"""An entry of ``platform.perturbations``: when which nodes are slower than they should be."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from mlsim.scenario.values.amounts import Duration, Seconds
from mlsim.scenario.values.lists import Factors, NodeChoice
from mlsim.scenario.values.section import Section, Violation

__all__ = ["PerturbationConfig"]


class PerturbationConfig(Section):
    """A slow-down of some nodes: for one stretch of time, or again and again at random."""

    nodes: NodeChoice | None = None
    """The nodes: numbers such as 0-3 7, or the name of a group. Default: all."""
    begin: Seconds = Field(0.0, alias="from")
    """When it begins (s of simulated time)."""
    end: Duration | None = Field(None, alias="to")
    """When it ends (s of simulated time). Default: never."""
    factor: Factors = Field(examples=[0.5])
    """The nodes' speed is multiplied by this meanwhile; 0.5 is half as fast. Where several hold at once, all
    multiply. A range is for the random process: each of its slow-downs draws one.
    """
    mean_time_between: Duration | None = Field(None, examples=["1 h"])
    """Makes it a random process, one for each node: mean time (s) from the end of a slow-down to the start of
    the next, exponentially distributed. Not without mean_duration.
    """
    mean_duration: Duration | None = Field(None, examples=["1 min"])
    """Mean duration of the random slow-downs (s), exponentially distributed. Not without
    mean_time_between.
    """

    @property
    def is_random(self) -> bool:
        """Whether it is a random process."""
        return self.mean_time_between is not None

    def broken_rules(self) -> Iterator[Violation]:
        """Check the order of times, and that the keys are those of a stretch or of a process."""
        if self.end is not None and self.end <= self.begin:
            yield Violation("to", "is not after from; allowed: a later time than from", ("from",))
        lengths = {"mean_time_between": self.mean_time_between, "mean_duration": self.mean_duration}
        missing = [key for key, value in lengths.items() if value is None]
        if len(missing) == 1:
            other = next(key for key in lengths if key not in missing)
            yield Violation(missing[0], f"missing; the random process of {other} needs it", (other,))
        if len(missing) == 2 and self.factor[0] != self.factor[1]:
            message = (
                "a range is for a random process; give one number, or mean_time_between and mean_duration"
            )
            yield Violation("factor", message, tuple(lengths))
