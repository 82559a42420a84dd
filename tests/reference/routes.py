"""Routes by listing them all, and perturbed speeds by looking at every moment."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import networkx as nx

__all__ = ["best_route", "factor_at", "slow_downs"]


def best_route(graph: nx.Graph, source: int, target: int) -> tuple[float, float]:
    """Give latency and bandwidth of the route with the fewest links, least latency, most bandwidth."""
    found = []
    for path in nx.all_shortest_paths(graph, source, target):
        links = [graph.edges[a, b] for a, b in pairwise(path)]
        narrowest = min((link["bandwidth"] for link in links), default=float("inf"))
        found.append((sum(link["latency"] for link in links), -narrowest))
    latency, narrowest = min(found)
    return latency, -narrowest


def factor_at(entries: Iterable[tuple[float, float, float]], time: float) -> float:
    """Multiply the factors of all (begin, end, factor) that hold at a time."""
    product = 1.0
    for begin, end, factor in entries:
        if begin <= time < end:
            product *= factor
    return product


def slow_downs(times: list[float], factors: list[float]) -> list[tuple[float, float, float]]:
    """Give steps as stretches (begin, end, factor)."""
    ends = [*times, float("inf")][1:]
    return list(zip(times, ends, factors, strict=True))
