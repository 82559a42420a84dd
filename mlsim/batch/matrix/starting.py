"""Where jobs could start now."""

from __future__ import annotations

from mlsim._jit import inner_kernel
from mlsim.batch.allocators.fit import could_fit, refuse
from mlsim.batch.allocators.nodes import REFUSED, Nodes
from mlsim.batch.allocators.placed import clear_placed
from mlsim.batch.columns.columns import Columns
from mlsim.batch.columns.packing import Ints
from mlsim.batch.matrix import shared
from mlsim.batch.matrix.drains import place_now
from mlsim.batch.matrix.holding import has_power

__all__ = ["begin_pass", "could_start", "find_room", "find_room_in_part", "measure_part"]


@inner_kernel
def begin_pass(nodes: Nodes) -> None:
    """Forget what did not fit in an earlier pass."""
    nodes.settings[REFUSED] = 0


@inner_kernel
def could_start(slot: int, now: float, columns: Columns, nodes: Nodes) -> bool:
    """Whether it makes sense to look for nodes for a job now: all else that it asks for is there."""
    enough = shared.suffices(slot, shared.NOW, nodes.shares, nodes.shared)
    return enough and could_fit(slot, now, columns, nodes)


@inner_kernel
def find_room(slot: int, now: float, columns: Columns, nodes: Nodes) -> bool:
    """Whether the allocator finds nodes for a job that starts now; its units are left placed."""
    if not could_start(slot, now, columns, nodes):
        return False
    if not place_now(slot, nodes.free, nodes.starts, now, columns, nodes):
        refuse(slot, now, columns, nodes)
        return False
    if not has_power(slot, columns, nodes):
        clear_placed(nodes)
        return False
    return True


@inner_kernel
def measure_part(_part: Ints, _columns: Columns, _nodes: Nodes) -> None:
    """Prepare what was released since the last pass; there is nothing to do."""


@inner_kernel
def find_room_in_part(slot: int, part: Ints, now: float, columns: Columns, nodes: Nodes) -> bool:
    """Whether the allocator finds nodes in a part of what is free; the job's units are left placed."""
    if not could_start(slot, now, columns, nodes):
        return False
    if not place_now(slot, part, nodes.no_starts, now, columns, nodes):
        return False
    if not has_power(slot, columns, nodes):
        clear_placed(nodes)
        return False
    return True
