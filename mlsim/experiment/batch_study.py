"""Studies of whole runs by the names that they had when studies of loops were another thing."""

from mlsim.experiment.study import load_study as load_batch_study
from mlsim.experiment.study import run_study as run_batch_study

__all__ = ["load_batch_study", "run_batch_study"]
