"""Rectangles of occupancy on a node axis: node n fills [n, n + 1], divided among its cores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim.record import Nodes, Records
from mlsim.record.cores import number_cores

__all__ = ["Boxes", "boxes"]


@dataclass(frozen=True, slots=True)
class Boxes:
    """One row a rectangle: the occupancy row it shows, its extent on the node axis, how full it is.

    ``weight`` is below 1 where a rectangle stands for some cores of its nodes, without saying which.
    """

    row: Ints
    top: Floats
    bottom: Floats
    weight: Floats


def boxes(records: Records, by_core: bool) -> Boxes:
    """Lay out the occupancy rows.

    Parameters
    ----------
    records
        What happened.
    by_core
        Where jobs share nodes, show each core that a job held (lowest free cores first) rather than the
        share of the node. Takes memory in proportion to the cores held by all rows.
    """
    shared = _held_share(records) < 1.0
    return _core_boxes(records) if by_core and np.any(shared) else _node_boxes(records)


def _held_share(records: Records) -> Floats:
    """Return the share of its nodes' cores that each row held."""
    held = records.occupancy
    before = _first_cores(records.nodes)
    share: Floats = held.count * held.cores / (before[held.node + held.count] - before[held.node])
    return share


def _node_boxes(records: Records) -> Boxes:
    """Return one rectangle a row, over its whole nodes."""
    held = records.occupancy
    top = held.node.astype(np.float64)
    return Boxes(np.arange(len(top)), top, top + held.count, _held_share(records))


def _core_boxes(records: Records) -> Boxes:
    """Return one rectangle for each run of neighbouring cores; neighbouring whole nodes share one."""
    held = number_cores(records.nodes, records.jobs, records.occupancy)
    # Numbers of 32 bits, as the columns are: there is one for each core of each stay.
    place = _first_cores(records.nodes).astype(np.int32)[held.node] + held.core
    new = np.diff(place) != 1
    new |= np.diff(held.row) != 0
    del place
    first = np.flatnonzero(np.append(True, new))
    last = np.flatnonzero(np.append(new, True))
    cores = records.nodes.cores
    return Boxes(
        held.row[first].astype(np.int64),
        held.node[first] + held.core[first] / cores[held.node[first]],
        held.node[last] + (held.core[last] + 1) / cores[held.node[last]],
        np.ones(len(first)),
    )


def _first_cores(nodes: Nodes) -> Ints:
    """Return the number of cores on all nodes before each node, and of all."""
    return np.concatenate([[0], np.cumsum(nodes.cores)])
