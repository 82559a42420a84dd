"""DCA, distributed chunk calculation, by passive-target RMA (Eleliemy 2021, ch. 4).

The coordinator, rank 0, holds a window with the next scheduling step and the next iteration. A rank (1)
fetches and increments the step, (2) sizes its chunk from it, (3) fetches the loop's start and adds the chunk
to it; but for (3) where the step tells that as well.
"""

from __future__ import annotations

from mlsim.mpi.loop.chunk_rules import learns
from mlsim.mpi.models.model import Chunk, Model, Setting
from mlsim.mpi.models.queues import loop_queue

__all__ = ["DistributedModel"]


class DistributedModel(Model):
    """One rank under DCA."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        comm, choice = setting.layout.comm, setting.outer
        self._had_one = False
        self.learns = learns(choice)
        self.piece = (setting.options.break_after or 0) if comm.rank == 0 else 0
        self._queue = loop_queue(setting, choice, comm.size, comm.rank, choice.weights)
        self._claim = self._queue.claim

    def claim(self) -> Chunk | None:
        """Claim a chunk of the loop's queue."""
        chunk = self._claim(self.done, None, self._had_one)
        if chunk is None:
            self._note_end()
        else:
            self._had_one = True
        return chunk

    def serve(self) -> None:
        """Progress MPI, so that it serves RMA of other ranks where the network does not."""
        self.setting.layout.comm.Iprobe()

    def free(self) -> None:
        """Return the window to the context."""
        self._queue.free()
