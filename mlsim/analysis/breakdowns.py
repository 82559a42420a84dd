"""Metrics of jobs by group, and times of passes by queue length."""

from collections.abc import Mapping

import numpy as np
import polars as pl

from mlsim._runtime.arrays import Ints
from mlsim.analysis.job_metrics import JOB_METRICS, Groups, group_jobs, weekly
from mlsim.record import Jobs, Passes, derived_times

_HOUR = 3600.0


def breakdown(
    jobs: Jobs, by: str, tau: float = derived_times.TAU, names: Mapping[str, Mapping[int, str]] | None = None
) -> pl.DataFrame:
    """Aggregate the metrics of the started jobs of each group of :func:`group_jobs`; one row per group.

    Columns: the group's name, ``by``; ``jobs`` that started, their ``share`` of all, ``backfilled``,
    ``core_hours`` (Σ cores at the start · p); for each metric of :data:`JOB_METRICS` ``metric.mean``,
    ``.std``, ``.median``, ``.p90``, ``.p99``, ``.max``, ``.sum``. Weeks, of which none is left out, also have
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
    seconds = np.bincount(code, weights=(jobs.cores * derived_times.run_time(jobs))[started], minlength=n)
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
    """Return the aggregates of :func:`mlsim.analysis.job_metrics.aggregate`, and the sum."""
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


def pass_time_by_queue_length(passes: Passes, per_doubling: int = 1) -> pl.DataFrame:
    """Aggregate the wall time of passes by queue length (Galleguillos et al. 2020, Fig. 13).

    One row per range, ``low`` to ``high``, that a pass met: 0, 1, 2, 3-4, 5-8 …, or equal parts of them.
    """
    length = passes.queue_length
    edges = _edges(int(length.max(initial=0)), per_doubling)
    places = np.searchsorted(edges, length, side="left")
    frame = pl.DataFrame({"place": places, "seconds": passes.wall_time})
    seconds = pl.col("seconds")
    table = frame.group_by("place").agg(
        pl.len().cast(pl.Int64).alias("passes"),
        seconds.mean().alias("mean"),
        seconds.median().alias("median"),
        seconds.quantile(0.9, "linear").alias("p90"),
        seconds.quantile(0.99, "linear").alias("p99"),
        seconds.max().alias("max"),
    )
    table = table.sort("place")
    found = table["place"].to_numpy()
    low = np.where(found > 0, edges[np.maximum(found, 1) - 1] + 1, 0)
    return table.select(pl.Series("low", low), pl.Series("high", edges[found]), pl.exclude("place"))


def _edges(most: int, per_doubling: int) -> Ints:
    """Return the upper bounds of the ranges of queue length: 0, 1, 2, 4, 8 …, between and up to ``most``."""
    doublings = int(np.ceil(np.log2(max(most, 1)))) + 1
    between = 2.0 ** (np.arange(doublings * per_doubling + 1) / per_doubling)
    return np.unique(np.concatenate([[0], np.floor(between + 1e-9).astype(np.int64)]))
