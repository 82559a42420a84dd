"""Words of the section ``output``."""

from __future__ import annotations

from mlsim.scenario.words.choice import Choice

__all__ = ["TraceLevel", "TraceRows"]


class TraceLevel(Choice):
    """How much the OTF2 trace holds; each level includes those before it."""

    NONE = "none"
    JOBS = "jobs"
    NODES = "nodes"
    CHUNKS = "chunks"
    MESSAGES = "messages"

    @property
    def shows_chunks(self) -> bool:
        """Whether it needs every chunk."""
        return self in (TraceLevel.CHUNKS, TraceLevel.MESSAGES)


class TraceRows(Choice):
    """Which rows the OTF2 trace has."""

    AUTO = "auto"
    CORES = "cores"
    NODES = "nodes"
