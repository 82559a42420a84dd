"""Arrivals as a renewal process with plain sizes and run times: workloads whose answers are known.

The times between arrivals are exponential (Poisson arrivals) or Weibull variables; sizes are uniform from 1
to the largest, and run times exponential. All are independent. The numbers that stand where none are given
are ours; no machine has such jobs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

import numpy as np

from mlsim.errors import InputError
from mlsim.scenario.unit_types import nearest
from mlsim.workload.models.model_base import (
    DRAWN,
    MOST_PROCESSORS,
    Drawing,
    ModelRecord,
    base_header,
    check_factor,
    check_seed,
    factor_words,
    factored,
)
from mlsim.workload.workload_jobs import JobBlock

DEFAULTS: Final = {"interval": 300.0, "shape": 0.5, "run_time": 3600.0, "largest": math.inf}
"""Mean time between arrivals [s], shape of the Weibull distribution of them (1: Poisson arrivals; less: more
variable), mean run time [s], largest size (at most the machine)."""


class Renewal:
    """A workload of plain distributions; ``changed``: parameters other than the :data:`DEFAULTS`."""

    def __init__(
        self,
        weibull: bool = False,
        *,
        processors: int = 128,
        changed: Mapping[str, float] | None = None,
        seed: int = 0,
        estimate_factor: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        if not 1 <= processors <= MOST_PROCESSORS:
            raise InputError(f"processors: {processors}; allowed: 1 to {MOST_PROCESSORS:,}")
        check_factor(estimate_factor)
        check_seed(seed)
        known = [name for name in DEFAULTS if weibull or name != "shape"]
        for name in changed or {}:
            if name not in known:
                meant = nearest(name, known)
                raise InputError(f"{name}: unknown;{meant} allowed: {', '.join(known)}")
        self._values = DEFAULTS | {"largest": float(processors)} | dict(changed or {})
        if not weibull:
            self._values["shape"] = 1.0
        _check(self._values, processors)
        self._seed, self._factor = seed, estimate_factor
        options = [f"{name} {self._values[name]!r}" for name in known]
        options += [f"seed {seed}", factor_words(estimate_factor)]
        arrivals = "Weibull" if weibull else "Poisson"
        self.header = base_header(f"{arrivals} arrivals: {', '.join(options)}", processors)

    def stream(self) -> Iterator[JobBlock]:
        """Yield the jobs in arrival order without end; the first arrives after an interval."""
        intervals, sizes, times, walltimes = (np.random.default_rng((self._seed, 3, k)) for k in range(4))
        shape = self._values["shape"]
        scale = self._values["interval"] / math.gamma(1.0 + 1.0 / shape)
        largest = int(self._values["largest"])
        now = 0.0
        while True:
            arrivals = now + np.cumsum(scale * intervals.weibull(shape, DRAWN))
            now = float(arrivals[-1])
            run_time = np.ceil(times.exponential(self._values["run_time"], DRAWN))
            yield JobBlock(
                job_id=np.full(DRAWN, -1, np.int64),
                submit_time=np.floor(arrivals),
                run_time=run_time,
                walltime=factored(run_time, self._factor, walltimes),
                processors=sizes.integers(1, largest, DRAWN, endpoint=True),
                status=np.ones(DRAWN, np.int64),
            )


def _check(values: Mapping[str, float], processors: int) -> None:
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise InputError(f"{name}: {value:g}; allowed: a number above 0")
    if not 0.1 <= values["shape"] <= 100:
        raise InputError(f"shape: {values['shape']:g}; allowed: 0.1 to 100")
    largest = values["largest"]
    if not (1 <= largest <= processors and largest == int(largest)):
        raise InputError(f"largest: {largest:g}; allowed: a whole number, 1 to the {processors} processors")


def make_renewal(options: Drawing, weibull: bool) -> Renewal:
    """Make the model of either kind of arrivals."""
    return Renewal(
        weibull,
        processors=options.processors,
        changed=options.parameters,
        seed=options.seed,
        estimate_factor=options.factor,
    )


MODEL = ModelRecord(
    "Poisson arrivals; sizes uniform from 1, run times exponential",
    "for tests",
    partial(make_renewal, weibull=False),
)
