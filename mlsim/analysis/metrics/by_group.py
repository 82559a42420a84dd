"""The metrics of jobs by group: every aggregate for every class, size, user, queue, week ..."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from mlsim.analysis.metrics.groups import Groups, group_jobs
from mlsim.analysis.metrics.jobs import JOB_METRICS
from mlsim.analysis.metrics.weekly import weekly
from mlsim.record import Jobs
from mlsim.record.derived import TAU, run_time

__all__ = ["breakdown"]

_HOUR = 3600.0


def breakdown(
    jobs: Jobs, by: str, tau: float = TAU, names: Mapping[str, Mapping[int, str]] | None = None
) -> pl.DataFrame:
    """Aggregate the metrics of the started jobs of each group.

    Parameters
    ----------
    jobs
        Of a run.
    by
        One of :data:`GROUPINGS`; see :func:`group_jobs`.
    tau
        The bound of bounded slowdowns, in seconds.
    names
        Those of :class:`~mlsim.record.Names`, by which users, queues ... are called.

    Returns
    -------
    polars.DataFrame
        One row a group, in order: its name in the column ``by``; ``jobs`` that started, their ``share`` of
        all that did, how many were ``backfilled``, ``core_hours`` (Σ cores at the start · p); for each metric
        of :data:`JOB_METRICS` ``metric.mean``, ``.std``, ``.median``, ``.p90``, ``.p99``, ``.max``, ``.sum``.
        By week, every week from the first to the last in which a job ended has a row, and there are also
        ``metric.cumulative_mean``, ``.band_low`` and ``.band_high``; see :class:`Weekly`.
    """
    groups = group_jobs(jobs, by, (names or {}).get(by))
    table = _counts(jobs, groups)
    for name, metric in JOB_METRICS.items():
        # One metric at a time: bounds the memory.
        values = pl.DataFrame({"group": groups.code, "value": metric.values(jobs, tau)}, nan_to_null=True)
        aggregates = values.filter(pl.col("group") >= 0).group_by("group").agg(*_aggregates(name))
        table = table.join(aggregates, on="group", how="left", maintain_order="left")
    labels = pl.Series(by, groups.labels, dtype=pl.String)
    table = table.select(labels.gather(table["group"]), pl.exclude("group"))
    return _every_week(table, jobs, tau) if by == "week" else table


def _counts(jobs: Jobs, groups: Groups) -> pl.DataFrame:
    """Count the jobs of each group, and sum what they took."""
    n, started = len(groups.labels), groups.code >= 0
    code = groups.code[started]
    many = np.bincount(code, minlength=n)
    seconds = np.bincount(code, weights=(jobs.cores * run_time(jobs))[started], minlength=n)
    return pl.DataFrame(
        {
            "group": np.arange(n),
            "jobs": many,
            "share": many / max(len(code), 1),
            "backfilled": np.bincount(code[jobs.backfilled[started]], minlength=n),
            "core_hours": seconds / _HOUR,
        }
    )


def _aggregates(name: str) -> list[pl.Expr]:
    """Aggregate as :func:`mlsim.analysis.metrics.aggregate` does."""
    value = pl.col("value")
    known = pl.when(value.count() > 0)
    return [
        value.mean().alias(f"{name}.mean"),
        value.std(ddof=0).alias(f"{name}.std"),
        value.median().alias(f"{name}.median"),
        value.quantile(0.9, "linear").alias(f"{name}.p90"),
        value.quantile(0.99, "linear").alias(f"{name}.p99"),
        value.max().alias(f"{name}.max"),
        known.then(value.sum()).alias(f"{name}.sum"),
    ]


def _every_week(table: pl.DataFrame, jobs: Jobs, tau: float) -> pl.DataFrame:
    """Add rows for weeks without jobs, and to every week the cumulative values up to its end."""
    extra: list[pl.Series] = []
    for name, metric in JOB_METRICS.items():
        weeks = weekly(jobs, metric.values(jobs, tau))
        if not extra:
            extra.append(pl.Series("week", weeks.week).cast(pl.String))
        for column in ("cumulative_mean", "band_low", "band_high"):
            extra.append(pl.Series(f"{name}.{column}", getattr(weeks, column), nan_to_null=True))
    full = pl.DataFrame(extra).join(table, on="week", how="left", maintain_order="left")
    counts = ("jobs", "share", "backfilled", "core_hours")
    return full.select(*table.columns, pl.exclude(table.columns)).with_columns(pl.col(counts).fill_null(0))
