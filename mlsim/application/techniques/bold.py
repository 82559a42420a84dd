"""The bold strategy (BOLD): chunk sizes from what is left and what is under way (Hagerup 1997).

Chunks are larger than factoring's while much is left, as many small ones later make up for what the large
ones get wrong. The rule knows the iterations that no PE has finished, M, and estimates how many of them
nobody has executed yet, N: a PE that got K iterations at time s has executed (t - s)·K/(K·μ + h) of them at
time t.

Hagerup keeps N and M as numbers that every request changes. Here they follow from sums over the PEs: with
v_q = K_q/(K_q·μ + h), N = M - t·Σ v_q + Σ v_q·s_q. ``measured`` and ``sums`` are AF's arrays: the first row
of ``measured`` has the size of each PE's chunk, the two trees of ``sums`` the v_q and the v_q·s_q, and the
first element of ``sums`` M.
"""

from __future__ import annotations

import math

from mlsim._arrays import Floats
from mlsim._jit import inner_kernel
from mlsim.application.techniques.adaptive import put

SIZE = 0
SPEED, HEAD = 0, 1
ROUNDING = 1e-9


@inner_kernel
def note_finished(measured: Floats, sums: Floats, pe: int) -> None:
    """Note that a PE, which asks for a chunk, has finished the one before."""
    if measured[SIZE, pe] > 0.0:
        sums[0, 0] -= measured[SIZE, pe]
        measured[SIZE, pe] = 0.0
        put(sums, SPEED, pe, 0.0)
        put(sums, HEAD, pe, 0.0)


@inner_kernel
def note_assigned(
    measured: Floats, sums: Floats, pe: int, size: int, mu: float, overhead: float, now: float
) -> None:
    """Note that a PE got a chunk of ``size`` iterations at time ``now``, in s."""
    measured[SIZE, pe] = size
    speed = size / (size * mu + overhead)
    put(sums, SPEED, pe, speed)
    put(sums, HEAD, pe, speed * now)


@inner_kernel
def bold_size(sums: Floats, remaining: int, p: int, variation: float, overhead: float, now: float) -> int:
    """Return BOLD's chunk for a PE that has finished the one before (Hagerup 1997).

    With Q = R/P, a = 2(σ/μ)², b = 8a·ln(8a), v = Q/(b + Q), c = h/(μ·ln 2), d = R/(1 + 1/ln Q - v),
    t = max(R, N)/P: K = t where d <= c·√(2π), and else
    min(t + max(0, c·w) + s/2 - √(s·(t + s/4)), t) with s = a·ln(d/(c·√(2π)))·(1 + M/(P·max(R, N))) and
    w = ln(b·v·ln Q), or ln ln Q where b <= 0. K is 1 for Q <= 1.

    Parameters
    ----------
    sums
        What is known of the chunks under way.
    remaining, p
        Iterations that nobody has got, R >= 1, and PEs.
    variation, overhead
        σ/μ and h/μ > 0.
    now
        Time, in s, on the clock of ``note_assigned``.

    Notes
    -----
    Rounded down, as LB4OMP does; a value within 1e-9 (relative) of the next integer counts as that one.
    """
    if remaining <= p:
        return 1
    unfinished = sums[0, 0]
    work = max(unfinished - now * sums[SPEED, 1] + sums[HEAD, 1], float(remaining))
    share, a = work / p, 2.0 * variation * variation
    b = 8.0 * a * math.log(8.0 * a) if a > 0.0 else 0.0
    q = remaining / p
    log_q, v = math.log(q), q / (b + q)
    c = overhead / math.log(2.0)
    least = math.sqrt(2.0 * math.pi) * c
    d = remaining / (1.0 + 1.0 / log_q - v)
    size = share
    if d > least:
        s = a * math.log(d / least) * (1.0 + unfinished / (work * p))
        w = math.log(b * v * log_q) if b > 0.0 else math.log(log_q)
        # The printed difference loses its digits where s >> t; multiplied out by its conjugate:
        size = share * share / (share + s / 2.0 + math.sqrt(s * (share + s / 4.0))) + max(0.0, c * w)
    return int(min(size, share) * (1.0 + ROUNDING))
