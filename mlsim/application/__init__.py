"""Inside one job: loops, techniques, execution models.

Importing this package loads no kernel; :func:`simulate` does on its first call.
"""

from typing import TYPE_CHECKING

from mlsim._runtime.late import late
from mlsim.techniques import TECHNIQUES, TechniqueEntry

if TYPE_CHECKING:
    from mlsim.application.iteration_costs import CostProfiles
    from mlsim.application.loop_outcome import ChunkRows, LoopOutcome
    from mlsim.application.loop_simulation import simulate, trial_by

__all__ = ["TECHNIQUES", "ChunkRows", "CostProfiles", "LoopOutcome", "TechniqueEntry", "simulate", "trial_by"]

__getattr__ = late(
    __name__,
    {
        "iteration_costs": "CostProfiles",
        "loop_outcome": "ChunkRows LoopOutcome",
        "loop_simulation": "simulate trial_by",
    },
)
