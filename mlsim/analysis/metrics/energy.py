"""Energy of a run: what jobs, idle nodes and nodes out of use took."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlsim.analysis.metrics.aggregate import aggregate
from mlsim.record import Records
from mlsim.record.energy import job_energy, power_over_time, run_energy, run_span

__all__ = ["energy_metrics"]


def energy_metrics(records: Records) -> dict[str, Any] | None:
    """Energy by what it was used for, and power; None where the platform gives no power.

    Returns
    -------
    dict
        ``total``, ``jobs``, ``idle``, ``off`` (J): see :class:`mlsim.record.energy.Energy`. ``mean_power``:
        total / (last end - first submission), and ``max_power`` in that time (W; None where no job ran).
        ``per_job``: aggregate of the energy of the jobs that started (J).
    """
    energy, of_jobs = run_energy(records), job_energy(records)
    if energy is None or of_jobs is None:
        return None
    begin, end = run_span(records)
    _, power = power_over_time(records)
    return {
        "total": energy.total,
        "jobs": energy.jobs,
        "idle": energy.idle,
        "off": energy.off,
        "mean_power": energy.total / (end - begin) if end > begin else None,
        "max_power": float(power.max()) if len(power) else None,
        "per_job": aggregate(of_jobs[np.isfinite(records.jobs.start_time)]),
    }
