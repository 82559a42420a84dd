"""``mlsim workload resample``: weeks of a log, put together anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlsim.cli.workload.made import Out, write_made

__all__ = ["resample"]


def resample(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The workload to read.", show_default=False)],
    out: Out,
    weeks: Annotated[int, typer.Option(metavar="N", help="How many weeks.", show_default=False)],
    by: Annotated[
        str,
        typer.Option(metavar="user|week", help="Whether every user has a week drawn, or all the same one."),
    ] = "user",
    seed: Annotated[int, typer.Option(help="Seed of the draws.", min=0)] = 0,
    lenient: Annotated[bool, typer.Option("--lenient", help="Skip broken lines.")] = False,
) -> None:
    """Make a workload of the weeks of LOG, drawn at random for each user (Zrigui 2021, Algorithm 2).

    Kept are jobs, with weekday and hour, and the mean load of each user; not kept are dependencies.

    mlsim workload resample log.swf.gz --weeks 52 --seed 1 -o another-year.swf
    """
    from mlsim.workload import resample as resampled

    made = resampled(log, weeks=weeks, by=by, seed=seed, lenient=lenient)
    jobs = write_made(out, made)
    print(
        f"{out}: {jobs:,} jobs in {weeks:,} weeks, drawn from {made.source_weeks:,} whole weeks by {made.by}"
    )
