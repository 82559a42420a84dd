"""Inside one job: loops, techniques, execution models.

Importing this package loads no kernel; :func:`simulate` does on its first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlsim._late import late

if TYPE_CHECKING:
    from mlsim.application.catalogue import TECHNIQUES, TechniqueEntry
    from mlsim.application.costs import CostProfiles
    from mlsim.application.loop import simulate, trial_by
    from mlsim.application.outcome import ChunkRows, LoopOutcome

__all__ = [
    "TECHNIQUES",
    "ChunkRows",
    "CostProfiles",
    "LoopOutcome",
    "TechniqueEntry",
    "simulate",
    "trial_by",
]

__getattr__ = late(
    __name__,
    {
        "catalogue": "TECHNIQUES TechniqueEntry",
        "costs": "CostProfiles",
        "loop": "simulate trial_by",
        "outcome": "ChunkRows LoopOutcome",
    },
)
