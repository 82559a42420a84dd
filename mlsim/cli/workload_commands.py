"""``mlsim workload``: commands that make a workload, from a model, of a log, or like that of a machine."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from mlsim import workload
from mlsim.cli import command_options as cli
from mlsim.cli.command_options import Lenient, Log, Options, argument, flag, option, output
from mlsim.cli.command_output import new_files, working
from mlsim.errors import InputError
from mlsim.scenario import field_types
from mlsim.scenario.simulation_demand import Share, check_memory
from mlsim.scenario.words import EstimateModel, WorkloadModel
from mlsim.workload import (
    Rates,
    arriving_workflows,
    campaigns,
    csv_log,
    derived_logs,
    esp_workload,
    job_mix,
    log_formats,
    workload_jobs,
)
from mlsim.workload.generated_jobs import Made
from mlsim.workload.models.accasim_generator import is_model_file

Out = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="File to write (.swf, .csv or .parquet, also with .gz, .bz2, .xz or .zst behind it); "
        "must not exist.",
    ),
]


def _write_made(out: Path, made: Made) -> int:
    """Write a workload to a file that is not there; return how many jobs it has."""
    log_formats.check_format(out)
    with new_files([out]) as (partial,):
        return made.write(partial)


def _factors(name: str, text: str, others: str = "") -> tuple[float, float]:
    """Read FACTOR or LOW:HIGH; ``others``: allowed words, for the message."""
    low, colon, high = text.partition(":")
    try:
        return float(low), float(high if colon else low)
    except ValueError as error:
        raise InputError(f"{name} {text}; allowed: FACTOR or LOW:HIGH, such as 1.5 or 1:3{others}") from error


# As mlsim.scenario and mlsim.workload have them: importing these takes longer than printing a help text may.
Kinds = Literal["both", "batch", "interactive", "typeless"]
Application = Literal["psia", "mandelbrot"]
Calibration = Literal["target", "none"]


class _GenerateOptions(Options):
    model: str = argument(
        "lublin (Lublin and Feitelson 2003), poisson, weibull, model.json (made by mlsim workload "
        "fit), ./file.py:Name, or an installed one; "
        "mlsim list workloads shows them.",
        "MODEL",
    )
    out: Out
    jobs: int | None = option("How many jobs.", "N")
    days: float | None = option("Jobs of so many days; with --jobs: of the first of them.", "D")
    seed: int = option("Seed of all random numbers.", default=0, min=0)
    processors: int | None = option(
        "Of the machine; the sizes of jobs follow.", "P", show_default="128, or as model.json says"
    )
    nodes: int | None = option("Of the machine, in place of --processors.", "N", min=1)
    cores: int = option("Processors of a node, with --nodes.", "C", default=1, min=1)
    load: float | None = option(
        "Offered load, reached by one factor on all times between arrivals.", "L", show_default="the model's"
    )
    kinds: Kinds = option("Which jobs of lublin; typeless: parameters of all jobs together.", default="both")
    estimates: str | None = option(
        "Walltimes: run times; 20 popular values (Tsafrir et al. 2005); or run times by a "
        "factor, or by one drawn between two.",
        "perfect|tsafrir|F[:G]",
        show_default="perfect, or as a model of your own says",
    )
    max_estimate: str | None = option(
        "Largest walltime, with --estimates tsafrir.", "TIME", show_default="longest run time in whole hours"
    )
    request: list[str] | None = option(
        "A resource's amount per unit, drawn for each job, e.g. gpu=1:2@0.25 (in a quarter of the jobs) or "
        "memory=1GB:8GB; for CSV and Parquet.",
        "--request",
        "NAME=LOW:HIGH[@SHARE]",
    )
    processors_per_unit: int = option(
        "With --request: most processors of a unit; larger sizes become multiples.", "N", default=1, min=1
    )
    gflops: list[str] | None = option(
        "Of a model.json: speed of one of a requested resource, e.g. gpu=933; the work of jobs is the log's.",
        "--gflops",
        "NAME=G",
    )
    set_: list[str] | None = option("Another value of a parameter, e.g. batch.aarr=7.", "--set", "NAME=VALUE")


def _by_name(texts: list[str] | None) -> dict[str, str]:
    """Return the values of options NAME=VALUE."""
    return {name.strip(): value.strip() for name, _, value in (text.partition("=") for text in texts or ())}


def _parameters(texts: list[str], own: bool, lublin: bool) -> dict[str, Any]:
    """Return the values of --set; those of a model of the user's own may be other than numbers."""
    parameters: dict[str, Any] = {}
    for text in texts:
        key, _, value = (part.strip() for part in text.partition("="))
        try:
            if not key or not value or ("." not in key and lublin):
                raise ValueError
            parameters[key] = cli.value_of(value) if own else float(value)
        except ValueError as error:
            form = "KIND.NAME=VALUE, such as batch.aarr=7" if lublin else "NAME=VALUE"
            raise InputError(f"--set {text}; allowed: {form}") from error
    return parameters


def generate(options: _GenerateOptions) -> None:
    """Write a workload that a model draws, as SWF, CSV or Parquet; its header says how it was made.

    mlsim workload generate lublin --jobs 100000 --seed 1 --load 0.8 -o lublin.swf
    """
    model, out, days, processors = options.model, options.out, options.days, options.processors
    if processors is not None and options.nodes is not None:
        raise InputError("--processors and --nodes: given together; give one of them")
    if options.nodes is None and options.cores != 1:
        raise InputError("--cores: needs --nodes; give --nodes, or --processors alone")
    if options.nodes is not None:
        processors = options.nodes * options.cores
    log_formats.check_format(out)
    own, lublin = model not in list(WorkloadModel), model == WorkloadModel.LUBLIN
    estimates: str | tuple[float, float] | None = options.estimates
    if estimates in list(EstimateModel):
        estimates = EstimateModel(estimates)
    elif options.estimates is not None:
        estimates = _factors("--estimates", options.estimates, f", {' or '.join(EstimateModel)}")
    requests, speeds = _by_name(options.request), _by_name(options.gflops)
    try:
        gflops = {name: float(text) for name, text in speeds.items()}
    except ValueError:
        raise InputError("--gflops: allowed: NAME=G, GFLOP/s of one, such as gpu=933") from None
    if requests and ".swf" in out.suffixes:
        raise InputError(f"--request: SWF has no requests for resources, and the file is {out}; write CSV")
    made = workload.generate(
        model,
        jobs=options.jobs,
        days=days,
        processors=processors,
        nodes=options.nodes,
        seed=options.seed,
        load=options.load,
        estimates=estimates,
        max_estimate=cli.time_of("--max-estimate", options.max_estimate),
        kinds=options.kinds,
        parameters=_parameters(options.set_ or [], own, lublin),
        requests=requests,
        gflops=gflops,
        processors_per_unit=options.processors_per_unit,
    )
    jobs, area, end = 0, 0.0, 0.0

    def counted() -> Iterator[workload.JobBlock]:
        nonlocal jobs, area, end
        for block in made.blocks():
            jobs += len(block)
            area += float((block.run_time * block.processors).sum())
            end = float(block.submit_time[-1])
            yield block
            work.done = end if options.jobs is None else jobs

    length = made.plan.end if options.jobs is None else options.jobs
    with working(f"generating {out.name}", length) as work, new_files([out]) as (partial,):
        log_formats.write_blocks(partial, made.header, map(workload_jobs.log_of, counted()))
        if not jobs:
            if days is None:
                raise InputError(f"{model}: draws no job")
            raise InputError(f"--days {days:g}: no job comes in this time; allowed: a longer one")
    machine = made.plan.processors
    load = area / (machine * end) if end else float("nan")
    print(f"{out}: {jobs:,} jobs in {end / 86400:,.2f} days, load {load:.3f} of {machine} processors")
    if made.plan.load is not None:
        print(
            f"  times between arrivals are the model's x {made.stretch:.4g}, and a day of its cycle lasts "
            f"{24 * made.stretch:.4g} h; sizes, run times, walltimes and the order of jobs are the model's"
        )


class _FitOptions(Options):
    log: Log
    out: Path = output("File to write; must not exist.", "MODEL.json", default=cli.REQUIRED)
    gflops: float = option("Speed of a processor in GFLOP/s: work is counted in FLOP.", "G", default=1.0)
    processors: int | None = option("Of the log's machine.", "P", show_default="as its header says", min=1)
    lenient: Lenient = False


def fit(options: _FitOptions) -> None:
    """Learn from LOG when jobs come, how large they are and how much they compute (AccaSim's generator).

    mlsim workload fit log.swf.gz -o model.json; mlsim workload generate model.json --jobs 500000 -o new.swf
    """
    out = options.out
    if not is_model_file(out.name):
        raise InputError(
            f"{out}: allowed: a name that ends in .json, by which mlsim workload generate knows it"
        )
    with new_files([out]) as (partial,), working(f"learning from {options.log.name}"):
        model = workload.fit(
            options.log, gflops=options.gflops, processors=options.processors, lenient=options.lenient
        )
        partial.write_text(model.text())
    print(
        f"{out}: learned of {model.jobs:,} jobs: {model.serial:.1%} serial, "
        f"{len(model.sizes)} sizes of parallel ones"
    )


class _ResampleOptions(Options):
    log: Log
    out: Out
    weeks: int = option("How many weeks.", "N", default=cli.REQUIRED)
    by: str = option("Whether every user has a week drawn, or all the same one.", "user|week", default="user")
    seed: int = option("Seed of the draws.", default=0, min=0)
    lenient: Lenient = False


def resample(options: _ResampleOptions) -> None:
    """Make a workload of the weeks of LOG, drawn at random for each user (Zrigui 2021, Algorithm 2).

    Kept are jobs, with weekday and hour, and the mean load of each user; not kept are dependencies.

    mlsim workload resample log.swf.gz --weeks 52 --seed 1 -o another-year.swf
    """
    weeks = options.weeks
    with working(f"resampling {options.log.name}"):
        made = workload.resample(
            options.log, weeks=weeks, by=options.by, seed=options.seed, lenient=options.lenient
        )
        jobs = _write_made(options.out, made)
    drawn = f"drawn from {made.source_weeks:,} whole weeks by {made.by}"
    print(f"{options.out}: {jobs:,} jobs in {weeks:,} weeks, {drawn}")


class _CombineOptions(Options):
    sources: list[Path] = argument("Workflows, in WfFormat or any other format with dependencies.", "IN...")
    out: Out
    at: list[str] | None = option("When a copy arrives; may be repeated.", "TIME")
    every: str | None = option("Mean time between arrivals, which are drawn (exponential).", "TIME")
    count: int | None = option("How many arrive, with --every.", "N", min=1, show_default="one of each IN")
    seed: int = option("Seed of the draws.", default=0, min=0)
    transfers: str | None = option(
        "Add the time in which tasks of WfFormat read and write their files.", "BANDWIDTH"
    )


def combine(options: _CombineOptions) -> None:
    """Write a log of several workflows that arrive at given or drawn times, those of IN in turn.

    Each copy has jobs of its own; the column workflow has the number of the copy and the name.

    mlsim workload combine montage.json blast.json --every 10min --count 40 --seed 1 -o arrivals.csv
    """
    if (options.at is None) == (options.every is None) or (options.at and options.count is not None):
        raise InputError(
            "give the times of arrival by --at, once for each, or draw them by --every and --count"
        )
    if options.every is not None:
        mean = cli.amount("--every", options.every, field_types.TIME, positive=True)
        count = options.count or len(options.sources)
        arrivals = arriving_workflows.drawn_arrivals(count, mean, options.seed).tolist()
    else:
        arrivals = [cli.amount("--at", text, field_types.TIME) for text in options.at or ()]
    rates = None
    if options.transfers is not None:
        files = cli.amount("--transfers", options.transfers, field_types.BANDWIDTH, positive=True)
        rates = Rates(files=files)
    to = log_formats.check_format(options.out)
    with new_files([options.out]) as (partial,), working(f"combining {len(arrivals):,} workflows"):
        jobs = arriving_workflows.write_workflows(options.sources, arrivals, partial, to, rates)
    last = f"the last one arrives at {max(arrivals):,.10g} s"
    print(f"{options.out}: {jobs:,} jobs, workflows: {len(arrivals):,}, {last}")


class _ScaleOptions(Options):
    log: Log
    out: Out
    by: str = option(
        "What is multiplied: times between arrivals (sizes and run times are kept), run times and "
        "walltimes (arrivals are), users (all jobs are, others are added), or the machine and the sizes "
        "of jobs (the load is).",
        "arrivals|run-times|users|machine",
        default="arrivals",
    )
    factor: float | None = option("Factor of the load, or of the machine.", "F")
    load: float | None = option("Offered load, in place of a factor.", "L")
    processors: int | None = option(
        "Of the log's machine, for the load.", "P", show_default="as its header says"
    )
    seed: int = option("Seed of the draws of users.", default=0, min=0)
    lenient: Lenient = False


def scale(options: _ScaleOptions) -> None:
    """Scale LOG to another load, or to another machine.

    mlsim workload scale log.swf.gz --load 0.9 -o busy.swf
    """
    given = dict(vars(options))
    out: Path = given.pop("out")
    with working(f"scaling {options.log.name}"):
        made = workload.scale(given.pop("log"), **given)
        jobs = _write_made(out, made)
        try:
            before = made.processors
        except InputError:  # the machine is unknown
            loads = ""
        else:
            after = derived_logs.machine_scaled(before, made.factor) if made.by == "machine" else before
            first, last = (
                derived_logs.offered_load(made.log.blocks(), before),
                derived_logs.offered_load(made.blocks(), after),
            )
            loads = f"; load {first:.3f} of {before:,} processors -> {last:.3f} of {after:,}"
    print(f"{out}: {jobs:,} jobs, {made.by} scaled by {made.factor:.4g}{loads}")


class _EspOptions(Options):
    application: Application = option("What the jobs execute.", default=cli.REQUIRED)
    nodes: int = option("Nodes of the machine; the sizes of the jobs follow.", "N", default=256)
    out: Path | None = output("File to write; must not exist.", "FILE", show_default="standard output")
    seed: int = option("Seed of the order of arrivals and of estimates.", default=0, min=0)
    initial: int = option("Jobs that are there at time 0.", "JOBS", default=50)
    interval: float = option("Seconds between the arrivals of the others.", "SECONDS", default=30.0)
    calibrate: Calibration = option(
        "Run times: target: ESP's own; none: those of the table's images or limits, at one cost.",
        default="target",
    )
    fixed_g: bool = flag("Mandelbrot: a limit of 10 M for category G, printed as 1 M.", "--fixed-g")
    estimate_factor: str = option(
        "Estimate / run time; two of them: drawn between for each job.", "F[:G]", default="1.0"
    )


def esp(options: _EspOptions) -> None:
    """Write the ESP workload: 230 loops of PSIA or Mandelbrot (Wong et al. 2000; Eleliemy 2021, §6.3)."""
    out, nodes = options.out, options.nodes
    jobs, header = esp_workload.esp(
        esp_workload.EspApplication(options.application),
        nodes,
        seed=options.seed,
        initial=options.initial,
        interval=options.interval,
        fixed_g=options.fixed_g,
        calibrate=esp_workload.EspCalibration(options.calibrate),
        estimate_factor=_factors("--estimate-factor", options.estimate_factor),
    )
    if out is None:
        print(csv_log.csv_text(jobs, header), end="")
        return
    with new_files([out]) as (partial,):
        csv_log.write_csv(partial, jobs, header)
    work = float((jobs.run_time * jobs.processors).sum())
    print(
        f"{out}: {len(jobs)} jobs, ideally {work:,.0f} node-seconds, {work / nodes:,.0f} s on {nodes} nodes"
    )


class _MachineOptions(Options):
    out: Path | None = output(
        "CSV file to write; a scenario goes beside it, with .yaml. Neither may exist.",
        "FILE",
        show_default="the jobs to standard output",
    )
    jobs: int | None = option("Jobs; time in proportion.", "N", show_default="as many as published")
    seed: int = option("Seed of all random numbers.", default=0, min=0)
    load: float = option("Factor of the arrival rate.", "F", default=1.0)
    calm: bool = flag("Jobs that hardly ever queue, not in the bursts of the thesis' queues.", "--calm")


def eurora(options: _MachineOptions) -> None:
    """Write jobs like Eurora's, 64 nodes with GPUs or MICs, and a scenario (Galleguillos 2020, §2.1.4)."""
    _write_machine("eurora", options)


def kit(options: _MachineOptions) -> None:
    """Write jobs like those of KIT's ForHLR II, 1,173 nodes, and a scenario (Galleguillos 2020, §6.4)."""
    _write_machine("forhlr2", options)


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


def _write_machine(machine: str, options: _MachineOptions) -> None:
    out, jobs, load = options.out, options.jobs or 0, options.load
    if out is not None and ".csv" not in out.suffixes[-2:]:
        raise InputError(
            f"--out {out}: allowed: a name that ends in .csv, or .csv.gz, .csv.bz2, .csv.xz, .csv.zst"
        )
    check_memory("--jobs", [Share("--jobs", f"{jobs:,} jobs", jobs * _JOB_BYTES)], "the workload")
    block, header = campaigns.machine_jobs(
        machine, options.jobs, seed=options.seed, load=load, calm=options.calm
    )
    if out is None:
        print(csv_log.csv_text(block, header), end="")
        return
    scenario = out.with_name(out.name[: out.name.rindex(".csv")] + ".yaml")
    how = f"seed {options.seed}, load {load:g}{', calm' if options.calm else ''}"
    mix = job_mix.read_mix(machine)
    text = _SCENARIO.format(
        name=scenario.stem,
        description=f"{len(block)} jobs like those of {mix.title}, made with {how}.",
        machine=mix.scenario,
        path=json.dumps(out.name, ensure_ascii=False),  # YAML, whatever is in the name
    )
    with new_files([out, scenario]) as (csv, yaml):
        csv_log.write_csv(csv, block, header)
        yaml.write_text(text, encoding="utf-8")
    days = float(block.submit_time[-1]) / 86400.0
    print(f"{out}: {len(block):,} jobs in {days:,.1f} days")
    print(f"{scenario}: scenario")
