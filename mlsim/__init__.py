"""mlsim: scheduling on HPC systems, simulated at the batch and at the application level at once.

``mlsim.run("scenario.yaml")`` simulates a scenario file and gives a :class:`mlsim.Result` with a
summary and data frames. ``mlsim.compare`` puts runs against each other. ``mlsim.load`` reads a scenario
without running it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlsim.errors import InputError, MlsimError, OutputError

if TYPE_CHECKING:
    from mlsim.experiment import Result, RunComparison, compare, run
    from mlsim.scenario import Scenario, load

__version__ = "0.1.0"

__all__ = [
    "InputError",
    "MlsimError",
    "OutputError",
    "Result",
    "RunComparison",
    "Scenario",
    "compare",
    "load",
    "run",
]

# Loaded on first use, so that importing the package for its command line stays quick.
_HOMES = {
    "Result": "mlsim.experiment",
    "RunComparison": "mlsim.experiment",
    "Scenario": "mlsim.scenario",
    "compare": "mlsim.experiment",
    "load": "mlsim.scenario",
    "run": "mlsim.experiment",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mlsim' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
