"""Words of the sections ``platform``, ``coordination`` and ``output``."""

from __future__ import annotations

from mlsim.scenario.words.word_set import Choice


class Topology(Choice):
    """How the nodes are connected."""

    FULLY_CONNECTED = "fully-connected"
    STAR = "star"
    FAT_TREE = "fat-tree"
    DRAGONFLY = "dragonfly"
    TORUS = "torus"
    EDGE_LIST = "edge-list"


# Also what Slurm and checkpointing libraries call it.
class FailureRule(Choice, aliases={"fail": "die", "requeue": "restart", "checkpoint": "resume"}):
    """What becomes of a job when a node it holds fails."""

    DIE = "die"
    RESTART = "restart"
    RESUME = "resume"


class RequestRule(Choice):
    """When the batch level asks running applications for nodes."""

    NEVER = "never"
    HEAD_OF_QUEUE = "head-of-queue"


class AnswerRule(Choice):
    """What an application answers when it is asked for nodes."""

    NEVER = "never"
    IDLE_ONLY = "idle-only"
    TOLERANCE = "tolerance"
    ALWAYS = "always"


class ReleasedNodes(Choice):
    """Who gets nodes that were released early."""

    ANY = "any"
    SHORT_FIRST = "short-first"


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
