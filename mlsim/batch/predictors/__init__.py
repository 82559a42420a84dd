"""Predictors: the estimates of run times that the dispatcher sees."""

from mlsim.batch.predictors.predictor import CorrectingPredictor, JobNames, Predictor, SubmittedJob
from mlsim.batch.predictors.predictor_catalogue import PREDICTORS, PredictorEntry, make_predictor

__all__ = [
    "PREDICTORS",
    "CorrectingPredictor",
    "JobNames",
    "Predictor",
    "PredictorEntry",
    "SubmittedJob",
    "make_predictor",
]
