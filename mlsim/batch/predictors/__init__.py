"""Predictors: the estimates of run times that the dispatcher sees."""

from mlsim.batch.predictors.base import CorrectingPredictor, Predictor
from mlsim.batch.predictors.catalogue import PREDICTORS, PredictorEntry, make_predictor
from mlsim.batch.predictors.job import JobNames, SubmittedJob

__all__ = [
    "PREDICTORS",
    "CorrectingPredictor",
    "JobNames",
    "Predictor",
    "PredictorEntry",
    "SubmittedJob",
    "make_predictor",
]
