"""Conversion of workloads between formats."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from mlsim.errors import InputError
from mlsim.scenario import WorkloadConfig, WorkloadFormat
from mlsim.workload.format_record import Format, Reading
from mlsim.workload.log_formats import FORMATS, LogReader, format_of, write_columns
from mlsim.workload.log_source import AS_LOGGED, open_workload
from mlsim.workload.log_times import Rates
from mlsim.workload.swf_fields import CODED, Header, directives_of, is_directive, listed_names, names_of
from mlsim.workload.swf_log import read_swf, write_swf
from mlsim.workload.workload_dependencies import DEPENDENCIES
from mlsim.workload.workload_jobs import JobBlock, LogBlock, log_of, named_columns

_NAMED = ("job_id", "submit_time", "run_time", "allocated_processors", "requested_processors")
_LOOP = ("loop_iterations", "loop_limit")
_MADE_BY_READING = ("ignored_columns", "request_columns")
_OF_THE_WHOLE = ("MaxJobs", "MaxRecords", "StartTime", "EndTime")
ANY_SIZE = 1 << 62


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of a conversion.

    ``left_out``: facts of the log that the new format cannot hold; ``notes``: counts of findings, of cleaning
    rules only where the log was cleaned.
    """

    read: str
    written: WorkloadFormat
    jobs: int
    left_out: list[str]
    notes: dict[str, int]


def convert(
    config: WorkloadConfig,
    source: str | Path,
    target: str | Path,
    to: WorkloadFormat,
    *,
    as_simulated: bool,
    rates: Rates | None = None,
) -> Conversion:
    """Write a log in another format.

    ``config`` has the options of reading it (`format`, `lenient`). If ``as_simulated``, jobs are cleaned,
    sorted, selected and shifted as for a simulation. ``rates``: for Batsim workloads that count operations
    and bytes.
    """
    source, target = Path(source), Path(target)
    if not FORMATS[to].can_be_written:
        raise InputError(f"{target}: logs of format {to} are read, and not written")
    found = format_of(source) if config.format is WorkloadFormat.AUTO else config.format
    extras = None
    if as_simulated:
        config = config.model_copy(update={"dependencies": True})
        workload = open_workload(config, source, ANY_SIZE, AS_LOGGED, rates)
        log = log_of(JobBlock.concatenate(list(workload.blocks())))
        header, notes = shifted_header(workload.header, workload.origin), workload.notes
    elif _is_swf(found) and _is_swf(to):  # further fields stay as they are
        header, block = read_swf(source, lenient=config.lenient, extras=True)
        log = LogBlock.from_columns(block.columns, identifiers=block.identifiers())
        notes, extras = {}, block.extras
    else:
        reader = LogReader(source, found, Reading(lenient=config.lenient, rates=rates))
        log = LogBlock.concatenate(list(reader.blocks()))
        header, notes = reader.header, dict(reader.counts)
        notes |= {"broken_lines": reader.broken_lines} if reader.broken_lines else {}
    left_out = _left_out(log, header, FORMATS[to])
    _write(target, log, header, FORMATS[to], source, extras)
    return Conversion(found, to, len(log), left_out, notes)


def _is_swf(name: str) -> bool:
    """Whether a format is the one that has numbered fields and directives."""
    return isinstance(name, WorkloadFormat) and FORMATS[name].numbered


def shifted_header(header: Header, origin: float) -> Header:
    """Return the header for a new time 0 (s), with the calendar time if known, without facts on all jobs."""
    header = {key: value for key, value in header.items() if key not in _OF_THE_WHOLE}
    start = header.get("UnixStartTime")
    if not isinstance(start, str) or not start.removeprefix("-").isdecimal() or not origin:
        return header
    if not origin.is_integer():
        return {key: value for key, value in header.items() if key != "UnixStartTime"}
    return header | {"UnixStartTime": str(int(start) + int(origin))}


def _left_out(log: LogBlock, header: Header, to: Format) -> list[str]:
    """Name the columns and the parts of the header that a format cannot hold."""
    if to.numbered:
        named = (*_LOOP, "qos", "node_count", "withdraw_time")
        lost = [name for name in named if np.any(getattr(log, name) != -1)]
        lost += [] if log.after is None or not len(log.after.row) else [DEPENDENCIES]
        lost += [] if log.asked is None else list(log.asked.columns())
        lines, names = directives_of(listed_names(header)), listed_names(header)
        kept = {*_directives(header), "request_columns"}
        kept |= {f"{column}_names" for column in names if names_of(lines).get(column) == names[column]}
        return lost + [key for key in header if key not in kept]
    held = {*_NAMED, "requested_time", "status", *CODED, *_LOOP, "node_count", "withdraw_time"}
    held |= {"asked", "after", "own"}
    held |= {"preceding_job", "think_time"} if np.any(log.preceding_job > 0) else set()
    lost = [
        field.name
        for field in fields(LogBlock)
        if field.name not in held and np.any(getattr(log, field.name) != -1)
    ]
    return lost + (["header"] if not to.keeps_header and _directives(header) else [])


def _directives(header: Header) -> Header:
    """Return the part of a header that can be lines of an SWF log."""
    return {
        key: value
        for key, value in header.items()
        if not key.endswith("_names") and key not in _MADE_BY_READING and is_directive(key, value)
    }


def _write(
    path: Path, log: LogBlock, header: Header, to: Format, source: Path, extras: list[tuple[str, ...]] | None
) -> None:
    if to.numbered:
        write_swf(path, _directives(header) | directives_of(listed_names(header)), log.numbered(), extras)
        return
    # Where the header stays, so do the codes to which it has the names.
    columns = named_columns(log, header, all_names=not to.keeps_header)
    if to.check is not None:
        to.check(log, source)
    write_columns(path, to, header, [columns])
