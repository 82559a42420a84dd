"""Cells of Slurm's accounting: the values of each column in all of its spellings."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import polars as pl

from mlsim.workload import log_fields, workload_jobs
from mlsim.workload.text_table import Cell

_WHOLE = re.compile(r"\d{1,15}")
_JOB = re.compile(r"\d+(_(\d+|\[[^\]]*\]))?(\+\d+)?(\..*)?")
_NOTHING = ("none", "unknown", "n/a", "(null)", "none assigned")
RUNS_ON: Final = (
    "PENDING",
    "RUNNING",
    "RESIZING",
    "SUSPENDED",
    "CONFIGURING",
    "COMPLETING",
    "STOPPED",
    "REQUEUED",
)
RETURNED: Final = ("REQUEUED", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL")
"""States of an attempt that another one of the same job follows."""
_STATUS = {"COMPLETED": 1, "CD": 1, "CANCELLED": 5, "CA": 5}
_SHORT = {
    "PD": "PENDING",
    "R": "RUNNING",
    "S": "SUSPENDED",
    "CG": "COMPLETING",
    "RQ": "REQUEUED",
    "RS": "RESIZING",
    "NF": "NODE_FAIL",
    "PR": "PREEMPTED",
    "BF": "BOOT_FAIL",
}


def _said(cell: str) -> bool:
    return cell.lower() not in _NOTHING


def whole(cell: str) -> int:
    """Read a whole number."""
    if not _WHOLE.fullmatch(cell):
        raise ValueError("a whole number")
    return int(cell)


def job(cell: str) -> str:
    """Read an identifier."""
    if not _JOB.fullmatch(cell):
        raise ValueError("an identifier such as 17, 17_3 or 17+0")
    return cell


def name(cell: str) -> str | None:
    """Read a name."""
    return cell if _said(cell) else None


def moment(cell: str) -> float | None:
    """Read a date, or seconds since 1970, as the latter."""
    if not _said(cell) or cell == "0":
        return None
    if _WHOLE.fullmatch(cell):
        return float(cell)
    try:
        return log_fields.unix_time(cell)
    except ValueError:
        raise ValueError("a date and time such as 2024-03-01T12:00:00, or seconds since 1970") from None


def _plain_dates(cells: pl.Series) -> pl.Series:
    """Read dates in the usual spelling."""
    dates = cells.str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False, time_unit="ms")
    return dates.dt.epoch("s").cast(pl.Float64)


def span(cell: str) -> float | None:
    """Read a time such as 1-02:30:00, or seconds."""
    if not _said(cell):
        return None
    seconds = (
        log_fields.clock_seconds(cell) if ":" in cell else whole(cell) if _WHOLE.fullmatch(cell) else None
    )
    if seconds is None:
        raise ValueError("a time such as 1-02:30:00, or seconds")
    return float(seconds)


def limit(cell: str) -> float | None:
    """Read a limit: minutes, or a time such as 1-02:30:00; a word such as UNLIMITED is none."""
    if cell.isalpha() or "_" in cell or not _said(cell):
        return None
    if _WHOLE.fullmatch(cell):
        return 60.0 * int(cell)
    return span(cell)


def processors(cell: str) -> int | None:
    """Read a number of processors; 0 is none."""
    return whole(cell) or None


def state(cell: str) -> str:
    """Read a state as one word."""
    word = cell.split(" ", 1)[0].rstrip("+").upper()
    if not re.fullmatch(r"[A-Z_]+", word):
        raise ValueError("a state such as COMPLETED")
    return _SHORT.get(word, word)


def status_of(word: str) -> int:
    """Return the status of SWF for a state."""
    return _STATUS.get(word, 0)


def tres(cell: str) -> Mapping[str, str]:
    """Read resources such as cpu=4,mem=16G."""
    amounts = dict(part.partition("=")[::2] for part in cell.split(",") if part)
    if _said(cell) and not all(amounts.values()):
        raise ValueError("resources such as billing=4,cpu=4,gres/gpu=2,mem=16G,node=1")
    return amounts


def memory(cell: str) -> str | None:
    """Read the memory among resources, with its unit."""
    text = tres(cell).get("mem", "")
    try:
        return f"{workload_jobs.slurm_size(text)} B" if text else None
    except ValueError:
        raise ValueError("memory such as mem=16G") from None


def gpus(cell: str) -> int | None:
    """Read the GPUs among resources."""
    amounts = tres(cell)
    typed = [amount for name, amount in amounts.items() if name.startswith("gres/gpu:")]
    # Slurm names the total beside the types, if accounting tracks both.
    total = [amounts["gres/gpu"]] if "gres/gpu" in amounts else typed
    return sum(map(whole, total)) if total else None


def _of_tres(name: str) -> Cell:
    return lambda cell: processors(text) if (text := tres(cell).get(name, "")) else None


FAST: Final[dict[Cell, Callable[[pl.Series], pl.Series]]] = {moment: _plain_dates}
IDS: Final = ("JobIDRaw", "JobID")
TRES: Final = ("ReqTRES", "AllocTRES")
COLUMNS: Final[dict[str, dict[str, Cell]]] = {
    "state": {"State": state},
    "submit_time": {"Submit": moment, "Eligible": moment},
    "recorded_start": {"Start": moment},
    "end": {"End": moment},
    "run_time": {"ElapsedRaw": span, "Elapsed": span},
    "walltime": {"TimelimitRaw": limit, "Timelimit": limit},
    "processors": {
        **dict.fromkeys(("ReqCPUS", "AllocCPUS", "NCPUS"), processors),
        **dict.fromkeys(TRES, _of_tres("cpu")),
    },
    "user": {"User": name},
    "group": {"Group": name, "Account": name},
    "executable": {"JobName": str},
    "partition": {"Partition": name},
    "qos": {"QOS": name},
    "recorded_nodes": {"NodeList": name},
    "nodes_asked": {"ReqTRES": _of_tres("node"), "ReqNodes": processors},
    "nodes_got": {"AllocTRES": _of_tres("node"), "NNodes": processors, "AllocNodes": processors},
    "request_memory": dict.fromkeys(TRES, memory),
    "request_gpu": dict.fromkeys(TRES, gpus),
}
"""Columns of the log, or facts for them: their sources in order of preference, with the reader of a cell."""
KINDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("submit_time", "recorded_start", "end", "run_time", "walltime"), pl.Float64),
    **dict.fromkeys(("job_id", "state", "user", "group", "executable", "partition", "qos"), pl.String),
    **dict.fromkeys(("recorded_nodes", "request_memory"), pl.String),
}
"""Their types, where these are not whole numbers."""
MEANS: Final = {
    "state": "status",
    "end": "withdraw_time",
    "nodes_asked": "node_count",
    "nodes_got": "node_count",
}
"""Columns of the log that facts are for."""
CHECKS: Final[dict[str, Cell]] = {
    **dict.fromkeys(IDS, job),
    **{
        source: read
        for sources in COLUMNS.values()
        for source, read in sources.items()
        if read not in (str, name)
    },
    "Reserved": span,
    "Planned": span,
}
"""Columns whose cells show whether a row of text was divided rightly."""
NAMES: Final = (*dict.fromkeys((*CHECKS, *(source for sources in COLUMNS.values() for source in sources))),)
TEXTS: Final = ("JobName", "SubmitLine", "WorkDir", "Comment", "AdminComment", "SystemComment", "Constraints")
"""Columns of free text, the likeliest one to hold a delimiter first."""
