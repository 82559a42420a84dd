"""``mlsim workload fit``: a model learned from a log."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["fit"]


def fit(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The workload to read.", show_default=False)],
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
    lenient: Annotated[bool, typer.Option("--lenient", help="Skip broken lines.")] = False,
) -> None:
    """Learn from LOG when jobs come, how large they are and how much they compute (AccaSim's generator).

    mlsim workload fit log.swf.gz -o model.json; mlsim workload generate model.json --jobs 500000 -o new.swf
    """
    from mlsim.cli.newfiles import new_files
    from mlsim.errors import InputError
    from mlsim.workload import fit as learned
    from mlsim.workload.models.learned import is_model_file

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
