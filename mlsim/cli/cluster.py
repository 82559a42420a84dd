"""``mlsim slurm``."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from mlsim.analysis.table_layout import NumberTable
from mlsim.cli import command_options as cli
from mlsim.cli.command_output import show
from mlsim.slurm import slurm_programs, trial_cluster

slurm = cli.CommandGroup("slurm")
_cluster = cli.CommandGroup("cluster", "A trial cluster on this machine.")
slurm.add_typer(_cluster)

_Place = Annotated[Path, typer.Option("--dir", metavar="DIR", help="Directory of the cluster.")]
_PLACE = Path("slurm-cluster")


def _note(text: str) -> None:
    print(f"mlsim: {text} ...", file=sys.stderr, flush=True)


@slurm.command("build-plugin")
def build_plugin(
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where to put slurmctld_rca.so.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Slurm's unpacked source of the installed version. Default: the distribution's package.",
        ),
    ] = None,
) -> None:
    """Build the controller's plugin for the Slurm that is installed here; print the file."""
    print(slurm_programs.build_plugin(out, source, _note))


@slurm.command("give-back")
def give_back(
    job: Annotated[str, typer.Argument(help="Job id.")],
    node: Annotated[str, typer.Argument(help="Node that is idle.")],
) -> None:
    """Take a node out of a job by scontrol, without the plugin; a hook of mlsim mpi listen.

    Whatever Slurm has started on the node is killed, and the batch script's node cannot be given back.
    """
    print(slurm_programs.give_back(job, node))


class _TrialOptions(cli.Options):
    out: Path = cli.output("Results; what is there is kept.", "DIR", default=cli.REQUIRED)
    nodes: int = cli.option("Nodes of the cluster.", default=4, min=2, max=64)
    scale: float = cli.option("Factor of ESP's run times and times of arrival.", default=0.02)
    jobs: int = cli.option("Jobs: the first of the 230, in order of arrival.", default=50)
    techniques: str = cli.option(
        "Techniques, with commas.", "--technique", "TECHNIQUES", default="STATIC,GSS,FISS,AF"
    )
    model: str = cli.option("Execution model.", default="dca")
    repetitions: int = cli.option("Runs of each technique, without and with RCA.", default=1)
    size: int = cli.option("Width of the image; its pixels are a loop's iterations.", default=128)
    work: str = cli.option(
        "sleep: iterations sleep for what they cost, so that many nodes fit on few cores; compute: "
        "the Mandelbrot image is computed, which takes a core a node.",
        "sleep|compute",
        default="sleep",
    )
    seed: int = cli.option("Seed of the order of arrivals.", default=0, min=0)
    half_width: float = cli.option(
        "The image shows [-w, w]²; 0.68 as in the simulated studies, 2 the whole set.", default=0.68
    )


@slurm.command("esp")
def esp(options: _TrialOptions) -> None:
    """Run the ESP batch as MPI jobs of a trial cluster, RCA off and on, and simulate the same."""
    from mlsim.scenario.words import ExecutionModel, Technique
    from mlsim.slurm import esp_plan, esp_trial

    plan = esp_plan.Plan(
        options.nodes,
        options.scale,
        options.jobs,
        tuple(cli.word_of(Technique, name, "--technique") for name in cli.listed(options.techniques)),
        cli.word_of(ExecutionModel, options.model, "--model"),
        options.repetitions,
        options.size,
        cli.word_of(esp_plan.Work, options.work, "--work"),
        options.seed,
        options.half_width,
    )
    trial = esp_trial.run_trial(plan, options.out, _note)
    cells = [[row[column] for column in _TRIAL] for row in esp_plan.cells_of(trial.rows)]
    rows = [[f"{one:.4g}" if isinstance(one, float) else one or "" for one in row] for row in cells]
    show(NumberTable(list(_TRIAL.values()), rows, keys=2))
    before, after, between = (1e3 * seconds for seconds in trial.launch)
    show(
        f"A job takes {before:.0f} ms before its loop and {after:.0f} ms after it; "
        f"{between:.0f} ms until the next one"
    )
    print(f"Results: {options.out}  (comparison.csv, a run directory for each run)")


# Columns that are printed, with headings that fit a narrow terminal; comparison.csv has all.
_TRIAL = {
    "technique": "technique",
    "rca": "RCA",
    "real makespan (s)": "real s",
    "on/off": "on/off",
    "simulated (s)": "simulated s",
    "on/off simulated": "simulated on/off",
    "with launches (s)": "launched s",
    "with launches/real": "launched / real",
    "on/off with launches": "launched on/off",
}


class ClusterOptions(cli.Options):
    """Options of ``mlsim slurm cluster up``."""

    nodes: int = cli.option("How many nodes.", default=4, min=1, max=64)
    place: _Place = _PLACE
    plugin: bool = cli.option("With the RCA plugin.", "--plugin/--no-plugin", default=True)
    ask: bool = cli.option("Running applications are asked for nodes.", "--ask/--no-ask", default=False)
    munge_socket: Path | None = cli.option(
        "Socket of a munge daemon by which the plugin knows users. Default: secrets of the jobs.", "FILE"
    )


@_cluster.command("up")
def up(options: ClusterOptions) -> None:
    """Start a Slurm of some nodes on this machine, as this user, on loopback alone."""
    cluster = trial_cluster.start(
        options.place, options.nodes, options.plugin, options.ask, options.munge_socket, _note
    )
    print(f"export SLURM_CONF={cluster.conf}")
    if cluster.address:
        print(f"export MLSIM_RCA_ADDRESS={cluster.address}")


@_cluster.command("status")
def status(place: _Place = _PLACE, as_json: cli.Json = False) -> None:
    """Show the running daemons and the number of idle nodes."""
    cluster = trial_cluster.Cluster.at(place)
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
    cluster = trial_cluster.Cluster.at(place)
    print(
        slurm_programs.as_sacct(cluster.call("scontrol", "--oneliner", "show", "job"), cluster.released()),
        end="",
    )


@_cluster.command("down")
def down(place: _Place = _PLACE) -> None:
    """Cancel the cluster's jobs and end its daemons."""
    trial_cluster.Cluster.at(place).down()
