"""The agent as a process: it serves until it has taken enough messages, or a signal ends it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mlsim.mpi.rca.agent import Agent

__all__ = ["serve"]

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def serve(
    agent: Agent, host: str, port: int, count: int | None, listening: Callable[[str, int], None]
) -> int:
    """Run an agent in the main thread.

    The event loop itself handles signals: an exception of a signal handler would come up in whatever
    callback runs at that moment, and the loop logs those of callbacks and goes on.

    Parameters
    ----------
    agent
        Which.
    host, port
        Where it listens; port 0: any free one.
    count
        Messages to take; None: until a signal.
    listening
        Called with the address once it listens.

    Returns
    -------
    int
        Number of the signal that ended it; 0: it has taken ``count`` messages.

    Raises
    ------
    InputError
        If the address cannot be used.
    """
    with asyncio.Runner() as runner, _signals(runner.get_loop()) as signalled:
        return runner.run(_serve(agent, host, port, count, listening, signalled))


async def _serve(
    agent: Agent,
    host: str,
    port: int,
    count: int | None,
    listening: Callable[[str, int], None],
    signalled: asyncio.Future[int],
) -> int:
    listening(*await agent.listen(host, port))
    enough = asyncio.create_task(agent.has_taken(count))
    await asyncio.wait((enough, signalled), return_when=asyncio.FIRST_COMPLETED)
    enough.cancel()
    stopped = signalled.done()
    closing = asyncio.create_task(agent.close(end_hooks=stopped))
    if not stopped:
        # Hooks may take their time, but not against a signal.
        await asyncio.wait((closing, signalled), return_when=asyncio.FIRST_COMPLETED)
        if signalled.done() and not closing.done():
            await agent.close(end_hooks=True)
    await closing
    return signalled.result() if signalled.done() else 0


@contextmanager
def _signals(loop: asyncio.AbstractEventLoop) -> Iterator[asyncio.Future[int]]:
    """Handle signals that end a process in the event loop; yield a future of the first one's number."""
    signalled: asyncio.Future[int] = loop.create_future()

    def came(number: int) -> None:
        if not signalled.done():
            signalled.set_result(number)

    before = {number: signal.getsignal(number) for number in _ENDING}
    handled = [number for number in _ENDING if before[number] is not signal.SIG_IGN]  # such as by nohup
    for number in handled:
        loop.add_signal_handler(number, came, number)
    try:
        yield signalled
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])
