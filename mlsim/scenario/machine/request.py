"""What jobs ask for beside processors where their log does not say it."""

from __future__ import annotations

from pydantic import Field

from mlsim.scenario.machine.resources import Amounts, ResourceAmounts
from mlsim.scenario.machine.shared import SharedAmounts, SharedShares
from mlsim.scenario.values.amounts import Size
from mlsim.scenario.values.field_types import Count, OneOf
from mlsim.scenario.values.section import Section
from mlsim.scenario.words import MemorySource

__all__ = ["RequestConfig"]


class RequestConfig(Section):
    """What one unit of a job asks of a node."""

    cores: Count = 1
    """Cores of a unit where a processor of the log is a unit (mapping: core). AccaSim's machine of HPC2N has
    2.
    """
    memory: OneOf[MemorySource] = MemorySource.NONE
    """Which memory (KB a processor) of an SWF log a unit asks for: requested (field 10), used (field 7), or
    none.
    """
    default_memory: Size = Field(0.0, examples=["500 MB"])
    """Memory (B) that a unit asks for where the log does not say it. Counted in whole MB."""
    resources: ResourceAmounts = Field(default_factory=Amounts)
    """What a unit asks of other resources where the workload does not say it, e.g. {gpu: 1}. Default:
    nothing.
    """
    shared: SharedShares | None = None
    """What a job asks, in all, of what the machine has as a whole (platform.shared) where the workload does
    not say it, e.g. {matlab: 1}. Default: nothing.
    """

    @property
    def shares(self) -> SharedAmounts:
        """What a job asks of what the machine has as a whole."""
        return self.shared or SharedAmounts()
