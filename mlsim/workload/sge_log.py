"""Accounting of Grid Engine (SGE, UGE): the file ``accounting``, one line per job.

Fields go by their places: job number (``_`` task), submission, start and end, slots, exit status, owner,
group, name, queue, and of the request (``-l``) ``h_rt`` as the walltime. A job that never started has start 0
and counts as cancelled.

Source: the manual page accounting(5) of Grid Engine.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mlsim.workload import format_record
from mlsim.workload.format_record import (
    STRICT,
    Format,
    Reading,
    WholeLog,
    job_cells,
    seconds_cell,
    whole_number,
)
from mlsim.workload.workload_jobs import RECORDED_NODES

_LINE = re.compile(rb"(?:[^:\n]*:){5}\d+:[^:\n]*:-?\d+:\d+:\d+:\d+:(?:[^:\n]*:){23}\d+:\d+:")
_FIELDS: Final = 40
_CATEGORY = 39
_RESCHEDULED: Final = ("24", "25")  # Values of `failed` of a run that migrates, or is to begin again
_LIMIT = re.compile(r"\bh_rt=(\d+(?::\d\d){0,2})(?![\d.])")
"""In the request of a job; if it has colons, these divide the field."""

_SOURCES = """
job_id job_number, task_number; submit_time submission_time; run_time end_time - start_time;
walltime h_rt of category; processors slots; status failed, exit_status; user owner;
executable job_name; queue qname; recorded_start start_time; recorded_nodes hostname;
withdraw_time end_time
"""


def read_sge(path: str | Path, options: Reading = STRICT) -> WholeLog:
    """Read an accounting file of Grid Engine."""
    path = Path(path)
    lines = format_record.record_lines(path)
    records = ((number, line.split(":")) for number, line in lines if not line.startswith("#"))
    return format_record.read_records(path, records, _job, options, sources=_SOURCES)


def _job(fields: Sequence[str]) -> dict[str, str]:
    if len(fields) < _FIELDS:
        raise ValueError(f"{len(fields)} fields; expected at least {_FIELDS}")
    submit, start, end = (
        _time(fields[k], what) for k, what in ((8, "submission"), (9, "start"), (10, "end"))
    )
    limit = _LIMIT.search(":".join(fields[_CATEGORY:]))
    task = fields[35]
    return job_cells(
        fields[5] + (f"_{task}" if task not in ("", "0") else ""),
        submit,
        start,
        end,
        walltime=seconds_cell(limit[1], "h_rt") if limit else "",
        processors=whole_number(fields[34], "slots"),
        status=fields[11] == fields[12] == "0",
        user=fields[3],
        group=fields[2],
        executable=fields[4],
        queue=fields[0],
        requeued=fields[11] if fields[11] in _RESCHEDULED else "",
        # A parallel job has several hosts, of which the file names one.
        **{RECORDED_NODES: fields[1] if start is not None and fields[33] == "NONE" else ""},
    )


def _time(text: str, what: str) -> float | None:
    time = whole_number(text, what)
    return (time / 1000 if time > 1e11 else float(time)) or None  # newer versions count milliseconds


FORMAT = Format(
    "sge",
    "accounting of Grid Engine: one line per job, fields between colons",
    lambda head: _LINE.match(head) is not None,
    read_sge,
    units="times from 10^11 up in ms, others in s",
)
