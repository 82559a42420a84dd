"""The ESP batch as real MPI jobs on a trial cluster, and the same batch simulated.

``plan`` says what is submitted, ``batch`` has it executed, ``records`` makes the records of a run of what was
seen, ``twin`` simulates the same, ``comparison`` puts the two side by side, ``trial`` does it all.
"""

from mlsim.slurm.esp.comparison import COLUMNS, Row, cells_of
from mlsim.slurm.esp.plan import Plan, Work
from mlsim.slurm.esp.trial import Trial, run_trial

__all__ = ["COLUMNS", "Plan", "Row", "Trial", "Work", "cells_of", "run_trial"]
