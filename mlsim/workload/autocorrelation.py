"""Autocorrelation of run times within categories of jobs (Zrigui 2021, Fig. 6.2)."""

from pathlib import Path
from typing import Final

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.workload.log_fields import DAY, Header, local_times
from mlsim.workload.workload_jobs import LogBlock

CATEGORIES: Final = ("user and processors", "user and walltime", "user and weekday")
_CONSTANT: Final = 1e-12  # variance, as a share of the squared mean, up to which run times are all alike
_THURSDAY: Final = 3  # the first day of 1970


def lag_correlations(block: LogBlock, lags: int, header: Header, path: Path) -> dict[str, object]:
    """Return quartiles over categories of the autocorrelation of run times, for each lag from 1 to ``lags``.

    The jobs of a category, in order of submission, are one series. Left out are jobs of which something is
    unknown, categories of 2 ``lags`` jobs or fewer, and those whose run times are all alike.
    """
    requested, walltime = block.requested_processors, block.requested_time
    size = np.where(requested > 0, requested, block.allocated_processors)
    known = (block.submit_time >= 0) & (block.run_time >= 0) & (block.user >= 0) & (size > 0) & (walltime > 0)
    rows = np.flatnonzero(known)
    rows = rows[np.argsort(block.submit_time[rows], kind="stable")]
    weekday = (local_times(block.submit_time[rows], header, path) // DAY + _THURSDAY) % 7
    found: dict[str, object] = {}
    for name, values in zip(CATEGORIES, (size[rows], walltime[rows], weekday), strict=True):
        category = np.unique(np.stack((block.user[rows], values)), axis=1, return_inverse=True)[1].ravel()
        each, jobs = autocorrelation(category, block.run_time[rows], lags)
        quartiles = np.percentile(each, (25, 50, 75), axis=0).T.tolist() if len(each) else []
        shares = {"categories": len(each), "jobs": jobs / max(len(rows), 1)}
        found[name] = shares | {
            "lags": [dict(zip(("p25", "median", "p75"), q, strict=True)) for q in quartiles]
        }
    return found


def autocorrelation(category: Ints, values: Floats, lags: int) -> tuple[Floats, int]:
    """Return coefficients, (categories of more than 2 ``lags`` values, lags), and the number of their values.

    Each is the mean product of deviations ``lag`` apart over the sample variance, which divides by n - 1.
    """
    order = np.argsort(category, kind="stable")
    code, series = category[order], values[order]
    count = np.bincount(code)
    mean = np.bincount(code, series) / np.maximum(count, 1)
    series = series - mean[code]
    variance = np.bincount(code, series**2) / np.maximum(count - 1, 1)
    taken = (count > 2 * lags) & (variance > _CONSTANT * mean**2)
    found = np.empty((int(taken.sum()), lags))
    for lag in range(1, lags + 1):
        same = code[lag:] == code[:-lag]
        sums = np.bincount(code[lag:][same], (series[lag:] * series[:-lag])[same], count.size)
        found[:, lag - 1] = sums[taken] / (count[taken] - lag) / variance[taken]
    return found, int(count[taken].sum())
