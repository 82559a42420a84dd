"""Gains and losses by coordination, job by job."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mlsim.analysis.formatting import clock, count, number, share
from mlsim.analysis.machine_metrics import makespan, released_seconds, utilization
from mlsim.record import Attempts, Jobs, Occupancy, Records
from mlsim.record.derived_times import away_until, response_time, wait_time

_SAME = 1e-6
"""Differences below this many seconds are rounding, not gains."""


def started_on_released_nodes(
    occupancy: Occupancy, jobs: Jobs, attempts: Attempts | None = None
) -> NDArray[np.bool_]:
    """Return, per job, whether it started on a node while a job that had released it was still running."""
    fed = np.zeros(len(jobs.job_id), np.bool_)
    by_node: dict[int, list[tuple[float, float, int]]] = {}
    until = away_until(occupancy, jobs, attempts)
    for row in np.flatnonzero(occupancy.released).tolist():
        owner = int(occupancy.job[row])
        span = (float(occupancy.end[row]), float(until[row]), owner)
        for node in _nodes(occupancy, row):
            by_node.setdefault(node, []).append(span)
    for row in range(len(occupancy.job)):
        job, start = int(occupancy.job[row]), float(occupancy.start[row])
        for node in _nodes(occupancy, row):
            if any(free <= start < end and owner != job for free, end, owner in by_node.get(node, ())):
                fed[job] = True
    return fed


def _nodes(occupancy: Occupancy, row: int) -> range:
    first = int(occupancy.node[row])
    return range(first, first + int(occupancy.count[row]))


def gain_frame(off: Records, on: Records) -> pl.DataFrame:
    """Join every job's times without and with RCA.

    ``wait_gain`` and ``response_gain`` are in s, without minus with: positive is better with RCA.
    ``on_released_nodes``: the job started on a node that another running job had released.
    """
    return pl.DataFrame(
        {
            "job_id": on.jobs.job_id,
            "processors": on.jobs.processors,
            "start_off": off.jobs.start_time,
            "start_on": on.jobs.start_time,
            "end_off": off.jobs.end_time,
            "end_on": on.jobs.end_time,
            "wait_gain": wait_time(off.jobs) - wait_time(on.jobs),
            "response_gain": response_time(off.jobs) - response_time(on.jobs),
            "on_released_nodes": started_on_released_nodes(on.occupancy, on.jobs, on.attempts),
        },
        nan_to_null=True,
    )


def explain_gains(off: Records, on: Records, most: int = 5) -> dict[str, Any]:
    """Summarize the changes by RCA, and their causes; ``most`` jobs that gained and lost most are listed."""
    frame = gain_frame(off, on)
    gain = frame["wait_gain"].fill_null(0.0).to_numpy()
    fed = frame["on_released_nodes"].to_numpy()
    node_seconds, _ = released_seconds(on.occupancy, on.jobs, on.attempts)
    return {
        "makespan": {"off": makespan(off.jobs), "on": makespan(on.jobs)},
        "busy": {"off": utilization(off)["busy"], "on": utilization(on)["busy"]},
        "mean_wait": {"off": _mean(wait_time(off.jobs)), "on": _mean(wait_time(on.jobs))},
        "released_node_hours": node_seconds / 3600.0,
        "jobs": {
            "earlier": int((gain > _SAME).sum()),
            "later": int((gain < -_SAME).sum()),
            "same": int((np.abs(gain) <= _SAME).sum()),
            "on_released_nodes": int(fed.sum()),
            "earlier_on_released_nodes": int((fed & (gain > _SAME)).sum()),
        },
        "gained": _extremes(frame, most, best=True),
        "lost": _extremes(frame, most, best=False),
    }


def _mean(values: NDArray[np.float64]) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _extremes(frame: pl.DataFrame, most: int, best: bool) -> list[dict[str, Any]]:
    side = pl.col("response_gain") > _SAME if best else pl.col("response_gain") < -_SAME
    rows = frame.filter(side).sort(["response_gain", "job_id"], descending=[best, False]).head(most)
    return rows.select("job_id", "response_gain", "on_released_nodes").to_dicts()


def gains_table(scenario: str, gains: dict[str, Any]) -> RenderableType:
    """Lay out what :func:`explain_gains` found for the terminal."""
    table = Table(box=None, padding=(0, 2), pad_edge=False, header_style="bold")
    for title in ("", "RCA off", "RCA on", "difference"):
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    for name in ("makespan", "mean_wait"):
        off, on = gains[name]["off"], gains[name]["on"]
        table.add_row(name.replace("_", " "), clock(off), clock(on), _growth(off, on))
    off, on = gains["busy"]["off"], gains["busy"]["on"]
    table.add_row("busy", share(off), share(on), _points(off, on))
    jobs = gains["jobs"]
    why = (
        f"{number(gains['released_node_hours'])} node-hours were given back early; "
        f"{count(jobs['on_released_nodes'], 'job')} started on nodes that another running job had released.\n"
        f"{count(jobs['earlier'], 'job')} started earlier ({jobs['earlier_on_released_nodes']} of them on "
        f"such nodes), {jobs['later']} later, {jobs['same']} at the same time."
    )
    lines = [Text(f"{side}: {_named(gains[side])}") for side in ("gained", "lost") if gains[side]]
    blocks: list[RenderableType] = [Text(scenario, "bold"), table, Text(why), *lines]
    return Padding(
        Group(*(Padding(block, (0, 0, 1, 0), expand=False) for block in blocks)), (0, 1), expand=False
    )


def _growth(off: float | None, on: float | None) -> str:
    return "-" if not off or on is None else f"{(on / off - 1.0) * 100:+.1f} %"


def _points(off: float | None, on: float | None) -> str:
    return "-" if off is None or on is None else f"{(on - off) * 100:+.1f} points"


def _named(extremes: list[dict[str, Any]]) -> str:
    return ", ".join(f"job {job['job_id']} ({clock(abs(job['response_gain']))})" for job in extremes)
