"""The ranks' side of RCA: reports of idle nodes to an agent or Slurm's controller, and answers to it."""

import math
import os
import socket
import time
import warnings

import numpy as np

from mlsim._runtime.arrays import Ints
from mlsim.errors import InputError
from mlsim.mpi.rca import wire

_TIMEOUT = 2.0  # seconds within which a message is taken, or given up, however often it is tried
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.3
_CONNECT_SECONDS = 1.0
_TAKEN = b"ok"
_AGAIN = f"refused: {wire.BUSY}".encode()
_TAKEN_BEFORE = f"refused: {wire.SENT_BEFORE}\n".encode()


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
    message = wire.NodeIdle(job_identifier(), node, node_number, ranks, loop, time.time())
    return _send(message, f"node {node} is idle, but could not be reported to the RCA agent")


def send_completed() -> None:
    """Send ``JobCompleted``, with a RuntimeWarning if it is not taken."""
    completed = wire.JobCompleted(job_identifier(), time.time())
    _send(completed, "the RCA agent does not know that the loops have ended")


def _send(message: wire.Message, problem: str) -> bool:
    try:
        answer = _exchange(_receiver(), wire.pack(message, wire.find_proof()))
        reason = answer.decode("utf-8", "replace").strip() or "no answer"
    except (InputError, OSError) as error:
        answer, reason = b"", str(error)
    if not answer.startswith(_TAKEN):
        warnings.warn(f"mlsim: {problem}: {reason}", RuntimeWarning, stacklevel=3)
    return answer.startswith(_TAKEN)


def _receiver() -> tuple[str, int]:
    """Return the address of the agent or controller."""
    return wire.address_of(os.environ.get(wire.ADDRESS, ""))


def _exchange(address: tuple[str, int], line: bytes) -> bytes:
    """Send a line until it is answered; by its nonce the agent knows whether it has taken it already."""
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
        while not answer.endswith(b"\n") and len(answer) < wire.LONGEST:
            connection.settimeout(_left(deadline))
            part = connection.recv(wire.LONGEST)
            if not part:
                break
            answer += part
        return answer


def _left(deadline: float) -> float:
    """Return the seconds until a time, of which there is always a little."""
    return max(deadline - time.monotonic(), 0.001)


def answer_policy() -> tuple[str, float]:
    """Return the application's policy and its tolerance, from the environment; InputError for a wrong one."""
    text = os.environ.get(wire.ANSWER, "idle-only")
    word, _, share = text.partition(":")
    try:
        tolerance = (
            float(share)
            if word == "tolerance"
            else {"never": 0.0, "idle-only": 0.0, "always": math.inf}[text]
        )
    except (KeyError, ValueError):
        tolerance = math.nan
    if not tolerance >= 0.0:
        raise InputError(
            f"{wire.ANSWER}={text}; allowed: never, idle-only, always, tolerance:X with a share X of 0 "
            "or more"
        )
    return word, tolerance


class Answering:
    """Rank 0's answers to release requests in the last loop; ``yields``: fewer nodes would do."""

    def __init__(self, names: list[str], yields: bool) -> None:
        self.left = 1.0  # share of iterations not yet claimed, as far as rank 0 knows
        self._names, self._yields = list(dict.fromkeys(names)), yields
        self._policy, self._tolerance = "never", 0.0
        self._buffer = b""
        self._given: set[int] = set()
        self._socket: socket.socket | None = None
        self._ended = False
        try:
            self._policy, self._tolerance = answer_policy()
            self._connect()
        except (InputError, OSError) as error:
            warnings.warn(f"mlsim: this run cannot be asked for nodes: {error}", RuntimeWarning, stacklevel=2)
            self.close()

    def _connect(self) -> None:
        self._socket = socket.create_connection(_receiver(), _CONNECT_SECONDS)
        self._socket.settimeout(_CONNECT_SECONDS)
        self._socket.sendall(wire.pack(wire.Listening(job_identifier(), time.time()), wire.find_proof()))
        answer = b""
        while not answer.endswith(b"\n"):
            part = self._socket.recv(1)  # byte by byte: a request may follow at once
            if not part or len(answer) > wire.LONGEST:
                break
            answer += part
        if not answer.startswith(_TAKEN):
            raise InputError(answer.decode("utf-8", "replace").strip() or "no answer")
        self._socket.setblocking(False)

    def promised(self, counts: Ints) -> list[int]:
        """Answer the received requests; return the nodes to release. ``counts``, int64[V]: ranks per node."""
        nodes: list[int] = []
        for line in self._lines():
            try:
                message, _ = wire.unpack(line, wire.find_secret())
            except (wire.RefusedError, InputError) as error:
                warnings.warn(
                    f"mlsim: a request for nodes is not answered: {error}", RuntimeWarning, stacklevel=2
                )
                continue
            if isinstance(message, wire.ReleaseRequest) and message.job == job_identifier():
                nodes += self._answer(message, counts)
        return nodes

    def _answer(self, request: wire.ReleaseRequest, counts: Ints) -> list[int]:
        nodes, reason = self._chosen(request.nodes, counts)
        self._given.update(nodes)
        answer: wire.Message = wire.ReleaseRejected(request.job, request.request, reason, time.time())
        if nodes:
            names = ",".join(self._names[node] for node in nodes)
            answer = wire.ReleaseAccepted(request.job, request.request, names, time.time())
        if self._socket is not None:
            try:
                self._socket.sendall(wire.pack(answer, wire.find_proof()))
            except OSError:
                self.close()  # the nodes are reported when they are idle all the same
        return nodes

    def _chosen(self, wanted: int, counts: Ints) -> tuple[list[int], str]:
        """Return the nodes that are given up, or none and the reason."""
        if self._policy == "never":
            return [], "policy never"
        if self._ended or self.left <= 0.0:
            return [], "all iterations are claimed, and nodes are reported as they become idle"
        if self._policy == "idle-only":
            return [], "no node is idle"
        if not self._yields:
            return [], "the execution model needs all nodes"
        free = [v for v in range(len(counts) - 1, 0, -1) if v not in self._given]
        best: list[int] = []
        for count in range(1, min(wanted, len(free)) + 1):
            if self._growth(free[:count], counts) <= self._tolerance:
                best = free[:count]
        if best:
            return best, ""
        return [], "the loop would take too long without it" if free else "no node but the first is left"

    def _growth(self, leaving: list[int], counts: Ints) -> float:
        """Return by which share the loop's time grows: the rest is done by fewer ranks of equal speed."""
        here = int(counts.sum()) - int(counts[sorted(self._given)].sum() if self._given else 0)
        after = here - int(np.sum(counts[leaving]))
        return self.left * (here / after - 1.0)

    def _lines(self) -> list[bytes]:
        if self._socket is None:
            return []
        try:
            part = self._socket.recv(wire.LONGEST)
        except BlockingIOError:
            return []
        except OSError:
            part = b""
        if not part:
            self.close()  # no more requests
            return []
        *lines, self._buffer = (self._buffer + part).split(b"\n")
        if len(self._buffer) > wire.LONGEST:
            self.close()
        return lines

    def end(self) -> None:
        """Note that rank 0 claims no more chunks."""
        self._ended = True

    def close(self) -> None:
        """Listen no more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
