"""``mlsim workload generate``: write a workload drawn from a published model."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mlsim.workload.jobs import JobBlock

__all__ = ["Kinds", "Model", "generate"]


class Model(StrEnum):
    """The models."""

    LUBLIN = "lublin"


# As mlsim.workload.models.lublin has them: importing that takes longer than printing a help text may.
class Kinds(StrEnum):
    """The kinds of jobs of a workload."""

    BOTH = "both"
    BATCH = "batch"
    INTERACTIVE = "interactive"
    TYPELESS = "typeless"


def generate(
    model: Annotated[Model, typer.Argument(help="lublin: Lublin and Feitelson 2003.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="SWF file to write (.swf, also with .gz, .bz2, .xz or .zst behind it); must not exist.",
            show_default=False,
        ),
    ],
    jobs: Annotated[int | None, typer.Option(metavar="N", help="How many jobs.")] = None,
    days: Annotated[
        float | None,
        typer.Option(metavar="D", help="Jobs of so many days; with --jobs: of the first of them."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.", min=0)] = 0,
    processors: Annotated[
        int, typer.Option(metavar="P", help="Processors of the machine; the sizes of jobs follow.")
    ] = 128,
    kinds: Annotated[
        Kinds, typer.Option(help="Which jobs; typeless: parameters of all jobs together.")
    ] = Kinds.BOTH,
    estimates: Annotated[
        str,
        typer.Option(metavar="F[:G]", help="Walltime / run time; two of them: drawn between for each job."),
    ] = "1",
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KIND.NAME=VALUE", help="Another value of a parameter, e.g. batch.aarr=7."
        ),
    ] = None,
) -> None:
    """Write a workload drawn from a published model, as SWF; its header says how it was made.

    mlsim workload generate lublin --jobs 100000 --seed 1 -o lublin.swf
    """
    from mlsim.cli.newfiles import new_files
    from mlsim.cli.workload.factors import read_factors
    from mlsim.errors import InputError
    from mlsim.scenario import WorkloadFormat
    from mlsim.workload.formats import format_of_name
    from mlsim.workload.models.lublin import Kinds as JobKinds
    from mlsim.workload.models.lublin import Lublin
    from mlsim.workload.named import log_of
    from mlsim.workload.swf_writer import write_swf_blocks

    if format_of_name(out) is not WorkloadFormat.SWF:
        raise InputError(
            f"{out}: generated workloads are written as SWF; give a name that ends in .swf. "
            "mlsim workload convert makes other formats of it"
        )
    models = {Model.LUBLIN: Lublin}
    made = models[model](
        JobKinds(kinds),
        processors=processors,
        changed=_changes(set_ or []),
        seed=seed,
        estimate_factor=read_factors("--estimates", estimates),
    )
    blocks = made.blocks(jobs, days=days)
    count = _Count()
    with new_files([out]) as (partial,):
        write_swf_blocks(partial, made.header, (log_of(count.seen(block)).numbered() for block in blocks))
        if not count.jobs:
            raise InputError(f"--days {days:g}: no job comes in this time; allowed: a longer one")
    load = count.work / (processors * count.end) if count.end else float("nan")
    days_long = count.end / 86400
    print(f"{out}: {count.jobs:,} jobs in {days_long:,.2f} days, load {load:.3f} of {processors} processors")


class _Count:
    """Counts jobs as they pass."""

    def __init__(self) -> None:
        self.jobs = 0
        self.work = 0.0
        self.end = 0.0

    def seen(self, block: JobBlock) -> JobBlock:
        """Count the jobs of a block."""
        self.jobs += len(block)
        self.work += float((block.run_time * block.processors).sum())
        self.end = float(block.submit_time[-1])
        return block


def _changes(texts: list[str]) -> dict[str, dict[str, float]]:
    from mlsim.errors import InputError

    changed: dict[str, dict[str, float]] = {}
    for text in texts:
        key, _, value = text.partition("=")
        kind, _, name = key.strip().partition(".")
        try:
            if not name:
                raise ValueError
            changed.setdefault(kind, {})[name] = float(value)
        except ValueError as error:
            raise InputError(f"--set {text}; allowed: KIND.NAME=VALUE, such as batch.aarr=7") from error
    return changed
