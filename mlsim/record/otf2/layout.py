"""The rows of the trace: jobs by location in order of time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim.errors import OutputError
from mlsim.record.cores import HeldCores, number_cores
from mlsim.record.otf2.grouping import group
from mlsim.record.tables import Jobs, Nodes, Occupancy

__all__ = ["LATEST", "Layout", "lay_out", "nanoseconds"]


LATEST = 9.2e9
"""Where the clock of a trace ends [s]: it counts nanoseconds in 63 bits."""


def nanoseconds(seconds: Floats) -> Ints:
    """Convert times to the ticks of the trace's clock, rounding to the nearest.

    Raises
    ------
    OutputError
        If a time is later than :data:`LATEST`.
    """
    latest = float(np.max(seconds, initial=0.0))
    if latest > LATEST:
        raise OutputError(
            f"the trace cannot be written: something happens at {latest:.6g} s, and the nanoseconds of a "
            f"trace end at {LATEST:.1e} s (292 years); try output.trace: none"
        )
    return np.rint(seconds * 1e9).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Layout:
    """The rows of the trace and the intervals on them.

    Attributes
    ----------
    per_node
        Whether a row is a whole node rather than a core.
    node_first
        The rows of node n are ``node_first[n]`` to ``node_first[n + 1] - 1``.
    first
        The intervals of row r are ``first[r]`` to ``first[r + 1] - 1``: they do not overlap and are in
        order of time.
    occupancy_row
        Row of the occupancy table of each interval.
    entry, held
        Interval -> held entry, and the held entries in order of occupancy row, node, core.
    """

    per_node: bool
    node_first: Ints
    first: Ints
    occupancy_row: NDArray[np.int32]
    entry: Ints
    held: HeldCores


def lay_out(nodes: Nodes, jobs: Jobs, occupancy: Occupancy, *, per_node: bool) -> Layout:
    """Find the intervals of every row; raise MlsimError where two jobs would hold the same core."""
    if per_node:
        nodes = replace(nodes, cores=np.ones(len(nodes.cores), np.int64))
        occupancy = replace(occupancy, cores=np.ones(len(occupancy.job), np.int64))
    held = number_cores(nodes, jobs, occupancy)
    node_first = np.append(np.int64(0), np.cumsum(nodes.cores))
    first, entry = group(node_first[held.node] + held.core, int(node_first[-1]))
    return Layout(per_node, node_first, first, held.row[entry], entry, held)
