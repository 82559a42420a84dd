"""Tables of a run as Parquet (and CSV) files, and as data frames.

Times are seconds from the scenario's start. Jobs are named by their identifier in the workload, nodes by
their number (the row in ``nodes.parquet``, from 0). What does not exist is null: times of a rejected job,
a slowdown of a job of no length, the node of a message about no single node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mlsim.errors import OutputError
from mlsim.record import derived
from mlsim.record.blocks import copies_of, is_long, record_blocks
from mlsim.record.energy import job_energy
from mlsim.record.growing import let_go
from mlsim.record.nodeset import job_node_sets
from mlsim.record.streaming import FRAME_ROWS, Frames, write_frames
from mlsim.record.tables import (
    Attempts,
    Chunks,
    Jobs,
    JobState,
    Loops,
    MessageKind,
    Messages,
    Nodes,
    Occupancy,
    OutageKind,
    Outages,
    Passes,
    PEs,
    Records,
    Rejections,
    Solves,
    SolveStatus,
)

Ints = NDArray[np.int64]

__all__ = [
    "attempt_frame",
    "chunk_frame",
    "frame",
    "job_frame",
    "loop_frame",
    "message_frame",
    "node_frame",
    "occupancy_frame",
    "outage_frame",
    "pass_frame",
    "pe_frame",
    "solve_frame",
    "write_tables",
]

_TABLES: dict[str, Callable[[Records, str | None], pl.DataFrame]] = {
    "jobs": lambda run, technique: job_frame(run, technique),
    "nodes": lambda run, _: node_frame(run.nodes),
    "occupancy": lambda run, _: occupancy_frame(run.occupancy, run.jobs),
    "loops": lambda run, technique: loop_frame(run.loops, run.jobs, technique),
    "chunks": lambda run, _: chunk_frame(run.chunks, run.jobs),
    "pes": lambda run, _: pe_frame(run.pes, run.jobs),
    "messages": lambda run, _: message_frame(run.messages, run.jobs),
    "passes": lambda run, _: pass_frame(run.passes),
    "outages": lambda run, _: outage_frame(run.outages),
    "attempts": lambda run, _: attempt_frame(run.attempts, run.jobs),
    "solves": lambda run, _: solve_frame(run.solves),
}
_OPTIONAL = ("loops", "chunks", "pes", "messages", "passes", "outages", "attempts", "solves")
_PROBE = 1 << 16
"""Bytes added to a file to find out whether there is room."""

_ROW_GROUP = 1 << 16
"""Rows encoded at a time: bounds the memory that writing takes."""


def job_frame(records: Records, technique: str | None) -> pl.DataFrame:
    """One row a job, in order of (submit_time, job_id).

    Parameters
    ----------
    records
        What happened.
    technique
        The run's technique; None if jobs ran no loop.

    Returns
    -------
    polars.DataFrame
        ``job_id``; ``submit_time``, ``start_time``, ``end_time`` (s); ``run_time`` (s, end - start),
        ``walltime`` (s, what the user asked), ``prediction`` (s, the estimate that the dispatcher saw; null
        for a job rejected at submission), ``log_run_time`` (s, in the workload); ``processors`` asked for,
        ``cores`` held at the start, ``working`` those that its processors fill; ``nodes`` ever held, as
        intervals (``0-3 7``); ``state`` (a word of :class:`JobState`), ``reason`` (why it was rejected),
        ``backfilled``; ``user``, ``group``, ``executable``, ``queue``, ``partition`` (-1: unknown);
        ``technique``; and what follows from the times: ``wait_time``, ``response_time`` (s), ``slowdown``,
        ``bounded_slowdown`` (τ = 10 s). Where waits count the dispatcher's own time, also ``dispatch_time``
        (s of wall clock, part of the wait). ``restarts`` after failures, and ``lost_core_seconds`` that
        failures cost; ``energy`` (J), if the power of the nodes is known. ``qos`` (-1: unknown), if a job has
        one; ``eligible_time`` (s), from which waits count, where jobs wait for other jobs; and where codes
        have names ``user_name``, ``group_name`` ... (null: it has none). Last the columns of the user's own.
    """
    jobs, occupancy, energy = records.jobs, records.occupancy, job_energy(records)
    counted = {} if jobs.dispatch_time is None else {"dispatch_time": jobs.dispatch_time}
    return _frame(
        {
            "job_id": jobs.job_id,
            "submit_time": jobs.submit_time,
            "start_time": jobs.start_time,
            "end_time": jobs.end_time,
            "run_time": derived.run_time(jobs),
            "walltime": jobs.walltime,
            "prediction": jobs.prediction,
            "log_run_time": jobs.log_run_time,
            "processors": jobs.processors,
            "cores": jobs.cores,
            "working": jobs.working,
            "nodes": job_node_sets(occupancy, len(jobs.job_id)),
            "state": _words(jobs.state, JobState),
            "reason": _reasons(records.rejections, len(jobs.job_id)),
            "backfilled": jobs.backfilled,
            "user": jobs.user,
            "group": jobs.group,
            "executable": jobs.executable,
            "queue": jobs.queue,
            "partition": jobs.partition,
            "technique": _constant(technique, len(jobs.job_id)),
            "wait_time": derived.wait_time(jobs),
            "response_time": derived.response_time(jobs),
            "slowdown": derived.slowdown(jobs),
            "bounded_slowdown": derived.bounded_slowdown(jobs),
            "restarts": derived.restarts(records.attempts, len(jobs.job_id)),
            "lost_core_seconds": derived.lost_core_seconds(records),
            **({} if energy is None else {"energy": energy}),
        }
        | counted
        | ({} if jobs.eligible_time is None else {"eligible_time": jobs.eligible_time})
        | ({} if jobs.qos is None else {"qos": jobs.qos})
        | {f"{column}_name": _names(getattr(jobs, column), of) for column, of in records.names.of.items()}
        | {column: _own(values) for column, values in records.own.of.items()}
    )


def solve_frame(solves: Solves) -> pl.DataFrame:
    """One row a pass of a dispatcher that plans by constraint programming.

    ``time`` (s); jobs ``queued``, ``considered``, ``started``; ``variables``, ``constraints``; ``branches``,
    ``conflicts``, ``extensions``; ``status`` (a word of :class:`SolveStatus`); ``objective``, ``bound`` (sum
    of expected slowdowns); ``build_seconds``, ``solve_seconds`` (wall-clock s); ``fallback`` (EASY decided);
    ``unplaced`` jobs.
    """
    columns = {column: getattr(solves, column) for column in Solves.__dataclass_fields__}
    return _frame(columns | {"status": _words(solves.status, SolveStatus)})


def _reasons(rejections: Rejections, jobs: int) -> pl.Series:
    """Give the reason for which each job was turned away, null for the others."""
    codes = np.full(jobs, -1, np.int64)
    codes[rejections.job] = rejections.reason
    words = pl.Series([*rejections.reasons, None], dtype=pl.String)
    return words.gather(np.where(codes < 0, len(rejections.reasons), codes))


def node_frame(nodes: Nodes) -> pl.DataFrame:
    """One row a node: ``node`` (number), ``name``, ``group``, ``cores``, ``speed``.

    ``speed`` is that of one core relative to the platform's reference speed. If it is known, also the power
    of the node in W: ``power_idle``, ``power_busy``, ``power_off``.
    """
    columns = {"name": nodes.name, "group": nodes.group, "cores": nodes.cores, "speed": nodes.speed}
    power: dict[str, Any] = {}
    if nodes.power is not None:
        power = {f"power_{state}": getattr(nodes.power, state) for state in ("idle", "busy", "off")}
    return _frame({"node": np.arange(len(nodes.name))} | columns | power)


def occupancy_frame(occupancy: Occupancy, jobs: Jobs) -> pl.DataFrame:
    """One row a stay of a job on neighbouring nodes, in order of start.

    The job held ``cores`` cores on each of the ``count`` nodes from number ``node`` on, from ``start_time``
    to ``end_time`` (s). ``released``: the nodes were given back before the job ended.
    """
    return _frame(
        {
            "job_id": jobs.job_id[occupancy.job],
            "node": occupancy.node,
            "count": occupancy.count,
            "cores": occupancy.cores,
            "start_time": occupancy.start,
            "end_time": occupancy.end,
            "released": occupancy.released,
        }
    )


def loop_frame(loops: Loops, jobs: Jobs, technique: str | None) -> pl.DataFrame:
    """One row a job that executed a loop.

    ``pes``, ``iterations``, ``steps`` (chunks handed out); ``t_loop`` and the PEs' ``mean_finish``,
    ``std_finish``, ``max_finish`` (s from the job's start); ``busy``, ``overhead``, ``idle`` (PE-seconds).
    """
    return _frame(
        {
            "job_id": jobs.job_id[loops.job],
            "technique": _constant(technique, len(loops.job)),
            "pes": loops.pes,
            "iterations": loops.iterations,
            "steps": loops.steps,
            "t_loop": loops.t_loop,
            "mean_finish": loops.mean_finish,
            "std_finish": loops.std_finish,
            "max_finish": loops.max_finish,
            "busy": loops.busy,
            "overhead": loops.overhead,
            "idle": loops.idle,
        }
    )


def chunk_frame(chunks: Chunks, jobs: Jobs) -> pl.DataFrame:
    """One row a chunk: PE ``pe`` of the job executed ``size`` iterations from ``first`` on.

    It asked at ``request_time`` and executed from ``start_time`` to ``end_time`` (s); ``step`` is the
    scheduling step that sized the chunk.
    """
    return _frame(
        {
            "job_id": jobs.job_id[chunks.job],
            "pe": chunks.pe,
            "step": chunks.step,
            "first": chunks.first,
            "size": chunks.size,
            "request_time": chunks.requested,
            "start_time": chunks.start,
            "end_time": chunks.end,
        }
    )


def pe_frame(pes: PEs, jobs: Jobs) -> pl.DataFrame:
    """One row a PE of a job that executed a loop.

    ``finish_time``: end of its last chunk; ``told_time``: when it learned that there is no more work;
    ``busy``: seconds it executed chunks (all s).
    """
    return _frame(
        {
            "job_id": jobs.job_id[pes.job],
            "pe": pes.pe,
            "finish_time": pes.finish,
            "told_time": pes.told,
            "busy": pes.busy,
        }
    )


def message_frame(messages: Messages, jobs: Jobs) -> pl.DataFrame:
    """One row a coordination message, in order of sending.

    ``kind`` (a word of :class:`MessageKind`), ``node`` (null: about no single node), ``nodes`` (how many),
    ``for_job`` (job that nodes are asked for; null in other messages), ``sent_time`` and ``received_time``
    (s), ``remaining_iterations``, ``remaining_work`` (PE-seconds).
    """
    node, for_job = pl.Series(messages.node), pl.Series(messages.for_job)
    return _frame(
        {
            "kind": _words(messages.kind, MessageKind),
            "job_id": jobs.job_id[messages.job],
            "node": node.set(node < 0, None),
            "nodes": messages.nodes,
            "for_job": for_job.set(for_job < 0, None),
            "sent_time": messages.sent,
            "received_time": messages.received,
            "remaining_iterations": messages.remaining_iterations,
            "remaining_work": messages.remaining_work,
        }
    )


def pass_frame(passes: Passes) -> pl.DataFrame:
    """One row a pass of the dispatcher, in order.

    ``time`` (s); ``queue_length`` when it began, with the jobs submitted at its time; ``started`` (jobs);
    ``running`` (jobs) and ``free_units`` (nodes or cores) when it was over; ``wall_time`` (s of wall clock,
    the one column that differs between equal runs).
    """
    return _frame({column.name: getattr(passes, column.name) for column in fields(Passes)})


def outage_frame(outages: Outages) -> pl.DataFrame:
    """One row a stretch of time in which a node was out of use, in order of start.

    ``node``, ``kind`` (a word of :class:`OutageKind`), ``start_time`` and ``end_time`` (s; null where it did
    not come back).
    """
    return _frame(
        {
            "node": outages.node,
            "kind": _words(outages.kind, OutageKind),
            "start_time": outages.start,
            "end_time": outages.end,
        }
    )


def attempt_frame(attempts: Attempts, jobs: Jobs) -> pl.DataFrame:
    """One row an attempt that a failure ended and another one followed, by job, then start.

    ``node`` that failed; ``start_time``, ``end_time`` (s); ``kept`` (s of run time that later attempts need
    not do again), ``lost`` (core-seconds held for nothing), ``busy`` (PE-seconds computed).
    """
    return _frame(
        {
            "job_id": jobs.job_id[attempts.job],
            "node": attempts.node,
            "start_time": attempts.start,
            "end_time": attempts.end,
            "kept": attempts.kept,
            "lost": attempts.lost,
            "busy": attempts.busy,
        }
    )


def frame(table: str, records: Records, technique: str | None) -> pl.DataFrame:
    """Make the frame of one table, by the name of its file: ``jobs``, ``nodes``, ``occupancy`` ...

    Parameters
    ----------
    table
        ``jobs``, ``nodes``, ``occupancy``, ``loops``, ``chunks``, ``pes``, ``messages``, ``passes``,
        ``outages`` or ``attempts``.
    records
        What happened.
    technique
        The run's technique; None if jobs ran no loop.
    """
    return _TABLES[table](records, technique)


def write_tables(directory: Path, records: Records, technique: str | None, csv: bool = False) -> list[Path]:
    """Write the tables of a run into a directory, which is made if it does not exist.

    ``jobs``, ``nodes`` and ``occupancy`` are always written; ``loops``, ``chunks``, ``pes``, ``messages``,
    ``passes``, ``outages`` and ``attempts`` where they have rows. The same records give the same bytes. One
    table is in memory at a time.

    Parameters
    ----------
    directory
        Where to write.
    records
        What happened.
    technique
        The run's technique; None if jobs ran no loop.
    csv
        Also write each table as CSV.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    OutputError
        If a file cannot be written; the message names it.
    """
    _make_directory(directory)
    written: list[Path] = []
    for table in _TABLES:
        if table in _OPTIONAL and not len(_first_column(getattr(records, table))):
            continue
        suffixes = (".parquet", ".csv") if csv else (".parquet",)
        paths = [directory / f"{table}{suffix}" for suffix in suffixes]
        parts = _parts(table, records, technique)
        if parts is None:
            rows = frame(table, records, technique)
            written += [_write(rows, path) for path in paths]
        else:
            written += [_write_parts(parts, path) for path in paths]
    return written


def _first_column(table: Any) -> NDArray[Any]:
    column: NDArray[Any] = getattr(table, fields(table)[0].name)
    return column


def _parts(
    table: str, records: Records, technique: str | None
) -> Callable[[], Iterator[pl.DataFrame]] | None:
    """Give what makes the frames of a very long table some rows at a time; None for other tables."""
    jobs = records.jobs

    def of_jobs() -> Iterator[pl.DataFrame]:
        return (job_frame(block, technique) for block in record_blocks(records, FRAME_ROWS))

    def of_occupancy() -> Iterator[pl.DataFrame]:
        for block in copies_of(records.occupancy, FRAME_ROWS):
            yield occupancy_frame(block, jobs)
            let_go(jobs.job_id)

    def of_passes() -> Iterator[pl.DataFrame]:
        return map(pass_frame, copies_of(records.passes, FRAME_ROWS))

    if table == "jobs" and is_long(jobs):
        return of_jobs
    if table == "occupancy" and is_long(records.occupancy):
        return of_occupancy
    return of_passes if table == "passes" and is_long(records.passes) else None


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise OutputError(f"cannot make the directory {directory}: {err.strerror}") from err


def _write(rows: pl.DataFrame, path: Path) -> Path:
    with _writing(path):
        if path.suffix == ".csv":
            rows.write_csv(path)
        else:
            rows.write_parquet(path, compression="zstd", compression_level=1, row_group_size=_ROW_GROUP)
    return path


def _write_parts(parts: Frames, path: Path) -> Path:
    with _writing(path):
        write_frames(parts, path)
    return path


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as err:
        raise OutputError(f"cannot write {path}: {_reason(err, path)}") from err


def _reason(error: Exception, path: Path) -> str:
    """Give the operating system's words; polars wraps them in its own, or swallows them."""
    system = re.search(r"([^:]+) \(os error \d+\)", str(error))
    if system:
        return system[1].strip()
    try:  # where a file cannot grow, it still cannot
        with path.open("ab") as file:
            file.write(b" " * _PROBE)
    except OSError as found:
        return found.strerror or str(error)
    return str(error)


def _frame(columns: Mapping[str, Any]) -> pl.DataFrame:
    """Columns as a frame; NaN becomes null."""
    return pl.DataFrame(dict(columns), nan_to_null=True)


def _own(values: NDArray[Any]) -> NDArray[Any] | pl.Series:
    """Return a column of the user's own; one of objects holds texts."""
    return pl.Series(values.tolist(), dtype=pl.String) if values.dtype == object else values


def _words(codes: NDArray[np.int8], kind: type[IntEnum]) -> pl.Series:
    """Codes of a closed set as its words: one byte a row, and a text to whoever reads it."""
    words = [member.name.lower().replace("_", "-") for member in kind]
    return pl.Series(words, dtype=pl.Enum(words)).gather(codes.astype(np.uint32))


def _names(codes: Ints, names: Mapping[int, str]) -> pl.Series:
    """Names of codes, null for those without; several codes may have one name."""
    known = np.array(sorted(names), np.int64)
    words = {name: place for place, name in enumerate(dict.fromkeys(names[code] for code in known.tolist()))}
    places = np.array([words[names[code]] for code in known.tolist()], np.int64)
    nearest = np.minimum(np.searchsorted(known, codes), len(known) - 1)
    rows = np.where(known[nearest] == codes, places[nearest], len(words))
    return pl.Series([*words, None], dtype=pl.Enum(list(words))).gather(rows)


def _constant(word: str | None, rows: int) -> pl.Series:
    """Give every row the same word, or null."""
    dtype = pl.String() if word is None else pl.Enum([word])
    return pl.Series([word], dtype=dtype).new_from_index(0, rows)
