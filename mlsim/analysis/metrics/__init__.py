"""The metrics of a run: each one function of the records, with its formula and source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlsim._late import late
from mlsim.analysis.metrics.accuracy import accuracy, estimate_metrics
from mlsim.analysis.metrics.aggregate import Aggregate, aggregate
from mlsim.analysis.metrics.coordination import coordination_metrics, released_nodes, released_seconds
from mlsim.analysis.metrics.energy import energy_metrics
from mlsim.analysis.metrics.failures import failure_metrics, out_of_use_seconds
from mlsim.analysis.metrics.groups import CLASSES, CODED, GROUPINGS, WEEK, Groups, group_jobs
from mlsim.analysis.metrics.histogram import SLOWDOWN_BINS, slowdown_histogram
from mlsim.analysis.metrics.jobs import JOB_METRICS, JobMetric, backfilled_share
from mlsim.analysis.metrics.loops import (
    coefficient_of_variation,
    loop_metrics,
    max_over_mean,
    percent_imbalance,
    selection_metrics,
)
from mlsim.analysis.metrics.passes import pass_metrics
from mlsim.analysis.metrics.queue import (
    queue_length,
    queue_length_at_passes,
    queue_quantiles,
    queue_shares,
)
from mlsim.analysis.metrics.streamed import aggregate_jobs
from mlsim.analysis.metrics.system import (
    busy_seconds,
    job_counts,
    machine_cores,
    makespan,
    makespan_from_submit,
    rejected_because,
    throughput,
    utilization,
)
from mlsim.analysis.metrics.weekly import Weekly, weekly
from mlsim.record.derived import allocated_seconds

if TYPE_CHECKING:
    from mlsim.analysis.metrics.by_group import breakdown
    from mlsim.analysis.metrics.pass_times import pass_time_by_queue_length

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
__getattr__ = late(__name__, {"by_group": "breakdown", "pass_times": "pass_time_by_queue_length"})
