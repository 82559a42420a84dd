"""``mlsim loop``, one loop alone under techniques and models; ``mlsim advise``, which of them to take."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from mlsim import analysis
from mlsim._files import expanded, is_there
from mlsim._runtime.late import load_for_good
from mlsim.analysis.formatting import count
from mlsim.analysis.table_layout import NumberTable
from mlsim.cli import command_options as cli
from mlsim.cli.command_output import print_json, quiet, reporting, show, working
from mlsim.errors import InputError
from mlsim.experiment import loops, manifest, result_directories
from mlsim.scenario import Scenario, parse_overrides, scenario_keys
from mlsim.techniques import TECHNIQUES

if TYPE_CHECKING:
    from mlsim.experiment.advice import Advice
    from mlsim.experiment.recorded_loop import Loops, RecordedLoop

_LOOP, _COSTS, _RESULTS = "The loop", "Costs of scheduling", "Results"


def _flag(key: str, placeholder: str, text: str, panel: str = _LOOP, *, is_read: bool = True) -> Any:
    """Declare an option that sets a key, of the application alone its rest; ``is_read`` as it is."""
    key = key if key.partition(".")[0] in ("application", "platform", "seed") else f"application.{key}"
    text = f"{text} Sets {key}."
    return cli.option(text, placeholder, rich_help_panel=panel, key=key if is_read else "", sets=key)


_cost = partial(_flag, panel=_COSTS)
_ruled = partial(_flag, is_read=False)
_result = partial(cli.option, rich_help_panel=_RESULTS)


class _LoopOptions(cli.Options):
    file: Path | None = cli.argument("Scenario file whose platform and application are taken.", default=None)
    pes: str | None = _ruled("platform.nodes", "NODESxPES", "Machine: 16x16, 8, or 4x48,6x16.")
    speeds: str | None = _ruled(
        "platform.nodes", "SPEEDxNODES", "Relative speeds of the nodes' PEs: 1x8,0.5x8."
    )
    application: str | None = _flag("application", "NAME", "One of several applications of FILE.")
    technique: str | None = _ruled("technique", "TECHNIQUES", "Technique, or several: SS,GSS,FAC2.")
    model: str | None = _ruled("execution.model", "MODELS", "Execution model, or several: cca,dca.")
    iterations: str | None = _flag("iterations.count", "N", "Iterations; for mandelbrot a square.")
    profile: str | None = _flag("costs.profile", "PROFILE", "Costs of iterations.")
    mean: str | None = _flag("costs.mean", "TIME", "Their mean; 20 ms for mandelbrot, 0.2 s for psia.")
    std: str | None = _flag("costs.std", "TIME", "Their standard deviation.")
    costs: str | None = _flag("costs.path", "PATH", "Their file, in place of other costs.")
    column: str | None = _flag("costs.column", "NAME", "Column of that file, by name or number.")
    run_time: str | None = cli.option(
        "The job's run time that costs are made from, for profile job and for calibrate: run-time.",
        "TIME",
        rich_help_panel=_LOOP,
    )
    min_chunk: str | None = _flag("min_chunk", "N", "Smallest chunk.")
    seed: str | None = _flag("seed", "N", "Seed of random numbers.")
    chunk_calculation: str | None = _cost("execution.chunk_calculation", "TIME", "To compute a chunk.")
    injected_delay: str | None = _cost("execution.injected_delay", "TIME", "Added to each computation.")
    chunk_assignment: str | None = _cost("execution.chunk_assignment", "TIME", "To assign a chunk.")
    atomic_service: str | None = _cost("execution.atomic_service", "TIME", "Of one atomic.")
    break_after: str | None = _cost("execution.break_after", "N", "Iterations between a master's breaks.")
    latency: str | None = _cost("platform.network.latency", "TIME", "Between nodes.")
    intra_node_latency: str | None = _cost("platform.network.intra_node_latency", "TIME", "Within a node.")
    set_: cli.Overrides = None
    out: Path | None = _result("Write tables and pictures into DIR, which must not exist.", "DIR")
    chunks: bool = _result("Whether DIR holds every chunk.", "--chunks/--no-chunks", default=True)
    otf2: bool = _result("Also write an OTF2 trace: output.trace=chunks.", "--otf2", default=False)
    json_: bool = _result("Print the metrics as JSON, not as a table.", "--json", default=False)


def loop(options: _LoopOptions) -> None:
    """Simulate a loop alone, without a batch system: one, or every combination of techniques and models.

    The loop is that of FILE, or the one that --pes, --iterations and --profile describe, or both: options
    come on top of the file.

    mlsim loop --pes 16x16 --profile exponential --mean 1ms --iterations 100000 --technique SS,GSS
    """
    file, out = options.file, options.out
    texts = [f"{key}={value}" for key, value in options.keys().items()]
    texts += ["output.trace=chunks"] * options.otf2
    machine: dict[str, object] = {}
    if options.pes is not None:
        machine = {"platform.nodes": loops.node_groups(options.pes, options.speeds)}
        machine["platform.reference_speed"] = loops.REFERENCE_SPEED
    elif options.speeds is not None:
        raise InputError(
            f"--speeds {options.speeds}: goes with --pes; give both, e.g. --pes 16x16 --speeds 1x8,0.5x8"
        )
    overrides = machine | parse_overrides(texts) | parse_overrides(cli.settings(options.set_, file))
    if options.costs is not None:
        overrides = loops.with_file_of_costs(overrides)
    overrides = loops.with_typical_mean(overrides)
    techniques, models = (
        cli.listed(cli.code_from_here(text or "", file)) for text in (options.technique, options.model)
    )
    if file is None and not any(key.split(".")[0] == "platform" for key in overrides):
        raise InputError("mlsim loop: no machine; give --pes NODESxPES, e.g. --pes 16x16, or a scenario file")
    with options.named():
        scenarios = [
            loops.loop_from_mapping({}, overrides | pair)
            if file is None
            else loops.load_loop(file, overrides | pair)
            for pair in loops.choices(techniques, models)
        ]
    if options.json_:
        quiet()
    for name, given in (("--no-chunks", not options.chunks), ("--otf2", options.otf2)):
        if given and out is None:
            raise InputError(f"{name}: nothing is written without --out; give --out DIR, or leave it out")
    # Keys that were set and that none of the loops reads.
    lines = [
        {line.split()[0]: line for line in scenario_keys.warnings_of(scenario, alone=True)}
        for scenario in scenarios
    ]
    for key in lines[0]:
        if all(key in others for others in lines):
            print(f"mlsim: note: {lines[0][key]}", file=sys.stderr)
    run_time = cli.time_of("--run-time", options.run_time)
    modules = "mlsim.cosim.simulation", "mlsim.application.application_simulator"
    load_for_good(*modules, *(["polars"] if out else []))
    many = len(scenarios)
    with working("loop" if many == 1 else f"{many:,} loops", many) as work:
        results = loops.run_loops(
            scenarios, run_time=run_time, chunks=options.chunks, out=out, progress=lambda _: work.advance()
        )
    if options.json_:
        print_json(loops.summary(results))
    else:
        _print_loops(results, out)


def _print_loops(results: list[loops.LoopResult], out: Path | None) -> None:
    """Print one line per loop, the shortest of several, and where results are."""
    facts = [result.facts for result in results]
    loop, scenario = facts[0], results[0].scenario
    nouns = {"iterations": "iteration", "pes": "PE", "nodes": "node"}
    size = "{} on {} of {}".format(*(count(loop[key], noun) for key, noun in nouns.items()))
    show(
        Text.assemble((scenario.name, "bold"), f": {size}, seed {scenario.seed}"), analysis.loop_table(facts)
    )
    for of in facts:
        if "selected" in of:
            took = analysis.loop_seconds(of["selection_time"])
            show(f"{of['technique']} {of['model']}: time steps by {of['selected']}; choosing took {took}")
    if len(results) > 1:
        best = results[analysis.best_loop(facts)]
        show(f"* shortest: {best.label}, {analysis.loop_seconds(best.facts['t_loop'])}")
    if out is not None:
        print(f"Results: {out}")


_SHOWN = 12


class _AdviseOptions(cli.Options):
    source: Path = cli.argument("Scenario of a loop, or the directory of a run, simulated or real.")
    job: int | None = cli.option("Job of the run whose loop is meant.")
    technique: str | None = cli.option(
        "Techniques to try, with commas. Default: all that can be used.", "TECHNIQUES"
    )
    model: str | None = cli.option(
        "Models to try, with commas. Default: cca, dca, the current one.", "MODELS"
    )
    seeds: int = cli.option("Seeds, where anything is random.", default=5, min=1)
    run_time: str | None = cli.option("Run time that costs of profile job are made from.", "TIME")
    calibrated: Path | None = cli.option(
        "What handing out chunks costs: what mlsim mpi calibrate --json has printed. Default: what "
        "the scenario says, or the record shows.",
        "FILE",
    )
    set_: cli.Overrides = None
    out: Path | None = cli.output("Write advice.json, .csv and .png; must not exist.", "DIR")
    json_: cli.Json = False


def advise(options: _AdviseOptions) -> None:
    """Recommend a technique and a model for a loop, with the saving and its uncertainty, by simulation.

    Of a record, the costs inside its chunks are varied too. If no choice is within 5 % of the best under all
    of them, there is no verdict: the command prints why, and what to do instead.

    mlsim advise runs/recorded --out advice
    """
    from mlsim.experiment import advice, recorded_loop

    source, out, run_time = options.source, options.out, options.run_time
    overrides = parse_overrides(cli.settings(options.set_, source))
    if not is_there(expanded(source)):
        raise InputError(
            f"{source}: there is no such scenario or run; mlsim loop FILE --out DIR records a loop, as do "
            "mlsim run and real runs"
        )
    record = recorded_loop.recorded_loop(source, options.job) if source.is_dir() else None
    if record is None and options.job is not None:
        raise InputError(f"--job {options.job}: is of a run; {source} is a scenario")
    if record is not None and run_time is not None:
        raise InputError(f"--run-time {run_time}: the record of {source} says what iterations cost")
    if record is not None and (facts := advice.facts_of_unknown(record, source)):
        if out is not None:
            with result_directories.complete_or_gone(out) as place:
                manifest.write_summary(place.partial / "advice.json", facts)
        _print_unknown(facts, options.json_)
        return
    opened: AbstractContextManager[Loops] = (
        nullcontext((partial(loops.load_loop, source), {}))
        if record is None
        else recorded_loop.maker_of(record)
    )
    with (
        opened as (make, hidden),
        result_directories.complete_or_gone(out) if out is not None else nullcontext() as place,
    ):
        with reporting("choices of a technique") as progress:
            found = advice.advise(
                lambda changes: make({**overrides, **changes}),
                cli.listed(options.technique) or list(TECHNIQUES),
                cli.listed(options.model) or ["cca", "dca"],
                named=options.technique is not None,
                seeds=options.seeds,
                record=record,
                hidden=hidden,
                run_time=cli.time_of("--run-time", run_time),
                charge=_charge(options, lambda: make(overrides)),
                tell=progress,
            )
        if place is not None:
            advice.write_advice(place, found, record, source)
    facts = advice.facts_of(found, record, source)
    if facts["best"] is None:
        _print_unknown(facts, options.json_)
    elif options.json_:
        print_json(facts)
    else:
        _print_advice(found, record)


def _print_unknown(facts: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(facts)
    else:
        print(f"No verdict: {facts['reason']}.\nInstead: {facts['instead']}.")


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


def _print_advice(advice: Advice, record: RecordedLoop | None) -> None:
    first = advice.choices[:_SHOWN]
    rows = [
        (
            choice.technique,
            choice.model,
            *(
                analysis.loop_seconds(value)
                for value in (choice.mean, min(choice.t_loop), max(choice.t_loop))
            ),
            f"{choice.mean / advice.static.mean:.3f}",
            f"{choice.mean / advice.now.mean:.3f}",
            f"{choice.as_good:.0%}",
            f"{choice.chunks:,}",
        )
        for choice in [*first, *(one for one in (advice.now, advice.static) if one not in first)]
    ]
    titles = ("technique", "model", "T_loop", "least", "largest", "/ STATIC", "/ now", "as good", "chunks")
    show(NumberTable(titles, rows, keys=2))
    if len(advice.choices) > len(first):
        show(f"... of {len(advice.choices)} choices; --json has all")
    show(*_sentences(advice, record))


def _sentences(advice: Advice, record: RecordedLoop | None) -> list[str]:
    """Return the recommendation and its uncertainty, in sentences."""
    best, now, static = advice.best, advice.now, advice.static
    lines = []
    if record is not None:
        error = now.t_loop[0] / record.t_loop - 1.0
        what = "took" if record.measured else "simulated"
        lines.append(
            f"The record: {now.label}, {record.chunks:,} chunks, {what} {record.t_loop:.6g} s; "
            f"simulated from what it shows {now.t_loop[0]:.6g} s ({error:+.1%})."
        )
    most = advice.most_saved
    if advice.verdict == "leave":
        any_costs = "" if record is None or not record.has_hidden_costs else ", whatever costs chunks hide"
        lines.append(f"Recommended: leave it, {now.label}; no choice saves more than {most:.1%}{any_costs}.")
    elif best is now:
        lines.append(f"Recommended: keep {now.label}; no choice is more than 1 % better.")
    else:
        of_static = "" if static is now else f", {1.0 - best.mean / static.mean:.1%} less than {static.label}"
        lines.append(
            f"Recommended: {best.label}, {analysis.loop_seconds(best.mean)} "
            f"({1.0 - best.mean / now.mean:.1%} less than the current {now.label}{of_static})."
        )
    lines.append(_uncertainty(advice))
    if record is not None and best is not now:
        lines.append(f"On this record it would have saved {record.t_loop - best.mean:.4g} s.")
    if advice.left_out:
        names = dict.fromkeys(label.split()[0] for label in advice.left_out)
        lines.append(f"Left out, as they need parameters: {', '.join(names)}; --technique NAME prints which.")
    return lines


def _uncertainty(advice: Advice) -> str:
    """Return how often the recommendation is as good as the best choice, and the range of what it saves."""
    best, many = advice.best, len(advice.variations)
    seeds = len({one.seed for one in advice.variations})
    factors = ", ".join(f"{factor:g}" for factor in sorted({one.factor for one in advice.variations}))
    spread = f", costs of handing out x {factors}" if "," in factors else ""
    orders = len({one.within_chunks for one in advice.variations})
    within = f", {orders} orders of costs within chunks" if orders > 1 else ""
    text = (
        f"Within 1 % of the best in {round(best.as_good * many)} of {many} simulations ({seeds} "
        f"{'seed' if seeds == 1 else 'seeds'}{spread}{within})"
    )
    if not advice.is_sure and advice.verdict != "leave":
        text += f": not sure; at most {best.regret:.1%} longer than the best"
    if best is not advice.now:
        least, largest = advice.saved
        text += f"; saves {least:.1%} to {largest:.1%}"
    return f"{text}."
