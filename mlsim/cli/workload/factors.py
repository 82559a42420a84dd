"""Options of factors by which walltimes exceed run times."""

from __future__ import annotations

__all__ = ["read_factors"]


def read_factors(option: str, text: str) -> tuple[float, float]:
    """Read FACTOR or LOW:HIGH."""
    from mlsim.errors import InputError

    low, colon, high = text.partition(":")
    try:
        return float(low), float(high if colon else low)
    except ValueError as error:
        raise InputError(f"{option} {text}; allowed: FACTOR or LOW:HIGH, such as 1.5 or 1:3") from error
