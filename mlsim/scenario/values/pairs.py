"""Mappings as values of a scenario: they can be hashed, as all its values can."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from mlsim.scenario.values.hints import shown

__all__ = ["Pairs", "as_mapping"]

Name = TypeVar("Name", bound=Hashable)
Value = TypeVar("Value", covariant=True)


@dataclass(frozen=True)
class Pairs(Mapping[Name, Value]):
    """A mapping that can be hashed."""

    pairs: tuple[tuple[Name, Value], ...] = ()

    def __getitem__(self, name: Name) -> Value:
        return dict(self.pairs)[name]

    def __iter__(self) -> Iterator[Name]:
        return (name for name, _ in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)


def as_mapping(value: object, allowed: str) -> Mapping[Any, Any]:
    """Return a value that is a mapping.

    Raises
    ------
    ValueError
        If it is none; the message ends with what is allowed.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"{shown(value)} is no mapping; allowed: {allowed}")
    return value
