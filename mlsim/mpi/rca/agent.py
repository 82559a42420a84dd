"""The agent of ``mlsim rca listen``: receives ``NodeIdle`` messages of real runs, records them, calls a hook.

One line a connection. A line that is too long, malformed, forged, too old or sent a second time is refused
and logged; nothing of it is executed. The hook is started without a shell, with job and node as arguments of
their own, whose characters were checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from mlsim.errors import InputError
from mlsim.mpi.rca.wire import LONGEST, IdleNode, RefusedError, unpack

__all__ = ["Agent"]

_log = logging.getLogger("mlsim.rca")

_READ_SECONDS = 5.0
_MOST_CONNECTIONS = 256
_MOST_NONCES = 1_000_000


class Agent:
    """Takes messages.

    Parameters
    ----------
    secret
        Shared with the senders.
    records
        File that gets one JSON object a message, appended; None: none.
    hook
        Command to be called with job and node for every idle node; empty: none.
    max_age
        Seconds by which a message's time may differ from ours; nonces are remembered for as long.
    hook_timeout
        Seconds after which a hook is killed.

    Attributes
    ----------
    taken, refused
        How many messages.
    """

    def __init__(
        self,
        secret: bytes,
        records: Path | None = None,
        hook: Sequence[str] = (),
        max_age: float = 300.0,
        hook_timeout: float = 60.0,
    ) -> None:
        self._secret, self._records, self._hook = secret, records, tuple(hook)
        self._max_age, self._hook_timeout = max_age, hook_timeout
        self._nonces: OrderedDict[str, float] = OrderedDict()
        self._open = 0
        self._hooks: set[asyncio.Task[None]] = set()
        self.taken = self.refused = 0
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Begin to listen; give the address, whose port was chosen if it was 0.

        Raises
        ------
        InputError
            If the address cannot be used.
        """
        try:
            self._server = await asyncio.start_server(self._connected, host, port, limit=LONGEST)
        except OSError as error:
            raise InputError(f"{host}:{port}: cannot listen: {error.strerror or error}") from error
        address = self._server.sockets[0].getsockname()
        return str(address[0]), int(address[1])

    async def close(self) -> None:
        """Listen no more; wait for hooks that run."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        if self._hooks:
            await asyncio.wait(self._hooks)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = str(writer.get_extra_info("peername"))
        self._open += 1
        try:
            answer = await self._answer(reader, peer)
            writer.write(answer)
            await asyncio.wait_for(writer.drain(), _READ_SECONDS)
        except (OSError, TimeoutError) as error:
            _log.warning("refused: %s: %s", peer, type(error).__name__)
            self.refused += 1
        finally:
            self._open -= 1
            writer.close()
            with contextlib.suppress(OSError):  # the other side may be gone already
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, peer: str) -> bytes:
        try:
            if self._open > _MOST_CONNECTIONS:
                raise RefusedError(f"more than {_MOST_CONNECTIONS} connections")
            message = self._checked(await self._line(reader))
        except RefusedError as error:
            self.refused += 1
            _log.warning("refused: %s: %s", peer, error)
            return f"refused: {error}\n".encode()
        self.taken += 1
        _log.info("job %s: node %s is idle (%d ranks)", message.job, message.node, message.ranks)
        self._record(message)
        if self._hook:
            task = asyncio.create_task(self._call_hook(message))
            self._hooks.add(task)
            task.add_done_callback(self._hooks.discard)
        return b"ok\n"

    async def _line(self, reader: asyncio.StreamReader) -> bytes:
        try:
            return await asyncio.wait_for(reader.readuntil(b"\n"), _READ_SECONDS)
        except asyncio.LimitOverrunError as error:
            raise RefusedError(f"longer than {LONGEST} bytes") from error
        except asyncio.IncompleteReadError as error:
            raise RefusedError("the line did not end") from error
        except TimeoutError as error:
            raise RefusedError(f"no line within {_READ_SECONDS} s") from error

    def _checked(self, line: bytes) -> IdleNode:
        """Check a line, its age, and that it comes for the first time."""
        message, nonce = unpack(line, self._secret)
        now = time.time()
        if abs(now - message.time) > self._max_age:
            raise RefusedError(
                f"sent {now - message.time:.0f} s ago; allowed: {self._max_age:.0f} s either way"
            )
        # A message may be ahead by max_age, so its nonce is kept for twice as long.
        while self._nonces and next(iter(self._nonces.values())) < now - 2 * self._max_age:
            self._nonces.popitem(last=False)
        if nonce in self._nonces:
            raise RefusedError("sent a second time")
        if len(self._nonces) >= _MOST_NONCES:
            raise RefusedError("too many messages")
        self._nonces[nonce] = now
        return message

    def _record(self, message: IdleNode) -> None:
        if self._records is None:
            return
        try:
            with self._records.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"received": time.time(), **asdict(message)}) + "\n")
        except OSError as error:
            _log.error("%s: cannot be written: %s", self._records, error.strerror)

    async def _call_hook(self, message: IdleNode) -> None:
        words = (*self._hook, message.job, message.node)
        environment = {
            **os.environ,
            "MLSIM_RCA_JOB": message.job,
            "MLSIM_RCA_NODE": message.node,
            "MLSIM_RCA_NODE_NUMBER": str(message.node_number),
        }
        for name in ("MLSIM_RCA_SECRET", "MLSIM_RCA_SECRET_FILE"):
            environment.pop(name, None)
        try:
            process = await asyncio.create_subprocess_exec(
                *words, env=environment, stdin=asyncio.subprocess.DEVNULL
            )
        except OSError as error:
            _log.error("hook %s: cannot be started: %s", words[0], error.strerror)
            return
        try:
            code = await asyncio.wait_for(process.wait(), self._hook_timeout)
        except TimeoutError:
            process.kill()
            await process.wait()
            _log.error(
                "hook for node %s: not done after %.0f s, and killed", message.node, self._hook_timeout
            )
            return
        _log.log(
            logging.INFO if code == 0 else logging.ERROR, "hook for node %s: exit %d", message.node, code
        )
