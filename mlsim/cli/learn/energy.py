"""``mlsim learn energy``: energy profiles of jobs, classified."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["energy"]


def energy(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV: job_id, time (s), power (W).", show_default=False)
    ],
    group: Annotated[int, typer.Option(min=1, help="Samples that become one mean.")] = 12,
    head: Annotated[int, typer.Option(min=0, help="Means cut from the beginning of a job.")] = 5,
    tail: Annotated[int, typer.Option(min=0, help="Means cut from its end.")] = 5,
    stationary: Annotated[float, typer.Option(min=0.0, help="Threshold of window means.")] = 0.1,
    constant: Annotated[float, typer.Option(min=0.0, help="Threshold of the deviation.")] = 0.1,
    periodic: Annotated[float, typer.Option(min=0.0, help="Threshold of spectral density.")] = 1.0,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write a row a job into this new file.")] = None,
) -> None:
    """Classify jobs by their power over time (Zrigui 2021, ch. 7).

    Constant, periodic, aperiodic, or non-stationary: samples become means of twelve, head, tail and outliers
    are left out, all is scaled by the least and the largest power, and three tests decide.

    mlsim learn energy samples.csv --csv classes.csv
    """
    from collections import Counter

    import polars as pl

    from mlsim.cli.newfiles import new_files
    from mlsim.learning.energy import EnergyClass, Tree, classify, cleaned, read_profiles

    raw = read_profiles(file)
    tree = Tree(stationary=stationary, constant=constant, periodic=periodic)
    jobs = {job: cleaned(power, group=group, head=head, tail=tail) for job, power in raw.items()}
    found = classify(jobs, tree)
    counts = Counter(profile.kind for profile in found.values())
    for kind in EnergyClass:
        print(f"{kind:<15} {counts[kind]:>8,}  {100 * counts[kind] / max(len(found), 1):5.1f} %")
    if csv is not None:
        frame = pl.DataFrame([{"job_id": job} | asdict(profile) for job, profile in found.items()])
        with new_files([csv]) as (part,):
            frame.write_csv(part)
        print(f"Written: {csv}")
