"""Tables of a run as plain columns of files."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias, get_type_hints

import numpy as np

from mlsim._runtime.arrays import Ints, Mask, NDArray
from mlsim.record import derived_times
from mlsim.record.column_types import Derived, JobState, Stored, stored_columns, words_of
from mlsim.record.derived_times import job_energy
from mlsim.record.node_sets import job_node_sets
from mlsim.record.record_tables import Jobs, NodePower, Nodes, Records
from mlsim.record.table_blocks import n_rows


class Known(NamedTuple):
    """Whole numbers, some of which are not known."""

    numbers: NDArray[Any]  # one a row, whatever where it is not known
    known: Mask


class Words(NamedTuple):
    """Texts of which there are few."""

    codes: NDArray[np.integer[Any]]  # place of the text of each row among the words; -1: none
    words: Sequence[str]  # each once
    closed: bool = True  # the words are a closed set, which files name


Values: TypeAlias = NDArray[Any] | Known | Words | Sequence[str | None]
"""Numbers, NaN where there is none, or flags; numbers and words of which some are missing; or texts."""
Columns: TypeAlias = Mapping[str, Values]  # names of columns to their values

ALWAYS = ("jobs", "nodes", "occupancy")  # files that every run has; the others are there where they have rows


_KINDS = get_type_hints(Records).items()
_TABLES = {name: kind for name, kind in _KINDS if isinstance(kind, type) and stored_columns(kind)}
FILES: dict[str, type] = {name: _TABLES[name] for name in ALWAYS} | _TABLES
"""Name of a file, and of the field of :class:`Records` -> its table, in the order of writing."""


def _n_jobs(records: Records) -> int:
    return len(records.jobs.job_id)


def _of_times(name: str, unit: str, meaning: str, after: str) -> Derived:
    """Declare a column of what the function of its name in ``derived_times`` returns."""
    function = getattr(derived_times, name)
    return Derived(name, "float64", unit, meaning, after, lambda records, _: function(records.jobs))


def _name_column(coded: str, after: str) -> Derived:
    """Declare the column of names of a column of numbers."""

    def names(records: Records, _: str | None) -> Words | None:
        found = records.names.of.get(coded)
        return None if found is None else _names(getattr(records.jobs, coded), found)

    meaning = f"name of its `{coded}`; null where it has none; only if the workload has such names"
    return Derived(f"{coded}_name", "text", "", meaning, after, names)


def _node_sets(records: Records, _: str | None) -> list[str]:
    return job_node_sets(records.occupancy, _n_jobs(records))


def _reasons(records: Records, _: str | None) -> Words:
    """Return the reason for which each job was rejected, none for the others."""
    codes = np.full(_n_jobs(records), -1, np.int64)
    codes[records.rejections.job] = records.rejections.reason
    return Words(codes, records.rejections.reasons, closed=False)


def _application(records: Records, _: str | None) -> Words | None:
    """Return the application of each job; None where there are not several."""
    return _of_names(records, "application")


def _of_names(records: Records, column: str, rows: Ints | None = None) -> Words | None:
    """Return the names of jobs' codes, of all or of some ``rows``; None where they have no codes."""
    codes: Ints | None = getattr(records.jobs, column)
    if codes is None:
        return None
    names = records.names.of.get(column, {})
    return Words(
        codes if rows is None else codes[rows], [names[code] for code in sorted(names)], closed=False
    )


def _technique(table: str) -> Callable[[Records, str | None], Words]:
    """Return the function that gives the technique of every row of a table: of its job, or of the run."""

    def words(records: Records, technique: str | None) -> Words:
        own = _of_names(records, "technique", None if table == "jobs" else records.loops.job)
        if own is not None:
            return own
        rows = n_rows(getattr(records, table))
        if technique is None:
            return Words(np.full(rows, -1, np.int8), (), closed=False)
        return Words(np.zeros(rows, np.int8), (technique,))

    return words


_CODED = ("user", "group", "executable", "queue", "partition", "qos")
_NODES = "nodes it ever held, as intervals: `0-3 7`; empty if rejected"
_REASON = "why it was rejected; null if it was not"
_APPLICATION = "name of its application in the scenario; only with `applications`"
_RESTARTS = "how often it started again, after a failure or the safeguard of the classifier"
_LOST = "held without lasting progress because of failures or the safeguard: all, if it failed"
_ENERGY = (
    "Σ busy power, or its own where that was measured, / cores of the node · cores held · time; only where "
    "the power of nodes is known"
)

_DERIVED: dict[str, tuple[Derived, ...]] = {
    "jobs": (
        _of_times("run_time", "s", "end - start", "end_time"),
        Derived("nodes", "text", "", _NODES, "working", _node_sets),
        Derived("reason", "text", "", _REASON, "state", _reasons),
        Derived("application", "text", "", _APPLICATION, "partition", _application),
        Derived(
            "technique",
            "text",
            "",
            "technique of its loop; null where jobs ran none",
            "application",
            _technique("jobs"),
        ),
        _of_times("wait_time", "s", "start - submit (or `eligible_time`)", "technique"),
        _of_times("response_time", "s", "end - submit (or `eligible_time`)", "wait_time"),
        _of_times("slowdown", "1", "(wait + run) / run; null where run is 0", "response_time"),
        _of_times("bounded_slowdown", "1", "max((wait + run) / max(run, 10 s), 1)", "slowdown"),
        Derived(
            "restarts",
            "int64",
            "",
            _RESTARTS,
            "bounded_slowdown",
            lambda records, _: derived_times.restarts(records.attempts, _n_jobs(records)),
        ),
        Derived(
            "lost_core_seconds",
            "float64",
            "core s",
            _LOST,
            "restarts",
            lambda records, _: derived_times.lost_core_seconds(records),
        ),
        Derived(
            "energy", "float64", "J", _ENERGY, "lost_core_seconds", lambda records, _: job_energy(records)
        ),
        _name_column("job_id", "job_id"),
        *(
            _name_column(coded, f"{before}_name" if before else "qos")
            for before, coded in zip((None, *_CODED), _CODED, strict=False)
        ),
    ),
    "attempts": (
        Derived(
            "attempt",
            "int32",
            "",
            "which of the job it was, from 1",
            "job_id",
            lambda records, _: derived_times.attempt_numbers(records.attempts),
        ),
    ),
    "nodes": (
        Derived("node", "int64", "", "its number", "", lambda records, _: np.arange(len(records.nodes.name))),
    ),
    "loops": (Derived("technique", "text", "", "technique of the loop", "job_id", _technique("loops")),),
}


@cache
def columns_of(file: str) -> tuple[Stored | Derived, ...]:
    """Return the columns of a file, in their order, those included that only some runs have."""
    ordered: list[Stored | Derived] = []
    power: tuple[Stored, ...] = stored_columns(NodePower) if file == "nodes" else ()
    declared: list[Stored | Derived] = [*stored_columns(FILES[file]), *power, *_DERIVED.get(file, ())]
    for column in declared:
        after = column.after if isinstance(column, Derived) else column.column.after
        names = [other.name for other in ordered]
        if after or isinstance(column, Derived):
            ordered.insert(names.index(after) + 1 if after else 0, column)
        else:
            ordered.append(column)
    return tuple(ordered)


JOB_COLUMNS = tuple(column.name for column in columns_of("jobs"))
"""Columns that the file of jobs may have; those of the user's own have other names."""


def file_columns(file: str, records: Records, technique: str | None) -> dict[str, Values]:
    """Return the columns of a file that the run has, user-defined ones of jobs last."""
    columns = {}
    for column in columns_of(file):
        if isinstance(column, Derived):
            values = column.values(records, technique)
        else:
            values = _stored(column, getattr(records, file), records.jobs)
        if values is not None:
            columns[column.name] = values
    return columns | dict(records.own.of) if file == "jobs" else columns


def _stored(stored: Stored, table: Any, jobs: Jobs) -> Values | None:
    """Return a column of a table as files hold it; None if the table lacks it."""
    if isinstance(table, Nodes) and stored in stored_columns(NodePower):
        table = table.power
    values: Any = None if table is None else getattr(table, stored.field)
    column = stored.column
    if values is None:
        return None
    if column.job:
        numbers: Ints = jobs.job_id[values]
        return numbers
    if column.words is not None:
        words = words_of(column.words)
        if column.words is JobState and jobs.withdraw_time is None:
            words.pop()  # so that files of runs without such jobs stay what they were
        return Words(values, tuple(words))
    return Known(values, values >= 0) if column.unknown else values


def _names(codes: Ints, names: Mapping[int, str]) -> Words:
    """Names of codes, none for those without; several codes may have one name."""
    known = np.array(sorted(names), np.int64)
    words = {name: place for place, name in enumerate(dict.fromkeys(names[code] for code in known.tolist()))}
    places = np.array([words[names[code]] for code in known.tolist()], np.int64)
    nearest = np.minimum(np.searchsorted(known, codes), len(known) - 1)
    return Words(np.where(known[nearest] == codes, places[nearest], -1), tuple(words))
