"""``mlsim workload generate`` and ``fit``."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlsim.cli.command_options import Lenient, Log

if TYPE_CHECKING:
    from mlsim.workload.generated_jobs import Generated, Made
    from mlsim.workload.workload_jobs import JobBlock


def read_factors(option: str, text: str) -> tuple[float, float]:
    """Read FACTOR or LOW:HIGH."""
    from mlsim.errors import InputError

    low, colon, high = text.partition(":")
    try:
        return float(low), float(high if colon else low)
    except ValueError as error:
        raise InputError(f"{option} {text}; allowed: FACTOR or LOW:HIGH, such as 1.5 or 1:3") from error


Out = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        metavar="FILE",
        help="File to write (.swf, .csv or .parquet, also with .gz, .bz2, .xz or .zst behind it); "
        "must not exist.",
        show_default=False,
    ),
]
"""The option that names the file."""


def write_made(out: Path, made: Made) -> int:
    """Write a workload to a file that is not there; return how many jobs it has."""
    from mlsim.cli.new_files import new_files
    from mlsim.cli.progress import working
    from mlsim.workload.log_formats import check_format

    check_format(out)
    with new_files([out]) as (partial,), working(f"writing {out.name}"):
        return made.write(partial)


# As mlsim.scenario.JobKinds has them: importing that takes longer than printing a help text may.
class Kinds(StrEnum):
    """The kinds of jobs of a workload."""

    BOTH = "both"
    BATCH = "batch"
    INTERACTIVE = "interactive"
    TYPELESS = "typeless"


def generate(
    model: Annotated[
        str,
        typer.Argument(
            help="lublin (Lublin and Feitelson 2003), poisson, weibull, model.json (made by mlsim workload "
            "fit), ./file.py:Name, or an installed one; "
            "mlsim list workloads shows them.",
            show_default=False,
        ),
    ],
    out: Out,
    jobs: Annotated[int | None, typer.Option(metavar="N", help="How many jobs.")] = None,
    days: Annotated[
        float | None,
        typer.Option(metavar="D", help="Jobs of so many days; with --jobs: of the first of them."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.", min=0)] = 0,
    processors: Annotated[
        int | None,
        typer.Option(
            metavar="P",
            help="Of the machine; the sizes of jobs follow.",
            show_default="128, or as model.json says",
        ),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option(metavar="N", help="Of the machine, in place of --processors.", min=1)
    ] = None,
    cores: Annotated[int, typer.Option(metavar="C", help="Processors of a node, with --nodes.", min=1)] = 1,
    load: Annotated[
        float | None,
        typer.Option(
            metavar="L",
            help="Offered load, reached by one factor on all times between arrivals.",
            show_default="the model's",
        ),
    ] = None,
    kinds: Annotated[
        Kinds, typer.Option(help="Which jobs of lublin; typeless: parameters of all jobs together.")
    ] = Kinds.BOTH,
    estimates: Annotated[
        str | None,
        typer.Option(
            metavar="perfect|tsafrir|F[:G]",
            help="Walltimes: run times; 20 popular values (Tsafrir et al. 2005); or run times by a "
            "factor, or by one drawn between two.",
            show_default="perfect, or as a model of your own says",
        ),
    ] = None,
    max_estimate: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Largest walltime, with --estimates tsafrir.",
            show_default="longest run time in whole hours",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Another value of a parameter, e.g. batch.aarr=7."),
    ] = None,
) -> None:
    """Write a workload that a model draws, as SWF, CSV or Parquet; its header says how it was made.

    mlsim workload generate lublin --jobs 100000 --seed 1 --load 0.8 -o lublin.swf
    """
    from mlsim._runtime.work_progress import followed
    from mlsim.cli.new_files import new_files
    from mlsim.cli.progress import working
    from mlsim.errors import InputError
    from mlsim.workload.generated_jobs import generate as generated
    from mlsim.workload.log_formats import check_format, write_blocks
    from mlsim.workload.workload_jobs import log_of

    if processors is not None and nodes is not None:
        raise InputError("--processors and --nodes: given together; give one of them")
    if nodes is None and cores != 1:
        raise InputError("--cores: needs --nodes; give --nodes, or --processors alone")
    if nodes is not None:
        processors = nodes * cores
    check_format(out)
    made = generated(
        model,
        jobs=jobs,
        days=days,
        processors=processors,
        nodes=nodes,
        seed=seed,
        load=load,
        estimates=None if estimates is None else _estimates(estimates),
        max_estimate=None if max_estimate is None else _time("--max-estimate", max_estimate),
        kinds=kinds,
        parameters=_changes(model, set_ or []),
    )
    count = _Count()
    with new_files([out]) as (partial,), working(f"writing {out.name}", jobs) as work:
        blocks = followed(count.of(made.blocks()), work, len)
        write_blocks(partial, made.header, map(log_of, blocks))
        if not count.jobs:
            if days is None:
                raise InputError(f"{model}: draws no job")
            raise InputError(f"--days {days:g}: no job comes in this time; allowed: a longer one")
    _report(out, made, count)


class _Count:
    """Counts jobs as they pass."""

    def __init__(self) -> None:
        self.jobs = 0
        self.work = 0.0
        self.end = 0.0

    def of(self, blocks: Iterator[JobBlock]) -> Iterator[JobBlock]:
        """Yield the blocks and count their jobs."""
        for block in blocks:
            self.jobs += len(block)
            self.work += float((block.run_time * block.processors).sum())
            self.end = float(block.submit_time[-1])
            yield block


def _report(out: Path, made: Generated, count: _Count) -> None:
    processors = made.plan.processors
    load = count.work / (processors * count.end) if count.end else float("nan")
    print(
        f"{out}: {count.jobs:,} jobs in {count.end / 86400:,.2f} days, "
        f"load {load:.3f} of {processors} processors"
    )
    if made.plan.load is not None:
        print(
            f"  times between arrivals are the model's x {made.stretch:.4g}, and a day of its cycle lasts "
            f"{24 * made.stretch:.4g} h; sizes, run times, walltimes and the order of jobs are the model's"
        )


def _estimates(text: str) -> str | tuple[float, float]:
    from mlsim.errors import InputError
    from mlsim.scenario import EstimateModel

    try:
        return EstimateModel(text)
    except ValueError:
        pass
    try:
        return read_factors("--estimates", text)
    except InputError as error:
        raise InputError(f"{error}, {' or '.join(EstimateModel)}") from error


def _time(option: str, text: str) -> float:
    from mlsim.errors import InputError
    from mlsim.scenario import parse_override
    from mlsim.scenario.amount_types import Amount
    from mlsim.scenario.unit_types import TIME

    try:
        return float(Amount(TIME, positive=True).parse(parse_override(f"value={text}")[1]))
    except ValueError as error:
        raise InputError(f"{option}: {error}") from error


def _changes(model: str, texts: list[str]) -> dict[str, Any]:
    from mlsim.errors import InputError
    from mlsim.scenario import WorkloadModel, parse_override

    own = model not in list(WorkloadModel)
    form = "KIND.NAME=VALUE, such as batch.aarr=7" if model == WorkloadModel.LUBLIN else "NAME=VALUE"
    changed: dict[str, Any] = {}
    for text in texts:
        key, _, value = (part.strip() for part in text.partition("="))
        try:
            if not key or not value or ("." not in key and model == WorkloadModel.LUBLIN):
                raise ValueError
            changed[key] = parse_override(f"value={value}")[1] if own else float(value)
        except ValueError as error:
            raise InputError(f"--set {text}; allowed: {form}") from error
    return changed


def fit(
    log: Log,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="MODEL.json", help="File to write; must not exist.", show_default=False
        ),
    ],
    gflops: Annotated[
        float, typer.Option(metavar="G", help="Speed of a processor in GFLOP/s: work is counted in FLOP.")
    ] = 1.0,
    processors: Annotated[
        int | None,
        typer.Option(metavar="P", help="Of the log's machine.", show_default="as its header says", min=1),
    ] = None,
    lenient: Lenient = False,
) -> None:
    """Learn from LOG when jobs come, how large they are and how much they compute (AccaSim's generator).

    mlsim workload fit log.swf.gz -o model.json; mlsim workload generate model.json --jobs 500000 -o new.swf
    """
    from mlsim.cli.new_files import new_files
    from mlsim.errors import InputError
    from mlsim.workload import fit as learned
    from mlsim.workload.models.accasim_generator import is_model_file

    if not is_model_file(out.name):
        raise InputError(
            f"{out}: allowed: a name that ends in .json, by which mlsim workload generate knows it"
        )
    model = learned(log, gflops=gflops, processors=processors, lenient=lenient)
    with new_files([out]) as (partial,):
        partial.write_text(model.text())
    print(
        f"{out}: learned of {model.jobs:,} jobs: {model.serial:.1%} serial, "
        f"{len(model.sizes)} sizes of parallel ones"
    )
