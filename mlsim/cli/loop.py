"""``mlsim loop``: one loop alone, for one or many techniques and execution models."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsim.cli import command_options as cli
from mlsim.cli import terminal
from mlsim.cli.command_options import Options, Overrides, argument, flag, option
from mlsim.cli.progress import working
from mlsim.errors import InputError

if TYPE_CHECKING:
    from mlsim.experiment import LoopResult


_LOOP, _COSTS, _RESULTS = "The loop", "Costs of scheduling", "Results"
_WIDEST = 1000


def _flag(key: str, placeholder: str, text: str, panel: str = _LOOP, *, is_read: bool = True) -> Any:
    """Declare an option that sets a key of the scenario; ``is_read`` as it is, without further rules."""
    text = f"{text} Sets {key}."
    return option(text, placeholder, rich_help_panel=panel, key=key if is_read else "")


_cost = partial(_flag, panel=_COSTS)


class _LoopOptions(Options):
    file: Path | None = argument("Scenario file whose platform and application are taken.", default=None)
    pes: str | None = _flag("platform.nodes", "NODESxPES", "Machine: 16x16, 8, or 4x48,6x16.", is_read=False)
    speeds: str | None = _flag(
        "platform.nodes", "SPEEDxNODES", "Relative speeds of the nodes' PEs: 1x8,0.5x8.", is_read=False
    )
    technique: str | None = _flag(
        "application.technique", "WORDS", "Technique, or several: SS,GSS,FAC2.", is_read=False
    )
    model: str | None = _flag(
        "application.execution.model", "WORDS", "Execution model, or several: cca,dca.", is_read=False
    )
    iterations: str | None = _flag(
        "application.iterations.count", "N", "Iterations; for mandelbrot a square."
    )
    profile: str | None = _flag("application.costs.profile", "WORD", "Costs of iterations.")
    mean: str | None = _flag(
        "application.costs.mean", "TIME", "Their mean; 20 ms for mandelbrot, 0.2 s for psia."
    )
    std: str | None = _flag("application.costs.std", "TIME", "Their standard deviation.")
    costs: str | None = _flag("application.costs.path", "PATH", "Their file, for --profile file.")
    run_time: str | None = option(
        "The job's run time that costs are made from, for profile job and for calibrate: run-time.",
        "TIME",
        rich_help_panel=_LOOP,
    )
    min_chunk: str | None = _flag("application.min_chunk", "N", "Smallest chunk.")
    seed: str | None = _flag("seed", "N", "Seed of random numbers.")
    chunk_calculation: str | None = _cost(
        "application.execution.chunk_calculation", "TIME", "To compute a chunk."
    )
    injected_delay: str | None = _cost(
        "application.execution.injected_delay", "TIME", "Added to each computation."
    )
    chunk_assignment: str | None = _cost(
        "application.execution.chunk_assignment", "TIME", "To assign a chunk."
    )
    atomic_service: str | None = _cost("application.execution.atomic_service", "TIME", "Of one atomic.")
    break_after: str | None = _cost(
        "application.execution.break_after", "N", "Iterations between a master's breaks."
    )
    latency: str | None = _cost("platform.network.latency", "TIME", "Between nodes.")
    intra_node_latency: str | None = _cost("platform.network.intra_node_latency", "TIME", "Within a node.")
    set_: Overrides = None
    out: Path | None = option(
        "Write tables and pictures into DIR, which must not exist.", "DIR", rich_help_panel=_RESULTS
    )
    chunks: bool = option(
        "Whether DIR holds every chunk.", "--chunks/--no-chunks", default=True, rich_help_panel=_RESULTS
    )
    otf2: bool = flag("Also write an OTF2 trace: output.trace=chunks.", "--otf2", rich_help_panel=_RESULTS)
    json_: bool = flag("Print the metrics as JSON, not as a table.", "--json", rich_help_panel=_RESULTS)


def loop(options: _LoopOptions) -> None:
    """Simulate a loop alone, without a batch system: one, or every combination of techniques and models.

    The loop is that of FILE, or the one that --pes, --iterations and --profile describe, or both: options
    come on top of the file.

    mlsim loop --pes 16x16 --profile exponential --mean 1ms --iterations 100000 --technique SS,GSS
    """
    from mlsim._runtime.late import load_for_good
    from mlsim.experiment import choices, load_loop, loop_from_mapping, run_loops
    from mlsim.experiment.loops import REFERENCE_SPEED, node_groups, summary, with_typical_mean
    from mlsim.scenario import parse_overrides
    from mlsim.scenario.scenario_keys import warnings_of

    file, out = options.file, options.out
    texts = [f"{key}={value}" for key, value in options.keys().items()]
    texts += ["output.trace=chunks"] * options.otf2
    machine: dict[str, object] = {}
    if options.pes is not None:
        machine = {"platform.nodes": node_groups(options.pes, options.speeds)}
        machine["platform.reference_speed"] = REFERENCE_SPEED
    elif options.speeds is not None:
        raise InputError(
            f"--speeds {options.speeds}: goes with --pes; give both, e.g. --pes 16x16 --speeds 1x8,0.5x8"
        )
    overrides = with_typical_mean(
        machine | parse_overrides(texts) | parse_overrides(cli.settings(options.set_, file))
    )
    techniques, models = (
        cli.listed(cli.code_from_here(text or "", file)) for text in (options.technique, options.model)
    )
    if file is None and not any(key.split(".")[0] == "platform" for key in overrides):
        raise InputError("mlsim loop: no machine; give --pes NODESxPES, e.g. --pes 16x16, or a scenario file")
    scenarios = [
        loop_from_mapping({}, overrides | pair) if file is None else load_loop(file, overrides | pair)
        for pair in choices(techniques, models)
    ]
    if options.json_:
        terminal.quiet()
    for name, given in (("--no-chunks", not options.chunks), ("--otf2", options.otf2)):
        if given and out is None:
            raise InputError(f"{name}: nothing is written without --out; give --out DIR, or leave it out")
    # Keys that were set and that none of the loops reads.
    lines = [{line.split()[0]: line for line in warnings_of(scenario)} for scenario in scenarios]
    for key in lines[0]:
        if all(key in others for others in lines):
            print(f"mlsim: note: {lines[0][key]}", file=sys.stderr)
    run_time = cli.time_of("--run-time", options.run_time)
    modules = "mlsim.cosim.simulation", "mlsim.application.application_simulator"
    load_for_good(*modules, *(["polars"] if out else []))
    many = len(scenarios)
    with working("loop" if many == 1 else f"{many:,} loops", many) as work:
        results = run_loops(
            scenarios, run_time=run_time, chunks=options.chunks, out=out, progress=lambda _: work.advance()
        )
    if options.json_:
        terminal.print_json(summary(results))
    else:
        _print(results, out)


def _print(results: list[LoopResult], out: Path | None) -> None:
    """Print one line per loop, the shortest of several, and where results are."""
    from rich.console import Console
    from rich.measure import Measurement

    from mlsim.analysis import best_loop, loop_seconds, loop_table

    facts = [result.facts for result in results]
    table = loop_table(facts)
    # The table is cut nowhere, even where it is wider than the terminal.
    wide = Console(width=_WIDEST)
    console = Console(width=max(Console().width, Measurement.get(wide, wide.options, table).maximum))
    loop, scenario = facts[0], results[0].scenario
    console.print(scenario.name, style="bold", end="", highlight=False, markup=False)
    print(
        f": {loop['iterations']:,} iterations on {loop['pes']:,} PEs of {loop['nodes']:,} nodes, "
        f"seed {scenario.seed}"
    )
    console.print(table)
    for of in facts:
        if "selected" in of:
            took = loop_seconds(of["selection_time"])
            print(f"{of['technique']} {of['model']}: time steps by {of['selected']}; choosing took {took}")
    if len(results) > 1:
        best = results[best_loop(facts)]
        print(f"* shortest: {best.label}, {loop_seconds(best.facts['t_loop'])}")
    if out is not None:
        print(f"Results: {out}")
