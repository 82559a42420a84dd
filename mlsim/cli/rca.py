"""``mlsim rca``: the agent that real runs tell of nodes without work."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["rca"]

rca = typer.Typer(name="rca", help="Coordination with real runs.", no_args_is_help=True)


@rca.callback()
def _group() -> None:
    pass


@rca.command("listen")
def listen(
    address: Annotated[
        str, typer.Option("--address", metavar="HOST:PORT", help="Where to listen; port 0: any free one.")
    ] = "127.0.0.1:7410",
    secret_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the shared secret. Default: MLSIM_RCA_SECRET_FILE, or MLSIM_RCA_SECRET.",
            show_default=False,
        ),
    ] = None,
    records: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Append every message, one JSON object a line.", show_default=False
        ),
    ] = None,
    hook: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Called for every idle node, without a shell, with job and node as further arguments.",
            show_default=False,
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="End after so many messages taken.", show_default=False)
    ] = None,
    max_age: Annotated[float, typer.Option(min=1.0, help="Oldest message that is taken, in s.")] = 300.0,
    any_host: Annotated[
        bool, typer.Option("--any-host", help="Allow an address that other machines can reach.")
    ] = False,
) -> None:
    """Receive NodeIdle messages of real runs until interrupted."""
    import asyncio
    import logging
    import shlex
    import sys

    from mlsim.errors import InputError
    from mlsim.mpi.rca.agent import Agent
    from mlsim.mpi.rca.wire import address_of, find_secret

    host, port = address_of(address)
    if not any_host and not _is_loopback(host):
        raise InputError(
            f"--address {address}: other machines can reach it; messages are signed but not encrypted; "
            "give --any-host if that is meant, or 127.0.0.1:PORT"
        )
    try:
        words = shlex.split(hook or "")
    except ValueError as error:
        raise InputError(f"--hook {hook}: {error}") from error
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    agent = Agent(find_secret(secret_file), records, words, max_age)

    async def serve() -> None:
        place = await agent.listen(host, port)
        print(f"listening on {place[0]}:{place[1]}", flush=True)
        while count is None or agent.taken < count:
            await asyncio.sleep(0.05)
        await agent.close()

    asyncio.run(serve())


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
