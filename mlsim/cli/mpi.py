"""``mlsim mpi``: real runs on MPI, and how they compare with simulated ones."""

import json
import sys
from contextlib import nullcontext
from itertools import product, starmap
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from mlsim import analysis, experiment
from mlsim.analysis.table_layout import NumberTable
from mlsim.cli import command_options as cli
from mlsim.cli.command_output import print_json, show
from mlsim.cli.listen import listen
from mlsim.errors import InputError
from mlsim.experiment.result_directories import check_target, complete_or_gone
from mlsim.mpi import launch, loop_options
from mlsim.scenario import Scenario, field_types, parse_overrides, scenario_keys, technique_section

mpi = cli.CommandGroup("mpi")
Launcher = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[-- LAUNCHER...]",
        help="How to start the ranks, after --, such as -- srun, or -- mpiexec -n 8. Default: the mpiexec of "
        "this machine.",
    ),
]


class _RunOptions(cli.Options):
    scenario: Path = cli.argument("Scenario whose loop is executed.")
    launcher: Launcher = None
    ranks: int | None = cli.option("Ranks. Default: the PEs of the platform.", "--ranks", "-n", min=1)
    out: Path | None = cli.output("Record, and write a run directory, which must not exist.", "DIR")
    work: str = cli.option(
        "compute: mandelbrot and psia compute; other profiles, and all with sleep or spin, pass the "
        "time that iterations cost.",
        "compute|sleep|spin",
        default="compute",
    )
    repetitions: int = cli.option("Number of executions of the loop.", default=1, min=1)
    check: bool = cli.flag("Compare with a serial execution.", "--check")
    json_: cli.Json = False
    set_: cli.Overrides = None


@mpi.command()
def run(options: _RunOptions) -> None:
    """Execute the loop of a scenario for real.

    mlsim mpi run scenarios/mpi/mandelbrot.yaml -- mpiexec -n 4
    """
    scenario, out, work, repetitions = options.scenario, options.out, options.work, options.repetitions
    if work not in ("compute", "sleep", "spin"):
        raise InputError(f"--work {work}; allowed: compute, sleep, spin")
    _check_ranks(options.launcher, options.ranks)
    texts = cli.settings(options.set_, scenario)
    overrides = parse_overrides(texts)
    loop = experiment.load_loop(scenario, overrides)
    loop_options.check_scenario(loop)
    if out is not None and repetitions == 1:
        check_target(out)
    model = str(loop.application.execution.model)
    if model not in loop_options.MODELS:
        raise InputError(
            f"{scenario}: application.execution.model: {model} cannot be run on MPI; allowed: "
            f"{', '.join(loop_options.MODELS)}"
        )
    profile = loop.application.costs.profile.value
    computes = work == "compute" and profile in ("mandelbrot", "psia")
    loop_options.check_set(overrides, loop_options.RUN_KEYS, "mlsim mpi run", computes)
    _note_unread(loop, loop_options.RUN_KEYS, repetitions)
    program = ["-m", f"mlsim.mpi.apps.{profile if computes else 'synthetic'}", "--scenario", str(scenario)]
    program += [word for text in texts for word in ("--set", text)]
    program += [] if computes else ["--work", "sleep" if work == "compute" else work]
    program += ["--repetitions", str(repetitions)]
    program += ["--trace", str(out)] if out is not None else []
    program += ["--check"] * options.check + ["--json"] * options.json_
    pes = sum(group.count * (loop.application.pes_per_node or group.cores) for group in loop.platform.nodes)
    launch.launch(launch.launcher_of(options.launcher or [], options.ranks or pes), program)
    if out is not None and not options.json_:
        print(f"Results: {out}")


def _check_ranks(launcher: list[str] | None, ranks: int | None) -> None:
    """Check that either the launcher or ``--ranks`` sets the number of ranks."""
    if launcher and ranks is not None:
        raise InputError(
            f"--ranks {ranks}: the launcher after -- says how many; give one of the two, or -- "
            f"{' '.join(launcher)} -n {ranks}"
        )


def _note_unread(loop: Scenario, read: tuple[str, ...], repetitions: int = 1) -> None:
    """Print notes on keys of a file that only a simulation reads, or nothing does."""
    keys = loop_options.left_aside(loop, read)
    notes = [f"a real run does not read {', '.join(keys)}"] if keys else []
    for note in (*notes, *scenario_keys.warnings_of(loop, repetitions=repetitions)):
        print(f"mlsim: note: {note}", file=sys.stderr)


@mpi.command()
def calibrate(
    launcher: Launcher = None,
    ranks: Annotated[int | None, typer.Option("--ranks", "-n", min=1, help="Ranks. Default: 2.")] = None,
    json_: cli.Json = False,
) -> None:
    """Measure what messages, atomics and chunk calculations cost here."""
    _check_ranks(launcher, ranks)
    printed = launch.launch(
        launch.launcher_of(launcher or [], ranks or 2), ["-m", "mlsim.mpi.calibrate"], quiet=True
    )
    measured = json.loads(printed.strip().splitlines()[-1])
    if json_:
        print_json(measured)
    else:
        _print_machine(measured)


# The times that ``mlsim mpi calibrate`` measures, in words.
_MEASURED = {
    "message": "message of 16 B, one way (masters)",
    "noticed": "message to a rank that waits",
    "request": "making a request (execution.request_cost under cca, hmw)",
    "service": "receiving a request and replying (execution.chunk_assignment under cca, hmw)",
    "atomic": "fetch-and-add with flush (execution.atomic_service under dca, hdca)",
    "atomic_service": "the same, all ranks at once",
    "recursive": "chunk calculation (execution.chunk_calculation under cca, hmw)",
    "straightforward": "chunk calculation (execution.chunk_calculation under dca, hdca)",
    "break": "a master's look for requests (execution.break_time under cca, hmw)",
    "piece": "a part of a chunk, besides its iterations (execution.piece_time)",
    "first": "a master's first part of a loop, besides that",
}


def _print_machine(measured: dict[str, float | int | str]) -> None:
    """Print what ``mlsim mpi calibrate`` has measured."""
    machines = measured["machines"]
    print(
        f"{' '.join(str(measured['library']).split())}: {measured['ranks']} ranks on {machines} "
        f"{'machine' if machines == 1 else 'machines'}"
    )
    rows = [
        (text, analysis.loop_seconds(float(measured[key])))
        for key, text in _MEASURED.items()
        if key in measured
    ]
    if "bandwidth" in measured:
        rows.append(("bandwidth", f"{float(measured['bandwidth']) / 1e9:.2f} GB/s"))
    show(NumberTable(("what", "time"), rows))
    if "spins" in measured:
        print("iterations compute" if measured["spins"] else "iterations sleep")


_OWN_OPTIONS = {
    "n": "the scenario's iterations",
    "technique": "--technique",
    "model": "--model",
    "injected_delay": "--delay",
    "ranks_per_node": "--ranks-per-node",
}
_DEFAULT = {
    "name": "sleeping loop",
    "platform": {"nodes": [{"name": "n", "count": 1, "cores": 8}]},
    "application": {"iterations": {"count": 1600}, "costs": {"profile": "exponential", "mean": "4 ms"}},
}


class _ValidateOptions(cli.Options):
    scenario: Path | None = cli.argument(
        "Scenario whose iteration costs and loop options are taken. Default: 1,600 of 4 ms, exponential.",
        default=None,
    )
    launcher: Launcher = None
    techniques: str = cli.option(
        "Techniques, with commas.", "--technique", "TECHNIQUES", default="STATIC,GSS,TSS,FAC2,FISS,AF"
    )
    models: str = cli.option("Models, with commas.", "--model", "MODELS", default="cca,dca,hdca")
    delays: str | None = cli.option(
        "Injected delays, with commas: 0,10us,100us. Default: the scenario's.", "--delay"
    )
    ranks: int = cli.option("Ranks.", "--ranks", "-n", default=8, min=1)
    ranks_per_node: int | None = cli.option("Ranks that count as a node, for models of two levels.", min=1)
    repetitions: int = cli.option(
        "Executions of each loop, up to 16 times as many where times differ; the mean of the "
        "middle half counts.",
        default=15,
        min=1,
    )
    spin: bool | None = cli.option(
        "Iterations compute, or sleep. Default: they compute if each rank has a core.", "--spin/--sleep"
    )
    others: list[str] | None = cli.option(
        "Another option of the loops, such as pieces=0.", "--option", "NAME=VALUE"
    )
    out: Path | None = cli.output("Write table.md, loops.json, loops.png; must not exist.", "DIR")
    set_: cli.Overrides = None


@mpi.command()
def validate(options: _ValidateOptions) -> None:
    """Execute loops for real, simulate them with measured costs, and compare."""
    from mlsim.cosim.simulation import loop_costs
    from mlsim.mpi import real_validation

    file, out, ranks = options.scenario, options.out, options.ranks
    overrides = parse_overrides(cli.settings(options.set_, file))
    loop_options.check_set(overrides, loop_options.VALIDATE_KEYS, "mlsim mpi validate")
    loop = (
        experiment.load_loop(file, overrides) if file else experiment.loop_from_mapping(_DEFAULT, overrides)
    )
    others = parse_overrides(options.others or [])
    for name in others:
        if name in _OWN_OPTIONS:
            raise InputError(f"--option {name}: give {_OWN_OPTIONS[name]}")
    models = cli.listed(options.models)
    if options.ranks_per_node is not None and not any(
        loop_options.MODELS.get(model) in technique_section.TWO_LEVELS for model in models
    ):
        raise InputError(
            f"--ranks-per-node {options.ranks_per_node}: only models of two levels read it, and --model is "
            f"{options.models}"
        )
    delays = [loop.application.execution.injected_delay]
    if options.delays is not None:
        delays = [cli.amount("--delay", text, field_types.TIME) for text in cli.listed(options.delays)]
    pairs = list(starmap(real_validation.Pair, product(cli.listed(options.techniques), models, delays)))
    _note_unread(loop, (*loop_options.VALIDATE_KEYS, "application.technique", "application.execution.model"))
    with complete_or_gone(out) if out is not None else nullcontext() as place:
        rows, machine = real_validation.validate(
            launch.launcher_of(options.launcher or [], ranks),
            ranks,
            np.diff(loop_costs(loop)),
            pairs,
            repetitions=options.repetitions,
            ranks_per_node=options.ranks_per_node,
            spins=options.spin,
            options=lambda model: {**loop_options.loop_options(loop, model), **others},
        )
        if place is not None:
            real_validation.write_comparison(place, rows, machine, loop.name)
    _print_machine(machine)
    cells = (
        (
            row.pair.technique,
            row.pair.model,
            f"{row.pair.delay * 1e6:.0f} µs",
            f"{row.t_loop:.4f} s",
            f"{row.t_simulated:.4f} s",
            f"{row.error * 100:+.2f} %",
            str(row.steps),
            str(row.steps_simulated),
        )
        for row in rows
    )
    titles = (
        "technique",
        "model",
        "delay",
        "T_loop",
        "simulated T_loop",
        "error",
        "chunks",
        "simulated chunks",
    )
    show(NumberTable(titles, cells, keys=2))
    worst = max(rows, key=lambda row: abs(row.error))
    show(f"largest error: {worst.error * 100:+.2f} %, {worst.pair.technique} {worst.pair.model}")
    if place is not None:
        print(f"Results: {place.directory}")


mpi.command()(listen)
