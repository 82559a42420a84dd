"""Resources and power of nodes and machine, and what jobs ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from mlsim.scenario.amount_types import Amount, MappingType, Pairs, Power, Size
from mlsim.scenario.field_types import Count, FieldType, OneOf, Whole, literal
from mlsim.scenario.section_base import Section, Violation
from mlsim.scenario.unit_types import BANDWIDTH, POWER, SIZE, TIME, format_value, parse_value, shown
from mlsim.scenario.words import MemorySource

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
    """Return the name of a resource, if it is one."""
    if name in (CORES, MEMORY):
        raise ValueError(f"{name} has a key of its own; allowed here: {allowed}")
    if not isinstance(name, str) or not re.fullmatch(RESOURCE_NAME, name):
        raise ValueError(f"{shown(name)} is no name of a resource; allowed: {allowed}")
    return name


Amounts = Pairs[str, int]


class AmountsKind(MappingType):
    """Amounts of resources by name."""

    @property
    def allowed(self) -> str:
        """Accepted values, in words."""
        return f"names with amounts, e.g. {{gpu: 2}}; names in lower case, amounts {_AMOUNT.allowed}"

    def pair(self, name: object, value: object) -> tuple[str, int]:
        """Read the name of a resource, and an amount."""
        resource = resource_name(name, self.allowed)
        try:
            return resource, _AMOUNT.parse(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        return _named(_AMOUNT.json())


def _named(amount: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of amounts by names of resources."""
    return {
        "type": "object",
        "propertyNames": {"pattern": f"^{RESOURCE_NAME}$"},
        "additionalProperties": amount,
    }


ResourceAmounts = Annotated[Amounts, AmountsKind()]


_COUNT = Whole(0, 1_000_000_000)
_DIMENSIONS = {"B": SIZE, "bit/s": BANDWIDTH}
_COUNTED_IN = {"": "", "B": "MB", "bit/s": "Mbit/s"}
_MEGA = 1_000_000
_MOST = 1e18


class Share(NamedTuple):
    """An amount of something that the machine has as a whole."""

    value: float
    """Amount."""
    base: str
    """Of what: ``"B"``, ``"bit/s"``, or nothing, where it is a number of things."""

    @property
    def whole(self) -> int:
        """Counted amount: the number of items, whole MB, or whole Mbit/s, rounded down."""
        return int(self.value // _MEGA) if self.base else int(self.value)

    @property
    def unit(self) -> str:
        """Unit of the counted amount: ``"MB"``, ``"Mbit/s"``, or empty."""
        return _COUNTED_IN[self.base]


SharedAmounts = Pairs[str, Share]


class SharedKind(MappingType):
    """Amounts by name: numbers of things, sizes or bandwidths."""

    @property
    def allowed(self) -> str:
        """Accepted values, in words."""
        return (
            "names with amounts, e.g. {matlab: 20, burst_buffer: 400 TB}; names in lower case, amounts "
            f"{_COUNT.allowed}, a size with its unit, or a bandwidth with its unit"
        )

    def pair(self, name: object, value: object) -> tuple[str, Share]:
        """Read the name of a resource, and an amount."""
        resource = resource_name(name, self.allowed)
        return resource, _amount(resource, value)

    def show(self, value: SharedAmounts) -> object:
        """Return the mapping as a scenario file would write it."""
        return {name: _written(share) for name, share in value.items()}

    def json(self) -> dict[str, Any]:
        """Return the JSON schema of what is accepted."""
        spellings = [literal(word) for dimension in _DIMENSIONS.values() for word in dimension.spellings]
        pattern = rf"^\s*\+?[0-9.][0-9._]*([eE][+-]?[0-9]+)?\s*({'|'.join(spellings)})\s*$"
        return _named({"anyOf": [_COUNT.json(), {"type": "string", "pattern": pattern}]})


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


class RequestConfig(Section):
    """Resources that one unit of a job requests from a node."""

    cores: Count = 1
    """Cores of a unit where a processor of the log is a unit (mapping: core). AccaSim's machine of HPC2N has
    2.
    """
    memory: OneOf[MemorySource] = MemorySource.NONE
    """Which memory (KB a processor) of an SWF log a unit asks for: requested (field 10), used (field 7), or
    none.
    """
    default_memory: Size = Field(0.0, examples=["500 MB"])
    """Memory (B) that a unit requests where the log has none. Counted in whole MB."""
    resources: ResourceAmounts = Field(default_factory=Amounts)
    """Other resources that a unit requests where the workload names none, e.g. {gpu: 1}. Default: none."""
    shared: SharedShares | None = None
    """What a job asks, in all, of what the machine has as a whole (platform.shared) where the workload does
    not say it, e.g. {matlab: 1}. Default: nothing.
    """

    @property
    def shares(self) -> SharedAmounts:
        """A job's request for machine-wide resources."""
        return self.shared or SharedAmounts()


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

    allowed = "a power (W, kW, MW), more than 0 W, or a list of [time, power], in order of time"

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
