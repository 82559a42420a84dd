"""``mlsim loop``: simulate one loop alone, for one or many techniques and execution models."""

from __future__ import annotations

import json

from mlsim.cli import streams
from mlsim.cli.loop import options as opt
from mlsim.cli.loop.printing import print_loops, print_unread
from mlsim.cli.loop.reading import check_outputs, machine_keys, read_flags, scenario_of
from mlsim.cli.progress import working
from mlsim.cli.values import amount, code_from_here, listed, settings

__all__ = ["loop"]


def loop(
    file: opt.File = None,
    pes: opt.Pes = None,
    speeds: opt.Speeds = None,
    technique: opt.Technique = None,
    model: opt.Model = None,
    iterations: opt.Iterations = None,
    profile: opt.Profile = None,
    mean: opt.Mean = None,
    std: opt.Std = None,
    costs: opt.Costs = None,
    run_time: opt.RunTime = None,
    min_chunk: opt.MinChunk = None,
    seed: opt.Seed = None,
    chunk_calculation: opt.ChunkCalculation = None,
    injected_delay: opt.InjectedDelay = None,
    chunk_assignment: opt.ChunkAssignment = None,
    atomic_service: opt.AtomicService = None,
    break_after: opt.BreakAfter = None,
    latency: opt.Latency = None,
    intra_node_latency: opt.IntraNodeLatency = None,
    set_: opt.Set = None,
    out: opt.Out = None,
    chunks: opt.Chunks = True,
    otf2: opt.Otf2 = False,
    json_: opt.Json = False,
) -> None:
    """Simulate a loop alone, without a batch system: one, or every combination of techniques and models.

    The loop is that of FILE, or the one that --pes, --iterations and --profile describe, or both: options
    come on top of the file.

    mlsim loop --pes 16x16 --profile exponential --mean 1ms --iterations 100000 --technique SS,GSS
    """
    from mlsim.experiment import choices, run_loops
    from mlsim.experiment.loops import summary, with_typical_mean
    from mlsim.scenario import parse_overrides
    from mlsim.scenario.values.units import TIME

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
        streams.quiet()
    check_outputs(out, chunks, otf2)
    print_unread(scenarios)
    seconds = None if run_time is None else amount("--run-time", run_time, TIME, positive=True)
    many = len(scenarios)
    with working("loop" if many == 1 else f"{many:,} loops", many) as work:
        results = run_loops(
            scenarios, run_time=seconds, chunks=chunks, out=out, progress=lambda _: work.advance()
        )
    if json_:
        print(json.dumps(summary(results), indent=2, allow_nan=False))
    else:
        print_loops(results, out)
