"""Runs: one scenario to one result and its directory; loops alone, and studies of them."""

from mlsim.experiment.comparison import RunComparison, compare
from mlsim.experiment.loops import LoopResult, choices, load_loop, loop_from_mapping, run_loop, run_loops
from mlsim.experiment.result import Result
from mlsim.experiment.runner import Progress, run
from mlsim.experiment.study import Study, StudyRow, load_study, run_study
from mlsim.experiment.whatif import Comparison, run_both

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
    "run",
    "run_both",
    "run_loop",
    "run_loops",
    "run_study",
]
