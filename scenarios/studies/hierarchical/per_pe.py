"""GSS and FAC2 between nodes as if every PE of a node took chunks for itself: 16 p instead of p.

Techniques of this study, ``./per_pe.py:gss+STATIC`` for instance; see README.md.
"""

PES_PER_NODE = 16


def gss(n, p, remaining, step, pe):
    """Guided self-scheduling, from the step alone: ⌈n (q - 1)^step / q^(step + 1)⌉, q = 16 p."""
    q = PES_PER_NODE * p
    size = n * ((q - 1) / q) ** step / q
    return max(int(size) + (size > int(size)), 1)


def fac2(n, p, remaining, step, pe):
    """Factoring by halves, from the step alone: ⌈n / (q 2^(batch + 1))⌉, q = 16 p."""
    q = PES_PER_NODE * p
    size = n / q / 2.0 ** (step // q + 1)
    return max(int(size) + (size > int(size)), 1)
