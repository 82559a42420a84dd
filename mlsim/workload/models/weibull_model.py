"""Weibull arrivals; otherwise as :mod:`mlsim.workload.models.poisson_model`."""

from functools import partial

from mlsim.workload.models.model_base import ModelRecord
from mlsim.workload.models.poisson_model import Renewal

MODEL = ModelRecord(
    "times between arrivals are Weibull variables; sizes uniform from 1, run times exponential",
    "for tests",
    partial(Renewal, weibull=True),
)
