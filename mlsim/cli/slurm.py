"""``mlsim slurm``: RCA on a real Slurm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["slurm"]

slurm = typer.Typer(
    name="slurm", help="RCA on a real Slurm, and a Slurm on one machine.", no_args_is_help=True
)
_cluster = typer.Typer(name="cluster", help="A trial cluster on this machine.", no_args_is_help=True)
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
    from mlsim.slurm.building import build_plugin as build

    print(build(out, source, _say))


@slurm.command("give-back")
def give_back(
    job: Annotated[str, typer.Argument(help="Job id.")],
    node: Annotated[str, typer.Argument(help="Node that is idle.")],
) -> None:
    """Take a node out of a job by scontrol, without the plugin; a hook of mlsim rca listen.

    Whatever Slurm has started on the node is killed, and the batch script's node cannot be given back.
    """
    from mlsim.slurm.giving_back import give_back as give

    print(give(job, node))


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
    from mlsim.slurm.cluster import start

    cluster = start(place, nodes, plugin, ask, munge_socket, _say)
    print(f"export SLURM_CONF={cluster.conf}")
    if cluster.address:
        print(f"export MLSIM_RCA_ADDRESS={cluster.address}")


@_cluster.command("status")
def status(
    place: _Place = _PLACE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Tell which daemons run and how many nodes are idle."""
    from mlsim.slurm.cluster import Cluster

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
    from mlsim.slurm.accounting import as_sacct
    from mlsim.slurm.cluster import Cluster

    cluster = Cluster.at(place)
    print(as_sacct(cluster.call("scontrol", "--oneliner", "show", "job"), cluster.released()), end="")


@_cluster.command("down")
def down(place: _Place = _PLACE) -> None:
    """Cancel the cluster's jobs and end its daemons."""
    from mlsim.slurm.cluster import Cluster

    Cluster.at(place).down()
