"""A machine in a few words: ``16x16`` PEs, ``1x8,0.5x8`` speeds."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

from mlsim.errors import InputError

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
    cores = [int(each) for number, each in _pairs(pes) for _ in range(number)]
    relative = _speeds(speeds, len(cores)) if speeds is not None else [1.0] * len(cores)
    return [
        {"name": f"group{row}-", "count": len(list(same)), "cores": size, "speed": speed * REFERENCE_SPEED}
        for row, ((size, speed), same) in enumerate(groupby(zip(cores, relative, strict=True)))
    ]


def _pairs(pes: str) -> list[tuple[int, int]]:
    pairs = []
    for part in pes.split(","):
        match = _PES.fullmatch(part.strip())
        number, each = (int(match[1] or 1), int(match[2])) if match else (0, 0)
        if not 1 <= number * each <= 10_000_000:
            raise InputError(
                f"--pes {pes}: {part.strip()!r} is not NODESxPES; allowed: such as 16x16 (16 nodes of 16 "
                "PEs), 8 (one node) or 4x48,6x16, 1 to 10,000,000 PEs"
            )
        pairs.append((number, each))
    return pairs


def _speeds(speeds: str, nodes: int) -> list[float]:
    relative: list[float] = []
    for part in speeds.split(","):
        match = _SPEEDS.fullmatch(part.strip())
        speed = float(match[1]) if match else 0.0
        number = int(match[2] or 1) if match else 0
        if not (speed > 0.0 and 1 <= number <= 10_000_000):
            raise InputError(
                f"--speeds {speeds}: {part.strip()!r} is not SPEEDxNODES; allowed: such as 1x8,0.5x8 "
                "(8 nodes of speed 1, then 8 of half the speed), speeds more than 0"
            )
        relative += [speed] * number
    if len(relative) != nodes:
        raise InputError(f"--speeds {speeds}: for {len(relative)} nodes, and --pes has {nodes}; one a node")
    return relative
