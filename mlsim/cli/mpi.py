"""``mlsim mpi``: real runs on MPI, and how they compare with simulated ones."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mlsim.experiment.directories import Place
    from mlsim.mpi.validation.validate import Row
    from mlsim.scenario import Scenario

__all__ = ["mpi"]

mpi = typer.Typer(name="mpi", help="Run loops for real, on MPI.", no_args_is_help=True)

_Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[-- LAUNCHER...]",
        help="How to start the ranks, after --, such as -- srun, or -- mpiexec -n 8. Default: the mpiexec of "
        "this machine.",
        show_default=False,
    ),
]
_Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the scenario; may be repeated."),
]


@mpi.command("run")
def run(
    scenario: Annotated[Path, typer.Argument(help="Scenario whose loop is executed.", show_default=False)],
    launcher: _Words = None,
    ranks: Annotated[
        int | None,
        typer.Option(
            "--ranks", "-n", min=1, help="Ranks. Default: the PEs of the platform.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Record, and write a run directory, which must not exist."),
    ] = None,
    work: Annotated[
        str,
        typer.Option(
            help="compute: mandelbrot and psia compute; other profiles, and all with sleep or spin, pass the "
            "time that iterations cost."
        ),
    ] = "compute",
    repetitions: Annotated[int, typer.Option(min=1, help="Execute the loop so many times.")] = 1,
    check: Annotated[bool, typer.Option("--check", help="Compare with a serial execution.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON, one object a repetition.")] = False,
    set_: _Set = None,
) -> None:
    """Execute the loop of a scenario for real.

    mlsim mpi run scenarios/mpi/mandelbrot.yaml -- mpiexec -n 4
    """
    from mlsim.errors import InputError
    from mlsim.experiment import load_loop
    from mlsim.experiment.directories import check_target
    from mlsim.mpi.launch import launch, launcher_of
    from mlsim.mpi.loop.options import MODELS
    from mlsim.mpi.reading import RUN_KEYS, check_scenario, check_set
    from mlsim.scenario import parse_overrides

    if work not in ("compute", "sleep", "spin"):
        raise InputError(f"--work {work}; allowed: compute, sleep, spin")
    _check_ranks(launcher, ranks)
    overrides = parse_overrides(set_ or [])
    loop = load_loop(scenario, overrides)
    check_scenario(loop)
    if out is not None and repetitions == 1:
        check_target(out)
    model = loop.application.execution.model.value
    if model not in MODELS:
        raise InputError(
            f"{scenario}: application.execution.model: {model} cannot be run on MPI; allowed: "
            f"{', '.join(MODELS)}"
        )
    profile = loop.application.costs.profile.value
    computes = work == "compute" and profile in ("mandelbrot", "psia")
    check_set(overrides, RUN_KEYS, "mlsim mpi run", computes)
    _tell_left_aside(loop, RUN_KEYS)
    program = ["-m", f"mlsim.mpi.apps.{profile if computes else 'synthetic'}", "--scenario", str(scenario)]
    program += [word for text in set_ or [] for word in ("--set", text)]
    program += [] if computes else ["--work", "sleep" if work == "compute" else work]
    program += ["--repetitions", str(repetitions)]
    program += ["--trace", str(out)] if out is not None else []
    program += ["--check"] * check + ["--json"] * json_
    pes = sum(group.count * (loop.application.pes_per_node or group.cores) for group in loop.platform.nodes)
    launch(launcher_of(launcher or [], ranks or pes), program)
    if out is not None and not json_:
        print(f"Results: {out}")


def _check_ranks(launcher: list[str] | None, ranks: int | None) -> None:
    from mlsim.errors import InputError

    if launcher and ranks is not None:
        raise InputError(
            f"--ranks {ranks}: the launcher after -- says how many; give one of the two, or -- "
            f"{' '.join(launcher)} -n {ranks}"
        )


def _tell_left_aside(loop: Scenario, read: tuple[str, ...]) -> None:
    """Tell people which keys of a file only a simulation reads."""
    from mlsim.mpi.reading import left_aside
    from mlsim.scenario import remarks

    keys = left_aside(loop, read)
    notes = [f"a real run does not read {', '.join(keys)}"] if keys else []
    for note in (*notes, *remarks(loop)):
        print(f"mlsim: note: {note}", file=sys.stderr)


@mpi.command("calibrate")
def calibrate(
    launcher: _Words = None,
    ranks: Annotated[
        int | None, typer.Option("--ranks", "-n", min=1, help="Ranks. Default: 2.", show_default=False)
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")] = False,
) -> None:
    """Measure what messages, atomics and chunk calculations cost here."""
    from mlsim.mpi.launch import launch, launcher_of

    _check_ranks(launcher, ranks)
    told = launch(launcher_of(launcher or [], ranks or 2), ["-m", "mlsim.mpi.calibrate"], quiet=True)
    measured = json.loads(told.strip().splitlines()[-1])
    if json_:
        print(json.dumps(measured, indent=2))
        return
    _print_machine(measured)


def _print_machine(measured: dict[str, float | int | str]) -> None:
    from rich.console import Console
    from rich.table import Table

    from mlsim.analysis.loops import loop_seconds

    keys = {
        "message": "message of 16 B, one way (masters)",
        "noticed": "message to a rank that waits",
        "atomic": "fetch-and-add with flush (execution.atomic_service under dca, hdca)",
        "atomic_service": "the same, all ranks at once",
        "recursive": "chunk calculation (execution.chunk_calculation under cca, hmw)",
        "straightforward": "chunk calculation (execution.chunk_calculation under dca, hdca)",
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


@mpi.command("validate")
def validate(
    scenario: Annotated[
        Path | None,
        typer.Argument(
            help="Scenario whose iteration costs and loop options are taken. Default: 1,600 of 4 ms, "
            "exponential.",
            show_default=False,
        ),
    ] = None,
    launcher: _Words = None,
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
    repetitions: Annotated[int, typer.Option(min=1, help="Executions of each loop; the median counts.")] = 3,
    spin: Annotated[bool, typer.Option("--spin", help="Iterations compute, and do not sleep.")] = False,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Another option of the loops, such as pieces=0."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write table.md, loops.json, loops.png; must not exist."),
    ] = None,
    set_: _Set = None,
) -> None:
    """Execute loops for real, simulate them with measured costs, and compare."""
    import numpy as np

    from mlsim.cosim import loop_costs
    from mlsim.errors import InputError
    from mlsim.experiment import load_loop, loop_from_mapping
    from mlsim.experiment.directories import complete_or_gone
    from mlsim.mpi.launch import launcher_of
    from mlsim.mpi.loop.options import MODELS
    from mlsim.mpi.reading import VALIDATE_KEYS, check_set, loop_options
    from mlsim.mpi.validation.validate import Pair
    from mlsim.mpi.validation.validate import validate as compare
    from mlsim.scenario import TWO_LEVELS, parse_overrides

    overrides = parse_overrides(set_ or [])
    check_set(overrides, VALIDATE_KEYS, "mlsim mpi validate")
    loop = load_loop(scenario, overrides) if scenario else loop_from_mapping(_DEFAULT, overrides)
    more = dict(parse_overrides(option or []))
    for name in more:
        if name in _OWN_OPTIONS:
            raise InputError(f"--option {name}: give {_OWN_OPTIONS[name]}")
    if ranks_per_node is not None and not any(MODELS.get(model) in TWO_LEVELS for model in _words(models)):
        raise InputError(
            f"--ranks-per-node {ranks_per_node}: only models of two levels read it, and --model is {models}"
        )
    _tell_left_aside(loop, (*VALIDATE_KEYS, "application.technique", "application.execution.model"))
    if delays is None:
        delays = f"{loop.application.execution.injected_delay!r}s"
    pairs = [
        Pair(technique, model, delay)
        for technique in _words(techniques)
        for model in _words(models)
        for delay in map(_delay, _words(delays))
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
            _write(place, rows, machine, loop.name)
    _print_machine(machine)
    _print_rows(rows)
    if place is not None:
        print(f"Results: {place.directory}")


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
    "application": {
        "iterations": {"count": 1600},
        "costs": {"profile": "exponential", "mean": "4 ms"},
    },
}


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _delay(text: str) -> float:
    from mlsim.errors import InputError
    from mlsim.scenario import parse_override
    from mlsim.scenario.values.amounts import Amount
    from mlsim.scenario.values.units import TIME

    try:
        return Amount(TIME).parse(parse_override(f"delay={text}")[1])
    except ValueError as error:
        raise InputError(f"--delay: {error}") from error


def _print_rows(rows: list[Row]) -> None:
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


def _write(place: Place, rows: list[Row], machine: dict[str, object], name: str) -> None:
    from dataclasses import asdict

    from mlsim.experiment.rundir import write_json
    from mlsim.mpi.validation.validate import draw, error_table

    (place.partial / "table.md").write_text(error_table(rows), encoding="utf-8")
    write_json(
        place.partial / "loops.json",
        {"machine": machine, "loops": [asdict(row) | {"error": row.error} for row in rows]},
    )
    with place.extra(place.partial / "loops.png") as path:
        draw(path, rows, f"{name}: real and simulated")
