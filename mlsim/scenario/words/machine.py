"""Words of the section ``platform``."""

from __future__ import annotations

from mlsim.scenario.words.choice import Choice

__all__ = ["FailureRule", "Topology"]


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
