"""Runs: one scenario to one result and its directory; loops alone, and studies of them."""

from typing import TYPE_CHECKING

from mlsim._runtime.late import late

if TYPE_CHECKING:
    from mlsim.experiment.comparison import RunComparison, compare
    from mlsim.experiment.loops import LoopResult, choices, load_loop, loop_from_mapping, run_loop, run_loops
    from mlsim.experiment.result import Result
    from mlsim.experiment.run_status import Progress
    from mlsim.experiment.runner import Comparison, run, run_both
    from mlsim.experiment.study import Study, StudyRow, load_study, read_study, run_study

__all__ = [
    "Comparison",
    "LoopResult",
    "Progress",
    "Result",
    "RunComparison",
    "Study",
    "StudyRow",
    "choices",
    "compare",
    "load_loop",
    "load_study",
    "loop_from_mapping",
    "read_study",
    "run",
    "run_both",
    "run_loop",
    "run_loops",
    "run_study",
]

__getattr__ = late(
    __name__,
    {
        "comparison": "compare RunComparison",
        "loops": "choices load_loop loop_from_mapping LoopResult run_loop run_loops",
        "result": "Result",
        "run_status": "Progress",
        "runner": "Comparison run run_both",
        "study": "load_study read_study run_study Study StudyRow",
    },
)
