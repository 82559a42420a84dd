"""Kinds of values with a unit: times, speeds, bandwidths, sizes, and amounts of work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from mlsim.scenario.values.field_types import FieldType, literal
from mlsim.scenario.values.hints import shown
from mlsim.scenario.values.units import (
    BANDWIDTH,
    FLOP,
    POWER,
    RATE,
    SIZE,
    TIME,
    Dimension,
    format_value,
    parse_value,
)

__all__ = [
    "Amount",
    "Bandwidth",
    "Duration",
    "PositiveWork",
    "Power",
    "Quantity",
    "Seconds",
    "Size",
    "Speed",
    "Work",
    "WorkAmount",
]


@dataclass(frozen=True)
class Amount(FieldType[float]):
    """A number with a unit, held in the dimension's base unit."""

    dimension: Dimension
    positive: bool = False

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return f"{self.dimension.noun} ({', '.join(self.dimension.units)}), {self._limit}"

    @property
    def _limit(self) -> str:
        return f"more than 0 {self.dimension.base}" if self.positive else f"0 {self.dimension.base} or more"

    def parse(self, value: object) -> float:
        """Read a number, taken in the base unit, or a text with a unit."""
        number, _ = parse_value(value, self.dimension)
        _check_size(value, number, self.positive, self._limit, self.dimension)
        return number

    def show(self, value: float) -> str:
        """Return the value as a scenario file would write it."""
        return format_value(value, self.dimension)

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return _amount_schema(self.positive, self.dimension)


class Quantity(NamedTuple):
    """An amount of work: a time at the reference speed, or a number of operations."""

    value: float
    """How much."""
    unit: Literal["s", "FLOP"]
    """Of what: ``"s"`` or ``"FLOP"``."""


@dataclass(frozen=True)
class WorkAmount(FieldType[Quantity]):
    """A time at the reference speed, or a number of operations."""

    positive: bool = False

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        units = ", ".join(TIME.units + FLOP.units)
        return f"a time or a number of FLOP ({units}), {self._limit}"

    @property
    def _limit(self) -> str:
        return "more than 0" if self.positive else "0 or more"

    def parse(self, value: object) -> Quantity:
        """Read a number, taken in seconds, a text with a unit, or a quantity."""
        if isinstance(value, Quantity):
            value = f"{value.value!r} {value.unit}"
        number, unit = parse_value(value, TIME, FLOP)
        _check_size(value, number, self.positive, self._limit, TIME if unit == "s" else FLOP)
        return Quantity(number, "s" if unit == "s" else "FLOP")

    def show(self, value: Quantity) -> str:
        """Return the value as a scenario file would write it."""
        return format_value(value.value, TIME if value.unit == "s" else FLOP)

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return _amount_schema(self.positive, TIME, FLOP)


def _check_size(value: object, number: float, positive: bool, limit: str, dimension: Dimension) -> None:
    if number > dimension.most:
        most = f"at most {dimension.most:.3g} {dimension.base}"
        raise ValueError(f"{shown(value)} is too large; allowed: {most}")
    if number < 0 or (positive and number == 0):
        raise ValueError(f"{shown(value)} is too small; allowed: {limit}")


def _amount_schema(positive: bool, *dimensions: Dimension) -> dict[str, Any]:
    spellings = [literal(word) for dimension in dimensions for word in dimension.spellings]
    pattern = rf"^\s*\+?[0-9.][0-9._]*([eE][+-]?[0-9]+)?\s*({'|'.join(spellings)})?\s*$"
    number = {"type": "number", "exclusiveMinimum" if positive else "minimum": 0}
    example = [dimension.example for dimension in dimensions]
    return {"anyOf": [number, {"type": "string", "pattern": pattern}], "examples": example}


Seconds = Annotated[float, Amount(TIME)]
Duration = Annotated[float, Amount(TIME, positive=True)]
Speed = Annotated[float, Amount(RATE, positive=True)]
Bandwidth = Annotated[float, Amount(BANDWIDTH, positive=True)]
Size = Annotated[float, Amount(SIZE)]
Power = Annotated[float, Amount(POWER)]
Work = Annotated[Quantity, WorkAmount()]
PositiveWork = Annotated[Quantity, WorkAmount(positive=True)]
