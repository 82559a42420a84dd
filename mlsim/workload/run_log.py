"""Workload directories: ``jobs.parquet``, and files of iteration costs; the directory of a run is one.

The jobs of a run are read as they were submitted, not as they were simulated.
"""

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mlsim._files import expanded, is_file, json_of, named, read_bytes
from mlsim.errors import InputError
from mlsim.workload.format_record import STRICT, Format, Reading, WholeLog
from mlsim.workload.log_fields import JOB_NAMES, Header, unix_time
from mlsim.workload.workload_jobs import LOG_WITHDRAWAL

if TYPE_CHECKING:
    import polars as pl

JOBS_FILE: Final = "jobs.parquet"
_SUMMARY = "summary.json"
_RUN_TIME = "log_run_time"  # of the jobs of a run, which marks them
_NAME = "job_id_name"
_RESULTS = """
start_time end_time run_time log_run_time prediction cores working nodes state reason backfilled wait_time
response_time slowdown bounded_slowdown restarts lost_core_seconds energy dispatch_time eligible_time
withdraw_time taken_for_small divider job_id_name
"""
RESULTS: Final = frozenset([*_RESULTS.split(), LOG_WITHDRAWAL])
"""Columns of a run's jobs that are no columns of its workload."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LARGEST_SUMMARY = 1 << 26  # bytes
_MOST_NAMES = 100_000_000


def jobs_file(path: Path) -> Path:
    """Return the file of jobs of a workload directory; of any other path the path itself."""
    inside = path / JOBS_FILE
    return inside if is_file(inside) else path


def read_run(path: str | Path, options: Reading = STRICT) -> WholeLog:
    """Read the jobs of a workload directory, or those that a run simulated, as they were submitted."""
    from mlsim._files.parquet import check_apart, read_columns, read_schema
    from mlsim.workload.log_columns import further_columns, log_of_table
    from mlsim.workload.parquet_log import header_of

    directory = expanded(path)
    file = directory / JOBS_FILE
    if not is_file(file):
        raise InputError(f"{named(directory)}: has no {JOBS_FILE}; allowed: a run, or a workload directory")
    check_apart(file, file)
    table = read_columns(file, file, list(read_schema(file, file)))
    header = header_of(file, file)
    if _RUN_TIME in table.columns:
        table = _as_submitted(directory, table, header)
    if "costs" in options.wanted(further_columns(table.columns)):
        table = table.with_columns(costs=_located_costs(file, table["costs"]))
    return log_of_table(str(file), table, options, header)


def _as_submitted(directory: Path, table: "pl.DataFrame", header: Header) -> "pl.DataFrame":
    """Return the jobs of a run with the columns of its workload; the header gets their names and dates."""
    import polars as pl

    summary = _workload_summary(directory / _SUMMARY)
    if _NAME in table.columns and table[_NAME].null_count() < table.height:
        _add_names(directory / JOBS_FILE, header, table)
    results = set(RESULTS)
    if "technique" not in summary.get("replaced", ()):
        results.add("technique")  # is that of the scenario
    submitted = table.select(pl.exclude(*results), run_time=_RUN_TIME)
    if LOG_WITHDRAWAL in table.columns:
        leaves = table[LOG_WITHDRAWAL]
        # Only jobs that never ran are withdrawn; cleaning may have given them a run time.
        never = pl.when(leaves.is_null()).then(pl.col("run_time")).otherwise(0.0)
        submitted = submitted.with_columns(never.alias("run_time"), withdraw_time=leaves)
    header |= _dates(directory / _SUMMARY, summary)
    return submitted


def _dates(path: Path, summary: dict[str, Any]) -> Header:
    """Return the date of time 0, and the time zone, as in the header of a log."""
    start, zone = summary.get("start"), str(summary.get("time_zone", ""))
    if start is None:
        return {}
    try:
        zero = unix_time(str(start))
        east = datetime.fromisoformat(str(start)).utcoffset()
    except ValueError as error:
        raise InputError(f"{path}: workload.start is no date: {start!r:.60}") from error
    header: Header = {"UnixStartTime": str(int(zero) if zero.is_integer() else zero)}
    if zone and not zone.startswith("UTC"):
        header["TimeZoneString"] = zone
    elif east is not None:  # UTC, or so far from it
        header["TimeZone"] = f"{east.total_seconds():.0f}"
    return header


def _add_names(place: Path, header: Header, table: "pl.DataFrame") -> None:
    """Add the names of jobs to the header: that of job k is the kth."""
    names: dict[int, str] = {}
    for number, name in zip(table["job_id"].to_list(), table[_NAME].to_list(), strict=True):
        names.setdefault(number, name or "")
    if min(names) < 1 or max(names) > _MOST_NAMES:
        raise InputError(
            f"{place}: job_id {max(names)} has a name; allowed: places of names, from 1 to {_MOST_NAMES:,}"
        )
    header[JOB_NAMES] = [names.get(number, "") for number in range(1, max(names) + 1)]


def _workload_summary(path: Path) -> dict[str, Any]:
    """Return the block ``workload`` of a run's summary; empty where there is none."""
    if not is_file(path):
        return {}
    text = read_bytes(path, "summary", most=_LARGEST_SUMMARY).decode(errors="replace")
    summary = json_of(text, str(path))
    block = summary.get("workload") if isinstance(summary, dict) else None
    return block if isinstance(block, dict) else {}


def _located_costs(file: Path, cells: "pl.Series") -> "pl.Series":
    """Return whole paths of files of costs beside the jobs; those named by their digest are checked."""
    import polars as pl

    cells = cells.cast(pl.String)
    found: dict[str, str] = {}
    for text in cells.drop_nulls().unique(maintain_order=True).to_list():
        path = file.parent / text
        if not text or not is_file(path):
            found[text] = text  # is looked for beside the scenario
            continue
        if _DIGEST.fullmatch(path.stem) and path.stem != _digest_of(read_bytes(path, "iteration costs")):
            raise InputError(
                f"{named(path)}: its SHA-256 is not its name: the costs were changed or damaged; "
                "copy the file again, or give it a name that is no digest"
            )
        found[text] = str(path.absolute())
    return cells.replace_strict(found, default=None, return_dtype=pl.String)


def _digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def keep_costs(directory: Path, content: bytes, suffix: str) -> str:
    """Write a file of costs into a workload directory, by its digest; return its path there."""
    if not content:
        return ""
    place = directory / "costs" / f"{_digest_of(content)}{suffix}"
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(content)
    return f"costs/{place.name}"


def copied_costs(directory: Path, cells: Sequence[str]) -> list[str]:
    """Copy files of costs that have whole paths into a workload directory; return their paths there."""
    found: dict[str, str] = {}
    for text in cells:
        if text not in found:
            whole = text and Path(text).is_absolute()
            content = read_bytes(Path(text), "iteration costs") if whole else b""
            found[text] = keep_costs(directory, content, Path(text).suffix) or text
    return [found[text] for text in cells]


FORMAT = Format(
    "run",
    "a directory with jobs.parquet: a run, whose jobs are those submitted to it, or a workload directory",
    lambda _: False,  # a directory has no first bytes; see log_formats.format_of
    read_run,
    further=True,
)
