"""Arrivals as a renewal process with plain sizes and run times: workloads whose answers are known.

The times between arrivals are exponential (Poisson arrivals) or Weibull variables; sizes are uniform from 1
to the largest, and run times exponential. All are independent. The numbers that stand where none are given
are ours; no machine has such jobs.
"""

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import numpy as np

from mlsim.errors import InputError
from mlsim.scenario.field_types import nearest
from mlsim.workload.models.model_base import DRAWN, Drawing, ModelRecord, drawn_jobs
from mlsim.workload.workload_jobs import JobBlock

DEFAULTS: Final = {"interval": 300.0, "shape": 0.5, "run_time": 3600.0, "largest": math.inf}
"""Mean time between arrivals [s], shape of the Weibull distribution of them (1: Poisson arrivals; less: more
variable), mean run time [s], largest size (at most the machine)."""


class Renewal:
    """A workload of plain distributions; parameters are those of :data:`DEFAULTS`."""

    def __init__(self, options: Drawing, weibull: bool) -> None:
        options.check_processors()
        known = [name for name in DEFAULTS if weibull or name != "shape"]
        for name in options.parameters:
            if name not in known:
                raise InputError(f"{name}: unknown;{nearest(name, known)} allowed: {', '.join(known)}")
        self._values = DEFAULTS | {"largest": float(options.processors)} | dict(options.parameters)
        if not weibull:
            self._values["shape"] = 1.0
        _check(self._values, options.processors)
        self._options = options
        values = ", ".join(f"{name} {self._values[name]!r}" for name in known)
        arrivals = "Weibull" if weibull else "Poisson"
        self.header = options.header(f"{arrivals} arrivals: {values}, {options.words}")

    def stream(self) -> Iterator[JobBlock]:
        """Yield the jobs in arrival order without end; the first arrives after an interval."""
        intervals, sizes, times, walltimes = self._options.generators(3, 4)
        shape = self._values["shape"]
        scale = self._values["interval"] / math.gamma(1.0 + 1.0 / shape)
        largest = int(self._values["largest"])
        now = 0.0
        while True:
            arrivals = now + np.cumsum(scale * intervals.weibull(shape, DRAWN))
            now = float(arrivals[-1])
            run_time = np.ceil(times.exponential(self._values["run_time"], DRAWN))
            walltime = self._options.walltimes(run_time, walltimes)
            processors = sizes.integers(1, largest, DRAWN, endpoint=True)
            yield drawn_jobs(np.floor(arrivals), run_time, walltime, processors)


def _check(values: Mapping[str, float], processors: int) -> None:
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise InputError(f"{name}: {value:g}; allowed: a number above 0")
    if not 0.1 <= values["shape"] <= 100:
        raise InputError(f"shape: {values['shape']:g}; allowed: 0.1 to 100")
    largest = values["largest"]
    if not (1 <= largest <= processors and largest == int(largest)):
        raise InputError(f"largest: {largest:g}; allowed: a whole number, 1 to the {processors} processors")


MODEL = ModelRecord(
    "Poisson arrivals; sizes uniform from 1, run times exponential",
    "for tests",
    partial(Renewal, weibull=False),
)
