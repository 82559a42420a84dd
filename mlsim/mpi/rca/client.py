"""Tells an agent that a node is idle; that it cannot be reached is a warning, never an error."""

from __future__ import annotations

import os
import socket
import warnings

from mlsim.errors import InputError
from mlsim.mpi.rca.wire import ADDRESS, LONGEST, IdleNode, address_of, find_secret, now, pack

__all__ = ["job_identifier", "send"]

_TIMEOUT = 2.0
"""Seconds that an agent may take to connect, and to answer."""


def job_identifier() -> str:
    """Give the job's identifier: that of ``MLSIM_RCA_JOB``, or Slurm's or PBS's; else the user's process."""
    for name in ("MLSIM_RCA_JOB", "SLURM_JOB_ID", "PBS_JOBID"):
        if value := os.environ.get(name):
            return value
    return f"process-{os.getppid()}"


def send(node: str, node_number: int, ranks: int, loop: str) -> bool:
    """Send ``NodeIdle`` to the agent that the environment names; tell whether it was taken.

    Warns with a RuntimeWarning, and gives False, if the agent cannot be reached or refuses.
    """
    try:
        address = address_of(os.environ.get(ADDRESS, ""))
        secret = find_secret()
        line = pack(IdleNode(job_identifier(), node, node_number, ranks, loop, now()), secret)
        answer = _exchange(address, line)
    except (InputError, OSError) as error:
        _warn(node, str(error))
        return False
    if answer != b"ok\n":
        _warn(node, answer.decode("utf-8", "replace").strip() or "no answer")
        return False
    return True


def _exchange(address: tuple[str, int], line: bytes) -> bytes:
    with socket.create_connection(address, _TIMEOUT) as connection:
        connection.settimeout(_TIMEOUT)
        connection.sendall(line)
        with connection.makefile("rb") as stream:
            return stream.readline(LONGEST)


def _warn(node: str, reason: str) -> None:
    warnings.warn(f"mlsim: node {node} is idle, but the RCA agent was not told: {reason}", stacklevel=3)
