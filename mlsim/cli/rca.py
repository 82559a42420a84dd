"""``mlsim rca``: the agent to which real runs report nodes without work."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated

import typer

from mlsim.cli.usage import Commands

__all__ = ["rca"]

rca = typer.Typer(name="rca", cls=Commands, help="The RCA agent for MPI runs.", no_args_is_help=True)


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
    hook_timeout: Annotated[
        float, typer.Option(min=0.001, help="Longest time that one hook may take, in s; then it is ended.")
    ] = 60.0,
    hooks_at_once: Annotated[
        int, typer.Option(min=1, max=1000, help="Hooks that run at the same time; others wait.")
    ] = 4,
    count: Annotated[
        int | None, typer.Option(min=1, help="End after this many accepted messages.", show_default=False)
    ] = None,
    max_age: Annotated[float, typer.Option(min=1.0, help="Oldest message that is accepted, in s.")] = 300.0,
    any_host: Annotated[
        bool, typer.Option("--any-host", help="Allow an address that other machines can reach.")
    ] = False,
) -> None:
    """Receive NodeIdle messages of real runs until interrupted.

    SIGTERM, SIGINT and SIGHUP end it and its hooks within some seconds; exit code 128 + number of the signal.
    """
    import logging
    import math
    import shlex
    import sys

    from mlsim.errors import InputError
    from mlsim.mpi.rca.agent import Agent
    from mlsim.mpi.rca.service import serve
    from mlsim.mpi.rca.wire import address_of, find_secret

    host, port = address_of(address)
    if not any_host and not _is_loopback(host):
        raise InputError(
            f"--address {address}: other machines can reach it; messages are signed but not encrypted; "
            "give --any-host if that is meant, or 127.0.0.1:PORT"
        )
    for option, seconds in (("--max-age", max_age), ("--hook-timeout", hook_timeout)):
        if not math.isfinite(seconds):
            raise InputError(f"{option} {seconds}; allowed: a number of seconds")
    try:
        words = shlex.split(hook or "")
    except ValueError as error:
        raise InputError(f"--hook {hook}: {error}") from error
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    agent = Agent(find_secret(secret_file), records, words, max_age, hook_timeout, hooks_at_once)

    def listening(host: str, port: int) -> None:
        print(f"listening on {host}:{port}", flush=True)

    number = serve(agent, host, port, count, listening)
    logging.getLogger("mlsim.rca").info("ended: %d taken, %d refused", agent.taken, agent.refused)
    if number:
        raise typer.Exit(128 + number)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
