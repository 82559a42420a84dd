"""``mlsim workload convert``: a workload in another format, whole or a part of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mlsim.scenario import WorkloadConfig, WorkloadFormat
    from mlsim.workload import Rates
    from mlsim.workload.convert import Conversion

__all__ = ["convert"]

_PART = "Selection, as workload.select in a scenario"


def _part(metavar: str, text: str) -> Any:
    return typer.Option(metavar=metavar, help=text, rich_help_panel=_PART, show_default=False)


def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help="The workload to read.", show_default=False)],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="The file to write; must not exist.", show_default=False)
    ],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT", help="swf, csv, parquet or batsim.", show_default="by the suffix of OUT"
        ),
    ] = None,
    from_: Annotated[
        str, typer.Option("--from", metavar="FORMAT", help="Format of IN; auto: detected by content.")
    ] = "auto",
    lenient: Annotated[bool, typer.Option("--lenient", help="Skip and count broken lines.")] = False,
    clean: Annotated[
        bool,
        typer.Option(
            "--clean", help="Write what a simulation gets: cleaned, in arrival order, from time 0 on."
        ),
    ] = False,
    speed: Annotated[
        str | None,
        typer.Option(metavar="SPEED", help="Of a processor, for Batsim profiles that count operations."),
    ] = None,
    bandwidth: Annotated[
        str | None,
        typer.Option(metavar="BANDWIDTH", help="Of a link, for Batsim profiles that count bytes."),
    ] = None,
    warm_up: Annotated[str | None, _part("TIME", "Leave out the first jobs.")] = None,
    window: Annotated[str | None, _part("START:END", "Times after the first job, such as 0:7d.")] = None,
    weeks: Annotated[str | None, _part("K[-L]", "Weeks, counted from 1.")] = None,
    dates: Annotated[str | None, _part("START/END", "Calendar dates; either may be missing.")] = None,
    most_intensive: Annotated[str | None, _part("TIME", "The interval with the most arrivals.")] = None,
    drop_week_crossers: Annotated[
        bool,
        typer.Option(
            "--drop-week-crossers", help="Without jobs that cross a week's edge.", rich_help_panel=_PART
        ),
    ] = False,
    user: Annotated[list[str] | None, _part("USER", "Jobs of this user; may be repeated.")] = None,
    first: Annotated[str | None, _part("N", "The first so many jobs.")] = None,
    scale_load: Annotated[str | None, _part("F", "Divide the times between arrivals by this.")] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Convert the workload IN into OUT: SWF, CSV, Parquet or Batsim JSON, compressed or not.

    The log is written as it is, unless --clean or a selection is given.

    mlsim workload convert log.swf.gz month.json --dates 2002-08-01/2002-09-01
    """
    from mlsim.cli.newfiles import new_files
    from mlsim.cli.progress import working
    from mlsim.workload.convert import convert as run

    texts = {
        "warm_up": warm_up,
        "weeks": weeks,
        "most_intensive": most_intensive,
        "first": first,
        "scale_load": scale_load,
    }
    select = {key: _value(text) for key, text in texts.items() if text is not None}
    if window is not None:
        select["window"] = _pair("window", window, ":")
    if dates is not None:
        select["dates"] = {key: part for key, part in _pair("dates", dates, "/").items() if part}
    if user:
        select["user"] = [_value(name) for name in user]
    if drop_week_crossers:
        select["week_crossers"] = "drop"
    config = _config({"path": source.name, "format": from_, "lenient": lenient, "select": select})
    wanted = _format(to, target)
    rates = _rates(speed, bandwidth)
    with new_files([target]) as (partial,), working(f"converting {source.name}"):
        done = run(config, source, partial, wanted, as_simulated=clean or bool(select), rates=rates)
    _report(done, target, json_)


def _value(text: str) -> Any:
    from mlsim.scenario import parse_override

    return parse_override(f"value={text}")[1]


def _pair(option: str, text: str, mark: str) -> dict[str, Any]:
    from mlsim.errors import InputError

    start, found, end = text.partition(mark)
    if not found:
        raise InputError(f"--{option} {text}; allowed: START{mark}END")
    return {"start": start.strip(), "end": end.strip()}


def _config(values: dict[str, Any]) -> WorkloadConfig:
    from pydantic import ValidationError

    from mlsim.errors import InputError
    from mlsim.scenario import WorkloadConfig

    try:
        return WorkloadConfig.model_validate(values)
    except ValidationError as error:
        raise InputError("\n".join(_problem(detail) for detail in error.errors())) from error


def _problem(detail: Any) -> str:
    """Write one problem of the section as one of the command's options."""
    keys = [str(part) for part in detail["loc"] if part != "select"]
    option = {"format": "from", "week_crossers": "drop-week-crossers"}.get(keys[0], keys[0])
    inner = f"{'.'.join(keys[1:])}: " if len(keys) > 1 else ""
    return f"--{option.replace('_', '-')}: {inner}{detail.get('ctx', {}).get('text', detail['msg'])}"


def _format(to: str | None, target: Path) -> WorkloadFormat:
    from mlsim.errors import InputError
    from mlsim.scenario import WorkloadFormat
    from mlsim.workload.compression import SUFFIXES
    from mlsim.workload.formats import FORMATS, format_of_name

    formats = [word for word in WorkloadFormat if word in FORMATS and FORMATS[word].can_be_written]
    if to is not None:
        named = next((word for word in formats if word == to.casefold()), None)
        if named is None:
            raise InputError(f"--to {to}; allowed: {', '.join(formats)}")
        return named
    by_name = format_of_name(target)
    if by_name is None:
        raise InputError(
            f"{target}: its suffix names no format; give --to with one of {', '.join(formats)}, "
            f"or a suffix: {', '.join(FORMATS[word].suffix for word in formats)}, each also with "
            f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} behind it"
        )
    return by_name


def _rates(speed: str | None, bandwidth: str | None) -> Rates | None:
    from mlsim.errors import InputError
    from mlsim.scenario.values.amounts import Amount
    from mlsim.scenario.values.units import BANDWIDTH, RATE
    from mlsim.workload import Rates

    if speed is None and bandwidth is None:
        return None
    given = []
    for option, text, dimension in (("speed", speed, RATE), ("bandwidth", bandwidth, BANDWIDTH)):
        if text is None:
            raise InputError(f"--{option}: missing; --speed and --bandwidth go together")
        try:
            given.append(Amount(dimension, positive=True).parse(_value(text)))
        except ValueError as error:
            raise InputError(f"--{option}: {error}") from error
    return Rates(*given)


def _report(done: Conversion, target: Path, as_json: bool) -> None:
    if as_json:
        facts = {"read": done.read, "written": done.written, "jobs": done.jobs}
        facts |= {"left_out": done.left_out, "notes": done.notes, "file": str(target)}
        print(json.dumps(facts, indent=2))
        return
    notes = "".join(f", {name} {count}" for name, count in done.notes.items())
    print(f"{target}: {done.jobs:,} jobs, {done.read} to {done.written}{notes}")
    if done.left_out:
        print(f"  left out, as {done.written} has no place for it: {', '.join(done.left_out)}")
