"""All metrics of a run, or of a single loop, as in ``summary.json``."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim.analysis import job_metrics, machine_metrics
from mlsim.analysis.application_metrics import application_metrics
from mlsim.analysis.workflow_metrics import WORKFLOW, workflow_metrics
from mlsim.record import Chunks, Jobs, Loops, Messages, Nodes, Occupancy, PEs, Records, derived_times, empty
from mlsim.record.table_blocks import blocks_of

SCHEMA_VERSION = 1


def summarize(
    records: Records,
    *,
    scenario: str,
    seed: int,
    technique: str | None = None,
    predictor: str | None = None,
    tau: float = derived_times.TAU,
    measured: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Compute every metric of a run: JSON-safe, with the keys of ``summary.json``.

    The page on metrics has each key with formula, unit and source. Aggregates are over the jobs that started;
    an undefined metric is None. ``technique`` is None if jobs executed no loop, ``predictor`` without one,
    ``tau`` [s] bounds bounded slowdowns; ``measured``, of mlsim itself, becomes the key ``self``.
    """
    jobs = records.jobs
    summary: dict[str, Any] = json_safe(
        {
            "schema_version": SCHEMA_VERSION,
            "scenario": scenario,
            "seed": seed,
            "technique": technique,
            "jobs": machine_metrics.job_counts(jobs),
            "rejected_because": machine_metrics.rejected_because(records.rejections),
            "backfilled_share": job_metrics.backfilled_share(jobs),
            **_per_job(jobs, tau),
            "queue_length": job_metrics.queue_length(jobs, records.attempts),
            "makespan": machine_metrics.makespan(jobs),
            "makespan_from_submit": machine_metrics.makespan_from_submit(jobs),
            "utilization": machine_metrics.utilization(records),
            "throughput": machine_metrics.throughput(jobs),
            "estimates": {"predictor": predictor, **job_metrics.estimate_metrics(jobs)},
            "passes": job_metrics.pass_metrics(records.passes),
            "loops": machine_metrics.loop_metrics(records.loops)
            | machine_metrics.selection_metrics(records.selections),
            "coordination": machine_metrics.coordination_metrics(records),
            "failures": machine_metrics.failure_metrics(records),
            "energy": machine_metrics.energy_metrics(records),
            **_of_some_runs(records, tau),
            "self": dict(measured or {}),
        }
    )
    return summary


def _of_some_runs(records: Records, tau: float) -> dict[str, Any]:
    """Return the metrics that only some scenarios ask for."""
    found: dict[str, Any] = {}
    if records.jobs.eligible_time is not None:
        found["dependencies"] = machine_metrics.dependency_metrics(records.jobs)
        if WORKFLOW in records.own.of:
            found["workflows"] = workflow_metrics(records)
    if records.jobs.divider is not None:
        found["classes"] = job_metrics.class_metrics(records, tau)
    if records.jobs.application is not None:
        found["applications"] = application_metrics(records, tau)
    if records.shared.name:
        found["shared"] = machine_metrics.shared_metrics(records)
    if len(records.solves.time):
        found["cp"] = job_metrics.solve_counts(records.solves)
    return found


def loop_facts(records: Records, technique: str, model: str) -> dict[str, Any]:
    """Return the metrics of a run that is one loop, JSON-safe; see ``metric_definitions.LOOP``.

    ``efficiency`` is the share of the PEs' time up to ``t_loop`` in which they executed iterations. If
    techniques were selected also ``selected``, how often each, and ``selection_time`` (s).
    """
    loops = records.loops
    capacity = float(loops.pes[0] * loops.t_loop[0])
    facts: dict[str, Any] = json_safe(
        {
            "technique": technique,
            "model": model,
            "nodes": len(records.nodes.name),
            **{
                name: getattr(loops, name)[0]
                for name in ("pes", "iterations", "steps", "t_loop", "mean_finish")
            },
            "cov": machine_metrics.coefficient_of_variation(loops)[0],
            "imbalance": machine_metrics.percent_imbalance(loops)[0],
            "max_over_mean": machine_metrics.max_over_mean(loops)[0],
            **{name: getattr(loops, name)[0] for name in ("busy", "overhead", "idle")},
            "efficiency": float(loops.busy[0]) / capacity if capacity else None,
        }
    )
    chosen = machine_metrics.selection_metrics(records.selections)
    if chosen:
        counts = ", ".join(f"{name} {count}" for name, count in chosen["selected"].items())
        facts |= {"selected": counts, "selection_time": chosen["selection_time"]}
    return facts


def best_loop(loops: Sequence[Mapping[str, Any]]) -> int:
    """Return the index of the loop with the least ``t_loop``, the first of equal ones."""
    return min(range(len(loops)), key=lambda row: loops[row]["t_loop"])


def summary_without_jobs() -> dict[str, Any]:
    """Return the summary of a run without jobs: its keys; what only some scenarios have is empty."""
    nodes = Nodes(["n"], ["n"], np.ones(1, np.int64), np.ones(1))
    tables = [empty(table) for table in (Jobs, Occupancy, Loops, Chunks, PEs, Messages)]
    records = Records(nodes, *tables)  # type: ignore[arg-type]  # mypy joins the tables' types
    summary = summarize(records, scenario="", seed=0, technique="", predictor="")
    of_some = ("workload", "cp", "shared", "classes", "applications", "workflows")
    return summary | {name: {} for name in of_some}


def json_safe(value: Any) -> Any:
    """Copy nested values into what JSON can hold: plain numbers, no NaN, no infinity (None instead)."""
    if isinstance(value, Mapping):
        return {str(key): json_safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [json_safe(item) for item in value]
    if isinstance(value, np.generic):
        return json_safe(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _values(metric: job_metrics.JobMetric, tau: float, jobs: Jobs) -> NDArray[np.float64]:
    return metric.values(jobs, tau)


def _per_job(jobs: Jobs, tau: float) -> dict[str, Any]:
    """Aggregate what each job has one value of, and count slowdowns in bins."""
    metrics: dict[str, Any] = {}
    histogram: dict[str, dict[str, int]] = {}
    for name, metric in job_metrics.JOB_METRICS.items():
        metrics[name] = job_metrics.aggregate_jobs(jobs, partial(_values, metric, tau))
        if name in ("slowdown", "bounded_slowdown"):
            parts = [job_metrics.slowdown_histogram(metric.values(block, tau)) for block in blocks_of(jobs)]
            histogram[name] = {bin_: sum(part[bin_] for part in parts) for bin_ in job_metrics.SLOWDOWN_BINS}
    undefined = sum(int(np.count_nonzero(derived_times.run_time(block) == 0)) for block in blocks_of(jobs))
    metrics["slowdown"]["undefined"] = undefined
    metrics["bounded_slowdown"]["tau"] = tau
    return {**metrics, "slowdown_histogram": histogram}
