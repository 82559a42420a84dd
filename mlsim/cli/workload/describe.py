"""``mlsim workload describe``: what a log holds, alone or beside another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mlsim.workload.describing.facts import Description

__all__ = ["describe"]

_FORMS = (".png", ".pdf", ".svg")


def describe(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The workload.", show_default=False)],
    other: Annotated[
        Path | None, typer.Argument(metavar="[LOG2]", help="Another, beside it.", show_default=False)
    ] = None,
    from_: Annotated[
        str, typer.Option("--from", metavar="FORMAT", help="Format of the logs; auto: detected by content.")
    ] = "auto",
    lenient: Annotated[bool, typer.Option("--lenient", help="Skip and count broken lines.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="Print all facts as JSON.")] = False,
    picture: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw a page of pictures (.png, .pdf, .svg); must not exist.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Describe a log as it is: counts, load, cycles, distributions, users.

    mlsim workload describe log.swf.gz made.swf --picture both.pdf
    """
    from mlsim.cli.newfiles import new_files
    from mlsim.errors import InputError
    from mlsim.workload.describing.facts import describe as described
    from mlsim.workload.formats import FORMATS

    if picture is not None and picture.suffix.lower() not in _FORMS:
        raise InputError(f"--picture {picture}; allowed: a name that ends in {', '.join(_FORMS)}")
    if from_ not in ("auto", *FORMATS):
        raise InputError(f"--from {from_}; allowed: auto, {', '.join(sorted(FORMATS))}")
    paths = [log] if other is None else [log, other]
    with new_files([] if picture is None else [picture]) as partial:
        logs = [described(path, log_format=from_, lenient=lenient) for path in paths]
        if picture is not None:
            from mlsim.workload.describing.picture import draw_page

            draw_page(partial[0], logs, picture.suffix.lower()[1:])
    if json_:
        print(json.dumps([each.facts for each in logs], indent=2, allow_nan=False))
        return
    _print(logs)


def _print(logs: Sequence[Description]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    for each in logs:
        table.add_column(each.facts["log"], justify="right", overflow="fold")
    for title, *cells in _rows([each.facts for each in logs]):
        table.add_row(title, *cells)
    Console().print(table)


def _rows(logs: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return the lines of the table: a title, and a cell for each log."""
    rows: list[tuple[str, ...]] = []

    def put(title: str, key: str, form: str = "{}") -> None:
        cells = [each[key] for each in logs]
        rows.append((title, *("-" if cell is None else form.format(cell) for cell in cells)))

    put("jobs", "jobs", "{:,}")
    put("users", "users", "{:,}")
    put("processors", "processors", "{:,}")
    put("first submission", "first_submission")
    put("last submission", "last_submission")
    put("days", "days", "{:,.2f}")
    put("offered load", "load", "{:.3f}")
    for word in ("completed", "failed", "cancelled", "other"):
        if any(word in each["status"] for each in logs):
            rows.append((f"  {word}", *(f"{each['status'].get(word, 0):,}" for each in logs)))
    for name in logs[0]["unknown"]:
        if any(each["unknown"][name] for each in logs):
            rows.append((f"  without {name}", *(f"{each['unknown'][name]:,}" for each in logs)))
    for name, figures in logs[0]["distributions"].items():
        rows.append((f"{name}{_UNITS.get(name, '')}", *[""] * len(logs)))
        for figure in figures or {"mean": 0}:
            found = [each["distributions"][name] for each in logs]
            rows.append((f"  {figure}", *("-" if each is None else f"{each[figure]:,.6g}" for each in found)))
    busiest = [int(max(range(24), key=each["arrivals"]["by_hour"].__getitem__)) for each in logs]
    rows.append(("busiest hour of the day", *(f"{hour}:00" for hour in busiest)))
    weekend = [sum(each["arrivals"]["by_weekday"][5:]) / sum(each["arrivals"]["by_weekday"]) for each in logs]
    rows.append(("arrivals on Sat and Sun", *(f"{100 * share:.1f} %" for share in weekend)))
    heaviest = [max(each["weekly_load"]) for each in logs]
    rows.append(("load of the heaviest week", *(f"{load:.3f}" for load in heaviest)))
    first = [each["most_active_users"][:1] for each in logs]
    shares = [
        f"{100 * some[0]['jobs'] / each['jobs']:.1f} %" if some else "-"
        for some, each in zip(first, logs, strict=True)
    ]
    rows.append(("jobs of the most active user", *shares))
    return rows


_UNITS = {"run_time": " (s)", "walltime": " (s)", "wait_time": " in the log (s)", "interval": " (s)"}
