"""``mlsim learn energy``: energy profiles of jobs, classified, and made into power over time in a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mlsim.learning.energy import Profile

__all__ = ["energy", "profiles"]

_STEPS = (".csv", ".parquet")
"""What names of files of steps end with."""
_MOST = 10**9
"""Means that are cut, and samples that become one, at most: more than any job has."""
_YEAR = 366 * 86_400.0
"""Time [s] up to which profiles are made."""


def energy(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="CSV, Parquet, HDF5: job_id, time (s), power (W).", show_default=False
        ),
    ],
    group: Annotated[int, typer.Option(min=1, max=_MOST, help="Samples that become one mean.")] = 12,
    head: Annotated[int, typer.Option(min=0, max=_MOST, help="Means cut from the beginning of a job.")] = 5,
    tail: Annotated[int, typer.Option(min=0, max=_MOST, help="Means cut from its end.")] = 5,
    stationary: Annotated[float, typer.Option(min=0.0, help="Threshold of window means.")] = 0.1,
    constant: Annotated[float, typer.Option(min=0.0, help="Threshold of the deviation.")] = 0.1,
    periodic: Annotated[float, typer.Option(min=0.0, help="Threshold of spectral density.")] = 1.0,
    least: Annotated[
        float | None, typer.Option(help="Power that counts as 0 (W).", show_default="the least")
    ] = None,
    most: Annotated[
        float | None, typer.Option(help="Power that counts as 1 (W).", show_default="the most")
    ] = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write a row a job into this new file.")] = None,
    steps: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv|.parquet",
            help="Write the jobs' power over time into this new file, for workload.power of a run.",
        ),
    ] = None,
) -> None:
    """Classify jobs by their power over time (Zrigui 2021, ch. 7).

    Constant, periodic, aperiodic, or non-stationary: samples become means of twelve, head, tail and outliers
    are left out, all is scaled by the least and the largest power, and three tests decide. Jobs of which
    samples are missing are not judged. Where the file has a column class, it is said how many are right.

    mlsim learn energy samples.csv --csv classes.csv --steps steps.csv
    """
    from mlsim.cli.newfiles import new_files
    from mlsim.errors import InputError
    from mlsim.learning.energy import (
        Cleaning,
        Tree,
        classify,
        cleaned,
        power_steps,
        read_samples,
        write_steps,
    )

    for name, value in (("--least", least), ("--most", most)):
        if value is not None and not math.isfinite(value):
            raise InputError(f"{name}: {value}; allowed: a number of watts")
    if steps is not None and steps.suffix not in _STEPS:
        raise InputError(f"--steps: {steps}; allowed: names that end with {' or '.join(_STEPS)}")
    cleaning = Cleaning(group, head, tail)
    tree = Tree(stationary=stationary, constant=constant, periodic=periodic, least=least, most=most)
    targets = [path for path in (csv, steps) if path is not None]
    with new_files(targets) as parts:  # before samples are read: whether they can be written shows at once
        measured = read_samples(file)
        jobs = {job: cleaned(samples.power, cleaning) for job, samples in measured.samples.items()}
        missing = {job for job, samples in measured.samples.items() if not samples.complete}
        found = classify(jobs, tree, missing)
        for path, part in zip(targets, parts, strict=True):
            if path is csv:
                _write_classes(part, found)
            else:
                shapes = {job: power_steps(measured.samples[job], found[job], cleaning) for job in found}
                known = {job: shape for job, shape in shapes.items() if shape is not None}
                write_steps(part, known, parquet=path.suffix == ".parquet")
    _print(found)
    if measured.known:
        _print_known(measured.known, found)
    for path in targets:
        print(f"Written: {path}")


def _print(found: Mapping[str, Profile]) -> None:
    from collections import Counter

    from mlsim.learning.energy import EnergyClass

    counts = Counter(profile.kind for profile in found.values())
    for kind in EnergyClass:
        print(f"{kind:<15} {counts[kind]:>8,}  {100 * counts[kind] / max(len(found), 1):5.1f} %")


def _print_known(known: Mapping[str, str], found: Mapping[str, Profile]) -> None:
    """Print which classes were taken for which, and how many jobs are right."""
    from collections import Counter

    pairs = Counter((known[job], str(found[job].kind)) for job in known)
    kinds = list(dict.fromkeys(kind for pair in pairs for kind in pair))
    print("\n" + " " * 18 + "".join(f"{kind:>16}" for kind in kinds) + "  <- found")
    for kind in dict.fromkeys(known.values()):
        print(f"{kind:<18}" + "".join(f"{pairs[kind, other]:>16,}" for other in kinds))
    right = sum(n for (one, other), n in pairs.items() if one == other)
    print(f"right: {right:,} of {len(known):,}, {100 * right / len(known):.1f} %")


def _write_classes(part: Path, found: Mapping[str, Profile]) -> None:
    """Write a row a job."""
    from dataclasses import asdict

    import polars as pl

    pl.DataFrame([{"job_id": job} | asdict(profile) for job, profile in found.items()]).write_csv(part)


def profiles(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE.csv", help="The new file.", show_default=False)
    ],
    each: Annotated[int, typer.Option(min=1, help="Jobs of each class.")] = 100,
    shortest: Annotated[float, typer.Option(min=60.0, max=_YEAR, help="Least time of a job (s).")] = 1800.0,
    longest: Annotated[float, typer.Option(min=60.0, max=_YEAR, help="Most time of a job (s).")] = 86_400.0,
    noise: Annotated[
        float,
        typer.Option(
            min=0.0, max=10.0, help="Deviation of a sample's noise, as share of the range of power."
        ),
    ] = 0.05,
    seed: Annotated[int, typer.Option(min=0, help="Of all draws.")] = 0,
) -> None:
    """Make energy profiles of known classes, on which `mlsim learn energy` and its thresholds are tried.

    A sample each 5 s, with phases of initialising and finishing, noise and outliers.

    mlsim learn profiles -o samples.csv --each 20
    """
    from mlsim.cli.newfiles import new_files
    from mlsim.errors import InputError
    from mlsim.learning.energy import MadeProfiles, made_profiles, write_samples

    if longest < shortest:
        raise InputError(f"--longest: {longest:g}; allowed: --shortest ({shortest:g}) or more")
    made = MadeProfiles(each, shortest, longest, noise=noise, seed=seed)
    with new_files([out]) as (part,):
        write_samples(part, made_profiles(made))
    print(f"Written: {out}")
