"""What nodes have and what jobs ask for, beside cores: memory, and resources of any name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from mlsim.scenario.values.amounts import Size
from mlsim.scenario.values.field_types import ChoiceType, Count, FieldType, Whole
from mlsim.scenario.values.hints import shown
from mlsim.scenario.values.section import Section
from mlsim.scenario.words import MemorySource

__all__ = ["CORES", "MEMORY", "Amounts", "RequestConfig", "ResourceAmounts", "megabytes"]

CORES, MEMORY = "cores", "memory"
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
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


@dataclass(frozen=True)
class Amounts(Mapping[str, int]):
    """Amounts by name; a mapping that can be hashed."""

    pairs: tuple[tuple[str, int], ...] = ()

    def __getitem__(self, name: str) -> int:
        return dict(self.pairs)[name]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)


@dataclass(frozen=True)
class AmountsKind(FieldType[Amounts]):
    """Amounts of resources by name."""

    @property
    def allowed(self) -> str:
        """What is accepted, in words."""
        return f"names with amounts, e.g. {{gpu: 2}}; names in lower case, amounts {_AMOUNT.allowed}"

    def parse(self, value: object) -> Amounts:
        """Read a mapping."""
        if not isinstance(value, Mapping):
            raise ValueError(f"{shown(value)} is no mapping; allowed: {self.allowed}")
        return Amounts(tuple((self._name(name), self._amount(name, value[name])) for name in value))

    def show(self, value: Amounts) -> object:
        """Return the mapping."""
        return dict(value)

    def _name(self, name: object) -> str:
        if name in (CORES, MEMORY):
            raise ValueError(f"{name} has a key of its own; allowed here: {self.allowed}")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"{shown(name)} is no name of a resource; allowed: {self.allowed}")
        return name

    def _amount(self, name: object, amount: object) -> int:
        try:
            return _AMOUNT.parse(amount)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return {
            "type": "object",
            "propertyNames": {"pattern": f"^{_NAME.pattern}$"},
            "additionalProperties": _AMOUNT.json(),
        }


ResourceAmounts = Annotated[Amounts, AmountsKind()]


class RequestConfig(Section):
    """What one unit of a job asks of a node."""

    cores: Count = Field(
        1,
        description="Cores of a unit where a processor of the log is a unit (mapping: core). AccaSim's "
        "machine of HPC2N has 2.",
    )
    memory: Annotated[MemorySource, ChoiceType(MemorySource)] = Field(
        MemorySource.NONE,
        description="Which memory (KB a processor) of an SWF log a unit asks for: requested (field 10), used "
        "(field 7), or none.",
    )
    default_memory: Size = Field(
        0.0,
        description="Memory (B) that a unit asks for where the log does not say it. Counted in whole MB.",
        examples=["500 MB"],
    )
    resources: ResourceAmounts = Field(
        default_factory=Amounts,
        description="What a unit asks of other resources where the workload does not say it, e.g. {gpu: 1}. "
        "Default: nothing.",
    )
