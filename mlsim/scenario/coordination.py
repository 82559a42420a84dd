"""The ``coordination`` section: the messages between the batch and the application level."""

from __future__ import annotations

from pydantic import Field

from mlsim.scenario.amounts import Seconds
from mlsim.scenario.kinds import Switch
from mlsim.scenario.section import Section

__all__ = ["CoordinationConfig"]


class CoordinationConfig(Section):
    """Whether applications tell the batch level which of their nodes have run out of work."""

    rca: Switch = Field(
        False,
        description="Resourceful coordination (Eleliemy 2021, ch. 6): idle nodes of a running job are given "
        "to waiting jobs. Needs application.model: loop.",
    )
    latency: Seconds | None = Field(
        None,
        description="Time a message takes between an application and the batch level (s). "
        "Default: platform.network.latency. Read with rca: on only.",
    )
