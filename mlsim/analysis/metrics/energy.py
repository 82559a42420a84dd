"""Energy of a run: of jobs, idle nodes and nodes out of use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim.analysis.metrics.aggregate import Aggregate, aggregate
from mlsim.analysis.metrics.streamed import streamed_aggregate
from mlsim.record import Records
from mlsim.record.blocks import blocks_of, is_long, value_blocks
from mlsim.record.energy import job_energy, max_power, run_energy, run_span

__all__ = ["energy_metrics"]


def energy_metrics(records: Records) -> dict[str, Any] | None:
    """Return energy [J] by use, and power [W]; None where the power of nodes is unknown.

    Returns
    -------
    dict
        ``total``, ``jobs``, ``idle``, ``off`` (J): see :class:`mlsim.record.energy.Energy`. ``mean_power``:
        total / (last end - first submission), and ``max_power`` in that time (W; None where no job ran).
        ``per_job``: aggregate of the energy of the jobs that started (J). ``measured_jobs``: how many jobs'
        power over time is their own.
    """
    energy, of_jobs = run_energy(records), job_energy(records)
    if energy is None or of_jobs is None:
        return None
    begin, end = run_span(records)
    return {
        "total": energy.total,
        "jobs": energy.jobs,
        "idle": energy.idle,
        "off": energy.off,
        "mean_power": energy.total / (end - begin) if end > begin else None,
        "max_power": max_power(records),
        "per_job": _per_job(of_jobs, records),
        "measured_jobs": len(np.unique(records.power_steps.job)),
    }


def _per_job(energy: NDArray[np.float64], records: Records) -> Aggregate:
    """Aggregate the energy of the jobs that started."""

    def started() -> Iterator[NDArray[np.float64]]:
        starts = (block.start_time for block in blocks_of(records.jobs))
        for values, start in zip(value_blocks(energy), starts, strict=True):
            yield values[np.isfinite(start)]

    return streamed_aggregate(started) if is_long(records.jobs) else aggregate(next(started()))
