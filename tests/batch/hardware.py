"""Machines of several sorts of nodes, and jobs with requests, for tests of the general batch level."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mlsim.batch.batch_system import BatchSetup, BatchSystem
from mlsim.batch.events.outages import OutagePlan
from mlsim.batch.job_recorder import MessageLog
from mlsim.batch.room.unit_requests import Requests
from mlsim.platform import build_machine
from mlsim.scenario import BatchConfig, PlatformConfig
from mlsim.scenario.batch_section import CoordinationConfig
from mlsim.scenario.platform_section import DrainConfig, FailureConfig
from mlsim.scenario.words import Mapping
from mlsim.workload.workload_jobs import ResourceRequests
from tests.batch.builders import RigidApplications, block


def machine(*groups, network=None, shared=None):
    """Build groups of (count, cores, memory in MB, {resource: amount})."""
    nodes = [
        {"name": f"g{row}", "count": count, "cores": cores}
        | ({"memory": memory * 1e6} if memory else {})
        | {"resources": others}
        for row, (count, cores, memory, others) in enumerate(groups)
    ]
    return build_machine(
        PlatformConfig.model_validate(
            {"nodes": nodes, "shared": shared} | ({"network": network} if network else {})
        )
    )


def jobs_with_requests(hardware, submit, run, estimate, units, requests):
    """Jobs whose units ask for ``requests`` (one row a job: cores, then the machine's other resources)."""
    requests = np.asarray(requests, np.int64).reshape(len(submit), -1)
    units = np.asarray(units, np.int64)
    rows = block(submit, run, estimate, units * requests[:, 0])
    order = np.lexsort((np.arange(len(submit)), submit))
    totals = (requests[:, 1:] * units[:, None])[order]
    return replace(rows, asked=ResourceRequests(hardware.resources[1:], units[order], totals))


def system(hardware, jobs, *, exclusive=False, seed=0, failures=(), drains=(), log=None, cap=None, **batch):
    """Return a batch system for jobs with these columns of requests."""
    mapping = Mapping.NODE if exclusive else Mapping.CORE
    coordination = CoordinationConfig.model_validate(batch.pop("coordination", {}))
    return BatchSystem(
        hardware,
        BatchConfig.model_validate(batch),
        Requests.on(hardware, mapping, per_job=True, node_sets=jobs.node_sets is not None),
        BatchSetup(
            coordination,
            log,
            OutagePlan(
                tuple(FailureConfig.model_validate(failure) for failure in failures),
                drains=tuple(DrainConfig.model_validate(drain) for drain in drains),
                groups=(("all", hardware.n_nodes),),
            ),
            seed=seed,
            cap=cap,
        ),
    )


def simulate(hardware, jobs, *, blocks=None, releases=None, **options):
    """Run jobs; give the batch system, the job rows and the occupancy rows."""
    made = system(hardware, jobs, log=None if releases is None else MessageLog(0.0), **options)
    made.run([jobs] if blocks is None else blocks, RigidApplications(made, releases))
    return made, made.jobs(), made.occupancy_rows()


def nodes_of(occupancy, job, cores_per_unit) -> list[int]:
    """List the node of each unit of a job, in node order."""
    found = []
    for row in np.flatnonzero(occupancy.job == job):
        for node in range(occupancy.node[row], occupancy.node[row] + occupancy.count[row]):
            found += [node] * (occupancy.cores[row] // cores_per_unit)
    return found
