"""The connection of ranks to an agent or to Slurm's controller."""

from __future__ import annotations

import os
import socket
import time
import warnings

from mlsim.errors import InputError
from mlsim.mpi.rca.wire import (
    ADDRESS,
    BUSY,
    LONGEST,
    SENT_BEFORE,
    IdleNode,
    JobCompleted,
    Message,
    address_of,
    find_proof,
    now,
    pack,
)

_TIMEOUT = 2.0
"""Seconds within which a message is taken, or given up, however often it is tried."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.3


def job_identifier() -> str:
    """Return the job's identifier: of ``MLSIM_RCA_JOB``, Slurm or PBS; else of the parent process."""
    for name in ("MLSIM_RCA_JOB", "SLURM_JOB_ID", "PBS_JOBID"):
        if value := os.environ.get(name):
            return value
    return f"process-{os.getppid()}"


def send_idle(node: str, node_number: int, ranks: int, loop: str) -> bool:
    """Send ``NodeIdle`` to the agent or controller that the environment names; return whether it was taken.

    Warns with a RuntimeWarning, and returns False, if it cannot be reached or refuses.
    """
    message = IdleNode(job_identifier(), node, node_number, ranks, loop, now())
    return _send(message, f"node {node} is idle, but could not be reported to the RCA agent")


def send_completed() -> bool:
    """Send ``JobCompleted``; as :func:`send_idle`."""
    return _send(
        JobCompleted(job_identifier(), now()), "the RCA agent does not know that the loops have ended"
    )


def _send(message: Message, problem: str) -> bool:
    try:
        line = pack(message, find_proof())
        answer = _exchange(address_of(os.environ.get(ADDRESS, "")), line)
    except (InputError, OSError) as error:
        _warn(problem, str(error))
        return False
    if not answer.startswith(_TAKEN):
        _warn(problem, answer.decode("utf-8", "replace").strip() or "no answer")
        return False
    return True


_TAKEN = b"ok"
_AGAIN = f"refused: {BUSY}".encode()
_TAKEN_BEFORE = f"refused: {SENT_BEFORE}\n".encode()


def _exchange(address: tuple[str, int], line: bytes) -> bytes:
    """Send a line until it is answered; connections that are refused or dropped are tried again.

    The line stays the same: the agent knows by its nonce whether it has taken it already.
    """
    deadline, pause = time.monotonic() + _TIMEOUT, _FIRST_PAUSE
    sent_before = False
    while True:
        failure: OSError | None = None
        answer = b""
        try:
            answer = _exchange_once(address, line, deadline)
        except OSError as error:
            failure = error
        if sent_before and answer == _TAKEN_BEFORE:
            return _TAKEN  # only the answer was lost
        if failure is None and answer and not answer.startswith(_AGAIN):
            return answer
        sent_before = True
        if time.monotonic() + pause >= deadline:
            if failure is not None:
                raise failure
            return answer
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _exchange_once(address: tuple[str, int], line: bytes, deadline: float) -> bytes:
    """Send a line on a connection of its own; return the answer, empty if there is none."""
    with socket.create_connection(address, _left(deadline)) as connection:
        connection.settimeout(_left(deadline))
        connection.sendall(line)
        answer = b""
        while not answer.endswith(b"\n") and len(answer) < LONGEST:
            connection.settimeout(_left(deadline))
            part = connection.recv(LONGEST)
            if not part:
                break
            answer += part
        return answer


def _left(deadline: float) -> float:
    """Return the seconds until a time, of which there is always a little."""
    return max(deadline - time.monotonic(), 0.001)


def _warn(problem: str, reason: str) -> None:
    warnings.warn(f"mlsim: {problem}: {reason}", RuntimeWarning, stacklevel=4)
