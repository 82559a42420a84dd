"""Runs: one scenario to one result and its directory."""

from mlsim.experiment.result import Result
from mlsim.experiment.runner import Progress, run

__all__ = ["Progress", "Result", "run"]
