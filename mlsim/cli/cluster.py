"""``mlsim slurm`` and ``mlsim rca``."""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlsim.cli.command_options import Json
from mlsim.cli.usage_errors import Commands

if TYPE_CHECKING:
    from mlsim.slurm.esp_trial import Trial


slurm = typer.Typer(
    name="slurm", cls=Commands, help="RCA on a real Slurm, and a Slurm on one machine.", no_args_is_help=True
)
_cluster = typer.Typer(
    name="cluster", cls=Commands, help="A trial cluster on this machine.", no_args_is_help=True
)
slurm.add_typer(_cluster)

_Place = Annotated[Path, typer.Option("--dir", metavar="DIR", help="Directory of the cluster.")]
_PLACE = Path("slurm-cluster")


def _say(text: str) -> None:
    import sys

    print(f"mlsim: {text} ...", file=sys.stderr, flush=True)


@slurm.command("build-plugin")
def build_plugin(
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where to put slurmctld_rca.so.", show_default=False),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Slurm's unpacked source of the installed version. Default: the distribution's package.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Build the controller's plugin for the Slurm that is installed here; print the file."""
    from mlsim.slurm.plugin_build import build_plugin as build

    print(build(out, source, _say))


@slurm.command("give-back")
def give_back(
    job: Annotated[str, typer.Argument(help="Job id.")],
    node: Annotated[str, typer.Argument(help="Node that is idle.")],
) -> None:
    """Take a node out of a job by scontrol, without the plugin; a hook of mlsim rca listen.

    Whatever Slurm has started on the node is killed, and the batch script's node cannot be given back.
    """
    from mlsim.slurm.slurm_programs import give_back as give

    print(give(job, node))


@slurm.command("esp")
def esp(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Results; what is there is kept.")],
    nodes: Annotated[int, typer.Option(min=2, max=64, help="Nodes of the cluster.")] = 4,
    scale: Annotated[float, typer.Option(help="Factor of ESP's run times and times of arrival.")] = 0.02,
    jobs: Annotated[int, typer.Option(help="Jobs: the first of the 230, in order of arrival.")] = 50,
    techniques: Annotated[
        str, typer.Option("--technique", help="Techniques, with commas.")
    ] = "STATIC,GSS,FISS,AF",
    model: Annotated[str, typer.Option(help="Execution model.")] = "dca",
    repetitions: Annotated[int, typer.Option(help="Runs of each technique, without and with RCA.")] = 1,
    size: Annotated[int, typer.Option(help="Width of the image; its pixels are a loop's iterations.")] = 128,
    work: Annotated[
        str,
        typer.Option(
            help="sleep: iterations sleep for what they cost, so that many nodes fit on few cores; compute: "
            "the Mandelbrot image is computed, which takes a core a node."
        ),
    ] = "sleep",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the order of arrivals.")] = 0,
    half_width: Annotated[
        float,
        typer.Option(help="The image shows [-w, w]²; 0.68 as in the simulated studies, 2 the whole set."),
    ] = 0.68,
) -> None:
    """Run the ESP batch as MPI jobs of a trial cluster, RCA off and on, and simulate the same."""
    from mlsim.cli.command_options import listed, word_of
    from mlsim.scenario.words import ExecutionModel, Technique
    from mlsim.slurm.esp_plan import Plan, Work
    from mlsim.slurm.esp_trial import run_trial

    plan = Plan(
        nodes,
        scale,
        jobs,
        tuple(word_of(Technique, name, "--technique") for name in listed(techniques)),
        word_of(ExecutionModel, model, "--model"),
        repetitions,
        size,
        word_of(Work, work, "--work"),
        seed,
        half_width,
    )
    trial = run_trial(plan, out, _say)
    _print_trial(trial)
    print(f"Results: {out}  (comparison.csv, a run directory for each run)")


_TRIAL = {
    "technique": "technique",
    "rca": "RCA",
    "real makespan (s)": "real s",
    "on/off": "on/off",
    "simulated (s)": "simulated s",
    "on/off simulated": "on/off",
    "with launches (s)": "launched s",
    "with launches/real": "/ real",
    "on/off with launches": "on/off",
}
"""Columns that are printed, with headings that fit a narrow terminal; comparison.csv has all."""


def _print_trial(trial: Trial) -> None:
    from rich.console import Console
    from rich.table import Table

    from mlsim.slurm.esp_trial import cells_of

    table = Table(box=None, pad_edge=False)
    for column, heading in _TRIAL.items():
        table.add_column(heading, justify="left" if column in ("technique", "rca") else "right")
    for cells in cells_of(trial.rows):
        table.add_row(*(_shown(cells[column]) for column in _TRIAL))
    console = Console()
    console.print(table)
    before, after, between = (1e3 * seconds for seconds in trial.launch)
    console.print(
        f"A job takes {before:.0f} ms before its loop and {after:.0f} ms after it; "
        f"{between:.0f} ms until the next one"
    )


def _shown(value: str | float | None) -> str:
    return f"{value:.4g}" if isinstance(value, float) else value or ""


@_cluster.command("up")
def up(
    nodes: Annotated[int, typer.Option(min=1, max=64, help="How many nodes.")] = 4,
    place: _Place = _PLACE,
    plugin: Annotated[bool, typer.Option("--plugin/--no-plugin", help="With the RCA plugin.")] = True,
    ask: Annotated[
        bool, typer.Option("--ask/--no-ask", help="Running applications are asked for nodes.")
    ] = False,
    munge_socket: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Socket of a munge daemon by which the plugin knows users. Default: secrets of the jobs.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Start a Slurm of some nodes on this machine, as this user, on loopback alone."""
    from mlsim.slurm.trial_cluster import start

    cluster = start(place, nodes, plugin, ask, munge_socket, _say)
    print(f"export SLURM_CONF={cluster.conf}")
    if cluster.address:
        print(f"export MLSIM_RCA_ADDRESS={cluster.address}")


@_cluster.command("status")
def status(place: _Place = _PLACE, as_json: Json = False) -> None:
    """Show the running daemons and the number of idle nodes."""
    from mlsim.slurm.trial_cluster import Cluster

    cluster = Cluster.at(place)
    idle = cluster.idle_nodes() if cluster.running else 0
    facts = {
        "nodes": cluster.nodes,
        "idle": idle,
        "daemons": len(cluster.running),
        "daemons_started": len(cluster.processes),
        "slurm_conf": str(cluster.conf),
        "rca_address": cluster.address,
    }
    if as_json:
        print(json.dumps(facts))
    else:
        print(f"{len(cluster.running)} of {len(cluster.processes)} daemons run")
        print(f"{idle} of {cluster.nodes} nodes idle")
        print(f"SLURM_CONF={cluster.conf}")
        print(f"RCA plugin: {cluster.address or 'none'}")
    if len(cluster.running) < len(cluster.processes):
        raise typer.Exit(1)


@_cluster.command("jobs")
def jobs(place: _Place = _PLACE) -> None:
    """Print the cluster's jobs as sacct --parsable2 does; what has ended can be simulated."""
    from mlsim.slurm.slurm_programs import as_sacct
    from mlsim.slurm.trial_cluster import Cluster

    cluster = Cluster.at(place)
    print(as_sacct(cluster.call("scontrol", "--oneliner", "show", "job"), cluster.released()), end="")


@_cluster.command("down")
def down(place: _Place = _PLACE) -> None:
    """Cancel the cluster's jobs and end its daemons."""
    from mlsim.slurm.trial_cluster import Cluster

    Cluster.at(place).down()


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
    from mlsim.mpi.rca.agent import Agent, serve
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
