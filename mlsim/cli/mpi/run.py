"""``mlsim mpi run``: execute the loop of a scenario for real."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlsim.cli.mpi.options import Launcher, Settings, check_ranks, note_keys_left_aside

__all__ = ["run"]


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
    json_: Annotated[bool, typer.Option("--json", help="Print JSON, one object a repetition.")] = False,
    set_: Settings = None,
) -> None:
    """Execute the loop of a scenario for real.

    mlsim mpi run scenarios/mpi/mandelbrot.yaml -- mpiexec -n 4
    """
    from mlsim.cli.values import settings
    from mlsim.errors import InputError
    from mlsim.experiment import load_loop
    from mlsim.experiment.directories import check_target
    from mlsim.mpi.launch import launch, launcher_of
    from mlsim.mpi.loop.options import MODELS
    from mlsim.mpi.reading import RUN_KEYS, check_scenario, check_set
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
