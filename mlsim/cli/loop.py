"""``mlsim loop``: one loop alone, for one or many techniques and execution models."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlsim.cli import terminal
from mlsim.cli.command_options import Overrides, amount, code_from_here, listed, settings
from mlsim.cli.progress import working

if TYPE_CHECKING:
    from mlsim.experiment import LoopResult
    from mlsim.scenario import Scenario


def _flag(key: str, metavar: str, text: str, panel: str) -> Any:
    """Declare an option that sets a key of the scenario."""
    return typer.Option(
        metavar=metavar, help=f"{text} Sets {key}.", rich_help_panel=panel, show_default=False
    )


_LOOP, _COSTS, _RESULTS = "The loop", "Costs of scheduling", "Results"


File = Annotated[
    Path | None,
    typer.Argument(help="Scenario file whose platform and application are taken.", show_default=False),
]

Pes = Annotated[str | None, _flag("platform.nodes", "NODESxPES", "Machine: 16x16, 8, or 4x48,6x16.", _LOOP)]

Speeds = Annotated[
    str | None, _flag("platform.nodes", "SPEEDxNODES", "Relative speeds of the nodes' PEs: 1x8,0.5x8.", _LOOP)
]

Technique = Annotated[
    str | None, _flag("application.technique", "WORDS", "Technique, or several: SS,GSS,FAC2.", _LOOP)
]

Model = Annotated[
    str | None, _flag("application.execution.model", "WORDS", "Execution model, or several: cca,dca.", _LOOP)
]

Iterations = Annotated[
    str | None, _flag("application.iterations.count", "N", "Iterations; for mandelbrot a square.", _LOOP)
]

Profile = Annotated[str | None, _flag("application.costs.profile", "WORD", "Costs of iterations.", _LOOP)]

Mean = Annotated[
    str | None,
    _flag("application.costs.mean", "TIME", "Their mean; 20 ms for mandelbrot, 0.2 s for psia.", _LOOP),
]

Std = Annotated[str | None, _flag("application.costs.std", "TIME", "Their standard deviation.", _LOOP)]

Costs = Annotated[
    str | None, _flag("application.costs.path", "PATH", "Their file, for --profile file.", _LOOP)
]

RunTime = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="The job's run time that costs are made from, for profile job and for calibrate: run-time.",
        rich_help_panel=_LOOP,
    ),
]

MinChunk = Annotated[str | None, _flag("application.min_chunk", "N", "Smallest chunk.", _LOOP)]

Seed = Annotated[str | None, _flag("seed", "N", "Seed of random numbers.", _LOOP)]

ChunkCalculation = Annotated[
    str | None, _flag("application.execution.chunk_calculation", "TIME", "To compute a chunk.", _COSTS)
]

InjectedDelay = Annotated[
    str | None, _flag("application.execution.injected_delay", "TIME", "Added to each computation.", _COSTS)
]

ChunkAssignment = Annotated[
    str | None, _flag("application.execution.chunk_assignment", "TIME", "To assign a chunk.", _COSTS)
]

AtomicService = Annotated[
    str | None, _flag("application.execution.atomic_service", "TIME", "Of one atomic.", _COSTS)
]

BreakAfter = Annotated[
    str | None,
    _flag("application.execution.break_after", "N", "Iterations between a master's breaks.", _COSTS),
]

Latency = Annotated[str | None, _flag("platform.network.latency", "TIME", "Between nodes.", _COSTS)]

IntraNodeLatency = Annotated[
    str | None, _flag("platform.network.intra_node_latency", "TIME", "Within a node.", _COSTS)
]

Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Write tables and pictures into DIR, which must not exist.",
        rich_help_panel=_RESULTS,
    ),
]

Chunks = Annotated[
    bool,
    typer.Option("--chunks/--no-chunks", help="Whether DIR holds every chunk.", rich_help_panel=_RESULTS),
]

Otf2 = Annotated[
    bool,
    typer.Option("--otf2", help="Also write an OTF2 trace: output.trace=chunks.", rich_help_panel=_RESULTS),
]

Json = Annotated[
    bool, typer.Option("--json", help="Print the metrics as JSON, not as a table.", rich_help_panel=_RESULTS)
]


_WIDEST = 1000


def print_unread(scenarios: list[Scenario]) -> None:
    """Name keys that were set and that none of the loops reads."""
    from mlsim.scenario import warnings_of

    lines = [{line.split()[0]: line for line in warnings_of(scenario)} for scenario in scenarios]
    for key in lines[0]:
        if all(key in others for others in lines):
            print(f"mlsim: note: {lines[0][key]}", file=sys.stderr)


def print_loops(results: list[LoopResult], out: Path | None) -> None:
    """Print one line a loop, the shortest of several, and where results are."""
    from rich.console import Console
    from rich.markup import escape
    from rich.measure import Measurement

    from mlsim.analysis import best_loop, loop_seconds, loop_table

    facts = [result.facts for result in results]
    table = loop_table(facts)
    # The table is cut nowhere, even where it is wider than the terminal.
    wide = Console(width=_WIDEST)
    console = Console(width=max(Console().width, Measurement.get(wide, wide.options, table).maximum))
    loop, scenario = facts[0], results[0].scenario
    console.print(
        f"[bold]{escape(scenario.name)}[/bold]: {loop['iterations']:,} iterations on {loop['pes']:,} PEs of "
        f"{loop['nodes']:,} nodes, seed {scenario.seed}",
        highlight=False,
    )
    console.print(table)
    for of in facts:
        if "selected" in of:
            took = loop_seconds(of["selection_time"])
            words = f"{of['technique']} {of['model']}: time steps by {of['selected']}; choosing took {took}"
            console.print(words, highlight=False, markup=False, soft_wrap=True)
    if len(results) > 1:
        best = results[best_loop(facts)]
        time = loop_seconds(best.facts["t_loop"])
        console.print(f"* shortest: {best.label}, {time}", highlight=False, markup=False)
    if out is not None:
        console.print(f"Results: {out}", highlight=False, soft_wrap=True)


def machine_keys(pes: str | None, speeds: str | None) -> dict[str, Any]:
    """Return the keys of the machine; none to leave the file's."""
    from mlsim.errors import InputError
    from mlsim.experiment.loops import REFERENCE_SPEED, node_groups

    if pes is not None:
        nodes = node_groups(pes, speeds)
        return {"platform.nodes": nodes, "platform.reference_speed": REFERENCE_SPEED}
    if speeds is not None:
        raise InputError(
            f"--speeds {speeds}: goes with --pes; give both, e.g. --pes 16x16 --speeds 1x8,0.5x8"
        )
    return {}


def read_flags(flags: dict[str, Any]) -> dict[str, object]:
    """Read the values that were given, as a scenario file would."""
    from mlsim.scenario import parse_override

    given = {key: value for key, value in flags.items() if value is not None}
    return {
        key: parse_override(f"{key}={value}")[1] if isinstance(value, str) else value
        for key, value in given.items()
    }


def scenario_of(file: Path | None, overrides: dict[str, object]) -> Scenario:
    """Return the loop of a file, or of options alone, with a machine."""
    from mlsim.errors import InputError
    from mlsim.experiment import load_loop, loop_from_mapping

    if file is not None:
        return load_loop(file, overrides)
    if not any(key.split(".")[0] == "platform" for key in overrides):
        raise InputError("mlsim loop: no machine; give --pes NODESxPES, e.g. --pes 16x16, or a scenario file")
    return loop_from_mapping({}, overrides)


def check_outputs(out: Path | None, chunks: bool, otf2: bool) -> None:
    """Refuse what would have no effect."""
    from mlsim.errors import InputError

    for name, given in (("--no-chunks", not chunks), ("--otf2", otf2)):
        if given and out is None:
            raise InputError(f"{name}: nothing is written without --out; give --out DIR, or leave it out")


def loop(
    file: File = None,
    pes: Pes = None,
    speeds: Speeds = None,
    technique: Technique = None,
    model: Model = None,
    iterations: Iterations = None,
    profile: Profile = None,
    mean: Mean = None,
    std: Std = None,
    costs: Costs = None,
    run_time: RunTime = None,
    min_chunk: MinChunk = None,
    seed: Seed = None,
    chunk_calculation: ChunkCalculation = None,
    injected_delay: InjectedDelay = None,
    chunk_assignment: ChunkAssignment = None,
    atomic_service: AtomicService = None,
    break_after: BreakAfter = None,
    latency: Latency = None,
    intra_node_latency: IntraNodeLatency = None,
    set_: Overrides = None,
    out: Out = None,
    chunks: Chunks = True,
    otf2: Otf2 = False,
    json_: Json = False,
) -> None:
    """Simulate a loop alone, without a batch system: one, or every combination of techniques and models.

    The loop is that of FILE, or the one that --pes, --iterations and --profile describe, or both: options
    come on top of the file.

    mlsim loop --pes 16x16 --profile exponential --mean 1ms --iterations 100000 --technique SS,GSS
    """
    from mlsim._runtime.late import load_for_good
    from mlsim.experiment import choices, run_loops
    from mlsim.experiment.loops import summary, with_typical_mean
    from mlsim.scenario import parse_overrides
    from mlsim.scenario.unit_types import TIME

    flags = {
        **machine_keys(pes, speeds),
        "application.iterations.count": iterations,
        "application.costs.profile": profile,
        "application.costs.mean": mean,
        "application.costs.std": std,
        "application.costs.path": costs,
        "application.min_chunk": min_chunk,
        "seed": seed,
        "application.execution.chunk_calculation": chunk_calculation,
        "application.execution.injected_delay": injected_delay,
        "application.execution.chunk_assignment": chunk_assignment,
        "application.execution.atomic_service": atomic_service,
        "application.execution.break_after": break_after,
        "platform.network.latency": latency,
        "platform.network.intra_node_latency": intra_node_latency,
        "output.trace": "chunks" if otf2 else None,
    }
    overrides = with_typical_mean(read_flags(flags) | parse_overrides(settings(set_, file)))
    techniques, models = (code_from_here(text or "", file) for text in (technique, model))
    pairs = choices(listed(techniques), listed(models))
    scenarios = [scenario_of(file, overrides | pair) for pair in pairs]
    if json_:
        terminal.quiet()
    check_outputs(out, chunks, otf2)
    print_unread(scenarios)
    seconds = None if run_time is None else amount("--run-time", run_time, TIME, positive=True)
    load_for_good("mlsim.cosim.single_loop", *(["polars"] if out else []))
    many = len(scenarios)
    with working("loop" if many == 1 else f"{many:,} loops", many) as work:
        results = run_loops(
            scenarios, run_time=seconds, chunks=chunks, out=out, progress=lambda _: work.advance()
        )
    if json_:
        print(json.dumps(summary(results), indent=2, allow_nan=False))
    else:
        print_loops(results, out)
