"""Reports of idle nodes, once all ranks of a node have ended."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from mpi4py import MPI

from mlsim.mpi.loop_context import Context
from mlsim.mpi.rank_layout import node_name
from mlsim.mpi.rca.rca_client import send_completed, send_idle
from mlsim.mpi.rca.release_requests import Answering

if TYPE_CHECKING:
    from mlsim.mpi.chunk_rules import Chunk
    from mlsim.mpi.real_model import Model


_ENDED, _LEAVES = 0, 1


class Reporter:
    """One rank's part in reporting idle nodes: the last rank of a node that ends sends ``NodeIdle``.

    No rank waits for this: the ranks of a node count, by an atomic in memory that they share, how many have
    ended, and nodes do, by one at rank 0.

    Parameters
    ----------
    context, loop
        Of the communicator; the loop's name.
    active
        Whether there is an agent.
    last
        Whether no loop follows on these ranks.
    yields
        Whether the loop could continue on fewer nodes, so that the batch level may request some.
    """

    def __init__(self, context: Context, loop: str, active: bool, last: bool, yields: bool) -> None:
        layout = self._layout = context.layout
        self._context = context
        self._loop = re.sub(r"[^\w.:/-]", "_", loop, flags=re.ASCII).lstrip("-") or "loop"
        self._window = context.shared_window(1) if active else None
        self._nodes = context.window(_LEAVES + len(layout.leaders)) if active else None
        self._last = last
        self._ended = False
        names = _names(layout.comm) if active and last else []
        self._answering = Answering(names, yields) if names and layout.comm.rank == 0 else None
        self._asked = active and last
        self.sent = False

    def claiming(self, model: Model, n: int) -> Callable[[], Chunk | None]:
        """Return this rank's function to claim chunks, which first reads requests for nodes, if any."""
        if not self._asked:
            return model.claim

        def claim() -> Chunk | None:
            if self._leaves():
                model.told = time.perf_counter()
                return None
            chunk = model.claim()
            if chunk is not None and self._answering is not None:
                self._answering.left = 1.0 - (chunk[0] + chunk[1]) / n
            return chunk

        return claim

    def _leaves(self) -> bool:
        """Whether this rank's node was promised to others; rank 0 answers requests instead."""
        assert self._nodes is not None, "somebody may ask"
        if self._answering is None:
            return self._nodes.fetch(_LEAVES + self._layout.node) != 0
        for node in self._answering.promised(self._layout.counts):
            self._nodes.fetch_replace(_LEAVES + node, 1)
        return False

    def release(self) -> None:
        """Report that no loop follows on these ranks."""
        self._last = True
        if self._ended:
            self._count()

    def rank_ended(self) -> None:
        """Count this rank as notified that no chunk is left."""
        self._ended = True
        if self._answering is not None:
            self._answering.end()
        if self._last:
            self._count()

    def _count(self) -> None:
        if self._window is None or self._nodes is None:
            return
        layout = self._layout
        if self._window.fetch_add(0, 1) + 1 < layout.local.size:
            return
        if self._nodes.fetch_add(_ENDED, 1) + 1 < len(layout.leaders):
            self.sent = send_idle(self._name(), layout.node, layout.local.size, self._loop)

    def _name(self) -> str:
        layout, name = self._layout, node_name()
        if self._context.ranks_per_node is None or layout.local.size == layout.machine.size:
            return name
        return f"{name}/{layout.node}"

    def loop_closed(self) -> None:
        """Report the end of the last loop, on rank 0 and after all ranks have ended it."""
        if self._window is not None and self._last and self._layout.comm.rank == 0:
            send_completed()

    def free(self) -> None:
        """Return the windows to the context."""
        for window in (self._window, self._nodes):
            if window is not None:
                self._context.put_back(window)
        if self._answering is not None:
            self._answering.close()


def _names(comm: MPI.Intracomm) -> list[str]:
    """Gather the names of all ranks' nodes."""
    names: list[str] = comm.allgather(node_name())
    return names
