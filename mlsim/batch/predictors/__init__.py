"""Predictors: the estimates of run times that the dispatcher sees."""

from mlsim.batch.predictors.run_time_predictors import (
    CorrectingPredictor,
    JobNames,
    Predictor,
    SubmittedJob,
    make_predictor,
)

__all__ = ["CorrectingPredictor", "JobNames", "Predictor", "SubmittedJob", "make_predictor"]
