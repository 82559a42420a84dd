"""``mlsim trace``: what is in OTF2 traces, what is wrong with them, other formats, parts of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mlsim.cli.command_options import REQUIRED, CommandGroup, Json, Options, listed, option, output, time_of
from mlsim.cli.new_files import new_files
from mlsim.cli.progress import working
from mlsim.cli.terminal import print_json
from mlsim.errors import InputError

if TYPE_CHECKING:
    from mlsim.traces import Survey


trace = CommandGroup("trace", "Inspect, check, convert and cut OTF2 traces, of mlsim or of others.")

_Trace = Annotated[
    Path, typer.Argument(metavar="TRACE", help="A run, the directory of a trace, or its anchor (*.otf2).")
]
_MOST_PROBLEMS = 100


@trace.command()
def info(
    path: _Trace,
    json_: Json = False,
    regions: Annotated[int, typer.Option(min=0, metavar="N", help="Show the N longest regions.")] = 10,
) -> None:
    """Show the content of TRACE: events by kind, regions with their times, messages, locations, bytes."""
    from mlsim.traces import survey

    with _readable(path) as (anchor, opened):
        found = survey(opened, anchor)
    if json_:
        times = {name: vars(times) for name, times in found.regions.items()}
        print_json(vars(found) | {"events": dict(found.events), "regions": times})
    else:
        _print(anchor, found, regions)


def _print(anchor: Path, found: Survey, most: int) -> None:
    each = found.bytes / found.total if found.total else 0.0
    rows = {
        "written by": found.creator or "-",
        "of": found.machine or "-",
        "length": f"{found.length:.9g} s, {found.resolution:,} ticks a second",
        "events": f"{found.total:,}, {each:.1f} bytes each with definitions",
        "locations": ", ".join(f"{many:,} {kind}" for kind, many in found.locations.items()),
        "processes": f"{found.processes:,}",
        "messages": f"{found.sent:,}, {found.sent_bytes:,} bytes",
        "metrics": ", ".join(found.metrics) or "-",
    }
    print(f"{anchor}")
    for name, text in rows.items():
        print(f"  {name:<12}{text}")
    for kind, many in sorted(found.events.items(), key=lambda item: (-item[1], item[0])):
        print(f"  {many:>12,}  {kind}")
    longest = sorted(found.regions.items(), key=lambda item: (-item[1].inclusive, item[0]))[:most]
    if longest:
        print(f"  {'visits':>12}  {'inclusive (s)':>15}  {'exclusive (s)':>15}  region")
        for name, times in longest:
            print(f"  {times.visits:>12,}  {times.inclusive:>15.6f}  {times.exclusive:>15.6f}  {name}")


@trace.command()
def check(path: _Trace) -> None:
    """Check TRACE: times that go back, enters, leaves and messages that do not match.

    Says each with its place and time; ends with 1 if there is anything.
    """
    from mlsim.traces import problems_of

    many = 0
    with _readable(path) as (anchor, opened):
        for problem in problems_of(opened):
            many += 1
            if many <= _MOST_PROBLEMS:
                print(problem)
    if many > _MOST_PROBLEMS:
        print(f"... and {many - _MOST_PROBLEMS:,} more")
    print(f"{anchor}: {f'{many:,} problems' if many else 'no problem'}", file=sys.stderr)
    if many:
        raise typer.Exit(1)


@trace.command()
def convert(
    path: _Trace,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="File to write: .json or .json.gz (Chrome's trace events; Perfetto opens it), .parquet "
            "(a row an event); with --for a directory. Must not exist.",
        ),
    ],
    reader: Annotated[
        Literal["pipit"] | None,
        typer.Option(
            "--for",
            metavar="READER",
            help="Write an OTF2 trace for this reader: pipit sorts events by their times alone, so events of "
            "a row at the same time are moved apart, by 1 ns each.",
        ),
    ] = None,
) -> None:
    """Write TRACE in another format, by the name of FILE, or for another reader."""
    from mlsim.traces import FORMATS, move_apart
    from mlsim.traces import convert as converted

    if reader is not None:
        _write_trace(path, out, move_apart)
        return
    if not out.name.endswith(tuple(FORMATS)):
        allowed = ", ".join(f"{suffix} ({words})" for suffix, (words, _) in FORMATS.items())
        raise InputError(f"--out {out}: no format for this name; allowed: {allowed}")
    with new_files([out]) as (partial,), _readable(path) as (_, opened):
        converted(opened, partial)


def _write_trace(path: Path, out: Path, write: Callable[[Any, Path], int]) -> None:
    """Write a trace made from another one into a new directory."""
    from mlsim.experiment.result_directories import reserved, writing

    with reserved(out) as place, writing(out, place.partial):
        with _readable(path) as (_, opened):
            events = write(opened, place.partial)
        place.keep(manifest=False)
    print(f"{out}: {events:,} events")


class _CutOptions(Options):
    path: _Trace
    out: Path = output("Directory of the new trace; must not exist.", "DIR", default=REQUIRED)
    begin: str | None = option("Where it begins, e.g. '2 h'.", "--from", "TIME", show_default="0 s")
    end: str | None = option("Where it ends.", "--to", "TIME", show_default="the trace's end")
    jobs: str | None = option("Only these jobs, by their numbers.", "N,N...")


@trace.command()
def cut(options: _CutOptions) -> None:
    """Write a part of TRACE as a trace: a span of time, some of the jobs."""
    from mlsim.traces import cut as part_of

    jobs = listed(options.jobs)
    begin = time_of(f"--from {options.begin}", options.begin, positive=False)
    end = time_of(f"--to {options.end}", options.end, positive=False)
    if begin is None and end is None and not jobs:
        raise InputError("nothing to cut; give --from, --to or --jobs")

    def write(opened: Any, place: Path) -> int:
        return part_of(opened, place, begin=begin, end=end, jobs=jobs)

    _write_trace(options.path, options.out, write)


@contextmanager
def _readable(path: Path) -> Iterator[tuple[Path, Any]]:
    """Open a trace that is as the run wrote it, or that was read to its end by another process."""
    from mlsim.traces import anchor_of, opened
    from mlsim.traces.trace_reader import check_apart

    anchor = anchor_of(path)
    with working("checking files"):
        if not _vouched(anchor):
            check_apart(anchor)
    with opened(anchor) as reader, working("trace"):
        yield anchor, reader


def _vouched(anchor: Path) -> bool:
    """Whether a run's manifest has the checksums of the trace; InputError if one is wrong."""
    from mlsim.experiment.manifest import MANIFEST, verify

    run, inside = anchor.resolve().parent.parent, f"{anchor.resolve().parent.name}/"
    if not (run / MANIFEST).is_file():
        return False
    found = verify(run)
    for name in (*found.damaged, *found.missing):
        if name.startswith(inside):
            how = "is missing" if name in found.missing else "is not what the run wrote"
            raise InputError(f"{run / name}: {how}. Run the scenario again.")
    return not any(name.startswith(inside) for name in found.foreign)
