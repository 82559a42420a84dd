"""``mlsim workload esp``: write the ESP workload as CSV."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Application", "Calibration", "esp"]


# As mlsim.workload has them: importing that takes longer than printing a help text may.
class Application(StrEnum):
    """What the jobs execute."""

    PSIA = "psia"
    MANDELBROT = "mandelbrot"


class Calibration(StrEnum):
    """What the run times are made from."""

    TARGET = "target"
    NONE = "none"


def esp(
    application: Annotated[Application, typer.Option(help="What the jobs execute.", show_default=False)],
    nodes: Annotated[
        int, typer.Option(help="Nodes of the machine; the sizes of the jobs follow.", metavar="N")
    ] = 256,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="File to write; must not exist.",
            show_default="standard output",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the order of arrivals and of estimates.", min=0)] = 0,
    initial: Annotated[int, typer.Option(help="Jobs that are there at time 0.", metavar="JOBS")] = 50,
    interval: Annotated[
        float, typer.Option(help="Seconds between the arrivals of the others.", metavar="SECONDS")
    ] = 30.0,
    calibrate: Annotated[
        Calibration,
        typer.Option(
            help="Run times: target: ESP's own; none: those of the table's images or limits, at one cost."
        ),
    ] = Calibration.TARGET,
    fixed_g: Annotated[
        bool, typer.Option("--fixed-g", help="Mandelbrot: a limit of 10 M for category G, printed as 1 M.")
    ] = False,
    estimate_factor: Annotated[
        str,
        typer.Option(metavar="F[:G]", help="Estimate / run time; two of them: drawn between for each job."),
    ] = "1.0",
) -> None:
    """Write the ESP workload: 230 loops of PSIA or Mandelbrot (Wong et al. 2000; Eleliemy 2021, §6.3)."""
    from mlsim.cli.newfiles import new_files
    from mlsim.cli.workload.factors import read_factors
    from mlsim.workload.csv_writer import csv_text, write_csv
    from mlsim.workload.esp import EspApplication, EspCalibration
    from mlsim.workload.esp import esp as make

    jobs, header = make(
        EspApplication(application),
        nodes,
        seed=seed,
        initial=initial,
        interval=interval,
        fixed_g=fixed_g,
        calibrate=EspCalibration(calibrate),
        estimate_factor=read_factors("--estimate-factor", estimate_factor),
    )
    if out is None:
        print(csv_text(jobs, header), end="")
        return
    with new_files([out]) as (partial,):
        write_csv(partial, jobs, header)
    work = float((jobs.run_time * jobs.processors).sum())
    print(
        f"{out}: {len(jobs)} jobs, ideally {work:,.0f} node-seconds, {work / nodes:,.0f} s on {nodes} nodes"
    )
