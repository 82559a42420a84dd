"""Shares by name, such as of the jobs that ask for a resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlsim.scenario.values.field_types import FieldType
from mlsim.scenario.values.hints import shown
from mlsim.scenario.values.pairs import Pairs, as_mapping

__all__ = ["NamedShares", "NamedSharesKind"]


class NamedShares(Pairs[str, float]):
    """Shares by name; a mapping that can be hashed."""


@dataclass(frozen=True)
class NamedSharesKind(FieldType[NamedShares]):
    """Numbers from 0 to 1 by name."""

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return "names of resources with shares, 0 to 1, e.g. {gpu: 0.75}"

    def parse(self, value: object) -> NamedShares:
        """Read a mapping."""
        given = as_mapping(value, self.allowed)
        pairs = []
        for name, share in given.items():
            number = share if isinstance(share, int | float) and not isinstance(share, bool) else -1
            if not 0 <= number <= 1:
                raise ValueError(f"{shown(name)}: {shown(share)}; allowed: {self.allowed}")
            pairs.append((str(name), float(number)))
        return NamedShares(tuple(pairs))

    def show(self, value: NamedShares) -> object:
        """Return the mapping."""
        return dict(value)

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return {"type": "object", "additionalProperties": {"type": "number", "minimum": 0, "maximum": 1}}
