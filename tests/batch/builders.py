"""Small machines, workloads and applications for tests of the batch level."""

from __future__ import annotations

import numpy as np

from mlsim.batch.batch_system import BatchSetup, BatchSystem
from mlsim.batch.columns.job_columns import NUMBER, START, UNITS
from mlsim.batch.events.outages import OutagePlan
from mlsim.batch.job_recorder import MessageLog
from mlsim.batch.room.unit_requests import PowerCap, Requests
from mlsim.coordination import Forecast, NodeIdle
from mlsim.platform import build_machine
from mlsim.platform.machine import power_of
from mlsim.record import JobState
from mlsim.scenario import BatchConfig, PlatformConfig
from mlsim.scenario.batch_section import CoordinationConfig
from mlsim.scenario.words import Mapping
from mlsim.workload.workload_jobs import JobBlock


def platform(nodes: int, cores: int = 1, power=None, **others) -> PlatformConfig:
    groups = [{"name": "n", "count": nodes, "cores": cores, "power": power}]
    if isinstance(power, list):  # one for each node
        groups = [{"name": f"n{k}x", "count": 1, "cores": cores, "power": own} for k, own in enumerate(power)]
    return PlatformConfig.model_validate({"nodes": groups, **others})


def machine(nodes: int, cores: int = 1):
    return build_machine(platform(nodes, cores))


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
        *([unknown] * 2),
    )


class RigidApplications:
    """Every job runs as long as the log says; ``releases[number]`` lists (offset, node rank from the end)."""

    def __init__(self, batch: BatchSystem, releases=None) -> None:
        self.batch, self.releases = batch, releases or {}
        self.finished: list[tuple[int, float, JobState]] = []

    def launch(self, slot: int, at: float) -> Forecast:
        table, occupancy = self.batch.state.table, self.batch.state.occupancy
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

    def apply_change(self, slot: int, at: float, change) -> Forecast:
        return Forecast(at)

    def request_release(self, slot: int, at: float, request):
        raise AssertionError("nobody is asked in these tests")

    def idle_share(self, slot: int) -> float:
        return 0.0

    def requeue(self, slot: int, at: float) -> float:
        table = self.batch.state.table
        return float(table.ints[UNITS, slot] * (at - table.floats[START, slot]))

    def finish(self, slot: int, at: float, state: JobState) -> None:
        self.finished.append((int(self.batch.state.table.ints[NUMBER, slot]), at, state))


def system(
    nodes: int,
    cores: int = 1,
    mapping: str = "node",
    log=None,
    failures=(),
    random_failures=(),
    drains=(),
    seed=0,
    power=None,
    dependencies=None,
    feedback=False,
    shared=None,
    node_sets=False,
    **batch,
) -> BatchSystem:
    outages = {"failures": failures, "random_failures": random_failures, "drains": drains, "shared": shared}
    config = platform(nodes, cores, power, **outages)
    hardware = build_machine(config)
    coordination = CoordinationConfig.model_validate(batch.pop("coordination", {}))
    names = batch.pop("names", ())
    dispatcher = BatchConfig.model_validate(batch)
    requests, watts = Requests.on(hardware, Mapping(mapping), node_sets=node_sets), power_of(config)
    cap = None
    if dispatcher.power_cap is not None:
        cap = PowerCap(watts, hardware.cores, requests.exclusive, dispatcher.power_cap)
    plan = OutagePlan.from_config(config, seed)
    return BatchSystem(
        hardware,
        dispatcher,
        requests,
        BatchSetup(
            coordination,
            log,
            plan,
            executable_names=names,
            seed=seed,
            cap=cap,
            dependencies=dependencies,
            feedback=feedback,
        ),
    )


def simulate(jobs, nodes: int, *, blocks=None, releases=None, **options):
    """Run a block (or several); give the batch system, the job rows and the occupancy rows."""
    batch = system(nodes, log=None if releases is None else MessageLog(0.0), **options)
    applications = RigidApplications(batch, releases)
    batch.run([jobs] if blocks is None else blocks, applications)
    return batch, batch.jobs(), batch.occupancy_rows()
