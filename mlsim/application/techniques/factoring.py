"""Factoring by halves (FAC2): batches of P equal chunks, each batch half of what is left."""

from __future__ import annotations

from mlsim._jit import kernel
from mlsim.application.techniques.fixed import ceil_div

__all__ = ["factoring_recursive_size", "factoring_straightforward_size"]

_BITS = 62


@kernel
def factoring_recursive_size(i: int, remaining: int, p: int, previous: int) -> int:
    """FAC2 from what is left: ⌈R/2P⌉ at the start of a batch, else the chunk before again.

    Hummel, Schonberg and Flynn 1992; Eleliemy 2021, Eq. 2.7. Rounded up: rounded down as printed
    there, R < 2P would give chunks of no iterations.
    """
    return ceil_div(remaining, 2 * p) if i % p == 0 else previous


@kernel
def factoring_straightforward_size(i: int, n: int, p: int) -> int:
    """FAC2 from the step alone: ⌈N/(P·2^(b+1))⌉, b = ⌊i/P⌋ (Eleliemy 2021, Eq. 4.2)."""
    halvings = i // p + 1
    if halvings > _BITS:
        return 1
    # ⌈N/(P·2^h)⌉ = ⌈⌈N/2^h⌉/P⌉, which needs no product that could overflow
    return ceil_div(ceil_div(n, 1 << halvings), p)
