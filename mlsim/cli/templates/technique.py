"""A user-defined technique: a third of each PE's share of the remaining iterations."""


def thirds(n, p, remaining, step, pe):
    """Return the size of the next chunk; n iterations, p PEs, whole numbers all."""
    return max(remaining // (3 * p), 1)
