"""The same batch simulated: the scenario that says what the trial cluster does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlsim
from mlsim.experiment import Result
from mlsim.scenario.words import Technique
from mlsim.slurm.esp.plan import Plan, job_table, loop_costs
from mlsim.workload.csv_writer import write_csv

__all__ = ["scenario_of", "simulate", "write_workload"]

_WORKLOAD = "workload.csv"


def scenario_of(plan: Plan, technique: Technique, rca: bool, name: str) -> dict[str, Any]:
    """Return the scenario of a run: FCFS, jobs behind the head backfilled every second, as on the cluster."""
    return {
        "name": name,
        "platform": {"nodes": [{"name": "node", "count": plan.nodes, "cores": 1}]},
        "workload": {"path": _WORKLOAD, "mapping": "node"},
        "batch": {"policy": "FCFS", "backfill": "easy", "backfill_interval": "1 s", "on_overrun": "extend"},
        "application": {
            "model": "loop",
            "technique": str(technique),
            "costs": {**loop_costs(plan), "calibrate": "run-time"},
            "execution": {"model": str(plan.model)},
        },
        "coordination": {"rca": rca},
        "output": {"trace": "chunks"},
    }


def write_workload(plan: Plan, limits: dict[str, int], launch: float, directory: Path) -> Path:
    """Write the jobs that scenarios name, anew if they are there; see :func:`job_table`."""
    workload = directory / _WORKLOAD
    workload.unlink(missing_ok=True)
    write_csv(workload, *job_table(plan, limits, launch))
    return workload


def simulate(
    plan: Plan, technique: Technique, rca: bool, limits: dict[str, int], launch: float, out: Path
) -> Result:
    """Simulate the batch, every job of which takes so many seconds more than its loop; write the run."""
    out.mkdir(parents=True, exist_ok=True)
    workload = write_workload(plan, limits, launch, out)
    name = f"{technique}-{'on' if rca else 'off'}"
    content = scenario_of(plan, technique, rca, name)
    content["workload"]["path"] = str(workload)
    return mlsim.run(content, out=out / name)
