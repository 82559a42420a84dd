"""Real runs: the simulator's techniques and execution models on MPI, with mpi4py.

Names are loaded on first use: importing mpi4py starts MPI, and the agent of ``mlsim mpi listen`` needs none.
"""

from typing import TYPE_CHECKING

from mlsim._runtime.late import late

if TYPE_CHECKING:
    from mlsim.mpi.loop_report import LoopReport
    from mlsim.mpi.scheduler import LoopScheduler

__all__ = ["LoopReport", "LoopScheduler"]

__getattr__ = late(__name__, {"loop_report": "LoopReport", "scheduler": "LoopScheduler"})
