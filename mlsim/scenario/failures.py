"""Node failures of the ``platform`` section."""

from __future__ import annotations

from pydantic import Field

from mlsim.scenario.amounts import Duration, Seconds
from mlsim.scenario.kinds import Natural
from mlsim.scenario.section import Section

__all__ = ["FailureConfig"]


class FailureConfig(Section):
    """One node fails at one time."""

    node: Natural = Field(description="Number of the node, from 0 in platform order.", examples=[0])
    at: Seconds = Field(
        description="When it fails (s from the scenario's start). Jobs that hold it fail with it.",
        examples=["1 h"],
    )
    repair: Duration | None = Field(
        None, description="How long it is out of use (s). Default: until the end of the run."
    )
