"""The bold strategy (BOLD): chunk sizes from the unassigned and the unfinished iterations (Hagerup 1997).

Chunks are larger than factoring's while many iterations are left, as many small chunks later correct the
errors. The rule knows the number of unfinished iterations, M, and estimates the number of unexecuted ones, N:
a PE that got K iterations at time s has executed (t - s)·K/(K·μ + h) of them at time t.

Hagerup updates N and M with every request. Here they are computed from sums over the PEs: with
v_q = K_q/(K_q·μ + h), N = M - t·Σ v_q + Σ v_q·s_q. ``measured`` and ``sums`` are AF's arrays: the first row
of ``measured`` is the size of each PE's chunk, the two trees of ``sums`` are the v_q and the v_q·s_q, and the
first element of ``sums`` is M.
"""

import math

from mlsim._jit import inner_kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim.techniques.pe_statistics import put
from mlsim.techniques.rule_layout import SIZE as COUNTED
from mlsim.techniques.technique_entry import MU, OVERHEAD, SIGMA, Given, Rule, TechniqueEntry, parameter_keys

# Row of ``measured``; rows of ``sums``.
SIZE = 0
SPEED, HEAD = 0, 1
ROUNDING = 1e-9


@inner_kernel
def bold_size(sums: Floats, remaining: int, p: int, variation: float, overhead: float, now: float) -> int:
    """Return BOLD's chunk for a PE that has finished its previous one (Hagerup 1997).

    With Q = R/P, a = 2(σ/μ)², b = 8a·ln(8a), v = Q/(b + Q), c = h/(μ·ln 2), d = R/(1 + 1/ln Q - v),
    t = max(R, N)/P: K = t where d <= c·√(2π), and else
    min(t + max(0, c·w) + s/2 - √(s·(t + s/4)), t) with s = a·ln(d/(c·√(2π)))·(1 + M/(P·max(R, N))) and
    w = ln(b·v·ln Q), or ln ln Q where b <= 0. K is 1 for Q <= 1.

    ``variation`` is σ/μ, ``overhead`` h/μ > 0, ``now`` the time in s on the common clock. Rounded down, as
    in LB4OMP; a value within 1e-9 (relative) of the next integer counts as that one.
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
        # The printed difference cancels where s >> t, so it is expanded by its conjugate:
        size = share * share / (share + s / 2.0 + math.sqrt(s * (share + s / 4.0))) + max(0.0, c * w)
    return int(min(size, share) * (1.0 + ROUNDING))


def _values(given: Given) -> tuple[float, ...]:
    """Return σ/μ, μ and h, the last two in s."""
    return given.sigma / given.mu, given.mu, given.parameters.overhead or 0.0


@inner_kernel
def _chunk(
    rule: Ints,
    reals: Floats,
    measured: Floats,
    sums: Floats,
    remaining: int,
    pe: int,
    now: float,
    n: int,
    p: int,
    min_chunk: int,
) -> int:
    """Size the next chunk of a PE, which has finished its previous one, and update the sums."""
    # M starts at N; inside a node, each of the node's chunks is added to its PEs' unfinished iterations.
    if rule[COUNTED] == 0:
        sums[0, 0] += n
        rule[COUNTED] = 1
    if measured[SIZE, pe] > 0.0:
        sums[0, 0] -= measured[SIZE, pe]
        put(sums, SPEED, pe, 0.0)
        put(sums, HEAD, pe, 0.0)
    variation, mu, overhead = reals[0], reals[1], reals[2]  # as in ``_values``
    size = bold_size(sums, remaining, p, variation, overhead / mu, now)
    size = min(max(size, min_chunk), remaining)
    speed = size / (size * mu + overhead)
    measured[SIZE, pe] = size
    put(sums, SPEED, pe, speed)
    put(sums, HEAD, pe, speed * now)
    return size


_NOTES = """\
Hagerup's bold strategy (1997) assigns larger chunks than factoring while many iterations are left; many
later small chunks correct the errors. It knows the number of unfinished iterations, M, and estimates the
number of unexecuted ones, N: the PE that got K iterations at time s has executed (t − s)·K/(K·μ + h) of
them at time t, and all of them once it requests again. With Q = R/P, r = max(R, N), t = r/P,

    a = 2·(σ/μ)²   b = 8·a·ln(8·a)   c = h/(μ·ln 2)   v = Q/(b + Q)   d = R/(1 + 1/ln Q − v)
    s = a·ln(d/(c·√(2π)))·(1 + M/(r·P))   w = ln(b·v·ln Q), ln ln Q where b ≤ 0

a chunk is min(t + max(0, c·w) + s/2 − √(s·(t + s/4)), t); t where d ≤ c·√(2π); 1 where Q ≤ 1. It is
rounded down, as in LB4OMP, whose published code the formulas were compared with. LB4OMP counts μ and h
in whole ticks, and ignores the time until a thread's first request.

- t is the time at which the master serves the request, or at which the PE that holds the lock has read
  the remaining iterations. In real runs all ranks read rank 0's clock.
- BOLD holds the lock under `dca`, as AF does. mlsim rejects it under `steal`, which has no queue with
  information on all chunks.
- Inside a node, the chunk of the node is added to the chunks that its PEs execute. Between nodes a node
  counts as one PE, and σ, μ and h are its own, as with FSC, FAC and TAP.
- BOLD does not know speeds of PEs: a fast PE counts as finished when it requests.

The table shows the experiments of its source, with exponential iterations with μ = σ = 1 s and h = 0.5 s
per chunk. It lists the wasted time (s, T_loop less Σ cost/P; `cca` with a dedicated master, h as
latency; mean of 100 loops, of 30 with N = 65,536):

| N | P | SS | FSC | GSS | TSS | FAC | FAC2 | BOLD |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| 1,024 | 2 | 256.6 | 11.75 | 7.71 | 8.24 | 5.05 | 5.60 | 3.93 |
| 1,024 | 64 | 11.99 | 8.46 | 7.55 | 10.20 | 8.99 | 6.57 | 6.85 |
| 8,192 | 8 | 513.9 | 39.11 | 12.54 | 63.59 | 7.55 | 7.35 | 6.06 |
| 8,192 | 256 | 21.24 | 12.05 | 12.52 | 17.50 | 14.74 | 8.42 | 8.82 |
| 65,536 | 2 | 16,384 | 244.5 | 39.51 | 118.7 | 13.30 | 8.54 | 4.62 |
| 65,536 | 64 | 515.8 | 44.40 | 26.26 | 47.96 | 12.83 | 9.56 | 8.42 |

So BOLD is best except for few iterations per PE, where FAC2 is best.
"""
BOLD = TechniqueEntry(
    code=22,
    name="BOLD",
    title="bold strategy",
    recursive="min(t + max(0, c·w) + s/2 − √(s·(t + s/4)), t), t = max(R, N)/P, with R the unassigned and N "
    "the unexecuted iterations; s grows with σ/μ, c = h/(μ·ln 2); see its notes on the page of techniques",
    reference="Hagerup 1997",
    options=parameter_keys("sigma", "mu", "statistics", "overhead"),
    notes=_NOTES,
    rule=Rule(size=_chunk, follows_chunks=True, needs=(SIGMA, MU, OVERHEAD), values=_values),
)
