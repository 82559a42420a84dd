"""``mlsim workload``: all its commands; here ``convert``, ``describe`` and ``predict``, which read a log."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsim.cli import command_options as cli
from mlsim.cli import workload_commands
from mlsim.cli.command_options import Json, Lenient, Options, argument, flag, option
from mlsim.cli.cost_commands import profile
from mlsim.cli.new_files import new_files
from mlsim.cli.progress import working
from mlsim.cli.terminal import print_json, show
from mlsim.errors import InputError

if TYPE_CHECKING:
    from mlsim.scenario.words import WorkloadFormat
    from mlsim.workload import Rates


_part = partial(option, rich_help_panel="Selection, as workload.select in a scenario")


class _ConvertOptions(Options):
    source: Path = argument("The workload to read.", "IN")
    target: Path = argument("The file to write; must not exist.", "OUT")
    to: str | None = option("swf, csv, parquet or batsim.", "FORMAT", show_default="by the suffix of OUT")
    from_: str = option("Format of IN; auto: detected by content.", "--from", "FORMAT", default="auto")
    lenient: Lenient = False
    clean: bool = flag("Write what a simulation gets: cleaned, in arrival order, from time 0 on.", "--clean")
    speed: str | None = option("Of a processor, for Batsim profiles that count operations.", "SPEED")
    bandwidth: str | None = option("Of a link, for Batsim profiles that count bytes.", "BANDWIDTH")
    warm_up: str | None = _part("Leave out the first jobs.", "TIME", key="warm_up")
    window: str | None = _part("Times after the first job, such as 0:7d.", "START:END")
    weeks: str | None = _part("Weeks, counted from 1.", "K[-L]", key="weeks")
    dates: str | None = _part("Calendar dates; either may be missing.", "START/END")
    most_intensive: str | None = _part("The interval with the most arrivals.", "TIME", key="most_intensive")
    drop_week_crossers: bool = _part(
        "Without jobs that cross a week's edge.", "--drop-week-crossers", default=False
    )
    user: list[str] | None = _part("Jobs of this user; may be repeated.", "USER")
    first: str | None = _part("The first so many jobs.", "N", key="first")
    scale_load: str | None = _part("Divide the times between arrivals by this.", "F", key="scale_load")
    json_: Json = False


def convert(options: _ConvertOptions) -> None:
    """Convert the workload IN into OUT: SWF, CSV, Parquet or Batsim JSON, compressed or not.

    The log is written as it is, unless --clean or a selection is given.

    mlsim workload convert log.swf.gz month.json --dates 2002-08-01/2002-09-01
    """
    from pydantic import ValidationError

    from mlsim.scenario import WorkloadConfig
    from mlsim.workload.derived_logs import convert as converted

    source, target = options.source, options.target
    select: dict[str, Any] = {key: cli.value_of(text) for key, text in options.keys().items()}
    for name, given, mark in (("window", options.window, ":"), ("dates", options.dates, "/")):
        if given is not None:
            start, found, end = (part.strip() for part in given.partition(mark))
            if not found:
                raise InputError(f"--{name} {given}; allowed: START{mark}END")
            select[name] = {"start": start, "end": end}
    if options.dates is not None:  # either may be missing
        select["dates"] = {key: part for key, part in select["dates"].items() if part}
    if options.user:
        select["user"] = [cli.value_of(user) for user in options.user]
    if options.drop_week_crossers:
        select["week_crossers"] = "drop"
    values = {"path": source.name, "format": options.from_, "lenient": options.lenient, "select": select}
    try:
        config = WorkloadConfig.model_validate(values)
    except ValidationError as error:
        names = {"format": "--from", "week_crossers": "--drop-week-crossers"}
        raise cli.option_problems(error, names, skipped="select") from error
    wanted, rates = _format(options.to, target), _rates(options)
    cleaned = options.clean or bool(select)
    with new_files([target]) as (part,), working(f"converting {source.name}"):
        done = converted(config, source, part, wanted, as_simulated=cleaned, rates=rates)
    if options.json_:
        facts = {"read": done.read, "written": done.written, "jobs": done.jobs}
        print_json(facts | {"left_out": done.left_out, "notes": done.notes, "file": str(target)})
        return
    notes = "".join(f", {name} {count}" for name, count in done.notes.items())
    print(f"{target}: {done.jobs:,} jobs, {done.read} to {done.written}{notes}")
    if done.left_out:
        print(f"  left out, as {done.written} has no place for it: {', '.join(done.left_out)}")


def _format(to: str | None, target: Path) -> WorkloadFormat:
    from mlsim.scenario.words import WorkloadFormat
    from mlsim.workload.format_record import SUFFIXES
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


def _rates(options: _ConvertOptions) -> Rates | None:
    from mlsim.scenario.field_types import BANDWIDTH, RATE
    from mlsim.workload import Rates

    if options.speed is None and options.bandwidth is None:
        return None
    rates = []
    for name, text, unit in (("--speed", options.speed, RATE), ("--bandwidth", options.bandwidth, BANDWIDTH)):
        if text is None:
            raise InputError(f"{name}: missing; --speed and --bandwidth go together")
        rates.append(cli.amount(name, text, unit, positive=True))
    return Rates(*rates)


_FORMS = (".png", ".pdf", ".svg")


class _DescribeOptions(Options):
    log: Path = argument("The workload.", "LOG")
    other: Path | None = argument("Another, beside it.", "[LOG2]", default=None)
    from_: str = option("Format of the logs; auto: detected by content.", "--from", "FORMAT", default="auto")
    lenient: Lenient = False
    json_: Json = False
    picture: Path | None = option("Draw a page of pictures (.png, .pdf, .svg); must not exist.", "FILE")


def describe(options: _DescribeOptions) -> None:
    """Describe a log as it is: counts, load, cycles, distributions, users.

    mlsim workload describe log.swf.gz made.swf --picture both.pdf
    """
    from rich import box
    from rich.table import Table

    from mlsim.workload.log_facts import describe as described
    from mlsim.workload.log_formats import FORMATS

    picture, log_format = options.picture, options.from_
    if picture is not None and picture.suffix.lower() not in _FORMS:
        raise InputError(f"--picture {picture}; allowed: a name that ends in {', '.join(_FORMS)}")
    if log_format not in ("auto", *FORMATS):
        raise InputError(f"--from {log_format}; allowed: auto, {', '.join(sorted(FORMATS))}")
    paths = [path for path in (options.log, options.other) if path is not None]
    with new_files([] if picture is None else [picture]) as parts:
        logs = [described(path, log_format=log_format, lenient=options.lenient) for path in paths]
        if picture is not None:
            from mlsim.workload.log_facts import draw_page

            draw_page(parts[0], logs, picture.suffix.lower()[1:])
    if options.json_:
        print_json([each.facts for each in logs])
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("")
    for each in logs:
        table.add_column(each.facts["log"], justify="right", overflow="fold")
    for title, cells in _rows([each.facts for each in logs]):
        table.add_row(title, *cells)
    show(table)


# First lines of the table, by title.
_PLAIN = {
    "jobs": "{jobs:,}",
    "users": "{users:,}",
    "processors": "{processors:,}",
    "first submission": "{first_submission}",
    "last submission": "{last_submission}",
    "days": "{days:,.2f}",
    "offered load": "{load:.3f}",
}
_UNITS = {"run_time": " (s)", "walltime": " (s)", "wait_time": " in the log (s)", "interval": " (s)"}


def _rows(logs: Sequence[dict[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of the table: a title, and a cell for each log."""
    for title, form in _PLAIN.items():
        key = form[1:-1].partition(":")[0]
        yield title, ["-" if each[key] is None else form.format(**each) for each in logs]
    for word in ("completed", "failed", "cancelled", "other"):
        if any(word in each["status"] for each in logs):
            yield f"  {word}", [f"{each['status'].get(word, 0):,}" for each in logs]
    for name in logs[0]["unknown"]:
        if any(each["unknown"][name] for each in logs):
            yield f"  without {name}", [f"{each['unknown'][name]:,}" for each in logs]
    for name, figures in logs[0]["distributions"].items():
        yield f"{name}{_UNITS.get(name, '')}", [""] * len(logs)
        for figure in figures or {"mean": 0}:
            found = [each["distributions"][name] for each in logs]
            yield f"  {figure}", ["-" if each is None else f"{each[figure]:,.6g}" for each in found]
    arrivals = [each["arrivals"] for each in logs]
    busiest = [max(range(24), key=each["by_hour"].__getitem__) for each in arrivals]
    yield "busiest hour of the day", [f"{hour}:00" for hour in busiest]
    weekend = [sum(each["by_weekday"][5:]) / sum(each["by_weekday"]) for each in arrivals]
    yield "arrivals on Sat and Sun", [f"{100 * share:.1f} %" for share in weekend]
    yield "load of the heaviest week", [f"{max(each['weekly_load']):.3f}" for each in logs]
    most = [sum(user["jobs"] for user in each["most_active_users"][:1]) for each in logs]
    shares = [100 * jobs / each["jobs"] for jobs, each in zip(most, logs, strict=True)]
    yield "jobs of the most active user", [f"{share:.1f} %" if share else "-" for share in shares]


class _PredictOptions(Options):
    log: Path = argument("Workload; also looked up in $MLSIM_TRACES.", "LOG")
    predictor: list[str] | None = option(
        "As `mlsim list predictors` names it, or ./file.py:Class; may be repeated.",
        "--predictor",
        "-p",
        "NAME",
        show_default="all",
    )
    lenient: Lenient = False
    json_: Json = False


def predict(options: _PredictOptions) -> None:
    """Compare predictors on the jobs of LOG as they were run: they learn when jobs ended there.

    No queue is simulated. `batch.predictor` of a scenario names the one that a dispatcher uses.
    """
    from mlsim._files import expanded, is_file
    from mlsim._runtime.work_progress import followed
    from mlsim.analysis.job_metrics import accuracy
    from mlsim.batch.predictors.offline import predictions, read_history
    from mlsim.scenario.section_base import installed_names, plugin_name
    from mlsim.scenario.words import Predictor

    log, known = options.log, plugin_name(Predictor, "mlsim.predictors")
    every = [word.value for word in Predictor] + list(installed_names("mlsim.predictors"))
    try:  # as the catalogue spells them
        names = [str(known.parse(name)) for name in options.predictor or ()] or every
    except ValueError as error:
        raise InputError(f"--predictor: {error}") from error
    directories = [Path(name) for name in os.environ.get("MLSIM_TRACES", "").split(os.pathsep) if name]
    places = [log, *(expanded(directory) / log for directory in directories)]
    with working(f"{len(names)} predictors", len(names)) as work:
        history = read_history(next(filter(is_file, places), log), options.lenient)
        run_time = history.jobs.run_time
        rows = {name: accuracy(predictions(history, name), run_time) for name in followed(names, work)}
    if options.json_:
        print_json({"log": str(log), "unknown_waits": history.unknown_waits, "predictors": rows})
        return
    from mlsim.analysis.terminal_tables import accuracy_table

    print(f"{log}: {len(run_time):,} jobs")
    if history.unknown_waits:
        print(f"  {history.unknown_waits:,} of unknown wait, taken as if they had not waited")
    show(accuracy_table(rows))


workload = cli.CommandGroup("workload", "Generate, learn, resample, scale, convert and analyse workloads.")
for command in (
    profile,
    workload_commands.esp,
    workload_commands.generate,
    workload_commands.fit,
    workload_commands.resample,
    workload_commands.scale,
    workload_commands.eurora,
    workload_commands.kit,
    predict,
    convert,
    describe,
):
    workload.command()(command)
