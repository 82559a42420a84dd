"""``mlsim mpi listen``, which receives messages of applications with RCA; earlier ``mlsim rca listen``."""

import ipaddress
import logging
import math
import shlex
import sys
from pathlib import Path

import typer

from mlsim.cli import command_options as cli
from mlsim.errors import InputError
from mlsim.mpi.rca.agent import Agent, serve
from mlsim.mpi.rca.wire import address_of, find_secret


class ListenOptions(cli.Options):
    """Options of ``mlsim mpi listen``."""

    address: str = cli.option(
        "Where to listen; port 0: any free one.", "--address", "HOST:PORT", default="127.0.0.1:7410"
    )
    secret_file: Path | None = cli.option(
        "File with the shared secret. Default: MLSIM_RCA_SECRET_FILE, or MLSIM_RCA_SECRET.", "FILE"
    )
    records: Path | None = cli.option("Append every message, one JSON object a line.", "FILE")
    hook: str | None = cli.option(
        "Called for every idle node, without a shell, with job and node as further arguments.", "COMMAND"
    )
    hook_timeout: float = cli.option(
        "Longest time that one hook may take, in s; then it is ended.", default=60.0, min=0.001
    )
    hooks_at_once: int = cli.option(
        "Hooks that run at the same time; others wait.", default=4, min=1, max=1000
    )
    count: int | None = cli.option("End after this many accepted messages.", min=1)
    max_age: float = cli.option("Oldest message that is accepted, in s.", default=300.0, min=1.0)
    any_host: bool = cli.flag("Allow an address that other machines can reach.", "--any-host")


def listen(options: ListenOptions) -> None:
    """Receive NodeIdle messages of real runs until interrupted.

    SIGTERM, SIGINT and SIGHUP end it and its hooks within some seconds; exit code 128 + number of the signal.
    """
    try:
        host, port = address_of(options.address)
    except InputError as error:
        raise InputError(f"--address: {error}") from error
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if not (options.any_host or loopback):
        raise InputError(
            f"--address {options.address}: other machines can reach it; messages are signed but not "
            "encrypted; give --any-host if that is meant, or 127.0.0.1:PORT"
        )
    for name, seconds in (("--max-age", options.max_age), ("--hook-timeout", options.hook_timeout)):
        if not math.isfinite(seconds):
            raise InputError(f"{name} {seconds}; allowed: a number of seconds")
    try:
        words = shlex.split(options.hook or "")
    except ValueError as error:
        raise InputError(f"--hook {options.hook}: {error}") from error
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    agent = Agent(
        find_secret(options.secret_file),
        options.records,
        words,
        options.max_age,
        options.hook_timeout,
        options.hooks_at_once,
    )

    def listening(host: str, port: int) -> None:
        print(f"listening on {host}:{port}", flush=True)

    number = serve(agent, host, port, options.count, listening)
    logging.getLogger("mlsim.rca").info("ended: %d taken, %d refused", agent.taken, agent.refused)
    if number:
        raise typer.Exit(128 + number)


rca = cli.CommandGroup("rca")
rca.callback()(lambda: None)
rca.command()(listen)
