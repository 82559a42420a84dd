"""The way without the plugin: ``scontrol update`` makes the job smaller, as any owner of a job may.

Slurm kills what it has started on the node, so that ranks there have to be started by others (``mpiexec
-launcher fork`` or ``ssh``); the node of the batch script cannot be given back; without slurmdbd a job can
be made smaller once only.
"""

from __future__ import annotations

import re

from mlsim.errors import InputError, MlsimError
from mlsim.slurm.programs import called, find_program

__all__ = ["give_back"]

_JOB, _NODE = re.compile(r"[0-9]+(_[0-9]+)?"), re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def give_back(job: str, node: str) -> str:
    """Take a node out of a job; return what was done.

    Raises
    ------
    InputError
        If the node cannot be given back; with the reason.
    """
    if not _JOB.fullmatch(job) or not _NODE.fullmatch(node):
        raise InputError(
            f"job {job!r}, node {node!r}: not of Slurm; allowed: a job id and the name of a node"
        )
    scontrol = find_program("scontrol")
    try:
        told = called([scontrol, "--oneliner", "show", "job", job])
    except MlsimError as error:
        raise InputError(f"job {job}: {error}") from error
    known = dict(word.partition("=")[::2] for word in told.split())
    nodes = called([scontrol, "show", "hostnames", known.get("NodeList", "")]).split()
    if known.get("JobState") != "RUNNING" or node not in nodes:
        raise InputError(f"job {job}: does not run on {node} (state {known.get('JobState')}, nodes {nodes})")
    if len(nodes) < 2:
        raise InputError(f"job {job}: {node} is its last node")
    if node == known.get("BatchHost"):
        raise InputError(f"job {job}: its batch script runs on {node}; only the plugin can give it back")
    kept = ",".join(other for other in nodes if other != node)
    try:
        called([scontrol, "update", f"JobId={job}", f"NodeList={kept}"])
    except MlsimError as error:
        raise InputError(f"job {job}: {node} cannot be given back: {error}") from error
    return f"node {node} is free for other jobs, job {job} keeps {len(nodes) - 1}"
