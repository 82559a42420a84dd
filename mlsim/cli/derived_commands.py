"""``mlsim workload esp``, ``eurora``, ``kit``, ``resample`` and ``scale``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlsim.cli.command_options import Lenient, Log
from mlsim.cli.generation_commands import Out, write_made

if TYPE_CHECKING:
    from mlsim.workload.derived_logs import Scaled


# As mlsim.workload has them: importing that takes longer than printing a help text may.
class Application(StrEnum):
    """The application of the jobs."""

    PSIA = "psia"
    MANDELBROT = "mandelbrot"


class Calibration(StrEnum):
    """The source of the run times."""

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
    from mlsim.cli.generation_commands import read_factors
    from mlsim.cli.new_files import new_files
    from mlsim.workload.csv_log import csv_text, write_csv
    from mlsim.workload.esp_workload import EspApplication, EspCalibration
    from mlsim.workload.esp_workload import esp as make

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


MachineOut = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="CSV file to write; a scenario goes beside it, with .yaml. Neither may exist.",
        show_default="the jobs to standard output",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(metavar="N", help="Jobs; time in proportion.", show_default="as many as published"),
]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.", min=0)]
Load = Annotated[float, typer.Option(metavar="F", help="Factor of the arrival rate.")]
Calm = Annotated[
    bool, typer.Option("--calm", help="Jobs that hardly ever queue, not in the bursts of the thesis' queues.")
]

_JOB_BYTES = 200

_SCENARIO = """\
name: {name}
description: {description}
{machine}workload:
  path: {path}
  mapping: core
batch:
  policy: FCFS
  backfill: easy
  on_overrun: extend
"""


def eurora(
    out: MachineOut = None, jobs: Jobs = None, seed: Seed = 0, load: Load = 1.0, calm: Calm = False
) -> None:
    """Write jobs like Eurora's, 64 nodes with GPUs or MICs, and a scenario (Galleguillos 2020, §2.1.4)."""
    _write("eurora", out, jobs, seed, load, calm)


def kit(
    out: MachineOut = None, jobs: Jobs = None, seed: Seed = 0, load: Load = 1.0, calm: Calm = False
) -> None:
    """Write jobs like those of KIT's ForHLR II, 1,173 nodes, and a scenario (Galleguillos 2020, §6.4)."""
    _write("forhlr2", out, jobs, seed, load, calm)


def _write(machine: str, out: Path | None, jobs: int | None, seed: int, load: float, calm: bool) -> None:
    from mlsim.cli.new_files import new_files
    from mlsim.scenario.simulation_demand import Share, check_memory
    from mlsim.workload.campaigns import machine_jobs
    from mlsim.workload.csv_log import csv_text, write_csv
    from mlsim.workload.job_mix import read_mix

    _check_suffix(out)
    check_memory("--jobs", [Share("--jobs", f"{jobs or 0:,} jobs", (jobs or 0) * _JOB_BYTES)], "the workload")
    block, header = machine_jobs(machine, jobs, seed=seed, load=load, calm=calm)
    if out is None:
        print(csv_text(block, header), end="")
        return
    scenario = _scenario_beside(out)
    how = f"seed {seed}, load {load:g}{', calm' if calm else ''}"
    mix = read_mix(machine)
    description = f"{len(block)} jobs like those of {mix.title}, made with {how}."
    with new_files([out, scenario]) as (csv, yaml):
        write_csv(csv, block, header)
        yaml.write_text(
            _SCENARIO.format(
                name=scenario.stem, description=description, machine=mix.scenario, path=_quoted(out.name)
            ),
            encoding="utf-8",
        )
    days = float(block.submit_time[-1]) / 86400.0
    print(f"{out}: {len(block):,} jobs in {days:,.1f} days")
    print(f"{scenario}: scenario")


def _check_suffix(out: Path | None) -> None:
    from mlsim.errors import InputError

    if out is not None and ".csv" not in out.suffixes[-2:]:
        raise InputError(
            f"--out {out}: allowed: a name that ends in .csv, or .csv.gz, .csv.bz2, .csv.xz, .csv.zst"
        )


def _scenario_beside(out: Path) -> Path:
    """Return the file's name with .yaml in place of .csv and a suffix of compression."""
    return out.with_name(out.name[: out.name.rindex(".csv")] + ".yaml")


def _quoted(name: str) -> str:
    """Write a file's name as YAML, whatever is in it."""
    import json

    return json.dumps(name, ensure_ascii=False)


def resample(
    log: Log,
    out: Out,
    weeks: Annotated[int, typer.Option(metavar="N", help="How many weeks.", show_default=False)],
    by: Annotated[
        str,
        typer.Option(metavar="user|week", help="Whether every user has a week drawn, or all the same one."),
    ] = "user",
    seed: Annotated[int, typer.Option(help="Seed of the draws.", min=0)] = 0,
    lenient: Lenient = False,
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


def scale(
    log: Log,
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
    lenient: Lenient = False,
) -> None:
    """Scale LOG to another load, or to another machine.

    mlsim workload scale log.swf.gz --load 0.9 -o busy.swf
    """
    from mlsim.workload import scale as scaled

    made = scaled(log, by=by, factor=factor, load=load, processors=processors, seed=seed, lenient=lenient)
    jobs = write_made(out, made)
    print(f"{out}: {jobs:,} jobs, {made.by} scaled by {made.factor:.4g}{_loads(made)}")


def _loads(made: Scaled) -> str:
    """Return the offered load before and after as text; empty where the machine is unknown."""
    from mlsim.errors import InputError
    from mlsim.workload.derived_logs import machine_scaled, offered_load

    try:
        before = made.processors
    except InputError:
        return ""
    after = machine_scaled(before, made.factor) if made.by == "machine" else before
    loads = [offered_load(each.blocks(), size) for each, size in ((made.log, before), (made, after))]
    return f"; load {loads[0]:.3f} of {before:,} processors -> {loads[1]:.3f} of {after:,}"
