"""Which technique and execution model for a loop: all are simulated, and how sure the best one is.

``recorded`` makes a loop of what a run has recorded, ``advising`` simulates the choices, ``writing`` leaves
table and picture.
"""

from mlsim.experiment.advice.advising import Advice, Candidate, advise
from mlsim.experiment.advice.recorded import RecordedLoop, maker_of, recorded_loop
from mlsim.experiment.advice.writing import facts_of, write_advice

__all__ = [
    "Advice",
    "Candidate",
    "RecordedLoop",
    "advise",
    "facts_of",
    "maker_of",
    "recorded_loop",
    "write_advice",
]
