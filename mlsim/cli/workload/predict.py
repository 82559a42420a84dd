"""``mlsim workload predict``: how near each predictor comes to the run times of a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["predict"]


def predict(
    log: Annotated[
        Path,
        typer.Argument(metavar="LOG", help="Workload; also looked up in $MLSIM_TRACES.", show_default=False),
    ],
    predictor: Annotated[
        list[str] | None,
        typer.Option(
            "--predictor",
            "-p",
            metavar="NAME",
            help="As `mlsim list predictors` names it, or ./file.py:Class; may be repeated.",
            show_default="all",
        ),
    ] = None,
    lenient: Annotated[bool, typer.Option("--lenient", help="Skip broken lines.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print the table as JSON, times in seconds.")] = False,
) -> None:
    """Compare predictors on the jobs of LOG as they were run: they learn when jobs ended there.

    No queue is simulated. `batch.predictor` of a scenario names the one that a dispatcher uses.
    """
    from mlsim._progress import followed
    from mlsim.analysis.metrics import accuracy
    from mlsim.batch.predictors.offline import predictions, read_history
    from mlsim.cli.progress import working

    names = _names(predictor)
    with working(f"{len(names)} predictors", len(names)) as work:
        history = read_history(_found(log), lenient)
        run_time = history.jobs.run_time
        rows = {name: accuracy(predictions(history, name), run_time) for name in followed(names, work)}
    if json_:
        facts = {"log": str(log), "unknown_waits": history.unknown_waits, "predictors": rows}
        print(json.dumps(facts, indent=2))
        return
    from rich.console import Console

    print(f"{log}: {len(run_time):,} jobs")
    if history.unknown_waits:
        print(f"  {history.unknown_waits:,} of unknown wait, taken as if they had not waited")
    Console().print(_table(rows))


def _names(given: list[str] | None) -> list[str]:
    """Return the names of the predictors as the catalogue spells them."""
    from mlsim.batch.predictors import PREDICTORS
    from mlsim.errors import InputError
    from mlsim.scenario import Predictor, installed_names
    from mlsim.scenario.values.plugins import PluginKind

    if not given:
        return [str(entry.name) for entry in PREDICTORS] + list(installed_names("mlsim.predictors"))
    try:
        return [str(PluginKind(Predictor, "mlsim.predictors").parse(name)) for name in given]
    except ValueError as error:
        raise InputError(f"--predictor: {error}") from error


def _found(log: Path) -> Path:
    """Find the log where it is named, or in a directory of $MLSIM_TRACES."""
    import os

    from mlsim._files import expanded, is_file

    directories = [Path(name) for name in os.environ.get("MLSIM_TRACES", "").split(os.pathsep) if name]
    places = [log, *(expanded(directory) / log for directory in directories)]
    return next((place for place in places if is_file(place)), log)


def _table(rows: dict[str, dict[str, Any]]) -> Table:
    from mlsim.analysis.report import accuracy_table

    return accuracy_table(rows)
