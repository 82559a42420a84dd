"""The ESP batch as real MPI jobs on a trial cluster, and the same batch simulated.

``plan`` says what is submitted, ``batch`` has it executed, ``records`` makes the records of a run of what was
seen, ``twin`` simulates the same, ``comparison`` puts the two side by side, ``trial`` does it all.
"""

from mlsim.slurm.esp.esp_plan import Plan, Work
from mlsim.slurm.esp.esp_trial import COLUMNS, Row, Trial, cells_of, run_trial

__all__ = ["COLUMNS", "Plan", "Row", "Trial", "Work", "cells_of", "run_trial"]
