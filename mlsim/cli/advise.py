"""``mlsim advise``: which technique and execution model for a loop."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlsim.cli.command_options import Json, Overrides

if TYPE_CHECKING:
    from mlsim.experiment.advice import Advice
    from mlsim.experiment.recorded_loop import RecordedLoop, Unknown
    from mlsim.scenario import Scenario


_SHOWN = 12


def advise(
    source: Annotated[
        Path, typer.Argument(help="Scenario of a loop, or the directory of a run, simulated or real.")
    ],
    job: Annotated[
        int | None, typer.Option(help="Job of the run whose loop is meant.", show_default=False)
    ] = None,
    technique: Annotated[
        str | None,
        typer.Option(
            help="Techniques to try, with commas. Default: all that can be used.", show_default=False
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Models to try, with commas. Default: cca, dca, the current one.", show_default=False
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds, where anything is random.")] = 5,
    run_time: Annotated[
        str | None, typer.Option(help="Run time that costs of profile job are made from.", show_default=False)
    ] = None,
    calibrated: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What handing out chunks costs: what mlsim mpi calibrate --json has printed. Default: what "
            "the scenario says, or the record shows.",
            show_default=False,
        ),
    ] = None,
    set_: Overrides = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Write advice.json, .csv and .png; must not exist."),
    ] = None,
    json_: Json = False,
) -> None:
    """Recommend a technique and a model for a loop, with the saving and its uncertainty, by simulation.

    A record of fewer than 20 chunks per PE allows no verdict: the command prints why, and what to do instead.

    mlsim advise runs/recorded --out advice
    """
    from mlsim.cli.command_options import amount, listed, settings
    from mlsim.errors import InputError
    from mlsim.experiment.advice import advise as simulate
    from mlsim.experiment.advice import facts_of, write_advice
    from mlsim.experiment.recorded_loop import maker_of, recorded_loop, unknown_of
    from mlsim.experiment.result_directories import complete_or_gone
    from mlsim.scenario import parse_overrides
    from mlsim.scenario.unit_types import TIME

    overrides = parse_overrides(settings(set_, source))
    record = recorded_loop(source, job) if source.is_dir() else None
    if record is None and job is not None:
        raise InputError(f"--job {job}: is of a run; {source} is a scenario")
    if record is not None and run_time is not None:
        raise InputError(f"--run-time {run_time}: the record of {source} says what iterations cost")
    if record is not None and (unknown := unknown_of(record, source)):
        _report_unknown(unknown, record, out, json_)
        return
    with (
        nullcontext(_from_file(source)) if record is None else maker_of(record) as make,
        complete_or_gone(out) if out is not None else nullcontext() as place,
    ):
        advice = simulate(
            lambda changes: make({**overrides, **changes}),
            listed(technique) or _usual(),
            listed(model) or ["cca", "dca"],
            named=technique is not None,
            seeds=seeds,
            run_time=None if run_time is None else amount("--run-time", run_time, TIME, positive=True),
            charge=_charge(calibrated, lambda: make(overrides), run_time),
            tell=_tell,
        )
        if place is not None:
            write_advice(place, advice, record, f"{source.name}: choices of a technique")
    if json_:
        print(json.dumps(facts_of(advice, record), indent=2, allow_nan=False))
    else:
        _print(advice, record)


def _report_unknown(unknown: Unknown, record: RecordedLoop, out: Path | None, as_json: bool) -> None:
    """Print, and write if asked, that a record allows no verdict."""
    from mlsim.experiment.advice import facts_of_unknown, write_unknown
    from mlsim.experiment.result_directories import complete_or_gone

    if out is not None:
        with complete_or_gone(out) as place:
            write_unknown(place, unknown, record)
    if as_json:
        print(json.dumps(facts_of_unknown(unknown, record), indent=2, allow_nan=False))
    else:
        print(f"No verdict: {unknown.reason}.\nInstead: {unknown.instead}.")


def _from_file(path: Path) -> Callable[[Mapping[str, object]], Scenario]:
    """Return what makes the loop of a scenario file with some keys changed."""
    from mlsim.experiment import load_loop

    return lambda changes: load_loop(path, changes)


def _usual() -> list[str]:
    from mlsim.techniques import TECHNIQUES

    return list(TECHNIQUES)


def _charge(
    path: Path | None, make: Callable[[], Scenario], run_time: str | None
) -> Callable[[str, str], Mapping[str, object]]:
    """Return a function from technique and model to keys with a machine's measured costs, if any."""
    if path is None:
        return lambda _technique, _model: {}
    from mlsim.cli.command_options import amount
    from mlsim.cosim import loop_cost_sums
    from mlsim.mpi.real_validation import keys_of, read_machine
    from mlsim.scenario.unit_types import TIME

    machine = read_machine(path)
    seconds = None if run_time is None else amount("--run-time", run_time, TIME, positive=True)
    costs = loop_cost_sums(make(), seconds)
    mean = costs.total / max(costs.n, 1)
    return lambda technique, model: keys_of(machine, technique, model, mean)


def _tell(done: int, total: int) -> None:
    import sys

    if sys.stderr.isatty():
        end = "\r" if done < total else "\r" + " " * 40 + "\r"
        print(f"{done} of {total} choices simulated", end=end, file=sys.stderr, flush=True)


def _print(advice: Advice, record: RecordedLoop | None) -> None:
    from rich.console import Console
    from rich.table import Table

    from mlsim.analysis.terminal_tables import loop_seconds

    table = Table(box=None, pad_edge=False)
    for column in (
        "technique",
        "model",
        "T_loop",
        "least",
        "largest",
        "/ STATIC",
        "/ now",
        "as good",
        "chunks",
    ):
        table.add_column(column, justify="left" if column in ("technique", "model") else "right")
    first = advice.choices[:_SHOWN]
    for choice in [*first, *(one for one in (advice.now, advice.static) if one not in first)]:
        table.add_row(
            choice.technique,
            choice.model,
            *(loop_seconds(value) for value in (choice.mean, min(choice.t_loop), max(choice.t_loop))),
            f"{choice.mean / advice.static.mean:.3f}",
            f"{choice.mean / advice.now.mean:.3f}",
            f"{choice.as_good:.0%}",
            f"{choice.chunks:,}",
        )
    console = Console(highlight=False)
    console.print(table)
    if len(advice.choices) > len(first):
        console.print(f"... of {len(advice.choices)} choices; --json has all")
    for line in _sentences(advice, record):
        console.print(line)


def _sentences(advice: Advice, record: RecordedLoop | None) -> list[str]:
    """Return the recommendation and its uncertainty, in sentences."""
    from mlsim.analysis.terminal_tables import loop_seconds

    best, now = advice.best, advice.now
    many = len(advice.variations)
    factors = sorted({one.factor for one in advice.variations})
    seeds = len({one.seed for one in advice.variations})
    lines = []
    if record is not None:
        error = now.t_loop[0] / record.t_loop - 1.0
        what = "took" if record.measured else "simulated"
        lines.append(
            f"The record: {now.label}, {record.chunks:,} chunks, {what} {record.t_loop:.6g} s; "
            f"simulated from what it shows {now.t_loop[0]:.6g} s ({error:+.1%})."
        )
    if best is now:
        lines.append(f"Recommended: keep {now.label}; no choice is more than 1 % better.")
    else:
        of_static = (
            f", {1.0 - best.mean / advice.static.mean:.1%} less than {advice.static.label}"
            if advice.static is not now
            else ""
        )
        lines.append(
            f"Recommended: {best.label}, {loop_seconds(best.mean)} ({1.0 - best.mean / now.mean:.1%} less "
            f"than the current {now.label}{of_static})."
        )
    spread = (
        f", costs of handing out x {', '.join(f'{one:g}' for one in factors)}" if len(factors) > 1 else ""
    )
    lines.append(
        f"Within 1 % of the best in {round(best.as_good * many)} of {many} simulations ({seeds} "
        f"{'seed' if seeds == 1 else 'seeds'}{spread})."
    )
    if record is not None and best is not now:
        lines.append(f"On this record it would have saved {record.t_loop - best.mean:.4g} s.")
    if advice.left_out:
        names = dict.fromkeys(label.split()[0] for label in advice.left_out)
        lines.append(f"Left out, as they need parameters: {', '.join(names)}; --technique NAME prints which.")
    return lines
