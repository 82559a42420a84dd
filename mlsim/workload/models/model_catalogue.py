"""The models of workloads, in a sentence each."""

from __future__ import annotations

from typing import Final

from mlsim.scenario import WorkloadModel

MODELS: Final = {
    WorkloadModel.LUBLIN: (
        "batch and interactive jobs with a daily cycle; run times depend on sizes",
        "Lublin and Feitelson 2003",
    ),
    WorkloadModel.POISSON: (
        "Poisson arrivals; sizes uniform from 1, run times exponential",
        "for tests",
    ),
    WorkloadModel.WEIBULL: (
        "times between arrivals are Weibull variables; sizes uniform from 1, run times exponential",
        "for tests",
    ),
}
"""What each draws, and its source."""
