"""Power of nodes, and caps on the power of the machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

from pydantic import Field

from mlsim.scenario.values.amounts import Amount, Power
from mlsim.scenario.values.field_types import FieldType
from mlsim.scenario.values.hints import shown
from mlsim.scenario.values.section import Section, Violation
from mlsim.scenario.values.units import POWER, TIME

__all__ = ["PowerCaps", "PowerConfig"]


class PowerConfig(Section):
    """Power of one node, which grows linearly with the cores that jobs hold."""

    idle: Power = Field(examples=["100 W"])
    """Power of a node of which no core is held (W)."""
    busy: Power = Field(examples=["350 W"])
    """Power of a node all of whose cores are held (W)."""
    off: Power = 0.0
    """Power of a node that is out of use (W): failed, or drained and left by its jobs."""

    def broken_rules(self) -> Iterator[Violation]:
        """Check the order of the three."""
        if self.busy < self.idle:
            yield Violation("busy", "is less than idle; allowed: as much or more", ("idle",))
        if self.idle < self.off:
            yield Violation("off", "is more than idle; allowed: as much or less", ("idle",))


@dataclass(frozen=True)
class PowerLevels(FieldType[tuple[tuple[float, float], ...]]):
    """A power, or a list of pairs: from a time on, that much."""

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return "a power (W, kW, MW), more than 0 W, or a list of [time, power], in order of time"

    def parse(self, value: object) -> tuple[tuple[float, float], ...]:
        """Read a power as one that always holds, or a list of pairs."""
        if not isinstance(value, list | tuple):
            return ((0.0, self._power(value)),)
        if not value or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in value):
            raise ValueError(f"{shown(value)} is no list of pairs; allowed: {self.allowed}")
        levels = tuple((Amount(TIME).parse(time), self._power(power)) for time, power in value)
        if any(later <= time for (time, _), (later, _) in pairwise(levels)):
            raise ValueError(f"{shown(value)} is not in order of time; allowed: {self.allowed}")
        return levels

    def _power(self, value: object) -> float:
        return Amount(POWER, positive=True).parse(value)

    def show(self, value: tuple[tuple[float, float], ...]) -> object:
        """Return the power, or the list."""
        if len(value) == 1 and value[0][0] == 0.0:
            return Amount(POWER).show(value[0][1])
        return [[Amount(TIME).show(time), Amount(POWER).show(power)] for time, power in value]

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        time, power = Amount(TIME).json(), Amount(POWER, positive=True).json()
        pair = {"type": "array", "prefixItems": [time, power], "minItems": 2, "maxItems": 2}
        return {"anyOf": [power, {"type": "array", "items": pair, "minItems": 1}]}


PowerCaps = Annotated[tuple[tuple[float, float], ...], PowerLevels()]
