"""``mlsim workload eurora`` and ``mlsim workload kit``: machines and jobs as published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mlsim.workload.campaigns import SyntheticWorkload

__all__ = ["eurora", "kit"]

Out = Annotated[
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


def eurora(out: Out = None, jobs: Jobs = None, seed: Seed = 0, load: Load = 1.0, calm: Calm = False) -> None:
    """Write jobs like Eurora's, 64 nodes with GPUs or MICs, and a scenario (Galleguillos 2020, §2.1.4)."""
    from mlsim.workload.eurora import MACHINE
    from mlsim.workload.eurora import eurora as make

    _write(make, "Eurora", MACHINE, out, jobs, seed, load, calm)


def kit(out: Out = None, jobs: Jobs = None, seed: Seed = 0, load: Load = 1.0, calm: Calm = False) -> None:
    """Write jobs like those of KIT's ForHLR II, 1,173 nodes, and a scenario (Galleguillos 2020, §6.4)."""
    from mlsim.workload.kit import MACHINE
    from mlsim.workload.kit import kit as make

    _write(make, "KIT ForHLR II", MACHINE, out, jobs, seed, load, calm)


def _write(
    make: Callable[..., SyntheticWorkload],
    title: str,
    machine: str,
    out: Path | None,
    jobs: int | None,
    seed: int,
    load: float,
    calm: bool,
) -> None:
    from mlsim.cli.newfiles import new_files
    from mlsim.scenario.whole.demand import Share, check_memory
    from mlsim.workload.csv_writer import csv_text, write_csv

    _check_suffix(out)
    check_memory("--jobs", [Share("--jobs", f"{jobs or 0:,} jobs", (jobs or 0) * _JOB_BYTES)], "the workload")
    block, header = make(jobs, seed=seed, load=load, calm=calm)
    if out is None:
        print(csv_text(block, header), end="")
        return
    scenario = _scenario_beside(out)
    how = f"seed {seed}, load {load:g}{', calm' if calm else ''}"
    description = f"{len(block)} jobs like those of {title}, made with {how}."
    with new_files([out, scenario]) as (csv, yaml):
        write_csv(csv, block, header)
        yaml.write_text(
            _SCENARIO.format(
                name=scenario.stem, description=description, machine=machine, path=_quoted(out.name)
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
