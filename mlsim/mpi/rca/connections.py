"""Open connections of the agent: how many there may be, and which one is dropped for a new one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator

from mlsim.mpi.rca.wire import BUSY, RefusedError

__all__ = ["Connection", "Connections", "most_connections"]

_MOST = 1024
_SPARE_FILES = 64


def most_connections() -> int:
    """Return how many connections may be open at once: 1024, or fewer where few files may be open."""
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if files == resource.RLIM_INFINITY else max(1, min(_MOST, files - _SPARE_FILES))


class Connection:
    """One connection.

    Attributes
    ----------
    peer
        Address and port of the other side, for the log.
    address
        Its address alone.
    silent
        Whether it has not yet sent a whole line.
    dropped
        Whether it was closed to make room, and answered already.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        place = writer.get_extra_info("peername") or ("unknown",)
        self.peer, self.address = str(place), str(place[0])
        self.silent, self.dropped = True, False
        self._writer = writer

    def drop(self, reason: str) -> None:
        """Close it, with an answer; its reader sees the end of the stream."""
        self.dropped = True
        self._writer.write(f"refused: {reason}\n".encode())
        self._writer.close()


class Connections:
    """Connections in order of arrival.

    Parameters
    ----------
    most, most_of_one
        How many there may be, in all and of one address.
    """

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._open: dict[Connection, None] = {}
        self._of: Counter[str] = Counter()

    def add(self, connection: Connection) -> None:
        """Add a connection; at the limit, the oldest silent one is dropped.

        It is one of the same address if that has too many, else one of the address that has most.

        Raises
        ------
        RefusedError
            If all are busy with a line.
        """
        if self._of[connection.address] >= self._most_of_one:
            self._drop_oldest(self._silent(connection.address), "of this address")
        elif len(self._open) >= self._most:
            silent = {other.address for other in self._silent()}
            fullest = max(silent, key=self._of.__getitem__, default="")
            self._drop_oldest(self._silent(fullest), "in all")
        self._open[connection] = None
        self._of[connection.address] += 1

    def remove(self, connection: Connection) -> None:
        """Remove a connection that is closed."""
        if connection in self._open:
            del self._open[connection]
            self._of[connection.address] -= 1
            if not self._of[connection.address]:
                del self._of[connection.address]

    def drop_silent(self, reason: str) -> None:
        """Close all that have sent no line."""
        for connection in list(self._silent()):
            connection.drop(reason)

    def _silent(self, address: str | None = None) -> Iterator[Connection]:
        """Yield the silent connections, the oldest first."""
        for connection in self._open:
            same = address is None or connection.address == address
            if same and connection.silent and not connection.dropped:
                yield connection

    def _drop_oldest(self, silent: Iterator[Connection], whose: str) -> None:
        oldest = next(silent, None)
        if oldest is None:
            raise RefusedError(f"{BUSY}: too many connections {whose}")
        oldest.drop(f"{BUSY}: silent, and too many connections {whose}")
        self.remove(oldest)
