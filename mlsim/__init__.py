"""mlsim: scheduling on HPC systems, simulated at the batch and at the application level at once.

``mlsim.run("scenario.yaml")`` simulates a scenario file and gives a :class:`mlsim.Result` with a
summary and data frames. ``mlsim.compare`` compares runs. ``mlsim.load`` reads a scenario
without running it.
"""

from typing import TYPE_CHECKING

from mlsim._runtime import forks  # noqa: F401  (before any fork)
from mlsim._runtime.late import late, listed
from mlsim.errors import InputError, MlsimError, OutputError

if TYPE_CHECKING:
    from mlsim.experiment import Result, RunComparison, compare, run
    from mlsim.scenario import Scenario, load

__version__ = "0.3.0"

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

__getattr__ = late(__name__, {"experiment": "compare Result run RunComparison", "scenario": "load Scenario"})
__dir__ = listed(__name__)
