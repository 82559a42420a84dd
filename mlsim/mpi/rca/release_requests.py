"""Requests for nodes, read by rank 0 and answered."""

from __future__ import annotations

import math
import os
import socket
import warnings

import numpy as np

from mlsim._runtime.arrays import Ints
from mlsim.errors import InputError
from mlsim.mpi.rca.rca_client import job_identifier
from mlsim.mpi.rca.wire import (
    ADDRESS,
    ANSWER,
    LONGEST,
    Listening,
    Message,
    RefusedError,
    ReleaseAccepted,
    ReleaseRejected,
    ReleaseRequest,
    address_of,
    find_proof,
    find_secret,
    now,
    pack,
    unpack,
)

_CONNECT_SECONDS = 1.0


def answer_policy() -> tuple[str, float]:
    """Return the application's policy and its tolerance, from the environment; InputError for a wrong one."""
    text = os.environ.get(ANSWER, "idle-only")
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
            f"{ANSWER}={text}; allowed: never, idle-only, always, tolerance:X with a share X of 0 or more"
        )
    return word, tolerance


class Answering:
    """Rank 0's answers to release requests, during the last loop.

    ``names`` has the node of every rank; ``yields`` is whether the loop could continue on fewer nodes;
    ``left`` is the share of iterations not yet claimed, as far as rank 0 knows.
    """

    def __init__(self, names: list[str], yields: bool) -> None:
        self.left = 1.0
        self._names = names
        self._yields = yields
        self._policy, self._tolerance = "never", 0.0
        self._buffer = b""
        self._given: set[int] = set()
        self._socket: socket.socket | None = None
        self._ended = False
        try:
            self._policy, self._tolerance = answer_policy()
            self._connect()
        except (InputError, OSError) as error:
            warnings.warn(f"mlsim: nobody can ask this run for nodes: {error}", RuntimeWarning, stacklevel=2)
            self.close()

    def _connect(self) -> None:
        self._socket = socket.create_connection(address_of(os.environ.get(ADDRESS, "")), _CONNECT_SECONDS)
        self._socket.settimeout(_CONNECT_SECONDS)
        self._socket.sendall(pack(Listening(job_identifier(), now()), find_proof()))
        answer = b""
        while not answer.endswith(b"\n"):
            part = self._socket.recv(1)  # byte by byte: a request may follow at once
            if not part or len(answer) > LONGEST:
                break
            answer += part
        if not answer.startswith(b"ok"):
            raise InputError(answer.decode("utf-8", "replace").strip() or "no answer")
        self._socket.setblocking(False)

    def promised(self, counts: Ints) -> list[int]:
        """Answer the received requests; return the nodes to release. ``counts``, int64[V]: ranks per node."""
        nodes: list[int] = []
        for line in self._lines():
            try:
                message, _ = unpack(line, find_secret())
            except (RefusedError, InputError) as error:
                warnings.warn(
                    f"mlsim: a request for nodes is not answered: {error}", RuntimeWarning, stacklevel=2
                )
                continue
            if isinstance(message, ReleaseRequest) and message.job == job_identifier():
                nodes += self._answer(message, counts)
        return nodes

    def _answer(self, request: ReleaseRequest, counts: Ints) -> list[int]:
        nodes, reason = self._chosen(request.nodes, counts)
        self._given.update(nodes)
        answer: Message = ReleaseRejected(request.job, request.request, reason, now())
        if nodes:
            answer = ReleaseAccepted(
                request.job, request.request, ",".join(self._name(v) for v in nodes), now()
            )
        if self._socket is not None:
            try:
                self._socket.sendall(pack(answer, find_proof()))
            except OSError:
                self.close()  # the nodes are reported when they are idle all the same
        return nodes

    def _name(self, node: int) -> str:
        return list(dict.fromkeys(self._names))[node]

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
        if not best:
            return (
                [],
                "no node but the first is left" if not free else "the loop would take too long without it",
            )
        return best, ""

    def _growth(self, leaving: list[int], counts: Ints) -> float:
        """Return by which share the loop's time grows: the rest is done by fewer ranks of equal speed."""
        here = int(counts.sum()) - int(counts[sorted(self._given)].sum() if self._given else 0)
        after = here - int(np.sum(counts[leaving]))
        return self.left * (here / after - 1.0)

    def _lines(self) -> list[bytes]:
        if self._socket is None:
            return []
        try:
            part = self._socket.recv(LONGEST)
        except BlockingIOError:
            return []
        except OSError:
            part = b""
        if not part:
            self.close()  # no more requests
            return []
        *lines, self._buffer = (self._buffer + part).split(b"\n")
        if len(self._buffer) > LONGEST:
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
