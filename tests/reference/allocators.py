"""Allocators, slow and obvious: one unit after the other, everything looked at anew for each."""

from __future__ import annotations

from itertools import combinations

import numpy as np


class Nodes:
    """What the nodes have, how far they are apart, and whether they are given whole."""

    def __init__(self, capacity, exclusive=False, links=None) -> None:
        self.capacity = [tuple(map(int, row)) for row in capacity]
        self.exclusive = exclusive
        self.links = links

    def fits(self, node, request, free) -> bool:
        if self.exclusive and tuple(free[node]) != self.capacity[node]:
            return False
        return all(has >= asked for has, asked in zip(free[node], request, strict=True))

    def take(self, node, request, free) -> None:
        whole = self.capacity[node] if self.exclusive else request
        free[node] = tuple(has - taken for has, taken in zip(free[node], whole, strict=True))

    def score(self, node, free) -> float:
        shares = [(c - f) / c for c, f in zip(self.capacity[node], free[node], strict=True) if c > 0]
        return sum(shares) / len(shares)

    def waste(self, node, request, free) -> float:
        total = 0.0
        for r, asked in enumerate(request):
            having = sum(row[r] > 0 for row in self.capacity)
            if asked == 0 and self.capacity[node][r] > 0:
                total += (len(self.capacity) / having - 1.0) * (free[node][r] / self.capacity[node][r])
        return total


def one_by_one(nodes: Nodes, units, request, free, key):
    """Give each unit the node with the smallest key that has room; None if one finds none."""
    free, chosen = list(free), []
    for _ in range(units):
        able = [node for node in range(len(free)) if nodes.fits(node, request, free)]
        if not able:
            return None
        node = min(able, key=lambda node: (key(node, free), node))
        nodes.take(node, request, free)
        chosen.append(node)
    return chosen


def first_fit(nodes, units, request, free, number=0):
    return one_by_one(nodes, units, request, free, lambda node, free: 0)


def best_fit(nodes, units, request, free, number=0):
    return one_by_one(nodes, units, request, free, lambda node, free: -nodes.score(node, free))


def worst_fit(nodes, units, request, free, number=0):
    return one_by_one(nodes, units, request, free, nodes.score)


def heterogeneity_aware(nodes, units, request, free, number=0):
    return one_by_one(
        nodes,
        units,
        request,
        free,
        lambda node, free: (nodes.waste(node, request, free), -nodes.score(node, free)),
    )


class DemandAware:
    """Off nodes whose scarce types others ask for; the last ones of a sort are for these alone."""

    def __init__(self, reserve=0.2, given=None) -> None:
        self.reserve, self.given = reserve, given
        self.seen: list[tuple[int, ...]] = []
        self.off: dict[int, set[int]] = {}  # nodes kept from each job

    def share(self, r) -> float:
        if self.given is not None:
            return self.given[r]
        asked = arrivals = 0.0
        for request in self.seen:
            asked, arrivals = asked * 0.999 + (request[r] > 0), arrivals * 0.999 + 1.0
        return asked / max(arrivals, 1.0)

    def sort(self, nodes, node) -> frozenset:
        """Types that this node has, and another has not."""
        return frozenset(
            r
            for r, amount in enumerate(nodes.capacity[node])
            if amount > 0 and any(row[r] == 0 for row in nodes.capacity)
        )

    def arrive(self, nodes, jobs, down=()) -> None:
        self.seen += [job.request for job in jobs]
        for job in jobs:
            self.off[job.number] = self.kept_from(nodes, job.request)
        self.lift(nodes, jobs, down)

    def lift(self, nodes, jobs, down) -> None:
        """Keep nothing from jobs that would not fit elsewhere while some nodes are down."""
        for job in jobs:
            out = self.off[job.number] | set(down)
            rest = [(0,) * len(row) if n in out else row for n, row in enumerate(nodes.capacity)]
            if first_fit(nodes, job.units, job.request, rest) is None:
                self.off[job.number] = set()

    def kept_from(self, nodes, request) -> set[int]:
        off = set()
        sorts = [self.sort(nodes, node) for node in range(len(nodes.capacity))]
        for sort in set(sorts):
            if any(request[r] > 0 for r in sort):
                continue
            members = [node for node, own in enumerate(sorts) if own == sort]
            share = max((self.share(r) for r in sort), default=0.0)
            off |= set(members[len(members) - int(self.reserve * share * len(members)) :])
        return off

    def dislike(self, nodes, node, request) -> float:
        return sum(
            self.share(r)
            for r, (asked, has) in enumerate(zip(request, nodes.capacity[node], strict=True))
            if asked == 0 and has > 0
        )

    def __call__(self, nodes, units, request, free, number=0):
        off = self.off.get(number, set())
        left = [(0,) * len(row) if node in off else row for node, row in enumerate(free)]
        return one_by_one(
            nodes,
            units,
            request,
            left,
            lambda node, left: (self.dislike(nodes, node, request), -nodes.score(node, left)),
        )


def contiguous(nodes, units, request, free, number=0, strict=False):
    """The shortest stretch of nodes that all have room and hold the job together, the first of several."""
    able = [nodes.fits(node, request, free) for node in range(len(free))]
    for length in range(1, len(free) + 1):
        for first in range(len(free) - length + 1):
            stretch = range(first, first + length)
            if not all(able[node] for node in stretch):
                continue
            inside = [row if node in stretch else (0,) * len(row) for node, row in enumerate(free)]
            chosen = first_fit(nodes, units, request, inside)
            if chosen is not None:
                return chosen
    return None if strict else first_fit(nodes, units, request, free)


def topology_aware(nodes, units, request, free, number=0):
    """Around each node in turn the nearest with room; the best centre by radius, then by sum of links."""
    best = None
    for centre in range(len(free)):
        if not nodes.fits(centre, request, free):
            continue
        chosen = one_by_one(nodes, units, request, free, lambda node, _, c=centre: nodes.links[c][node])
        if chosen is None:
            return None
        links = [nodes.links[centre][node] for node in chosen]
        if best is None or (max(links), sum(links)) < best[0]:
            best = ((max(links), sum(links)), chosen)
    return best and best[1]


GOLDEN = 0x9E3779B97F4A7C15
MASK = 2**64 - 1


def mixed(value) -> int:
    """Finalize 64 bits as SplitMix64 does."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def drawn(seed, number, node) -> float:
    """Draw from [0, 1) for a job and a node: three rounds, of the seed, the job and the node."""
    of_job = mixed((mixed((seed + GOLDEN) & MASK) ^ ((number + 1) * GOLDEN)) & MASK)
    return (mixed((of_job + (node + 1) * GOLDEN) & MASK) >> 11) / 2**53


def random_order(seed):
    """Give the allocator that fills nodes in the order of what is drawn for each."""

    def allocate(nodes, units, request, free, number=0):
        return one_by_one(nodes, units, request, free, lambda node, free: drawn(seed, number, node))

    return allocate


def diameter(links, chosen) -> int:
    """Most links between two nodes of a job."""
    return max((links[a][b] for a, b in combinations(sorted(set(chosen)), 2)), default=0)


ALLOCATORS = {
    "first-fit": first_fit,
    "best-fit": best_fit,
    "worst-fit": worst_fit,
    "contiguous": contiguous,
    "heterogeneity-aware": heterogeneity_aware,
    "topology-aware": topology_aware,
    "random": random_order(0),
}


def as_rows(matrix: np.ndarray) -> list[tuple[int, ...]]:
    """Turn a matrix into what these functions take."""
    return [tuple(map(int, row)) for row in matrix]
