"""Weibull arrivals; otherwise as :mod:`mlsim.workload.models.poisson_model`."""

from __future__ import annotations

from functools import partial

from mlsim.workload.models.model_base import ModelRecord
from mlsim.workload.models.poisson_model import make_renewal

MODEL = ModelRecord(
    "times between arrivals are Weibull variables; sizes uniform from 1, run times exponential",
    "for tests",
    partial(make_renewal, weibull=True),
)
