"""``mlsim workload scale``: a log at another load, or of a larger machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlsim.cli.workload.made import Out, write_made

if TYPE_CHECKING:
    from mlsim.workload.scaling import Scaled

__all__ = ["scale"]


def scale(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The workload to read.", show_default=False)],
    out: Out,
    by: Annotated[
        str,
        typer.Option(
            metavar="arrivals|run-times|users|machine",
            help="What is multiplied: times between arrivals (sizes and run times are kept), run times and "
            "walltimes (arrivals are), users (all jobs are, others are added), or the machine and the sizes "
            "of jobs (the load is).",
        ),
    ] = "arrivals",
    factor: Annotated[
        float | None, typer.Option(metavar="F", help="Factor of the load, or of the machine.")
    ] = None,
    load: Annotated[
        float | None, typer.Option(metavar="L", help="Offered load, in place of a factor.")
    ] = None,
    processors: Annotated[
        int | None,
        typer.Option(
            metavar="P", help="Of the log's machine, for the load.", show_default="as its header says"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the draws of users.", min=0)] = 0,
    lenient: Annotated[bool, typer.Option("--lenient", help="Skip broken lines.")] = False,
) -> None:
    """Scale LOG to another load, or to another machine.

    mlsim workload scale log.swf.gz --load 0.9 -o busy.swf
    """
    from mlsim.workload import scale as scaled

    made = scaled(log, by=by, factor=factor, load=load, processors=processors, seed=seed, lenient=lenient)
    jobs = write_made(out, made)
    print(f"{out}: {jobs:,} jobs, {made.by} scaled by {made.factor:.4g}{_loads(made)}")


def _loads(made: Scaled) -> str:
    """Say the offered load before and after, where the machine is known."""
    from mlsim.errors import InputError
    from mlsim.workload.from_log import offered_load
    from mlsim.workload.scaling import machine_scaled

    try:
        before = made.processors
    except InputError:
        return ""
    after = machine_scaled(before, made.factor) if made.by == "machine" else before
    loads = [offered_load(each.blocks(), size) for each, size in ((made.log, before), (made, after))]
    return f"; load {loads[0]:.3f} of {before:,} processors -> {loads[1]:.3f} of {after:,}"
