"""Numbers with units, and how messages show values."""

import difflib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from numbers import Real

_LONGEST = 60


class AdviceError(ValueError):
    """An error in a value, with what is allowed or what to do."""


def shown(value: object) -> str:
    r"""Show a value the user gave, on one line and not too long.

    Examples
    --------
    >>> shown("a\nb"), shown(True), shown([1, 2])
    ("'a\\nb'", 'true', 'a list')
    """
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "nothing"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 4] + "..." + text[0] * isinstance(value, str)


def nearest(word: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """Ask whether similar words were meant: ``" did you mean 'policy'?"``, or nothing."""
    words = list(dict.fromkeys(map(str, known)))
    close = [candidate for candidate in words if candidate.casefold() == word.casefold()]
    if not close:
        folded = {candidate.casefold(): candidate for candidate in words}
        found = difflib.get_close_matches(word.casefold(), folded, n=5, cutoff=likeness)
        # Swapped letters are the likelier mistake: SFA was meant to be SAF and not SRF.
        found.sort(key=lambda match: sorted(match) != sorted(word.casefold()))
        close = [folded[match] for match in found[:1]]
    return f" did you mean {' or '.join(map(repr, close))}?" if close else ""


@dataclass(frozen=True)
class Dimension:
    """One kind of quantity."""

    noun: str  # in messages: "a time"
    base: str  # the unit in which values are held and bare numbers are read
    units: tuple[str, ...]  # spellings that messages name and that values are written in
    others: tuple[str, ...]  # further spellings that are understood
    example: str  # a value as it would be written
    most: float = 1e30  # the largest value that calculations can be trusted with, in the base unit

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every spelling that is understood."""
        return self.units + self.others


def _prefixed(prefixes: str, *units: str) -> tuple[str, ...]:
    return tuple(prefix + unit for unit in units for prefix in prefixes.split(","))


TIME = Dimension(
    "a time",
    "s",
    ("ns", "us", "ms", "s", "min", "h", "d", "w"),
    (
        *("µs", "μs", "sec", "secs", "second", "seconds", "mins", "minute", "minutes"),
        *("hr", "hrs", "hour", "hours", "day", "days", "week", "weeks"),
    ),
    "500 ns",
    2.0**53,
)
FLOP = Dimension(
    "a number of floating-point operations", "FLOP", _prefixed(",k,M,G,T,P", "FLOP"), (), "2.5 MFLOP"
)
RATE = Dimension(
    "a speed", "FLOP/s", _prefixed(",k,M,G,T,P", "FLOP/s"), _prefixed(",k,M,G,T,P", "FLOPS"), "12 GFLOP/s"
)
BANDWIDTH = Dimension(
    "a bandwidth",
    "bit/s",
    _prefixed(",k,M,G,T", "bit/s", "B/s") + _prefixed("Ki,Mi,Gi,Ti", "B/s"),
    _prefixed(",k,M,G,T", "b/s", "bps") + _prefixed("Ki,Mi,Gi,Ti", "bit/s"),
    "50 Gbit/s",
)
SIZE = Dimension(
    "a size",
    "B",
    _prefixed(",k,M,G,T", "B") + _prefixed("Ki,Mi,Gi,Ti", "B") + ("bit",),
    _prefixed("k,M,G,T,Ki,Mi,Gi,Ti", "bit"),
    "16 B",
    1e15,
)
POWER = Dimension("a power", "W", _prefixed(",k,M", "W"), (), "350 W", 1e12)
DIMENSIONS = (TIME, FLOP, RATE, BANDWIDTH, SIZE, POWER)

_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?)\s*(\S.*?)?\s*")

_NAMED: dict[str, Decimal] = {
    **dict.fromkeys(
        ("s", "sec", "secs", "second", "seconds", "bit", "b", "bps", "FLOP", "FLOPS", "W"), Decimal(1)
    ),
    "ns": Decimal("1e-9"),
    **dict.fromkeys(("us", "µs", "μs"), Decimal("1e-6")),
    "ms": Decimal("1e-3"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), Decimal(60)),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), Decimal(3600)),
    **dict.fromkeys(("d", "day", "days"), Decimal(86_400)),
    **dict.fromkeys(("w", "week", "weeks"), Decimal(604_800)),
    "B": Decimal(8),
}
"""Units spelt without a prefix, in s, bit, FLOP or W."""
_PREFIXES: dict[str, int] = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15} | {
    prefix: 1024**power for power, prefix in enumerate(("Ki", "Mi", "Gi", "Ti"), start=1)
}


def _factor(unit: str, base: str) -> Decimal:
    """Return how many ``base`` one ``unit`` is."""
    return _named(unit) / _named(base)


@cache
def _named(unit: str) -> Decimal:
    stem = unit.removesuffix("/s")
    if stem in _NAMED:
        return _NAMED[stem]
    prefix = next(prefix for prefix in (stem[:2], stem[:1]) if prefix in _PREFIXES)
    return Decimal(_PREFIXES[prefix]) * _NAMED[stem.removeprefix(prefix)]


def parse_value(value: object, *dimensions: Dimension) -> tuple[float, str]:
    """Read a number, in the first dimension's base unit, or a text such as ``"1.5 ms"``, as a value in SI.

    Return the value and its base unit. The ValueError lists what is allowed.

    Examples
    --------
    >>> parse_value("500 ns", TIME)
    (5e-07, 's')
    >>> parse_value("3 TFLOP/s", RATE)
    (3000000000000.0, 'FLOP/s')
    """
    number, dimension = _read(value, dimensions)
    if not math.isfinite(number):
        raise AdviceError(f"{shown(value)} is not a finite number; {_allowed(dimensions)}")
    return number, dimension.base


def _read(value: object, dimensions: tuple[Dimension, ...]) -> tuple[float, Dimension]:
    if isinstance(value, Real) and not isinstance(value, bool):
        return nearest_float(value), dimensions[0]
    match = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if match is not None and match[2] is None:
        return float(Decimal(match[1])), dimensions[0]
    unit = match[2] if match is not None else ""
    for dimension in dimensions:
        if match is not None and unit in dimension.spellings:
            return float(Decimal(match[1]) * _factor(unit, dimension.base)), dimension
    nouns = " or ".join(dimension.noun for dimension in dimensions)
    others = [dimension.noun for dimension in DIMENSIONS if unit in dimension.spellings]
    found = f"{shown(value)} is {others[0]}, not {nouns}" if others else f"{shown(value)} is not {nouns}"
    known = [spelling for dimension in dimensions for spelling in dimension.spellings]
    meant = nearest(unit, known, 0.8) if unit and not others else ""
    raise AdviceError(f"{found};{meant} {_allowed(dimensions)}")


def nearest_float(value: Real) -> float:
    """Return a number as a float; a whole number that no float can hold becomes an infinity."""
    try:
        return float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf


def _allowed(dimensions: tuple[Dimension, ...]) -> str:
    units = " or ".join(", ".join(dimension.units) for dimension in dimensions)
    return f"allowed: {units}; e.g. '{dimensions[0].example}'"


def format_value(value: float, dimension: Dimension) -> str:
    """Write a value with the unit that makes the shortest text which reads back as the same value.

    Examples
    --------
    >>> format_value(5e-7, TIME), format_value(129600.0, TIME), format_value(5e10, BANDWIDTH)
    ('500 ns', '36 h', '50 Gbit/s')
    """
    exact = Decimal(repr(value))
    texts = [f"{value!r} {dimension.base}"]
    for unit in dimension.units:
        number = (exact / _factor(unit, dimension.base)).normalize()
        if -7 < number.adjusted() < 17:
            texts.append(f"{number:f} {unit}")
    same = [text for text in texts if parse_value(text, dimension)[0] == value]
    return min(same, key=lambda text: (len(text), text.startswith("0."), text.split()[1] != dimension.base))
