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


class FailureRule(Choice):
    """What becomes of a job when a node it holds fails."""

    DIE = "die"
    RESTART = "restart"
    RESUME = "resume"

    @classmethod
    def aliases(cls) -> dict[str, str]:
        """Return what Slurm and checkpointing libraries call it."""
        return {"fail": "die", "requeue": "restart", "checkpoint": "resume"}
