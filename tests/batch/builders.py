"""Small machines, workloads and applications for tests of the batch level."""

from __future__ import annotations

import numpy as np

from mlsim.batch.requests import Requests
from mlsim.batch.simulator import BatchSystem
from mlsim.batch.table import NUMBER
from mlsim.coordination import Forecast, NodeIdle
from mlsim.platform import build_machine
from mlsim.scenario import BatchConfig, Mapping, PlatformConfig
from mlsim.workload.jobs import JobBlock


def machine(nodes: int, cores: int = 1):
    return build_machine(
        PlatformConfig.model_validate({"nodes": [{"name": "n", "count": nodes, "cores": cores}]})
    )


def block(submit, run, estimate, processors, job_id=None) -> JobBlock:
    """Jobs in arrival order; identifiers count from 1 unless given."""
    n = len(submit)
    ids = np.arange(1, n + 1) if job_id is None else np.asarray(job_id)
    order = np.lexsort((ids, submit))
    floats = [np.asarray(column, np.float64)[order] for column in (submit, run, estimate)]
    unknown = np.full(n, -1, np.int64)
    return JobBlock(
        ids[order].astype(np.int64),
        *floats,
        np.asarray(processors, np.int64)[order],
        *([unknown] * 6),
        np.zeros(n, np.int64),
    )


class RigidApplications:
    """Every job runs as long as the log says; ``releases[number]`` lists (offset, node rank from the end)."""

    def __init__(self, batch: BatchSystem, releases=None) -> None:
        self.batch, self.releases = batch, releases or {}
        self.finished: list[tuple[int, float, bool]] = []

    def launch(self, slot: int, at: float) -> Forecast:
        table, occupancy = self.batch.table, self.batch.occupancy
        number = int(table.ints[NUMBER, slot])
        first, rows = int(table.column("first_row")[slot]), int(table.column("rows")[slot])
        nodes = occupancy.ints[1, first : first + rows][::-1]
        idle = [
            NodeIdle(number, int(nodes[rank]), at + offset, 0, 0.0)
            for rank, offset in enumerate(self.releases.get(number, []))
        ]
        if idle:
            last = NodeIdle(number, int(nodes[-1]), at + float(table.column("run_time")[slot]), 0, 0.0)
            idle.append(last)
        return Forecast(at + float(table.column("run_time")[slot]), tuple(idle))

    def finish(self, slot: int, at: float, killed: bool) -> None:
        self.finished.append((int(self.batch.table.ints[NUMBER, slot]), at, killed))


def system(nodes: int, cores: int = 1, mapping: str = "node", release_latency=None, **batch) -> BatchSystem:
    hardware = machine(nodes, cores)
    config = BatchConfig.model_validate(batch)
    return BatchSystem(hardware, config, Requests.on(hardware, Mapping(mapping)), release_latency)


def simulate(jobs, nodes: int, *, blocks=None, releases=None, **options):
    """Run a block (or several); give the batch system, the job rows and the occupancy rows."""
    batch = system(nodes, release_latency=0.0 if releases is not None else None, **options)
    applications = RigidApplications(batch, releases)
    batch.run([jobs] if blocks is None else blocks, applications)
    return batch, batch.jobs(), batch.occupancy_rows()
