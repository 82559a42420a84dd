"""``mlsim learn function``: policies of one's own, found as F1 to F4 were."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlsim.cli.learn.options import weeks_of_option

__all__ = ["function"]

_WEEKS = "workload.select.weeks"


def function(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The scenario.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE.py", help="The new file of policies.", show_default=False),
    ],
    train: Annotated[
        str | None,
        typer.Option(metavar="A-B", help="Weeks to learn from.", show_default="all"),
    ] = None,
    sets: Annotated[int, typer.Option(min=1, help="Sets of jobs.")] = 100,
    tasks: Annotated[int, typer.Option(min=2, help="Jobs of a set in random orders.")] = 32,
    initial: Annotated[int, typer.Option(min=0, help="Jobs before them.")] = 16,
    trials: Annotated[int, typer.Option(min=1, help="Random orders of a set.")] = 1024,
    keep: Annotated[int, typer.Option(min=1, max=484, help="Functions to keep, the nearest.")] = 4,
    seed: Annotated[int, typer.Option(min=0, help="Of sets and orders.")] = 0,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a value of the scenario.")
    ] = None,
) -> None:
    """Find functions of a job that order the queue well, by regression over trials (SC 2017: F1 to F4).

    Sets of jobs of the log, which workload.weeks cuts into weeks, are served in random orders; a job's score
    is what slowdowns are when it goes first. 484 functions of estimate, processors and submit time are
    fitted. The file has a policy for each of the best: batch.policy: ./FILE.py:Learned1.

    mlsim learn function scenarios/studies/mixed/sdsc-sp2.yaml --train 28-64 -o learned.py
    """
    from mlsim.cli.learn.progress import weeks_done
    from mlsim.cli.newfiles import new_files
    from mlsim.errors import InputError
    from mlsim.experiment.weekly import weeks_of
    from mlsim.learning.functions import Trials, as_policy, fit_functions, run_trials
    from mlsim.scenario import load, parse_overrides

    if trials < tasks:
        raise InputError(
            f"--trials: {trials}; allowed: at least --tasks ({tasks}), so that each job is first once"
        )
    if out.suffix != ".py":
        raise InputError(f"--out: {out}; allowed: a name that ends with .py, as files of policies do")
    given = parse_overrides(overrides or [])
    if train is not None:
        weeks_of_option("train", train)
        if _WEEKS in given:
            raise InputError(f"--train: {train}, and --set {_WEEKS}: both choose weeks; take one of them out")
        given = {**given, **parse_overrides([f"{_WEEKS}={train}"])}
    scenario = load(file, given)
    tried = Trials(sets, tasks, initial, trials, seed)
    weeks = f", weeks {train}" if train else ""
    of = f"{scenario.name}{weeks}: {sets} sets, {trials} orders each, seed {seed}"
    with new_files([out]) as (part,):  # before the search: whether it can be written shows at once
        with weeks_done() as progress:
            found = fit_functions(*run_trials(weeks_of(scenario), tried, progress), keep)
        part.write_text(as_policy(found, of), encoding="utf-8")
    for number, one in enumerate(found, 1):
        print(f"Learned{number}  error {one.error:.6g}  {one.text.replace('np.', '')}")
    print(f"Written: {out}")
