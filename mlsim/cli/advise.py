"""``mlsim advise``: which technique and execution model for a loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mlsim.cli import command_options as cli
from mlsim.cli.command_options import Json, Options, Overrides, argument, option, output
from mlsim.cli.progress import reporting
from mlsim.cli.terminal import print_json, show, table_of
from mlsim.errors import InputError

if TYPE_CHECKING:
    from mlsim.experiment.advice import Advice, RecordedLoop
    from mlsim.scenario import Scenario


_SHOWN = 12


class _AdviseOptions(Options):
    source: Path = argument("Scenario of a loop, or the directory of a run, simulated or real.")
    job: int | None = option("Job of the run whose loop is meant.")
    technique: str | None = option("Techniques to try, with commas. Default: all that can be used.")
    model: str | None = option("Models to try, with commas. Default: cca, dca, the current one.")
    seeds: int = option("Seeds, where anything is random.", default=5, min=1)
    run_time: str | None = option("Run time that costs of profile job are made from.")
    calibrated: Path | None = option(
        "What handing out chunks costs: what mlsim mpi calibrate --json has printed. Default: what "
        "the scenario says, or the record shows.",
        "FILE",
    )
    set_: Overrides = None
    out: Path | None = output("Write advice.json, .csv and .png; must not exist.", "DIR")
    json_: Json = False


def advise(options: _AdviseOptions) -> None:
    """Recommend a technique and a model for a loop, with the saving and its uncertainty, by simulation.

    A record of fewer than 20 chunks per PE allows no verdict: the command prints why, and what to do instead.

    mlsim advise runs/recorded --out advice
    """
    from mlsim.experiment import advice, load_loop
    from mlsim.experiment.manifest import write_summary
    from mlsim.experiment.result_directories import complete_or_gone
    from mlsim.scenario import parse_overrides
    from mlsim.techniques import TECHNIQUES

    source, out, run_time = options.source, options.out, options.run_time
    overrides = parse_overrides(cli.settings(options.set_, source))
    record = advice.recorded_loop(source, options.job) if source.is_dir() else None
    if record is None and options.job is not None:
        raise InputError(f"--job {options.job}: is of a run; {source} is a scenario")
    if record is not None and run_time is not None:
        raise InputError(f"--run-time {run_time}: the record of {source} says what iterations cost")
    if record is not None and (unknown := advice.unknown_of(record, source)):
        facts = advice.facts_of_unknown(unknown, record)
        if out is not None:
            with complete_or_gone(out) as place:
                write_summary(place.partial / "advice.json", facts)
        if options.json_:
            print_json(facts)
        else:
            print(f"No verdict: {unknown['reason']}.\nInstead: {unknown['instead']}.")
        return
    with (
        nullcontext(partial(load_loop, source)) if record is None else advice.maker_of(record) as make,
        complete_or_gone(out) if out is not None else nullcontext() as place,
    ):
        with reporting("choices of a technique") as progress:
            found = advice.advise(
                lambda changes: make({**overrides, **changes}),
                cli.listed(options.technique) or list(TECHNIQUES),
                cli.listed(options.model) or ["cca", "dca"],
                named=options.technique is not None,
                seeds=options.seeds,
                run_time=cli.time_of("--run-time", run_time),
                charge=_charge(options, lambda: make(overrides)),
                tell=progress,
            )
        if place is not None:
            advice.write_advice(place, found, record, f"{source.name}: choices of a technique")
    if options.json_:
        print_json(advice.facts_of(found, record))
    else:
        _print(found, record)


def _charge(
    options: _AdviseOptions, make: Callable[[], Scenario]
) -> Callable[[str, str], Mapping[str, object]]:
    """Return a function from technique and model to keys with a machine's measured costs, if any."""
    if options.calibrated is None:
        return lambda _technique, _model: {}
    from mlsim.cosim.simulation import loop_cost_sums
    from mlsim.mpi.real_validation import keys_of, read_machine

    machine = read_machine(options.calibrated)
    costs = loop_cost_sums(make(), cli.time_of("--run-time", options.run_time))
    mean = costs.total / max(costs.n, 1)
    return lambda technique, model: keys_of(machine, technique, model, mean)


def _print(advice: Advice, record: RecordedLoop | None) -> None:
    from mlsim.analysis.terminal_tables import loop_seconds

    first = advice.choices[:_SHOWN]
    rows = [
        (
            choice.technique,
            choice.model,
            *(loop_seconds(value) for value in (choice.mean, min(choice.t_loop), max(choice.t_loop))),
            f"{choice.mean / advice.static.mean:.3f}",
            f"{choice.mean / advice.now.mean:.3f}",
            f"{choice.as_good:.0%}",
            f"{choice.chunks:,}",
        )
        for choice in [*first, *(one for one in (advice.now, advice.static) if one not in first)]
    ]
    titles = ("technique", "model", "T_loop", "least", "largest", "/ STATIC", "/ now", "as good", "chunks")
    show(table_of(titles, rows, left=("technique", "model")))
    if len(advice.choices) > len(first):
        print(f"... of {len(advice.choices)} choices; --json has all")
    for line in _sentences(advice, record):
        print(line)


def _sentences(advice: Advice, record: RecordedLoop | None) -> list[str]:
    """Return the recommendation and its uncertainty, in sentences."""
    from mlsim.analysis.terminal_tables import loop_seconds

    best, now, static = advice.best, advice.now, advice.static
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
        of_static = "" if static is now else f", {1.0 - best.mean / static.mean:.1%} less than {static.label}"
        lines.append(
            f"Recommended: {best.label}, {loop_seconds(best.mean)} ({1.0 - best.mean / now.mean:.1%} less "
            f"than the current {now.label}{of_static})."
        )
    many = len(advice.variations)
    seeds = len({one.seed for one in advice.variations})
    factors = ", ".join(f"{factor:g}" for factor in sorted({one.factor for one in advice.variations}))
    spread = f", costs of handing out x {factors}" if "," in factors else ""
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
