"""The rows of the trace: jobs by location in order of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from mlsim._arrays import Floats, Ints
from mlsim.errors import OutputError
from mlsim.record.cores import HeldCores, number_cores
from mlsim.record.otf2.grouping import group
from mlsim.record.tables import Jobs, Nodes, Occupancy

__all__ = [
    "LATEST",
    "MOST_ROWS",
    "Layout",
    "Processes",
    "lay_out",
    "merge_rows",
    "nanoseconds",
    "without_rows",
]

LATEST = 9.2e9
"""Where the clock of a trace ends [s]: it counts nanoseconds in 63 bits."""


MOST_ROWS = 997
"""Of more rows, several are one unless asked for: a trace has 2,000 files then, two a location.

Readers built on the library open the files of events of all rows at once, and most systems allow 1,024.
"""


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
class Processes:
    """The processes of a trace, which are nodes, or several nodes each.

    Attributes
    ----------
    name, group
        Of each.
    of_node
        Node -> its process; -1 where the trace has none for it.
    place
        Node -> its place among the nodes of its process.
    nodes
        How many nodes each has, at most.
    """

    name: list[str]
    group: list[str]
    of_node: Ints
    place: Ints
    nodes: int = 1


@dataclass(frozen=True, slots=True)
class Layout:
    """The rows of the trace and the intervals on them.

    Attributes
    ----------
    per_node
        Whether a row is a whole node, or more, rather than a core.
    merged
        Whether intervals of a row may overlap: it shows several cores, or nodes, at once.
    processes
        Of the trace.
    row_node
        The node of each row, or the first of several.
    node_row
        The first row of each node.
    shown
        For each row, whether the trace has it.
    first
        The intervals of row r are ``first[r]`` to ``first[r + 1] - 1``: they are in order of their begins,
        and do not overlap unless rows are merged.
    occupancy_row
        Row of the occupancy table of each interval.
    entry, held
        Interval -> held entry, and the held entries in order of occupancy row, node, core.
    """

    per_node: bool
    merged: bool
    processes: Processes
    row_node: Ints
    node_row: Ints
    shown: NDArray[np.bool_]
    first: Ints
    occupancy_row: NDArray[np.int32]
    entry: Ints
    held: HeldCores

    @property
    def row_process(self) -> Ints:
        """The process of each row."""
        return self.processes.of_node[self.row_node]


def lay_out(nodes: Nodes, jobs: Jobs, occupancy: Occupancy, *, per_node: bool) -> Layout:
    """Find the intervals of every row; raise MlsimError where two jobs would hold the same core."""
    if per_node:
        nodes = replace(nodes, cores=np.ones(len(nodes.cores), np.int64))
        occupancy = replace(occupancy, cores=np.ones(len(occupancy.job), np.int64))
    held = number_cores(nodes, jobs, occupancy)
    node_row, rows = np.cumsum(nodes.cores) - nodes.cores, int(np.sum(nodes.cores))
    first, entry = group(node_row[held.node] + held.core, rows)
    numbers = np.arange(len(nodes.name))
    processes = Processes(nodes.name, nodes.group, numbers, np.zeros_like(numbers))
    row_node, shown = np.repeat(numbers, nodes.cores), np.ones(rows, np.bool_)
    return Layout(per_node, False, processes, row_node, node_row, shown, first, held.row[entry], entry, held)


def without_rows(layout: Layout, shown: NDArray[np.bool_]) -> Layout:
    """Leave out all rows but those that are ``shown``, and the processes of nodes that have none of them."""
    nodes = np.unique(layout.row_node[shown])
    return replace(layout, shown=shown, processes=_processes(layout.processes, [[n] for n in nodes.tolist()]))


def merge_rows(layout: Layout, shown: NDArray[np.bool_], most: int) -> Layout:
    """Show each node in one row, or neighbours of a group together, so that there are at most ``most`` rows.

    Parameters
    ----------
    layout
        With all rows.
    shown
        Rows without which their nodes are left out.
    most
        Bound on the rows.
    """
    nodes = np.unique(layout.row_node[shown]).tolist()
    kinds = [list(members) for _, members in groupby(nodes, layout.processes.group.__getitem__)]
    if len(kinds) > most:
        kinds = [nodes]
    size = max(-(-len(nodes) // max(most, 1)), 1)
    while sum(-(-len(members) // size) for members in kinds) > most:
        size += 1
    blocks = [members[low : low + size] for members in kinds for low in range(0, len(members), size)]
    processes = replace(_processes(layout.processes, blocks), nodes=size)
    # What nodes without a process hold is on one more row, which is not shown.
    node_row = np.where(processes.of_node < 0, len(blocks), processes.of_node)
    first, entry = group(node_row[layout.held.node], len(blocks) + 1)
    return replace(
        layout,
        merged=True,
        processes=processes,
        row_node=np.array([*(block[0] for block in blocks), 0], np.int64),
        node_row=node_row,
        shown=np.arange(len(blocks) + 1) < len(blocks),
        first=first,
        occupancy_row=layout.held.row[entry],
        entry=entry,
    )


def _processes(old: Processes, blocks: Sequence[Sequence[int]]) -> Processes:
    """Make a process of each block of nodes."""
    of_node, place = np.full(len(old.of_node), -1), np.zeros(len(old.of_node), np.int64)
    names, groups = [], []
    for number, block in enumerate(blocks):
        of_node[list(block)], place[list(block)] = number, np.arange(len(block))
        names.append(_from_to(old.name, block))
        groups.append(_from_to(old.group, block))
    return Processes(names, groups, of_node, place)


def _from_to(names: Sequence[str], block: Sequence[int]) -> str:
    first, last = names[block[0]], names[block[-1]]
    return first if first == last else f"{first} to {last}"
