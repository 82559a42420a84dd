"""Starts of small workloads by the slow reference, which shares nothing with the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.reference.allocators import ALLOCATORS, Nodes
from tests.reference.planning import Job, Outage, PlanningSystem, Rules

BACKFILL = {"fcfs": "none"}
KEYS = {
    "FCFS": lambda job, now: job.submit,
    "SPF": lambda job, now: job.estimate,
    "SAF": lambda job, now: job.estimate * job.units,
}


def _seconds(text: str) -> float:
    return float(text.removesuffix(" s"))


def _outages(units: int, drains: Sequence[Mapping[str, Any]]) -> list[Outage]:
    found = []
    for drain in drains:
        low, _, high = str(drain.get("nodes", f"0-{units - 1}")).partition("-")
        kind = "announced" if drain.get("announced") else "drained"
        found += [
            Outage(node, _seconds(drain["start"]), _seconds(drain["end"]), kind)
            for node in range(int(low), int(high or low) + 1)
        ]
    return found


def reference_starts(
    units: int,
    jobs: Sequence[tuple[float, float, float, int]],
    rule: str,
    keys: Mapping[str, Any],
    after: Mapping[int, tuple[int, float]],
) -> list[float | None]:
    """Return when each job starts; None: never."""
    twins = [
        Job(number, submit, run, walltime, wide, (1,))
        for number, (submit, run, walltime, wide) in enumerate(jobs)
    ]
    for job, (other, think) in after.items():
        twins[job - 1].after = [(other - 1, False, think)]
    outages = _outages(units, keys.get("platform.drains", ()))
    rules = Rules(
        BACKFILL.get(rule, rule),
        int(keys.get("batch.reservations", 1)),
        kill=keys.get("batch.on_overrun", "kill") == "kill",
        counts=not any(outage.kind == "announced" for outage in outages),
    )
    key = KEYS[keys.get("batch.policy", "FCFS")]
    nodes = Nodes([(1,)] * units, exclusive=True)
    PlanningSystem(nodes, ALLOCATORS["first-fit"], rules, outages, key).run(twins)
    return [job.start if job.state in ("completed", "killed") else None for job in twins]
