"""``mlsim mpi``: real runs on MPI, and how they compare with simulated ones."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlsim.cli.command_options import Json, Overrides, amount, listed, settings
from mlsim.cli.usage_errors import Commands

if TYPE_CHECKING:
    from mlsim.mpi.real_validation import Row
    from mlsim.scenario import Scenario


Launcher = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[-- LAUNCHER...]",
        help="How to start the ranks, after --, such as -- srun, or -- mpiexec -n 8. Default: the mpiexec of "
        "this machine.",
        show_default=False,
    ),
]


def check_ranks(launcher: list[str] | None, ranks: int | None) -> None:
    """Check that either the launcher or ``--ranks`` sets the number of ranks."""
    from mlsim.errors import InputError

    if launcher and ranks is not None:
        raise InputError(
            f"--ranks {ranks}: the launcher after -- says how many; give one of the two, or -- "
            f"{' '.join(launcher)} -n {ranks}"
        )


def note_keys_left_aside(loop: Scenario, read: tuple[str, ...], repetitions: int = 1) -> None:
    """Print notes on keys of a file that only a simulation reads, or nothing does."""
    from mlsim.mpi.scenario_keys_read import left_aside
    from mlsim.scenario import warnings_of

    keys = left_aside(loop, read)
    notes = [f"a real run does not read {', '.join(keys)}"] if keys else []
    for note in (*notes, *warnings_of(loop, repetitions=repetitions)):
        print(f"mlsim: note: {note}", file=sys.stderr)


def run(
    scenario: Annotated[Path, typer.Argument(help="Scenario whose loop is executed.", show_default=False)],
    launcher: Launcher = None,
    ranks: Annotated[
        int | None,
        typer.Option(
            "--ranks", "-n", min=1, help="Ranks. Default: the PEs of the platform.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="Record, and write a run directory, which must not exist."
        ),
    ] = None,
    work: Annotated[
        str,
        typer.Option(
            help="compute: mandelbrot and psia compute; other profiles, and all with sleep or spin, pass the "
            "time that iterations cost."
        ),
    ] = "compute",
    repetitions: Annotated[int, typer.Option(min=1, help="Number of executions of the loop.")] = 1,
    check: Annotated[bool, typer.Option("--check", help="Compare with a serial execution.")] = False,
    json_: Json = False,
    set_: Overrides = None,
) -> None:
    """Execute the loop of a scenario for real.

    mlsim mpi run scenarios/mpi/mandelbrot.yaml -- mpiexec -n 4
    """
    from mlsim.cli.command_options import settings
    from mlsim.errors import InputError
    from mlsim.experiment import load_loop
    from mlsim.experiment.result_directories import check_target
    from mlsim.mpi.launch import launch, launcher_of
    from mlsim.mpi.loop_options import MODELS
    from mlsim.mpi.scenario_keys_read import RUN_KEYS, check_scenario, check_set
    from mlsim.scenario import parse_overrides

    if work not in ("compute", "sleep", "spin"):
        raise InputError(f"--work {work}; allowed: compute, sleep, spin")
    check_ranks(launcher, ranks)
    given = settings(set_, scenario)
    overrides = parse_overrides(given)
    loop = load_loop(scenario, overrides)
    check_scenario(loop)
    if out is not None and repetitions == 1:
        check_target(out)
    model = str(loop.application.execution.model)
    if model not in MODELS:
        raise InputError(
            f"{scenario}: application.execution.model: {model} cannot be run on MPI; allowed: "
            f"{', '.join(MODELS)}"
        )
    profile = loop.application.costs.profile.value
    computes = work == "compute" and profile in ("mandelbrot", "psia")
    check_set(overrides, RUN_KEYS, "mlsim mpi run", computes)
    note_keys_left_aside(loop, RUN_KEYS, repetitions)
    program = ["-m", f"mlsim.mpi.apps.{profile if computes else 'synthetic'}", "--scenario", str(scenario)]
    program += [word for text in given for word in ("--set", text)]
    program += [] if computes else ["--work", "sleep" if work == "compute" else work]
    program += ["--repetitions", str(repetitions)]
    program += ["--trace", str(out)] if out is not None else []
    program += ["--check"] * check + ["--json"] * json_
    pes = sum(group.count * (loop.application.pes_per_node or group.cores) for group in loop.platform.nodes)
    launch(launcher_of(launcher or [], ranks or pes), program)
    if out is not None and not json_:
        print(f"Results: {out}")


def print_machine(measured: dict[str, float | int | str]) -> None:
    """Print what ``mlsim mpi calibrate`` has measured."""
    from rich.console import Console
    from rich.table import Table

    from mlsim.analysis.terminal_tables import loop_seconds

    keys = {
        "message": "message of 16 B, one way (masters)",
        "noticed": "message to a rank that waits",
        "atomic": "fetch-and-add with flush (execution.atomic_service under dca, hdca)",
        "atomic_service": "the same, all ranks at once",
        "recursive": "chunk calculation (execution.chunk_calculation under cca, hmw)",
        "straightforward": "chunk calculation (execution.chunk_calculation under dca, hdca)",
        "break": "a master's look for requests (execution.break_time under cca, hmw)",
        "piece": "a part of a chunk, besides its iterations (execution.piece_time)",
        "first": "a master's first part of a loop, besides that",
    }
    table = Table("what", "time", box=None, pad_edge=False)
    for key, text in keys.items():
        if key in measured:
            table.add_row(text, loop_seconds(float(measured[key])))
    if "bandwidth" in measured:
        table.add_row("bandwidth", f"{float(measured['bandwidth']) / 1e9:.2f} GB/s")
    console = Console()
    console.print(
        f"{' '.join(str(measured['library']).split())}: {measured['ranks']} ranks on "
        f"{measured['machines']} {'machine' if measured['machines'] == 1 else 'machines'}",
        highlight=False,
    )
    console.print(table)
    if "spins" in measured:
        console.print("iterations compute" if measured["spins"] else "iterations sleep")


def print_rows(rows: list[Row]) -> None:
    """Print loops side by side, executed and simulated."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in ("technique", "model", "delay", "T_loop", "simulated", "error", "chunks", "simulated"):
        table.add_column(column, justify="left" if column in ("technique", "model") else "right")
    for row in rows:
        table.add_row(
            row.pair.technique,
            row.pair.model,
            f"{row.pair.delay * 1e6:.0f} µs",
            f"{row.t_loop:.4f} s",
            f"{row.t_simulated:.4f} s",
            f"{row.error * 100:+.2f} %",
            str(row.steps),
            str(row.steps_simulated),
        )
    console = Console()
    console.print(table)
    worst = max(rows, key=lambda row: abs(row.error))
    console.print(
        f"largest error: {worst.error * 100:+.2f} %, {worst.pair.technique} {worst.pair.model}",
        highlight=False,
    )


def calibrate(
    launcher: Launcher = None,
    ranks: Annotated[
        int | None, typer.Option("--ranks", "-n", min=1, help="Ranks. Default: 2.", show_default=False)
    ] = None,
    json_: Json = False,
) -> None:
    """Measure what messages, atomics and chunk calculations cost here."""
    from mlsim.mpi.launch import launch, launcher_of

    check_ranks(launcher, ranks)
    printed = launch(launcher_of(launcher or [], ranks or 2), ["-m", "mlsim.mpi.calibrate"], quiet=True)
    measured = json.loads(printed.strip().splitlines()[-1])
    if json_:
        print(json.dumps(measured, indent=2))
        return
    print_machine(measured)


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


def validate(
    scenario: Annotated[
        Path | None,
        typer.Argument(
            help="Scenario whose iteration costs and loop options are taken. Default: 1,600 of 4 ms, "
            "exponential.",
            show_default=False,
        ),
    ] = None,
    launcher: Launcher = None,
    techniques: Annotated[
        str, typer.Option("--technique", help="Techniques, with commas.")
    ] = "STATIC,GSS,TSS,FAC2,FISS,AF",
    models: Annotated[str, typer.Option("--model", help="Models, with commas.")] = "cca,dca,hdca",
    delays: Annotated[
        str | None,
        typer.Option(
            "--delay",
            help="Injected delays, with commas: 0,10us,100us. Default: the scenario's.",
            show_default=False,
        ),
    ] = None,
    ranks: Annotated[int, typer.Option("--ranks", "-n", min=1, help="Ranks.")] = 8,
    ranks_per_node: Annotated[
        int | None, typer.Option(min=1, help="Ranks that count as a node, for models of two levels.")
    ] = None,
    repetitions: Annotated[
        int,
        typer.Option(
            min=1,
            help="Executions of each loop, up to 16 times as many where times differ; the mean of the "
            "middle half counts.",
        ),
    ] = 15,
    spin: Annotated[
        bool | None,
        typer.Option(
            "--spin/--sleep",
            help="Iterations compute, or sleep. Default: they compute if each rank has a core.",
            show_default=False,
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Another option of the loops, such as pieces=0."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="Write table.md, loops.json, loops.png; must not exist."
        ),
    ] = None,
    set_: Overrides = None,
) -> None:
    """Execute loops for real, simulate them with measured costs, and compare."""
    import numpy as np

    from mlsim.cosim import loop_costs
    from mlsim.errors import InputError
    from mlsim.experiment import load_loop, loop_from_mapping
    from mlsim.experiment.result_directories import complete_or_gone
    from mlsim.mpi.launch import launcher_of
    from mlsim.mpi.loop_options import MODELS
    from mlsim.mpi.real_validation import Pair, write_comparison
    from mlsim.mpi.real_validation import validate as compare
    from mlsim.mpi.scenario_keys_read import VALIDATE_KEYS, check_set, loop_options
    from mlsim.scenario import TWO_LEVELS, parse_overrides
    from mlsim.scenario.unit_types import TIME

    overrides = parse_overrides(settings(set_, scenario))
    check_set(overrides, VALIDATE_KEYS, "mlsim mpi validate")
    loop = load_loop(scenario, overrides) if scenario else loop_from_mapping(_DEFAULT, overrides)
    more = dict(parse_overrides(option or []))
    for name in more:
        if name in _OWN_OPTIONS:
            raise InputError(f"--option {name}: give {_OWN_OPTIONS[name]}")
    if ranks_per_node is not None and not any(MODELS.get(model) in TWO_LEVELS for model in listed(models)):
        raise InputError(
            f"--ranks-per-node {ranks_per_node}: only models of two levels read it, and --model is {models}"
        )
    note_keys_left_aside(loop, (*VALIDATE_KEYS, "application.technique", "application.execution.model"))
    if delays is None:
        delays = f"{loop.application.execution.injected_delay!r}s"
    pairs = [
        Pair(technique, model, delay)
        for technique in listed(techniques)
        for model in listed(models)
        for delay in (amount("--delay", text, TIME) for text in listed(delays))
    ]
    with complete_or_gone(out) if out is not None else nullcontext() as place:
        rows, machine = compare(
            launcher_of(launcher or [], ranks),
            ranks,
            np.diff(loop_costs(loop)),
            pairs,
            repetitions=repetitions,
            ranks_per_node=ranks_per_node,
            spins=spin,
            options=lambda model: {**loop_options(loop, model), **more},
        )
        if place is not None:
            write_comparison(place, rows, machine, loop.name)
    print_machine(machine)
    print_rows(rows)
    if place is not None:
        print(f"Results: {place.directory}")


mpi = typer.Typer(name="mpi", cls=Commands, help="Run loops for real, on MPI.", no_args_is_help=True)
mpi.command("run")(run)
mpi.command("calibrate")(calibrate)
mpi.command("validate")(validate)
