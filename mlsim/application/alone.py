"""One loop alone on a whole machine: no batch system, no other jobs."""

from __future__ import annotations

import numpy as np

from mlsim.application.recorder import LoopRecorder
from mlsim.application.simulator import LoopApplication
from mlsim.coordination import NodeSet
from mlsim.platform import Machine
from mlsim.record import ChunkStore, Messages, Nodes, Occupancy, Records, empty
from mlsim.record.one_job import one_job

__all__ = ["loop_alone", "records_alone"]


def loop_alone(
    application: LoopApplication, machine: Machine, store: ChunkStore | None, requests: bool = False
) -> Records:
    """Simulate a loop on all nodes of a machine, from time 0.

    Parameters
    ----------
    application
        The loop, not started yet; its job's run time counts only for costs made from one.
    machine
        Where it runs; PE 0, the master or coordinator, is a core of the first node.
    store
        Keeps the application's chunks; None: they are not kept.
    requests
        Whether rows of PEs tell of their requests.

    Returns
    -------
    Records
        Those of a run with one job, which is submitted and started at 0 and ends when the last PE has been
        notified that no work is left.
    """
    nodes = NodeSet(np.arange(machine.n_nodes), machine.cores)
    end = application.start(0.0, nodes).end
    recorder = LoopRecorder(True, store)
    kept = application.requests() if requests else None
    recorder.take(0, 0.0, application.outcome, application.chunks(), kept)
    return records_alone(application.job.job_id, machine, len(application.node_of_pe), end, recorder)


def records_alone(job_id: int, machine: Machine, pes: int, end: float, recorder: LoopRecorder) -> Records:
    """Return the records of a run with one job, on all nodes of a machine from 0 to ``end`` [s].

    Parameters
    ----------
    job_id, pes
        Of the job.
    machine
        The nodes.
    recorder
        Has taken the outcome of its loop.
    """
    return Records(
        nodes=Nodes(machine.name, machine.group, machine.cores, machine.speed),
        jobs=one_job(job_id, end, pes, machine.n_cores),
        occupancy=_all_nodes(NodeSet(np.arange(machine.n_nodes), machine.cores), end),
        loops=recorder.loops(),
        chunks=recorder.chunks(),
        pes=recorder.pes(),
        selections=recorder.selections(),
        messages=empty(Messages),
    )


def _all_nodes(nodes: NodeSet, end: float) -> Occupancy:
    """Return one row for each run of neighbouring nodes with equally many cores."""
    first = np.flatnonzero(np.append(True, np.diff(nodes.cores) != 0))
    rows = len(first)
    return Occupancy(
        job=np.zeros(rows, np.int64),
        node=first,
        count=np.diff(np.append(first, len(nodes.cores))),
        cores=nodes.cores[first],
        start=np.zeros(rows),
        end=np.full(rows, end),
        released=np.zeros(rows, np.bool_),
    )
