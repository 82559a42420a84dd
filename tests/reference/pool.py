"""Who holds which cores of a machine, node by node: no runs, no hints, no counts."""

from __future__ import annotations


class PlainPool:
    """Nodes with cores; jobs take the first ones, and what is out of use comes back with its node alone."""

    def __init__(self, cores: list[int], whole: bool) -> None:
        self.cores, self.whole = cores, whole
        self.held: dict[int, dict[int, int]] = {}  # job -> cores on each node
        self.down: set[int] = set()

    def free(self, node: int) -> int:
        if node in self.down:
            return 0
        return self.cores[node] - sum(of.get(node, 0) for of in self.held.values())

    def units(self) -> int:
        """Units that are free: whole nodes, or cores."""
        if self.whole:
            return sum(self.free(node) == cores for node, cores in enumerate(self.cores))
        return sum(map(self.free, range(len(self.cores))))

    def start(self, job: int, units: int) -> dict[int, int]:
        """Give a job units of the first nodes that have any; return its cores on each."""
        taken: dict[int, int] = {}
        for node, cores in enumerate(self.cores):
            free = self.free(node)
            if units == 0 or free == 0 or (self.whole and free < cores):
                continue
            taken[node] = cores if self.whole else min(free, units)
            units -= 1 if self.whole else taken[node]
        assert units == 0
        self.held[job] = dict(taken)
        return taken

    def end(self, job: int) -> None:
        del self.held[job]

    def release(self, job: int, nodes: range) -> None:
        for node in nodes:
            del self.held[job][node]
