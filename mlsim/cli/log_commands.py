"""``mlsim workload convert``, ``describe`` and ``predict``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mlsim.cli.command_options import Json, Lenient
from mlsim.cli.cost_commands import profile
from mlsim.cli.derived_commands import esp, eurora, kit, resample, scale
from mlsim.cli.generation_commands import fit, generate
from mlsim.cli.usage_errors import Commands

if TYPE_CHECKING:
    from rich.table import Table

    from mlsim.scenario import WorkloadConfig, WorkloadFormat
    from mlsim.workload import Rates
    from mlsim.workload.log_conversion import Conversion
    from mlsim.workload.log_facts import Description


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
    lenient: Lenient = False,
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
        str | None, typer.Option(metavar="BANDWIDTH", help="Of a link, for Batsim profiles that count bytes.")
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
    json_: Json = False,
) -> None:
    """Convert the workload IN into OUT: SWF, CSV, Parquet or Batsim JSON, compressed or not.

    The log is written as it is, unless --clean or a selection is given.

    mlsim workload convert log.swf.gz month.json --dates 2002-08-01/2002-09-01
    """
    from mlsim.cli.new_files import new_files
    from mlsim.cli.progress import working
    from mlsim.workload.log_conversion import convert as run

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
    from mlsim.workload.log_formats import FORMATS, format_of_name

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
    from mlsim.scenario.amount_types import Amount
    from mlsim.scenario.unit_types import BANDWIDTH, RATE
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


_FORMS = (".png", ".pdf", ".svg")


def describe(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The workload.", show_default=False)],
    other: Annotated[
        Path | None, typer.Argument(metavar="[LOG2]", help="Another, beside it.", show_default=False)
    ] = None,
    from_: Annotated[
        str, typer.Option("--from", metavar="FORMAT", help="Format of the logs; auto: detected by content.")
    ] = "auto",
    lenient: Lenient = False,
    json_: Json = False,
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
    from mlsim.cli.new_files import new_files
    from mlsim.errors import InputError
    from mlsim.workload.log_facts import describe as described
    from mlsim.workload.log_formats import FORMATS

    if picture is not None and picture.suffix.lower() not in _FORMS:
        raise InputError(f"--picture {picture}; allowed: a name that ends in {', '.join(_FORMS)}")
    if from_ not in ("auto", *FORMATS):
        raise InputError(f"--from {from_}; allowed: auto, {', '.join(sorted(FORMATS))}")
    paths = [log] if other is None else [log, other]
    with new_files([] if picture is None else [picture]) as partial:
        logs = [described(path, log_format=from_, lenient=lenient) for path in paths]
        if picture is not None:
            from mlsim.workload.log_facts import draw_page

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
    lenient: Lenient = False,
    json_: Json = False,
) -> None:
    """Compare predictors on the jobs of LOG as they were run: they learn when jobs ended there.

    No queue is simulated. `batch.predictor` of a scenario names the one that a dispatcher uses.
    """
    from mlsim._runtime.work_progress import followed
    from mlsim.analysis.job_metrics import accuracy
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
    from mlsim.errors import InputError
    from mlsim.scenario import Predictor, installed_names
    from mlsim.scenario.plugin_names import PluginKind

    if not given:
        return [word.value for word in Predictor] + list(installed_names("mlsim.predictors"))
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
    from mlsim.analysis.terminal_tables import accuracy_table

    return accuracy_table(rows)


workload = typer.Typer(
    name="workload",
    cls=Commands,
    help="Generate, learn, resample, scale, convert and analyse workloads.",
    no_args_is_help=True,
)
_COMMANDS: dict[str, Callable[..., None]] = {
    "profile": profile,
    "esp": esp,
    "generate": generate,
    "fit": fit,
    "resample": resample,
    "scale": scale,
    "eurora": eurora,
    "kit": kit,
    "predict": predict,
    "convert": convert,
    "describe": describe,
}
for _name, _command in _COMMANDS.items():
    workload.command(_name)(_command)
