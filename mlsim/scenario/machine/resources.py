"""What nodes have and what jobs ask for, beside cores: memory, and resources of any name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from mlsim.scenario.values.field_types import FieldType, Whole
from mlsim.scenario.values.hints import shown
from mlsim.scenario.values.pairs import Pairs, as_mapping

__all__ = [
    "CORES",
    "MEMORY",
    "RESOURCE_NAME",
    "Amounts",
    "ResourceAmounts",
    "megabytes",
    "resource_name",
]

CORES, MEMORY = "cores", "memory"
RESOURCE_NAME = r"[a-z][a-z0-9_-]*"
_AMOUNT = Whole(0, 1_000_000_000)


def megabytes(size: float) -> int:
    """Return whole MB (10^6 B) of a size in bytes, rounded down.

    What nodes have and what units ask for are both rounded down, so that k requests of a k-th of a node
    always fit on it.

    Examples
    --------
    >>> megabytes(16e9), megabytes(2**30)
    (16000, 1073)
    """
    return int(size // 1_000_000)


def resource_name(name: object, allowed: str) -> str:
    """Return the name of a resource, if it is one.

    Raises
    ------
    ValueError
        If it is not, or has a key of its own; the message ends with what is allowed.
    """
    if name in (CORES, MEMORY):
        raise ValueError(f"{name} has a key of its own; allowed here: {allowed}")
    if not isinstance(name, str) or not re.fullmatch(RESOURCE_NAME, name):
        raise ValueError(f"{shown(name)} is no name of a resource; allowed: {allowed}")
    return name


class Amounts(Pairs[str, int]):
    """Amounts by name; a mapping that can be hashed."""


@dataclass(frozen=True)
class AmountsKind(FieldType[Amounts]):
    """Amounts of resources by name."""

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return f"names with amounts, e.g. {{gpu: 2}}; names in lower case, amounts {_AMOUNT.allowed}"

    def parse(self, value: object) -> Amounts:
        """Read a mapping."""
        given = as_mapping(value, self.allowed)
        return Amounts(
            tuple((resource_name(name, self.allowed), self._amount(name, given[name])) for name in given)
        )

    def show(self, value: Amounts) -> object:
        """Return the mapping."""
        return dict(value)

    def _amount(self, name: object, amount: object) -> int:
        try:
            return _AMOUNT.parse(amount)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return {
            "type": "object",
            "propertyNames": {"pattern": f"^{RESOURCE_NAME}$"},
            "additionalProperties": _AMOUNT.json(),
        }


ResourceAmounts = Annotated[Amounts, AmountsKind()]
