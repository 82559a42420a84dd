"""What models cost, in seconds, told by their size: the same on every machine.

Limits hold for a whole pass. Where clocks decide, time that building took is taken off; where results have
to repeat, it must not be measured. So it is told by the number of parts of a model, its variables and
constraints. The figures here were measured on one core of a busy machine (``tools/bench/cp_passes.py``) and
are near the dearest seen, so that passes end early and not late.
"""

from __future__ import annotations

from typing import TypeVar

from mlsim._arrays import Floats

__all__ = ["SECONDS_A_PART", "building", "presolving"]

SECONDS_A_PART = 10e-6
"""Making a variable or a constraint, and CP-SAT's reading it; more where constraints have many terms."""
_SECONDS_A_PAIR = 3e-7
"""Presolve: it grows with about the square of the parts."""


Parts = TypeVar("Parts", float, Floats)


def building(parts: Parts, each: float = SECONDS_A_PART) -> Parts:
    """Return how long a model of so many variables and constraints takes to build and read (s)."""
    return each * parts


def presolving(parts: float) -> float:
    """Return how long CP-SAT's presolve may take (s); it takes no notice of limits."""
    return _SECONDS_A_PAIR * parts * parts
