"""Durations, counts and shares as readable text."""

from itertools import pairwise

ENDS = ("killed", "failed", "rejected", "withdrawn", "backfilled")
"""Counts of jobs that are shown unless they are 0."""
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
_MISSING = "-"


def duration(seconds: float | None) -> str:
    """Format a duration in its two largest units.

    >>> duration(12965.0), duration(0.25), duration(59.96), duration(86400.0), duration(None)
    ('3 h 36 min', '0.25 s', '1 min 0 s', '1 d 0 h', '-')
    """
    if seconds is None:
        return _MISSING
    if abs(seconds) < 59.95:
        return f"{number(seconds)} s"
    if seconds < 0:
        return f"-{duration(-seconds)}"
    for (large, size), (small, part) in pairwise(_UNITS):
        parts = round(seconds / part)
        if parts * part >= size:
            whole, rest = divmod(parts * part, size)
            return f"{whole} {large} {rest // part} {small}"
    return f"{number(seconds)} s"


def clock(seconds: float | None) -> str:
    """Write a duration narrowly: seconds, hours:minutes:seconds, or days and hours:minutes.

    >>> clock(12.3), clock(12965.0), clock(93784.0), clock(3387232.0), clock(None)
    ('12.3 s', '3:36:05', '1 d 02:03', '39.2 d', '-')
    """
    if seconds is None or abs(seconds) < 59.5:
        return duration(seconds)
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}:{minutes:02}:{rest:02}"
    if hours < 240:
        return f"{hours // 24} d {hours % 24:02}:{minutes:02}"
    return f"{seconds / 86400:.1f} d"


def brief(seconds: float | None) -> str:
    """Write a time that may be far below a second.

    >>> brief(2.5e-6), brief(0.0314), brief(2.0), brief(0.0), brief(None)
    ('2.5 µs', '31.4 ms', '2 s', '0 s', '-')
    """
    if seconds is None:
        return _MISSING
    if seconds == 0 or abs(seconds) >= 1:
        return f"{number(seconds)} s"
    return f"{number(seconds * 1e6)} µs" if abs(seconds) < 1e-3 else f"{number(seconds * 1e3)} ms"


def number(value: float | None) -> str:
    """Write a number with three digits or, from 100 up, all digits of its whole part if these are few.

    >>> number(0.25), number(3.14159), number(12965.4), number(0.0), number(2.5e-7), number(None)
    ('0.25', '3.14', '12,965', '0', '2.5e-07', '-')
    >>> number(1246459432.0)
    '1.25e+09'
    """
    if value is None:
        return _MISSING
    return f"{value:,.0f}" if 100 <= abs(value) < 1e6 else f"{value:.3g}"


def count(amount: int, noun: str) -> str:
    """Write how many there are of something.

    >>> count(1, "node"), count(1200, "node")
    ('1 node', '1,200 nodes')
    """
    return f"{amount:,} {noun}" if amount == 1 else f"{amount:,} {noun}s"


def share(value: float | None) -> str:
    """Write a share of 1 in percent.

    >>> share(0.838), share(None)
    ('83.8 %', '-')
    """
    return _MISSING if value is None else f"{value * 100:.1f} %"
