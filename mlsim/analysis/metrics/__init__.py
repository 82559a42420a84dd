"""The metrics of a run: each a function of the records, with its formula and source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlsim._late import late
from mlsim.analysis.metrics.group_metrics import (
    CLASSES,
    CODED,
    GROUPINGS,
    WEEK,
    Groups,
    Weekly,
    group_jobs,
    weekly,
)
from mlsim.analysis.metrics.job_metrics import (
    JOB_METRICS,
    SLOWDOWN_BINS,
    Aggregate,
    JobMetric,
    accuracy,
    aggregate,
    backfilled_share,
    estimate_metrics,
    slowdown_histogram,
)
from mlsim.analysis.metrics.machine_metrics import (
    busy_seconds,
    coefficient_of_variation,
    coordination_metrics,
    energy_metrics,
    failure_metrics,
    job_counts,
    loop_metrics,
    machine_cores,
    makespan,
    makespan_from_submit,
    max_over_mean,
    out_of_use_seconds,
    percent_imbalance,
    rejected_because,
    released_nodes,
    released_seconds,
    selection_metrics,
    throughput,
    utilization,
)
from mlsim.analysis.metrics.pass_metrics import (
    pass_metrics,
    queue_length,
    queue_length_at_passes,
    queue_quantiles,
    queue_shares,
)
from mlsim.analysis.metrics.streamed_metrics import aggregate_jobs
from mlsim.record.derived_times import allocated_seconds

if TYPE_CHECKING:
    from mlsim.analysis.metrics.breakdowns import breakdown, pass_time_by_queue_length

__all__ = [
    "CLASSES",
    "CODED",
    "GROUPINGS",
    "JOB_METRICS",
    "SLOWDOWN_BINS",
    "WEEK",
    "Aggregate",
    "Groups",
    "JobMetric",
    "Weekly",
    "accuracy",
    "aggregate",
    "aggregate_jobs",
    "allocated_seconds",
    "backfilled_share",
    "breakdown",
    "busy_seconds",
    "coefficient_of_variation",
    "coordination_metrics",
    "energy_metrics",
    "estimate_metrics",
    "failure_metrics",
    "group_jobs",
    "job_counts",
    "loop_metrics",
    "machine_cores",
    "makespan",
    "makespan_from_submit",
    "max_over_mean",
    "out_of_use_seconds",
    "pass_metrics",
    "pass_time_by_queue_length",
    "percent_imbalance",
    "queue_length",
    "queue_length_at_passes",
    "queue_quantiles",
    "queue_shares",
    "rejected_because",
    "released_nodes",
    "released_seconds",
    "selection_metrics",
    "slowdown_histogram",
    "throughput",
    "utilization",
    "weekly",
]

# Summaries, which every run makes, need no Polars.
__getattr__ = late(
    __name__,
    {
        "breakdowns": "breakdown pass_time_by_queue_length",
    },
)
