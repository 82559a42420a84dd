"""Which technique and execution model for a loop: all are simulated, and how sure the best one is.

``recorded`` makes a loop of what a run has recorded, ``advising`` simulates the choices, ``writing`` leaves
table and picture.
"""

from mlsim.experiment.advice.advising import Advice, Candidate, advise
from mlsim.experiment.advice.recorded import RecordedLoop, Unknown, maker_of, recorded_loop, unknown_of
from mlsim.experiment.advice.writing import facts_of, facts_of_unknown, write_advice, write_unknown

__all__ = [
    "Advice",
    "Candidate",
    "RecordedLoop",
    "Unknown",
    "advise",
    "facts_of",
    "facts_of_unknown",
    "maker_of",
    "recorded_loop",
    "unknown_of",
    "write_advice",
    "write_unknown",
]
