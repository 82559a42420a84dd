"""``mlsim check`` and ``mlsim schema``: whether a scenario is right, and what is allowed."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from mlsim.cli.options import Overrides, ScenarioFile

__all__ = ["check", "schema"]


class Promise(StrEnum):
    """Promises of backfilling; see ``mlsim.verify``."""

    EASY = "easy"
    CONSERVATIVE = "conservative"


def check(
    file: ScenarioFile,
    set_: Overrides = None,
    resolved: Annotated[
        bool, typer.Option("--resolved", help="Print the scenario with every default filled in.")
    ] = False,
    plugins: Annotated[
        bool,
        typer.Option(
            "--plugins", help="Execute the code that FILE names: make its classes, compile its techniques."
        ),
    ] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print what was found in FILE as JSON.")] = False,
    laws: Annotated[
        bool,
        typer.Option(
            "--laws",
            help="Of a run: judge its schedule as well, from its tables alone: capacity, drains, power cap, "
            "licences, arrivals, walltimes, the promise of its backfilling.",
        ),
    ] = False,
    promise: Annotated[
        Promise | None,
        typer.Option(
            help="With --laws: judge this promise whatever dispatcher made the schedule, as one of your own.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Check FILE, and that the files it names are there and can be read, without simulating.

    Code that it names is parsed, and not executed unless --plugins is given. If FILE is the directory of
    a run, say which of its files are damaged, missing or not of the run.
    """
    from mlsim.cli.results import check_results, hold_results
    from mlsim.errors import InputError

    if promise is not None and not laws:
        raise InputError(f"--promise {promise} is judged with --laws; give both")
    if hold_results(file):
        check_results(file, options=bool(set_) or resolved or plugins or json_)
        if laws:
            from mlsim.cli.laws import check_laws

            check_laws(file, promise)
        return
    if laws:
        raise InputError(f"{file}: --laws judges runs; give the directory of one, which `mlsim run` writes")
    from mlsim.cli.values import settings
    from mlsim.cosim import survey
    from mlsim.experiment.writers import check_writers
    from mlsim.scenario import dump, load, parse_overrides, plain

    scenario = load(file, parse_overrides(settings(set_, file)))
    found = survey(scenario, plugins)
    check_writers(scenario, plugins)
    if json_:
        found_words = {
            "schema_version": 1,
            "file": str(file),
            "nodes": found.nodes,
            "cores": found.cores,
            "largest_request": found.largest,
            "jobs": found.jobs,
            "notes": dict(found.notes),
            "misfits": {
                reason: {"jobs": count, "first": ids} for reason, (count, ids) in found.misfits.items()
            },
        }
        if resolved:
            found_words["scenario"] = plain(scenario)
        print(json.dumps(found_words, indent=2))
        return
    if resolved:
        print(dump(scenario), end="")
        return
    print(f"{file}: ok")
    print(
        f"  platform: {found.nodes} nodes, {found.cores} cores; a job may ask for {found.largest} processors"
    )
    if found.jobs is None:
        print(f"  workload: not read; --plugins executes {scenario.workload.format}, which reads it")
        return
    print(f"  workload: {found.jobs} jobs" + "".join(f", {k} {v}" for k, v in found.notes.items()))
    _print_misfits(found.misfits)


def _print_misfits(misfits: dict[str, tuple[int, list[int]]], most: int = 10) -> None:
    """Print which jobs the machine cannot hold, and why."""
    from mlsim.cli.run import ids_of

    if not misfits:
        return
    counts = [count for count, _ in misfits.values()]
    print(f"  {sum(counts)} jobs can never start, and a run rejects them:")
    for reason, (count, ids) in list(misfits.items())[:most]:
        print(f"    {ids_of(ids, count)}: {reason}")
    if len(misfits) > most:
        print(f"    {sum(counts[most:])} more jobs, for {len(misfits) - most} more reasons; --json has all")


class FileKind(StrEnum):
    """What a YAML file is for."""

    SCENARIO = "scenario"
    LOOP = "loop"
    STUDY = "study"


def schema(
    kind: Annotated[
        FileKind | None,
        typer.Argument(
            help="Which files: loop is what mlsim loop and mlsim mpi run read, study what mlsim study. "
            "Default: scenario.",
            show_default=False,
        ),
    ] = None,
    for_: Annotated[
        FileKind | None, typer.Option("--for", help="The same, as an option.", show_default=False)
    ] = None,
) -> None:
    """Print the JSON schema of scenario files, or of loops or studies, for editors."""
    from mlsim.errors import InputError
    from mlsim.experiment.schemas import schema_of

    if kind is not None and for_ is not None and kind != for_:
        raise InputError(f"mlsim schema {kind} --for {for_}: give one of them")
    print(json.dumps(schema_of((kind or for_ or FileKind.SCENARIO).value), indent=2))
