"""``mlsim workload convert``: logs, runs, and loops measured in programs, in another format."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mlsim._files import is_directory, is_file
from mlsim.cli import command_options as cli
from mlsim.cli.command_options import Json, Lenient, Options, argument, flag, option
from mlsim.cli.command_output import new_files, print_json, working
from mlsim.errors import InputError
from mlsim.experiment.result_directories import complete_or_gone
from mlsim.scenario import WorkloadConfig, field_types
from mlsim.scenario.words import WorkloadFormat
from mlsim.workload import Rates, derived_logs, format_record, lb4omp_times, measured_loops
from mlsim.workload.log_formats import FORMATS, format_of_name
from mlsim.workload.run_log import JOBS_FILE

_MEASURED = ("otf2", "lb4omp")  # Words for --from besides formats of logs
_part = partial(option, rich_help_panel="Selection, as workload.select in a scenario")


class _ConvertOptions(Options):
    source: Path = argument("A log, a run, an OTF2 trace, or a file of LB4OMP.", "IN")
    target: Path = argument("The file or directory to write; must not exist.", "OUT")
    to: str | None = option(
        "swf, csv, parquet, batsim, wfformat, or run: a workload directory.",
        "FORMAT",
        show_default="by the suffix of OUT; run without one",
    )
    from_: str = option(
        "Format of IN, also otf2 or lb4omp; auto: detected by content.", "--from", "FORMAT", default="auto"
    )
    lenient: Lenient = False
    clean: bool = flag("Write what a simulation gets: cleaned, in arrival order, from time 0 on.", "--clean")
    speed: str | None = option("Of a processor, for Batsim profiles that count operations.", "SPEED")
    bandwidth: str | None = option("Of a link, for Batsim profiles that count bytes.", "BANDWIDTH")
    transfers: str | None = option(
        "Add the time in which the tasks of a workflow read and write their files.", "BANDWIDTH"
    )
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
    """Convert the workload IN into OUT: SWF, CSV, Parquet, Batsim JSON, or a workload directory.

    The log is written as it is, unless --clean or a selection is given. Of a run the jobs are written as they
    were submitted. OTF2 traces of OpenMP programs (Score-P, lo2s) and loop times of LB4OMP (KMP_TIME_LOOPS)
    become a workload directory with one job per parallel loop.

    mlsim workload convert log.swf.gz month.json --dates 2002-08-01/2002-09-01
    """
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
    wanted, rates = _format(options.to, target), _rates(options)
    cleaned = options.clean or bool(select)
    measured = _measured_kind(source, options.from_)
    if measured is not None:
        _convert_loops(options, measured, plain=wanted is WorkloadFormat.RUN and not cleaned)
        return
    values = {"path": source.name, "format": options.from_, "lenient": options.lenient, "select": select}
    try:
        config = WorkloadConfig.model_validate(values)
    except ValidationError as error:
        names = {"format": "--from", "week_crossers": "--drop-week-crossers"}
        raise cli.option_problems(error, names, skipped="select") from error
    with _new(target, wanted) as part, working(f"converting {source.name}"):
        done = derived_logs.convert(config, source, part, wanted, as_simulated=cleaned, rates=rates)
    _report(options, {key: getattr(done, key) for key in ("read", "written", "jobs", "left_out", "notes")})


def _report(options: _ConvertOptions, done: dict[str, Any]) -> None:
    """Print what was converted."""
    if options.json_:
        print_json(done | {"file": str(options.target)})
        return
    notes = "".join(f", {name} {count}" for name, count in done["notes"].items())
    print(f"{options.target}: {done['jobs']:,} jobs, {done['read']} to {done['written']}{notes}")
    if done["left_out"]:
        print(f"  left out, as {done['written']} has no place for it: {', '.join(done['left_out'])}")


@contextmanager
def _new(target: Path, to: WorkloadFormat) -> Iterator[Path]:
    """Yield the hidden name of a new file, or a new directory, which gets its own when it is complete."""
    if to is WorkloadFormat.RUN:
        with complete_or_gone(target) as place:
            yield place.partial
        return
    with new_files([target]) as (part,):
        yield part


def _measured_kind(source: Path, given: str) -> str | None:
    """Return otf2 or lb4omp for what a tool measured in a program; None for workloads of jobs."""
    if given in _MEASURED:
        return given
    if given != WorkloadFormat.AUTO or is_file(source / JOBS_FILE):
        return None
    if source.suffix == ".otf2" or is_directory(source):
        return "otf2"
    head = next(iter(format_record.read_chunks(source)), b"")
    return "lb4omp" if head.startswith(lb4omp_times.MARKS) else None


def _convert_loops(options: _ConvertOptions, kind: str, *, plain: bool) -> None:
    """Write a workload directory of measured loops; ``plain``: without a selection, to a directory."""
    source, target = options.source, options.target
    if not plain:
        raise InputError(
            f"{source}: loops of a program become a workload directory, whole; give an OUT without suffix, "
            "no --clean and no selection, and convert that directory"
        )
    notes = Counter[str]()
    with _new(target, WorkloadFormat.RUN) as part, working(f"converting {source.name}"):
        if kind == "otf2":
            from mlsim.traces.parallel_loops import read_trace

            loops = read_trace(source, notes)
        else:
            loops = lb4omp_times.read_lb4omp(source, notes)
        counts = measured_loops.write_loops(part, loops)
    facts = {"read": kind, "written": "run", "jobs": counts.pop("jobs"), "left_out": []}
    _report(options, facts | {"notes": counts | notes})


def _format(to: str | None, target: Path) -> WorkloadFormat:
    formats = [word for word in WorkloadFormat if word in FORMATS and FORMATS[word].can_be_written]
    if to is None and not target.suffix:
        return WorkloadFormat.RUN
    if to is not None:
        allowed = [*formats, WorkloadFormat.RUN]
        named = next((word for word in allowed if word == to.casefold()), None)
        if named is None:
            raise InputError(f"--to {to}; allowed: {', '.join(allowed)}")
        return named
    by_name = format_of_name(target)
    if by_name is None:
        raise InputError(
            f"{target}: its suffix names no format; give --to with one of {', '.join(formats)}, run, "
            f"or a suffix: {', '.join(FORMATS[word].suffix for word in formats if FORMATS[word].suffix)}, "
            f"each also with "
            f"{', '.join(format_record.SUFFIXES[:-1])} or {format_record.SUFFIXES[-1]} behind it"
        )
    return by_name


def _rates(options: _ConvertOptions) -> Rates | None:
    files = None
    if options.transfers is not None:
        files = cli.amount("--transfers", options.transfers, field_types.BANDWIDTH, positive=True)
    if options.speed is None and options.bandwidth is None:
        return None if files is None else Rates(files=files)
    rates = []
    for name, text, unit in (
        ("--speed", options.speed, field_types.RATE),
        ("--bandwidth", options.bandwidth, field_types.BANDWIDTH),
    ):
        if text is None:
            raise InputError(f"{name}: missing; --speed and --bandwidth go together")
        rates.append(cli.amount(name, text, unit, positive=True))
    return Rates(rates[0], rates[1], files)
