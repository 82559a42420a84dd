"""Inside one job: loops, techniques, execution models.

Importing this package loads no kernel; :func:`simulate` does on its first call.
"""

from mlsim.application.catalogue import TECHNIQUES, TechniqueEntry
from mlsim.application.costs import CostProfiles
from mlsim.application.loop import simulate
from mlsim.application.outcome import ChunkRows, LoopOutcome

__all__ = [
    "TECHNIQUES",
    "ChunkRows",
    "CostProfiles",
    "LoopOutcome",
    "TechniqueEntry",
    "simulate",
]
