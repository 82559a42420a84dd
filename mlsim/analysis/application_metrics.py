"""Metrics of jobs and loops by application, of runs with several."""

from collections import Counter
from typing import Any

import numpy as np

from mlsim.analysis import job_metrics, machine_metrics
from mlsim.record import Loops, MessageKind, Records
from mlsim.record.derived_times import run_time
from mlsim.record.table_blocks import rows_of

_ANSWERS = {
    "requests": MessageKind.RELEASE_REQUEST,
    "rejections": MessageKind.RELEASE_REJECTED,
    "nodes_accepted": MessageKind.RELEASE_ACCEPTED,  # a row per node
}


def application_metrics(records: Records, tau: float) -> dict[str, Any]:
    """Return the metrics of each application, by name; empty where all jobs have one.

    Jobs by end, techniques, core-seconds, times, loops if there are any, and with coordination its nodes
    released early and its answers; ``tau`` [s] bounds slowdowns.
    """
    codes = records.jobs.application
    if codes is None:
        return {}
    names = records.names.of.get("application", {})
    return {
        name: _of_one(records, np.flatnonzero(codes == code), tau) for code, name in sorted(names.items())
    }


def _of_one(records: Records, rows: Any, tau: float) -> dict[str, Any]:
    jobs = rows_of(records.jobs, rows)
    found: dict[str, Any] = {"jobs": machine_metrics.job_counts(jobs)}
    if jobs.technique is not None and (jobs.technique >= 0).any():
        names = records.names.of.get("technique", {})
        counts = Counter(jobs.technique[jobs.technique >= 0].tolist())
        found["techniques"] = {names.get(code, str(code)): count for code, count in sorted(counts.items())}
    times = run_time(jobs)
    found["core_seconds"] = float(np.nansum(jobs.cores * times))
    found["run_time"] = job_metrics.aggregate(times)
    for name in ("wait_time", "bounded_slowdown"):
        found[name] = job_metrics.aggregate(job_metrics.JOB_METRICS[name].values(jobs, tau))
    of_app = np.zeros(len(records.jobs.job_id), np.bool_)
    of_app[rows] = True
    loops = rows_of(records.loops, of_app[records.loops.job])
    if len(loops.job):
        found["loops"] = _of_loops(loops)
    if len(records.messages.kind):
        occupancy, messages = records.occupancy, records.messages
        kinds = messages.kind[of_app[messages.job]]
        left = of_app[occupancy.job] & occupancy.released
        found["coordination"] = {
            "releases": int(occupancy.count[left].sum()),
            **{word: int(np.count_nonzero(kinds == kind)) for word, kind in _ANSWERS.items()},
        }
    return found


def _of_loops(loops: Loops) -> dict[str, Any]:
    """Return the metrics of an application's loops."""
    every = machine_metrics.loop_metrics(loops)
    return {name: every[name] for name in ("count", "t_loop", "imbalance", "busy", "overhead", "idle")}
