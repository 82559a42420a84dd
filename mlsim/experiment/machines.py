"""A machine in a few words: ``16x16`` PEs, ``1x8,0.5x8`` speeds."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, groupby
from typing import Any

from mlsim.errors import InputError
from mlsim.scenario.whole.demand import MOST_PES, check_pes

__all__ = ["REFERENCE_SPEED", "node_groups"]

REFERENCE_SPEED = 1e9
"""FLOP/s of a PE of speed 1."""

_PES = re.compile(r"(?:(\d{1,9})\s*[x×]\s*)?(\d{1,9})")
_SPEEDS = re.compile(r"(\d+\.?\d*|\.\d+)(?:\s*[x×]\s*(\d{1,9}))?")


def node_groups(pes: str, speeds: str | None = None) -> list[dict[str, Any]]:
    """Return the ``platform.nodes`` of a scenario.

    Parameters
    ----------
    pes
        Nodes x PEs of each, one or more of them with commas between; a number alone is one node's PEs.
    speeds
        Speed of the PEs, relative to 1, x how many nodes have it, likewise in order of the nodes; a number
        alone is one node's. None: 1.

    Raises
    ------
    InputError
        If a text cannot be read, or there are not as many speeds as nodes; the message names it.

    Examples
    --------
    >>> groups = node_groups("4x48,6x16", "1.3x4,2.4x6")
    >>> [(group["count"], group["cores"], group["speed"]) for group in groups]
    [(4, 48, 1300000000.0), (6, 16, 2400000000.0)]
    """
    sizes = _pairs(pes)
    nodes = sum(number for number, _ in sizes)
    relative = [(nodes, 1.0)] if speeds is None else _speeds(speeds, nodes)
    found = groupby(_both(sizes, relative), key=lambda run: run[1:])
    return [
        {
            "name": f"group{row}-",
            "count": sum(number for number, *_ in same),
            "cores": size,
            "speed": speed * REFERENCE_SPEED,
        }
        for row, ((size, speed), same) in enumerate(found)
    ]


def _both(sizes: list[tuple[int, int]], speeds: list[tuple[int, float]]) -> Iterator[tuple[int, int, float]]:
    """Yield how many nodes in a row have which number of PEs and which speed."""
    ends = [list(accumulate(number for number, _ in runs)) for runs in (sizes, speeds)]
    at = 0
    for end in sorted({*ends[0], *ends[1]}):
        yield end - at, sizes[bisect_right(ends[0], at)][1], speeds[bisect_right(ends[1], at)][1]
        at = end


def _pairs(pes: str) -> list[tuple[int, int]]:
    pairs = []
    for part in pes.split(","):
        match = _PES.fullmatch(part.strip())
        number, each = (int(match[1] or 1), int(match[2])) if match else (0, 0)
        if not number * each:
            raise InputError(
                f"--pes {pes}: {part.strip()!r} is not NODESxPES; allowed: such as 16x16 (16 nodes of 16 "
                f"PEs), 8 (one node) or 4x48,6x16, 1 to {MOST_PES:,} PEs"
            )
        check_pes(f"--pes {pes}", number * each)
        pairs.append((number, each))
    return pairs


def _speeds(speeds: str, nodes: int) -> list[tuple[int, float]]:
    relative: list[tuple[int, float]] = []
    for part in speeds.split(","):
        match = _SPEEDS.fullmatch(part.strip())
        speed = float(match[1]) if match else 0.0
        number = int(match[2] or 1) if match else 0
        if not (speed > 0.0 and number >= 1):
            raise InputError(
                f"--speeds {speeds}: {part.strip()!r} is not SPEEDxNODES; allowed: such as 1x8,0.5x8 "
                "(8 nodes of speed 1, then 8 of half the speed), speeds more than 0"
            )
        relative.append((number, speed))
    found = sum(number for number, _ in relative)
    if found != nodes:
        raise InputError(f"--speeds {speeds}: for {found} nodes, and --pes has {nodes}; one a node")
    return relative
