"""Jobs of Cobalt as Argonne publishes them: DIM_JOB_COMPOSITE as CSV (Mira, Theta, Polaris ...).

Accounting files of Cobalt itself are records like those of PBS, which :mod:`mlsim.workload.pbs_log` reads.

Source: the column descriptions of reports.alcf.anl.gov/data.
"""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from mlsim.errors import InputError
from mlsim.workload import format_record, log_fields
from mlsim.workload.format_record import STRICT, Format, Reading, WholeLog, job_cells
from mlsim.workload.workload_jobs import NODE_COUNT, RECORDED_NODES

_SOURCES = """
job_id COBALT_JOBID, JOB_NAME; submit_time QUEUED_TIMESTAMP;
run_time END_TIMESTAMP - START_TIMESTAMP; walltime WALLTIME_SECONDS;
processors CORES_REQUESTED; node_count NODES_REQUESTED;
status EXIT_STATUS, EXIT_CODE; user USERNAME_GENID; group PROJECT_NAME_GENID; executable MODE;
queue QUEUE_NAME; recorded_start START_TIMESTAMP; recorded_nodes LOCATION
"""


def read_cobalt(path: str | Path, options: Reading = STRICT) -> WholeLog:
    """Read a file of jobs of Argonne."""
    path = Path(path)

    def records() -> Iterator[tuple[int, dict[str, str]]]:
        lines = list(format_record.record_lines(path))
        rows = format_record.quoted_rows([f"{line}\n" for _, line in lines], ",")
        try:
            names = [name.strip().upper() for name in next(rows, (0, []))[1]]
            for line, cells in rows:
                yield lines[line - 1][0], dict(zip(names, map(str.strip, cells), strict=False))
        except csv.Error as error:
            raise InputError(f"{path}: cannot be read as CSV: {error}") from error

    return format_record.read_records(path, records(), _job, options, sources=_SOURCES)


def _job(record: Mapping[str, str]) -> dict[str, str] | None:
    start, end = (_moment(record, f"{what}_TIMESTAMP") for what in ("START", "END"))
    if end is None:
        return None
    nodes = _whole(record.get("NODES_REQUESTED") or record.get("NODES_USED", ""), "NODES_REQUESTED")
    cores = _whole(record.get("CORES_REQUESTED") or record.get("CORES_USED", ""), "CORES_REQUESTED")
    code = record.get("EXIT_STATUS") or record.get("EXIT_CODE") or "0"
    job = record.get("COBALT_JOBID") or record["JOB_NAME"].partition(".")[0]
    return job_cells(
        str(_whole(job, "COBALT_JOBID") or job),
        _moment(record, "QUEUED_TIMESTAMP"),
        start,
        end,
        walltime=_whole(record.get("WALLTIME_SECONDS", ""), "WALLTIME_SECONDS"),
        processors=cores,  # else all of the nodes
        status=code.removesuffix(".0") == "0",
        user=record.get("USERNAME_GENID", ""),
        group=record.get("PROJECT_NAME_GENID", ""),
        executable=record.get("MODE", ""),
        queue=record.get("QUEUE_NAME", ""),
        **{NODE_COUNT: nodes, RECORDED_NODES: record.get("LOCATION", "")},
    )


def _whole(text: str, what: str) -> int | None:
    """Return a whole number, also with a fraction of 0; None where there is none."""
    digits = text.removesuffix(".0")
    return format_record.whole_number(digits, what) or None if digits else None


def _moment(record: Mapping[str, str], name: str) -> float | None:
    text = record.get(name, "")
    try:
        return log_fields.unix_time(text) if text else None
    except ValueError:
        raise ValueError(f"{name} is {text!r:.60}; expected a date and time") from None


FORMAT = Format(
    "cobalt",
    "jobs of Cobalt as Argonne publishes them (ANL-ALCF-DJC): CSV",
    lambda head: b"QUEUED_TIMESTAMP" in head.partition(b"\n")[0].upper(),
    read_cobalt,
    units="WALLTIME_SECONDS in s; dates as if UTC",
)
