"""Accounting of LSF: the records JOB_FINISH of ``lsb.acct``, one line each.

Fields go by their places. Lists of hosts and of usage by host are between them, so that the limit of the run
time, which newer versions have, is found behind these. A job that never started has start 0.

Source: IBM Spectrum LSF 10.1, "lsb.acct".
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mlsim.workload import format_record
from mlsim.workload.format_record import STRICT, Format, Reading, WholeLog, job_cells, time_of, whole_number
from mlsim.workload.workload_jobs import RECORDED_NODES

_RECORD = re.compile(rb'"[A-Z]+_[A-Z_]+" "[\d.]*" \d+ ')
_FIELD = re.compile(r'"((?:[^"]|"")*)"|(\S+)')
_ASKED_HOSTS: Final = 22  # Field of the number of hosts in the next ones
# Fields behind the hosts on which a job ran.
_STATUS, _NAME, _PROJECT, _ARRAY_INDEX, _PAIRS = 0, 2, 24, 29, 53
_DONE = "64"
_SOURCES = """
job_id jobId, idx; submit_time submitTime; run_time event time - startTime; walltime runLimit;
processors numProcessors; status jStatus; user userName; group projectName; executable jobName;
recorded_start startTime; recorded_nodes execHosts; withdraw_time event time
"""


def read_lsf(path: str | Path, options: Reading = STRICT) -> WholeLog:
    """Read an accounting file of LSF."""
    path = Path(path)
    lines = format_record.record_lines(path)
    records = ((number, line) for number, line in lines if line.startswith('"JOB_FINISH"'))
    return format_record.read_records(path, records, _job, options, sources=_SOURCES)


def _job(line: str) -> dict[str, str]:
    fields = [(text or plain).replace('""', '"') for text, plain in _FIELD.findall(line)]
    try:
        hosts_at = _ASKED_HOSTS + 1 + int(fields[_ASKED_HOSTS])
        at = hosts_at + 1 + int(fields[hosts_at])
        hosts = [host.rpartition("*")[2] for host in fields[hosts_at + 1 : at]]
        status, name, project, index = (
            fields[at + place] for place in (_STATUS, _NAME, _PROJECT, _ARRAY_INDEX)
        )
    except (IndexError, ValueError):
        raise ValueError("fields are missing; expected those of a record JOB_FINISH") from None
    job = str(whole_number(fields[3], "jobId"))
    return job_cells(
        job if index in ("0", "") else f"{job}_{index}",
        time_of(fields[7], "submitTime"),
        time_of(fields[10], "startTime"),
        time_of(fields[2], "event time"),
        walltime=_limit(fields, at + _PAIRS),
        processors=whole_number(fields[6], "numProcessors") or len(hosts),
        status=status == _DONE,
        user=fields[11],
        group=project,
        executable=name,
        queue=fields[12],
        **{RECORDED_NODES: ",".join(dict.fromkeys(hosts))},
    )


def _limit(fields: Sequence[str], pairs_at: int) -> str:
    """Return the limit of the run time, in s, behind pairs of keys and values and the usage of each host."""
    try:
        at = pairs_at + 1 + 2 * int(fields[pairs_at])
        hosts, at = int(fields[at]), at + 1
        for _ in range(hosts):
            at += 6 + 2 * int(fields[at + 5])
        limit = int(fields[at])
    except (IndexError, ValueError):
        return ""
    return str(limit) if limit > 0 else ""


FORMAT = Format(
    "lsf",
    "accounting of LSF (lsb.acct): records of jobs that ended",
    lambda head: _RECORD.match(head) is not None,
    read_lsf,
    units="times in s since 1970",
)
