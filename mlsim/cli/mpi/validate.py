"""``mlsim mpi validate``: loops executed and simulated, compared."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from mlsim.cli.mpi.options import Launcher, Settings, note_keys_left_aside
from mlsim.cli.mpi.tables import print_machine, print_rows
from mlsim.cli.values import amount, listed, settings

__all__ = ["validate"]


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
    set_: Settings = None,
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
    from mlsim.mpi.validation.writing import write_comparison
    from mlsim.scenario import TWO_LEVELS, parse_overrides
    from mlsim.scenario.values.units import TIME

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
