"""Detects when all ranks of a node are without work; the last one of them reports it."""

from __future__ import annotations

import re

from mpi4py import MPI

from mlsim.mpi.loop.context import Context
from mlsim.mpi.rca.client import send

__all__ = ["Reporter"]


class Reporter:
    """One rank's part: the last one of a node that ends sends ``NodeIdle``.

    Nobody waits for it: the ranks of a node count, by an atomic in memory that they share, how many have
    ended.
    """

    def __init__(self, context: Context, loop: str, active: bool) -> None:
        layout = context.layout
        self._context = context
        self._layout, self._loop = (
            layout,
            re.sub(r"[^\w.:/-]", "_", loop, flags=re.ASCII).lstrip("-") or "loop",
        )
        self._window = context.shared_window(1) if active else None
        self.sent = False

    def rank_ended(self) -> None:
        """Count this rank as notified that no chunk is left."""
        if self._window is None or self._window.fetch_add(0, 1) + 1 < self._layout.local.size:
            return
        layout = self._layout
        self.sent = send(self._name(), layout.node, layout.local.size, self._loop)

    def _name(self) -> str:
        layout, host = self._layout, MPI.Get_processor_name()
        if layout.local.size == layout.machine.size:
            return host
        return f"{host}/{layout.node}"

    def free(self) -> None:
        """Return the window to the context."""
        if self._window is not None:
            self._context.put_back(self._window)
