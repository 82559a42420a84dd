"""Resources and power of nodes and machine, and what jobs ask for."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, NamedTuple

from pydantic import Field

from mlsim.errors import InputError
from mlsim.scenario import field_types, words
from mlsim.scenario.amount_types import Power, Size, amount, amount_text, list_schema
from mlsim.scenario.field_types import Count, FieldType, OneOf, Pairs, mapping_of, whole
from mlsim.scenario.section_base import Parameters, Section, Violation

CORES, MEMORY = "cores", "memory"
RESOURCE_NAME = r"[a-z][a-z0-9_-]*"
_COUNT = whole(0, 1_000_000_000)
DEVICE_PARTS = 1000
"""A job may ask for so many parts of a device."""
MOST_DEVICES = 62
"""Devices of a node, of all resources together."""


class Devices(int):
    """So many devices of a node; a job gets whole ones, or a share of one."""

    __slots__ = ()


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


def resource_name(name: object) -> str:
    """Return the name of a resource, if it is one."""
    if name in (CORES, MEMORY):
        raise ValueError(f"{name} has a key of its own")
    if not isinstance(name, str) or not re.fullmatch(RESOURCE_NAME, name):
        raise ValueError(f"{field_types.shown(name)} is no name of a resource")
    return name


Amounts = Pairs[str, int]
Wishes = Pairs[str, float]


def _amount_of(name: object, value: object) -> tuple[str, int]:
    resource = resource_name(name)
    devices = re.fullmatch(r"(\d+) devices?", value) if isinstance(value, str) else None
    try:
        if isinstance(value, Devices):
            return resource, value
        return resource, Devices(_COUNT.parse(int(devices[1]))) if devices else _COUNT.parse(value)
    except ValueError as error:
        raise field_types.AdviceError(f"{name}: {error}") from error


def _wish_of(name: object, value: object) -> tuple[str, float]:
    if isinstance(value, float) and device_parts(value) > 0:
        return resource_name(name), value
    return _amount_of(name, None if isinstance(value, str) else value)


def device_parts(share: float) -> int:
    """Return the thousandths that a share of a device is, of 0.001 to 0.999; 0: it is no such share."""
    parts = round(share * DEVICE_PARTS)
    return parts if 0 < parts < DEVICE_PARTS and abs(share * DEVICE_PARTS - parts) < 1e-6 else 0


def _written_amount(amount: object) -> object:
    return f"{amount} devices" if isinstance(amount, Devices) else amount


_NAMES = {"propertyNames": {"pattern": f"^{RESOURCE_NAME}$"}}
_DEVICES = {"type": "string", "pattern": "^[0-9]+ devices?$"}
_SHARES = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
ResourceAmounts = Annotated[
    Amounts,
    mapping_of(
        "names with amounts, e.g. {gpu: 2} or {gpu: 2 devices}; names in lower case, amounts "
        f"{_COUNT.allowed}, or so many devices",
        _amount_of,
        _NAMES | {"additionalProperties": {"anyOf": [_COUNT.json(), _DEVICES]}},
        _written_amount,
    ),
]
ResourceWishes = Annotated[
    Wishes,
    mapping_of(
        f"names with amounts, e.g. {{gpu: 2}} or {{gpu: 0.5}}; names in lower case, amounts {_COUNT.allowed}"
        ", or a share of a device, 0.001 to 0.999 in steps of 0.001",
        _wish_of,
        _NAMES | {"additionalProperties": {"anyOf": [_COUNT.json(), _SHARES]}},
    ),
]


_DIMENSIONS = {"B": field_types.SIZE, "bit/s": field_types.BANDWIDTH}
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


def _share_of(name: object, value: object) -> tuple[str, Share]:
    resource = resource_name(name)
    try:
        return resource, value if isinstance(value, Share) else _read_share(value)
    except ValueError as error:
        raise field_types.AdviceError(f"{resource}: {error}") from error


def _read_share(value: object) -> Share:
    if not isinstance(value, str):
        return Share(_COUNT.parse(value), "")
    if not re.search(r"[A-Za-z]", value):
        raise ValueError(f"{field_types.shown(value)} has no unit; write a number of things without quotes")
    size, base = field_types.parse_value(value, field_types.SIZE, field_types.BANDWIDTH)
    if not 0 <= size <= _MOST:
        raise ValueError(f"{field_types.shown(value)} is out of range; allowed: 0 to {_MOST:.0e} {base}")
    return Share(size, base)


def _written(share: Share) -> object:
    return field_types.format_value(share.value, _DIMENSIONS[share.base]) if share.base else int(share.value)


_SHARE = {"anyOf": [_COUNT.json(), amount_text(field_types.SIZE, field_types.BANDWIDTH, needs_unit=True)]}
SharedShares = Annotated[
    SharedAmounts,
    mapping_of(
        "names with amounts, e.g. {matlab: 20, burst_buffer: 400 TB}; names in lower case, amounts "
        f"{_COUNT.allowed}, a size with its unit, or a bandwidth with its unit",
        _share_of,
        _NAMES | {"additionalProperties": _SHARE},
        _written,
    ),
]


class RequestConfig(Section):
    """Resources that one unit of a job requests from a node."""

    cores: Count = 1
    """Cores of a unit where a processor of the log is a unit (mapping: core). AccaSim's machine of HPC2N has
    2.
    """
    memory: OneOf[words.MemorySource] = words.MemorySource.NONE
    """Which memory (KB a processor) of an SWF log a unit asks for: requested (field 10), used (field 7), or
    none.
    """
    default_memory: Size = Field(0.0, examples=["500 MB"])
    """Memory (B) that a unit requests where the log has none. Counted in whole MB."""
    resources: ResourceWishes = Field(default_factory=Wishes)
    """Other resources that a unit requests where the workload names none, e.g. {gpu: 1}; of devices a share
    too, {gpu: 0.5}. Default: none.
    """
    shared: SharedShares | None = None
    """What a job asks, in all, of what the machine has as a whole (platform.shared) where the workload does
    not say it, e.g. {matlab: 1}. Default: nothing.
    """

    @property
    def shares(self) -> SharedAmounts:
        """A job's request for machine-wide resources."""
        return self.shared or SharedAmounts()


_MOST_DRAWN = 10**9


@dataclass(frozen=True, slots=True)
class DrawnRequest:
    """The amount of one resource per unit of a job: uniform in ``low`` … ``high`` (memory in MB)."""

    name: str
    low: int
    high: int
    share: float = 1.0  # of the jobs that request it
    gflops: float = 0.0  # speed of one of them [GFLOP/s]; 0: it does not compute


def parse_requests(
    given: Mapping[str, object], gflops: Mapping[str, float] | None = None
) -> tuple[DrawnRequest, ...]:
    """Read ranges ``LOW:HIGH`` or ``LOW:HIGH@SHARE`` of resources; an InputError if one makes no sense.

    Examples
    --------
    >>> parse_requests({"gpu": "1:2@0.25"})
    (DrawnRequest(name='gpu', low=1, high=2, share=0.25, gflops=0.0),)
    """
    speeds = dict(gflops or {})
    found = tuple(
        replace(_parsed(name.strip(), str(text)), gflops=speeds.pop(name, 0.0))
        for name, text in sorted(given.items())
    )
    for name, speed in speeds.items():
        raise InputError(f"gflops {name}={speed:g}: no request names {name}; give one, or leave this out")
    if any(not 0 <= request.gflops < math.inf for request in found):
        raise InputError("gflops: allowed: GFLOP/s of one, 0 or more")
    return found


def _parsed(name: str, text: str) -> DrawnRequest:
    limits, at, share_text = text.partition("@")
    low_text, colon, high_text = limits.partition(":")
    try:
        low, high = (_amount(name, part) for part in (low_text, high_text if colon else low_text))
        share = float(share_text) if at else 1.0
        if not (0 <= low <= high <= _MOST_DRAWN and 0 < share <= 1):
            raise ValueError
        if not name.isidentifier() or name == CORES:
            raise ValueError
    except ValueError:
        raise InputError(
            f"request {name}={text}: allowed: RESOURCE=LOW:HIGH, whole amounts per unit (memory in MB, or "
            "with its unit), with @SHARE of the jobs that request it, such as gpu=1:2@0.25; not cores"
        ) from None
    return DrawnRequest(name, low, high, share)


def _amount(name: str, text: str) -> int:
    if name == MEMORY and not text.strip().isdecimal():
        return math.ceil(field_types.parse_value(text, field_types.SIZE)[0] / 1e6)
    return int(text)


class PowerConfig(Parameters):
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


Levels = tuple[tuple[float, float], ...]
_TIME, _POWER = amount(field_types.TIME), amount(field_types.POWER, positive=True)


def _read_levels(value: object) -> Levels:
    """Read a power as one that always holds, or a list of pairs: from a time on, that much."""
    if not isinstance(value, list | tuple):
        return ((0.0, _POWER.parse(value)),)
    if not value or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in value):
        raise ValueError(f"{field_types.shown(value)} is no list of pairs")
    levels = tuple((_TIME.parse(time), _POWER.parse(power)) for time, power in value)
    if any(later <= time for (time, _), (later, _) in pairwise(levels)):
        raise ValueError(f"{field_types.shown(value)} is not in order of time")
    return levels


def _show_levels(value: Levels) -> object:
    if len(value) == 1 and value[0][0] == 0.0:
        return _POWER.show(value[0][1])
    return [[_TIME.show(time), _POWER.show(power)] for time, power in value]


_PAIR = {"type": "array", "prefixItems": [_TIME.json(), _POWER.json()], "minItems": 2, "maxItems": 2}
PowerCaps = Annotated[
    Levels,
    FieldType(
        "a power (W, kW, MW), more than 0 W, or a list of [time, power], in order of time",
        _read_levels,
        {"anyOf": [_POWER.json(), list_schema(_PAIR)]},
        _show_levels,
    ),
]
