"""The metrics of a run: each one function of the records, with its formula and source."""

from mlsim.analysis.metrics.aggregate import Aggregate, aggregate
from mlsim.analysis.metrics.coordination import coordination_metrics, released_nodes, released_seconds
from mlsim.analysis.metrics.loops import (
    coefficient_of_variation,
    loop_metrics,
    max_over_mean,
    percent_imbalance,
)
from mlsim.analysis.metrics.streamed import aggregate_jobs
from mlsim.analysis.metrics.system import (
    allocated_seconds,
    busy_seconds,
    job_counts,
    machine_cores,
    makespan,
    makespan_from_submit,
    queue_length,
    throughput,
    utilization,
)

__all__ = [
    "Aggregate",
    "aggregate",
    "aggregate_jobs",
    "allocated_seconds",
    "busy_seconds",
    "coefficient_of_variation",
    "coordination_metrics",
    "job_counts",
    "loop_metrics",
    "machine_cores",
    "makespan",
    "makespan_from_submit",
    "max_over_mean",
    "percent_imbalance",
    "queue_length",
    "released_nodes",
    "released_seconds",
    "throughput",
    "utilization",
]
