"""Tables of a run as data frames, Parquet and CSV files, and back, with checks of their values.

Imports Polars, and so is imported late.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from mlsim._files import is_there
from mlsim._files.parquet import read_columns, read_rows, read_schema, refusing_damage, write_frames
from mlsim._runtime.arrays import Floats, Ints, Mask, NDArray
from mlsim._runtime.forks import check_fork
from mlsim.errors import InputError, OutputError
from mlsim.record import record_tables as tables
from mlsim.record.column_types import Stored, empty, let_go, stored_columns, words_of
from mlsim.record.derived_times import of_last_attempts, restarts
from mlsim.record.table_blocks import chunk_blocks, copies_of, is_long, n_rows, record_blocks
from mlsim.record.table_files import ALWAYS, FILES, JOB_COLUMNS, Columns, Known, Values, Words, file_columns

_ROW_GROUP = 1 << 16  # rows encoded at a time: bounds the memory that writing takes
_STAYS = 1 << 16  # stays of a row group of jobs that are in memory with it


def write_tables(
    directory: Path, records: tables.Records, technique: str | None, csv: bool = False
) -> list[Path]:
    """Write the tables of a run into a directory, as CSV as well if asked; return the files.

    ``jobs``, ``nodes`` and ``occupancy`` are always written, the others where they have rows. The same
    records give the same bytes; one table is in memory at a time. Raises OutputError, which names the file.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise OutputError(f"cannot make the directory {directory}: {err.strerror}") from err
    written: list[Path] = []
    for table in FILES:
        if table in ALWAYS or n_rows(getattr(records, table)):
            written.append(_write_parquet(table, records, technique, directory / f"{table}.parquet"))
            if csv:
                written.append(_write_csv(table, records, technique, directory / f"{table}.csv"))
    return written


def _blocks(table: str, records: tables.Records) -> Iterator[tables.Records]:
    """Yield records with some rows of a table that may be long after the other."""
    rows = getattr(records, table)
    if table == "chunks":
        for chunks in chunk_blocks(rows):
            yield replace(records, chunks=chunks)
    elif table == "jobs" and max(n_rows(rows), n_rows(records.occupancy) // 8) > _ROW_GROUP:
        # Part of a row group: it has many columns, and of jobs on many nodes the stays are in memory too.
        yield from record_blocks(records, max(_ROW_GROUP // (4 + n_rows(records.occupancy) // _STAYS), 1))
    elif table not in ("occupancy", "passes", "messages", "loops") or n_rows(rows) <= _ROW_GROUP:
        yield records
    else:
        for block in copies_of(rows, _ROW_GROUP):
            yield replace(records, **{table: block})
            let_go(records.jobs.job_id)


def _write_parquet(table: str, records: tables.Records, technique: str | None, path: Path) -> Path:
    # The texts of nodes make rows of jobs with many stays long.
    rows = _ROW_GROUP // 4 if table == "jobs" and is_long(records.occupancy) else _ROW_GROUP
    with _writing(path):
        write_frames(path, (frame(table, block, technique) for block in _blocks(table, records)), rows=rows)
    return path


def _write_csv(table: str, records: tables.Records, technique: str | None, path: Path) -> Path:
    with _writing(path), path.open("wb") as file:
        for number, block in enumerate(_blocks(table, records)):
            frame(table, block, technique).write_csv(file, include_header=number == 0)
    return path


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as err:
        raise OutputError(f"cannot write {path}: {err.strerror or err}") from err


def frame(file: str, records: tables.Records, technique: str | None) -> pl.DataFrame:
    """Return the frame of one table; parameters and columns are those of :func:`file_columns`."""
    return frame_of(file_columns(file, records, technique))


def frame_of(columns: Columns) -> pl.DataFrame:
    """Return a frame of plain columns; NaN becomes null."""
    check_fork()
    return pl.DataFrame({name: _polars(values) for name, values in columns.items()}, nan_to_null=True)


def _polars(values: Values) -> pl.Series | Values:
    if isinstance(values, Known):
        series = pl.Series(values.numbers)
        return series if values.known.all() else series.set(pl.Series(~values.known), None)
    if isinstance(values, Words):  # one byte per row where words are few, and a text to readers
        words = [*values.words, None]
        kind = pl.Enum(list(values.words)) if values.closed else pl.String()
        places = np.where(values.codes < 0, len(values.words), values.codes)
        return pl.Series(words, dtype=kind).gather(places.astype(np.uint32))
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values
    return pl.Series(list(values), dtype=pl.String)


_LARGEST, _MOST = 1e18, 10**15  # of numbers with a unit, in its amount; and of counts
_NUMBERS = ("job_id", "user", "group", "executable", "queue", "partition", "qos")
"""Columns of names that are numbers: any will do."""


def check_values(path: Path, stored: Stored, series: pl.Series, places: Ints | None = None) -> None:
    """Raise InputError if a column holds what no run writes; ``places``: rows of the file, None: all."""
    column = stored.column
    floats = stored.dtype is not None and stored.dtype.kind == "f"
    if column.always or not (floats or column.unknown or stored.optional):
        missing = series.is_null() | series.is_nan() if series.dtype.is_float() else series.is_null()
        _refuse(path, stored.name, series, missing, "a value in every row", places)
    if not series.dtype.is_numeric() or column.words is not None or stored.dtype is None:
        return  # words and texts are what they are read as
    if series.dtype.is_float():
        # A comparison with NaN is true in Polars where NaN is the larger one.
        _refuse(path, stored.name, series, series.abs() > _LARGEST, f"finite, {_LARGEST:g} at most", places)
    elif stored.name not in _NUMBERS and not column.job:
        least = -1 if column.unknown or "-1" in column.meaning else 0
        numbers = series.cast(pl.Float64)  # narrow types hold no bound that lies beyond them
        outside = (numbers < least) | (numbers > _MOST)
        _refuse(path, stored.name, series, outside, f"{least} to {_MOST:.0e}", places)


def _refuse(
    path: Path, name: str, series: pl.Series, wrong: pl.Series, allowed: str, places: Ints | None
) -> None:
    rows = wrong.fill_null(False).arg_true()
    if rows.len():
        found = "null" if series[rows[0]] is None else f"{series[rows[0]]!r:.40}"
        raise InputError(
            f"{path}: column {name!r} holds what no run writes: {found} in row {_row(rows[0], places)}; "
            f"allowed: {allowed}. Run the scenario again."
        )


def _row(row: int, places: Ints | None) -> int:
    return row + 1 if places is None else int(places[row]) + 1


def check_rows(path: Path, wrong: Mask, said: Callable[[int], str], places: Ints | None = None) -> None:
    """Raise InputError for the first wrong row, described by ``said``."""
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"{path}: row {_row(row, places)} holds what no run writes: {said(row)}. Run the scenario again."
        )


def check_times(path: Path, start: Floats, end: Floats, places: Ints | None = None) -> None:
    """Raise InputError if a row ends before it starts, or has only one of both times."""
    wrong = (end < start) | (np.isnan(start) != np.isnan(end))
    check_rows(path, wrong, lambda row: f"a start at {start[row]:g} and an end at {end[row]:g} s", places)


def check_nodes(path: Path, node: Ints, nodes: int, count: Ints | None = None) -> None:
    """Raise InputError if a node is not part of the machine."""
    last = node if count is None else node + np.maximum(count, 1) - 1
    check_rows(path, last >= nodes, lambda row: f"node {last[row]} of a machine of {nodes}")


def check_loop_rows(path: Path, rows: tables.Chunks | tables.PEs, loops: tables.Loops, places: Ints) -> None:
    """Raise InputError for PEs that a loop does not have, and for chunks outside of its iterations."""
    order = np.argsort(loops.job, kind="stable")
    of = order[np.searchsorted(loops.job[order], rows.job)]
    pes, iterations = loops.pes[of], loops.iterations[of]
    check_rows(
        path,
        (rows.pe < 0) | (rows.pe >= pes),
        lambda row: f"PE {rows.pe[row]} of a loop on {pes[row]} PEs",
        places,
    )
    if isinstance(rows, tables.Chunks):
        first, size = rows.first, rows.size
        check_times(path, rows.start, rows.end, places)
        check_rows(
            path,
            (size < 1) | (first < 0) | (first + size > iterations),
            lambda row: f"{size[row]} iterations from {first[row]} on, of a loop of {iterations[row]}",
            places,
        )


Table = TypeVar("Table")
LoopRows = TypeVar("LoopRows", tables.Chunks, tables.PEs)

_UNKNOWN = -1  # missing-value sentinel of integer columns; that of times is NaN
_MEASURED = 1.0  # s; of real runs, nodes and jobs have clocks of their own


def read_tables(directory: str | Path, without: Collection[str] = ()) -> tables.Records:
    """Read the tables of a run, but those named in ``without``, and the columns that they declare.

    Raises InputError, which names file and column, if a table is missing, is no Parquet file, lacks a column
    or holds what no run writes.
    """
    paths = {name: Path(directory) / f"{name}.parquet" for name in FILES}
    of_jobs, stays = paths["jobs"], paths["occupancy"]
    jobs, applications = _with_applications(of_jobs, _read(of_jobs, tables.Jobs))
    check_times(of_jobs, jobs.start_time, jobs.end_time)
    numbers = _Numbers(jobs.job_id, jobs.submit_time, jobs.start_time)
    optional: dict[str, Any] = {
        name: _read(paths[name], table, numbers)
        for name, table in FILES.items()
        if name not in (*ALWAYS, *without) and is_there(paths[name])
    }
    nodes, occupancy = _read_nodes(paths["nodes"]), _read(stays, tables.Occupancy, numbers)
    check_times(stays, occupancy.start, occupancy.end)
    check_nodes(stays, occupancy.node, len(nodes.name), occupancy.count)
    ends = jobs.end_time[occupancy.job]
    check_rows(
        stays,
        occupancy.end > ends + _MEASURED,
        lambda row: f"an end at {occupancy.end[row]:g} s, and its job ends at {ends[row]:g} s",
    )
    for name in optional.keys() & {"outages", "attempts", "messages"}:
        check_nodes(paths[name], optional[name].node, len(nodes.name))
    rest = {name: optional.get(name) or empty(table) for name, table in FILES.items() if name not in ALWAYS}
    rest |= {
        "rejections": _read_rejections(of_jobs),
        "names": tables.Names({**_read_names(of_jobs).of, **applications}),
        "own": _read_own(of_jobs),
    }
    return tables.Records(nodes=nodes, jobs=jobs, occupancy=occupancy, **rest)


def read_rows_of_loops(path: Path, table: type[LoopRows], records: tables.Records, wanted: Ints) -> LoopRows:
    """Read the chunks or PEs of the last attempts of ``wanted`` jobs, as :func:`read_tables` does."""
    here = _schema(path)
    columns = [stored for stored in stored_columns(table) if stored.name in here or not stored.optional]
    missing = [stored.name for stored in columns if stored.name not in here]
    if missing:
        raise InputError(f"{path}: there is no column {missing[0]!r}; run the scenario again")
    names, jobs = [stored.name for stored in columns], records.jobs
    found, row = read_rows(path, names, "job_id", jobs.job_id[wanted].tolist())
    places = row.cast(pl.Int64).to_numpy()
    values = {stored.field: _values(path, stored, found[stored.name], places) for stored in columns}
    numbers = _Numbers(jobs.job_id, jobs.submit_time, jobs.start_time)
    starts = found["start_time"] if "start_time" in names else None
    rows = table(**{**values, "job": numbers.rows(values["job"], path, starts)})
    if rows.attempt is not None:
        places = places[rows.attempt > restarts(records.attempts, len(jobs.job_id))[rows.job]]
        rows = of_last_attempts(rows, records.attempts, len(jobs.job_id))
    check_loop_rows(path, rows, records.loops, places)
    return rows


def _read_nodes(path: Path) -> tables.Nodes:
    """Read the nodes, and their power if it is known."""
    nodes = _read(path, tables.Nodes)
    check_rows(
        path,
        (nodes.cores < 1) | ~(nodes.speed > 0.0),
        lambda row: f"a node of {nodes.cores[row]} cores of speed {nodes.speed[row]:g}",
    )
    power = stored_columns(tables.NodePower)
    if not {stored.name for stored in power} <= set(_schema(path)):
        return nodes
    return replace(nodes, power=tables.NodePower(*(_column(path, stored) for stored in power)))


def _read_rejections(path: Path) -> tables.Rejections:
    """Read why jobs were turned away."""
    if "reason" not in _schema(path):
        return tables.Rejections.none()
    reason = _series(path, "reason")
    with refusing_damage(f"{path}: column 'reason' holds what no run writes"):
        rows = reason.is_not_null().arg_true()
        reasons = reason.gather(rows).cast(pl.String)
        words = reasons.unique(maintain_order=True).to_list()
        if not words:
            return tables.Rejections.none()
        codes = reasons.replace_strict(words, list(range(len(words))), return_dtype=pl.Int32)
        return tables.Rejections(rows.cast(pl.Int64).to_numpy(), codes.to_numpy(), tuple(words))


def _read_names(path: Path) -> tables.Names:
    """Read which codes have which names: those of ``user`` are in ``user_name``, and so on."""
    here = set(_schema(path))
    coded = {stored.name: stored for stored in stored_columns(tables.Jobs)}
    found: dict[str, dict[int, str]] = {}
    for column in sorted(name for name in coded if {name, f"{name}_name"} <= here):
        codes, names = _column(path, coded[column]), _series(path, f"{column}_name")
        rows = names.is_not_null().arg_true().to_numpy()
        of_codes, first = np.unique(codes[rows], return_index=True)
        words = names.gather(rows[first]).cast(pl.String).to_list()
        found[column] = dict(zip(of_codes.tolist(), words, strict=True))
    return tables.Names({column: names for column, names in found.items() if names})


def _with_applications(path: Path, jobs: tables.Jobs) -> tuple[tables.Jobs, dict[str, dict[int, str]]]:
    """Add application and technique of jobs, and the names of their codes, if there are several."""
    if _schema(path).get("application") != pl.String:
        return jobs, {}
    codes: dict[str, Any] = {}
    names: dict[str, dict[int, str]] = {}
    for column in ("application", "technique"):
        series = _series(path, column).cast(pl.String)
        known = series.drop_nulls().unique().sort().to_list()
        names[column] = dict(enumerate(known))
        places = series.replace_strict(known, list(range(len(known))), default=-1, return_dtype=pl.Int64)
        codes[column] = places.fill_null(-1).to_numpy(writable=True)
    return replace(jobs, **codes), names


def _read_own(path: Path) -> tables.OwnColumns:
    """Read the user-defined columns, of numbers or texts."""
    kinds = {name: kind for name, kind in _schema(path).items() if name not in JOB_COLUMNS}
    wanted = [name for name, kind in kinds.items() if kind == pl.String or kind.is_numeric()]
    return tables.OwnColumns({name: _own(path, name) for name in wanted})


def _own(path: Path, name: str) -> NDArray[Any]:
    series = _series(path, name)
    if series.dtype == pl.String:
        texts = np.empty(series.len(), object)
        texts[:] = series.to_list()
        return texts
    if series.dtype.is_integer() and not series.null_count():
        return series.cast(pl.Int64).to_numpy(writable=True)
    return series.cast(pl.Float64).fill_null(np.nan).to_numpy(writable=True)


@dataclass(frozen=True)
class _Numbers:
    """Finds the rows of jobs by their identifiers."""

    job_id: Ints
    submit_time: NDArray[np.float64]
    start_time: NDArray[np.float64]

    def rows(self, ids: Ints, path: Path, starts: pl.Series | None) -> Ints:
        """Return the row of each job identifier; ``starts`` distinguishes jobs of one identifier."""
        order = np.argsort(self.job_id, kind="stable")
        known = self.job_id[order]
        place = np.searchsorted(known, ids)
        missing = place == len(known)
        missing[~missing] = known[place[~missing]] != ids[~missing]
        if missing.any():
            raise InputError(f"{path}: job {ids[missing][0]} is not in jobs.parquet; is it of another run?")
        if not (np.diff(known) == 0).any():
            return order[place]
        if starts is None:
            raise InputError(f"{path}: jobs.parquet has jobs of the same job_id, which cannot be told apart")
        return self._last_started(ids, starts, path.parent)

    def _last_started(self, ids: Ints, starts: pl.Series, directory: Path) -> Ints:
        """Return, among jobs of one identifier, the one of which an attempt had started last."""
        last = pl.DataFrame({"id": self.job_id, "start": self.start_time}, nan_to_null=True)
        last = last.with_row_index("row").drop_nulls("start")
        known = pl.concat([last, self._earlier_attempts(directory)], how="diagonal").sort("start", "row")
        asked = pl.DataFrame({"id": ids, "start": starts}).with_row_index("place").sort("start", "place")
        found = asked.join_asof(known, on="start", by="id", check_sortedness=False).sort("place")
        return found["row"].fill_null(0).cast(pl.Int64).to_numpy()

    def _earlier_attempts(self, directory: Path) -> pl.DataFrame:
        """Return the starts of attempts that others followed: files have them by job, in order of jobs."""
        jobs, attempts = directory / "jobs.parquet", directory / "attempts.parquet"
        if not is_there(attempts):
            return pl.DataFrame()
        again = _series(jobs, "restarts")
        with refusing_damage(f"{jobs}: column 'restarts' holds what no run writes"):
            row = np.repeat(np.arange(len(self.job_id), dtype=np.uint32), again.cast(pl.UInt32).to_numpy())
        start = _series(attempts, "start_time").cast(pl.Float64)
        if len(row) != start.len():
            raise InputError(
                f"{attempts}: has {start.len()} rows, and jobs.parquet tells of {len(row)} restarts"
            )
        return pl.DataFrame({"row": row, "id": self.job_id[row], "start": start})


def _read(path: Path, table: type[Table], numbers: _Numbers | None = None) -> Table:
    """Read one table, column by column, so that a column is in memory once."""
    here = _schema(path)
    starts = "start_time" if "start_time" in here else None
    columns: dict[str, Any] = {}
    for stored in stored_columns(table):
        if stored.name in here:
            columns[stored.field] = _column(path, stored)
            if stored.column.job and numbers is not None:
                began = None if starts is None else _series(path, starts)
                columns[stored.field] = numbers.rows(columns[stored.field], path, began)
        elif not stored.optional:
            raise InputError(
                f"{path}: there is no column {stored.name!r}; was it written by another version of mlsim? "
                "Run the scenario again."
            )
    return table(**columns)


def _schema(path: Path) -> Mapping[str, Any]:
    if not is_there(path):
        raise InputError(f"{path}: there is no such file; a run writes one")
    return read_schema(path, path)


def _series(path: Path, name: str) -> pl.Series:
    return read_columns(path, path, [name]).to_series()


def _column(path: Path, stored: Stored) -> Any:
    """Read one column in the type that its table has."""
    return _values(path, stored, _series(path, stored.name))


def _values(path: Path, stored: Stored, series: pl.Series, places: Ints | None = None) -> Any:
    """Return a column of a file in the type that its table has."""
    with refusing_damage(f"{path}: column {stored.name!r} holds what no run writes"):
        check_values(path, stored, series, places)
        if stored.column.words is not None:
            words = pl.Enum(words_of(stored.column.words))
            return series.cast(words).to_physical().cast(pl.Int8).to_numpy(writable=True)
        if stored.dtype is None:
            return series.cast(pl.String).to_list()
        dtype, unknown = _TYPES[stored.dtype]
        return series.cast(dtype).fill_null(unknown).to_numpy(writable=True)


_TYPES: dict[np.dtype[Any], tuple[type[pl.DataType], Any]] = {
    np.dtype(np.float64): (pl.Float64, np.nan),
    np.dtype(np.int64): (pl.Int64, _UNKNOWN),
    np.dtype(np.int32): (pl.Int32, _UNKNOWN),
    np.dtype(np.bool_): (pl.Boolean, False),
}
"""Polars type of a column, and the value that represents null."""
