"""Accounting of LSF: the records JOB_FINISH of ``lsb.acct``, one line each.

Fields go by their places. Lists of hosts and of usage by host are between them, so that the limit of the run
time, which newer versions have, is found behind these. A job that never started has start 0.

Memory and GPUs are those of ``rusage[...]`` of the effective requirement, else of the requested one: of each
host of the job unless ``/task`` or ``/job`` follows, as LSF reserves them by default. ``span[hosts=1]`` and
``span[ptile=n]`` bind the job to a number of nodes.

Source: IBM Spectrum LSF 10.1, "lsb.acct" and "Usage string".
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mlsim.workload import format_record
from mlsim.workload.format_record import STRICT, Format, Reading, WholeLog, job_cells, time_of, whole_number
from mlsim.workload.workload_jobs import NODE_COUNT, RECORDED_NODES, slurm_size

_RECORD = re.compile(rb'"[A-Z]+_[A-Z_]+" "[\d.]*" \d+ ')
_FIELD = re.compile(r'"((?:[^"]|"")*)"|(\S+)')
_REQUIREMENT: Final = 13  # Field of the requested resource requirement
_ASKED_HOSTS: Final = 22  # Field of the number of hosts in the next ones
# Fields behind the hosts on which a job ran.
_STATUS, _NAME, _PROJECT, _ARRAY_INDEX, _PAIRS = 0, 2, 24, 29, 53
_DONE = "64"
_USAGE = re.compile(r"rusage\[([^\]]*)\]")
_AMOUNT = re.compile(r"\b(mem|ngpus_physical)=(\d{1,12}(?:\.\d{1,6})?)([KMGT]?)B?(/task|/host|/job)?", re.I)
_SPAN = re.compile(r"span\[[^\]]*\b(hosts|ptile)=(\d{1,6})\b")
_COLUMNS = {"mem": "request_memory", "ngpus_physical": "request_gpu"}
_SOURCES = """
job_id jobId, idx; submit_time submitTime; run_time event time - startTime; walltime runLimit;
processors numProcessors; status jStatus; user userName; group projectName; executable jobName;
recorded_start startTime; recorded_nodes execHosts; withdraw_time event time;
request_memory mem of rusage; request_gpu ngpus_physical of rusage; node_count span of resReq
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
    processors = whole_number(fields[6], "numProcessors") or len(hosts)
    limit, rest = _limit(fields, at + _PAIRS)
    requirement = fields[_REQUIREMENT]
    usage = next((text for text in (*rest, requirement) if "rusage[" in text), "")
    return job_cells(
        job if index in ("0", "") else f"{job}_{index}",
        time_of(fields[7], "submitTime"),
        time_of(fields[10], "startTime"),
        time_of(fields[2], "event time"),
        walltime=limit,
        processors=processors,
        status=status == _DONE,
        user=fields[11],
        group=project,
        executable=name,
        queue=fields[12],
        **{RECORDED_NODES: ",".join(dict.fromkeys(hosts)), NODE_COUNT: _nodes(requirement, processors)},
        **_amounts(usage, processors, len(set(hosts))),
    )


def _nodes(requirement: str, processors: int) -> int | None:
    """Return the nodes to which a requirement binds a job."""
    found = _SPAN.search(requirement)
    count = int(found[2]) if found else 0
    if found is None or count < 1 or (found[1] == "hosts" and count > 1):
        return None
    return 1 if found[1] == "hosts" else -(-processors // count)


def _amounts(usage: str, processors: int, hosts: int) -> dict[str, str]:
    """Return the memory and the GPUs of the whole job; those of each host are unknown until it has hosts."""
    cells = dict.fromkeys(_COLUMNS.values(), "")
    found = _USAGE.search(usage)
    for name, amount, unit, scope in _AMOUNT.findall(found[1]) if found else ():
        of_each = slurm_size(f"{amount}{unit.upper()}") if name == "mem" else round(float(amount))
        total = of_each * {"/task": processors, "/job": 1}.get(scope.lower(), hosts)
        if total > 0:
            cells[_COLUMNS[name]] = f"{total} B" if name == "mem" else str(total)
    return cells


def _limit(fields: Sequence[str], pairs_at: int) -> tuple[str, Sequence[str]]:
    """Return the limit of the run time, in s, and the fields behind it.

    It stands behind pairs of keys and values and the usage of each host.
    """
    try:
        at = pairs_at + 1 + 2 * int(fields[pairs_at])
        hosts, at = int(fields[at]), at + 1
        for _ in range(hosts):
            at += 6 + 2 * int(fields[at + 5])
        limit = int(fields[at])
    except (IndexError, ValueError):
        return "", ()
    return str(limit) if limit > 0 else "", fields[at + 1 :]


FORMAT = Format(
    "lsf",
    "accounting of LSF (lsb.acct): records of jobs that ended",
    lambda head: _RECORD.match(head) is not None,
    read_lsf,
    units="times in s since 1970; memory without a unit in MB, K, M, G, T of memory are powers of 1024 B",
)
