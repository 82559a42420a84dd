"""What the machine has as a whole and jobs ask for: licences, a burst buffer, bandwidth to a file system."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from mlsim.scenario.machine.resources import RESOURCE_NAME, resource_name
from mlsim.scenario.values.field_types import FieldType, Whole, literal
from mlsim.scenario.values.hints import shown
from mlsim.scenario.values.pairs import Pairs, as_mapping
from mlsim.scenario.values.units import BANDWIDTH, SIZE, format_value, parse_value

__all__ = ["Share", "SharedAmounts", "SharedShares"]

_COUNT = Whole(0, 1_000_000_000)
_DIMENSIONS = {"B": SIZE, "bit/s": BANDWIDTH}
_COUNTED_IN = {"": "", "B": "MB", "bit/s": "Mbit/s"}
_MEGA = 1_000_000
_MOST = 1e18


class Share(NamedTuple):
    """An amount of something that the machine has as a whole."""

    value: float
    """How much."""
    base: str
    """Of what: ``"B"``, ``"bit/s"``, or nothing, where it is a number of things."""

    @property
    def whole(self) -> int:
        """What is counted: the number of things, whole MB, or whole Mbit/s, rounded down."""
        return int(self.value // _MEGA) if self.base else int(self.value)

    @property
    def unit(self) -> str:
        """What it is counted in: ``"MB"``, ``"Mbit/s"``, or nothing."""
        return _COUNTED_IN[self.base]


class SharedAmounts(Pairs[str, Share]):
    """Amounts of what a machine has as a whole, by name; a mapping that can be hashed."""


@dataclass(frozen=True)
class SharedKind(FieldType[SharedAmounts]):
    """Amounts by name: numbers of things, sizes or bandwidths."""

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return (
            "names with amounts, e.g. {matlab: 20, burst_buffer: 400 TB}; names in lower case, amounts "
            f"{_COUNT.allowed}, a size with its unit, or a bandwidth with its unit"
        )

    def parse(self, value: object) -> SharedAmounts:
        """Read a mapping."""
        given = as_mapping(value, self.allowed)
        return SharedAmounts(
            tuple((resource_name(name, self.allowed), _amount(name, given[name])) for name in given)
        )

    def show(self, value: SharedAmounts) -> object:
        """Return the mapping as a scenario file would write it."""
        return {name: _written(share) for name, share in value.items()}

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        spellings = [literal(word) for dimension in _DIMENSIONS.values() for word in dimension.spellings]
        pattern = rf"^\s*\+?[0-9.][0-9._]*([eE][+-]?[0-9]+)?\s*({'|'.join(spellings)})\s*$"
        amount = {"anyOf": [_COUNT.json(), {"type": "string", "pattern": pattern}]}
        return {
            "type": "object",
            "propertyNames": {"pattern": f"^{RESOURCE_NAME}$"},
            "additionalProperties": amount,
        }


def _amount(name: str, amount: object) -> Share:
    try:
        if isinstance(amount, Share):
            return amount
        if not isinstance(amount, str):
            return Share(_COUNT.parse(amount), "")
        if not re.search(r"[A-Za-z]", amount):
            raise ValueError(f"{shown(amount)} has no unit; write a number of things without quotes")
        number, base = parse_value(amount, SIZE, BANDWIDTH)
        if not 0 <= number <= _MOST:
            raise ValueError(f"{shown(amount)} is out of range; allowed: 0 to {_MOST:.0e} {base}")
        return Share(number, base)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _written(share: Share) -> object:
    return format_value(share.value, _DIMENSIONS[share.base]) if share.base else int(share.value)


SharedShares = Annotated[SharedAmounts, SharedKind()]
