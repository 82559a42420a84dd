"""``mlsim learn policies``: who is delayed by which policy, over the runs of a study."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlsim.cli.learn.options import Jobs, Out

if TYPE_CHECKING:
    from mlsim.learning.delays import Samples

__all__ = ["policies"]


def policies(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY", help="Directory with study.yaml, or such a file, of runs.", show_default=False
        ),
    ],
    reference: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Results of others to show beside: log, policy, a ratio; policy premature for shares.",
        ),
    ] = None,
    jobs: Jobs = None,
    out: Out = None,
) -> None:
    """Say who is delayed by which policy, over the runs of a study (Zrigui 2021, §4.3).

    Premature jobs ask for a hundred times of what they run, or more. Printed are their share in each log
    (Table 4.1), and for each combination of the study, in the mean of its repetitions, their mean bounded
    slowdown divided by that of the others (Table 4.2), shares of jobs by bounded slowdown (Fig. 4.3), the
    processors of the hundred most delayed jobs (Fig. 4.2), and the share of backfilled ones (Fig. 4.4).
    With --out, pictures of these, and of means week by week (Fig. 4.1).

    mlsim learn policies scenarios/studies/resampled --reference scenarios/studies/resampled/source.csv
    """
    import polars as pl

    from mlsim.cli.learn.progress import show_rows
    from mlsim.cli.learn.reference import results_of_others
    from mlsim.errors import InputError
    from mlsim.experiment.study import load_study
    from mlsim.learning.delays import (
        DELAYS,
        delays_of_study,
        log_axes,
        means_of,
        policy_axis,
        premature_of_study,
    )
    from mlsim.learning.parts import parts_in, write_tables

    study = load_study(path)
    shown = {axis.name: list(axis.points) for axis in study.axes if axis.name != study.repetitions}
    axes, source = list(shown), {}
    log_at = policy_at = 0
    if reference is not None:
        if not axes:
            raise InputError(f"{study.source}: vary: missing; --reference needs logs and policies that vary")
        log_at, policy_at = axes.index(log_axes(study)[0]), axes.index(policy_axis(study))
        known = {"log": shown[axes[log_at]], "policy": ["premature", *shown[axes[policy_at]]]}
        source = results_of_others(reference, known)
    with parts_in(out, "learn policies", study.name, jobs) as parts:
        logs: list[dict[str, object]] = [
            dict(zip(log_axes(study), labels, strict=True))
            | {"premature %": found[0], "jobs": int(found[1]), "mean run time (s)": found[2]}
            | ({"source": source.get((labels[0], "premature"), "")} if source else {})
            for labels, found in premature_of_study(study, parts).items()
        ]
        samples = delays_of_study(study, parts)
        rows: list[dict[str, object]] = [
            dict(zip(axes, labels, strict=True))
            | dict(zip(DELAYS, means_of(runs).tolist(), strict=True))
            | (
                {"source: premature to standard": source.get((labels[log_at], labels[policy_at]), "")}
                if source
                else {}
            )
            for labels, runs in samples.items()
        ]
        show_rows("Premature jobs of the logs", logs)
        show_rows("Who is delayed", rows)
        if out is not None:
            tables = {"premature.csv": logs, "delays.csv": rows}
            write_tables(out, {name: pl.DataFrame(some).write_csv() for name, some in tables.items()})
            _draw(out, samples, study.trim)
    if out is not None:
        print(f"Written: {out}")


def _draw(out: Path, samples: Samples, trim: int) -> None:
    """Write all pictures, one after the other."""
    from mlsim import _matplotlib

    _matplotlib.load()
    from mlsim.analysis.plots.style import write_picture
    from mlsim.learning.delay_pictures import delay_pictures

    for name, draw in delay_pictures(samples, trim).items():
        write_picture(draw(), out / f"{name}.png")
