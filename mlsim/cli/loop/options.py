"""Options of ``mlsim loop``; most of them set a key of the scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = [
    "AtomicService",
    "BreakAfter",
    "ChunkAssignment",
    "ChunkCalculation",
    "Chunks",
    "Costs",
    "File",
    "InjectedDelay",
    "IntraNodeLatency",
    "Iterations",
    "Json",
    "Latency",
    "Mean",
    "MinChunk",
    "Model",
    "Otf2",
    "Out",
    "Pes",
    "Profile",
    "RunTime",
    "Seed",
    "Set",
    "Speeds",
    "Std",
    "Technique",
]


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
    str | None,
    _flag("platform.nodes", "SPEEDxNODES", "Relative speeds of the nodes' PEs: 1x8,0.5x8.", _LOOP),
]

Technique = Annotated[
    str | None, _flag("application.technique", "WORDS", "Technique, or several: SS,GSS,FAC2.", _LOOP)
]

Model = Annotated[
    str | None,
    _flag("application.execution.model", "WORDS", "Execution model, or several: cca,dca.", _LOOP),
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
    str | None,
    _flag("application.costs.path", "PATH", "Their file, for --profile file.", _LOOP),
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
    str | None,
    _flag("application.execution.injected_delay", "TIME", "Added to each computation.", _COSTS),
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

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set any other key of the scenario; may be repeated."),
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
    bool,
    typer.Option("--json", help="Print the metrics as JSON, not as a table.", rich_help_panel=_RESULTS),
]
