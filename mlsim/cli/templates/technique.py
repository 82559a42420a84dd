"""A technique of one's own: a third of what each PE would get of the rest."""


def thirds(n, p, remaining, step, pe):
    """Return the size of the next chunk; n iterations, p PEs, whole numbers all."""
    return max(remaining // (3 * p), 1)
