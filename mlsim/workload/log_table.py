"""Tables of jobs: one way from columns by name to a log, for every format that has such columns."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mlsim._files.parquet import refusing_damage
from mlsim._runtime.arrays import Ints, Mask
from mlsim.errors import InputError
from mlsim.scenario.resources_section import MEMORY
from mlsim.workload import log_columns
from mlsim.workload.format_record import Reading, WholeLog
from mlsim.workload.log_columns import KNOWN
from mlsim.workload.resource_requests import MB, NODE_COUNT, REQUEST, ResourceRequests, is_request, sized
from mlsim.workload.swf_fields import CODED, IDENTIFIERS, N_COLUMNS, Field, Header, directives_of, names_of
from mlsim.workload.workload_dependencies import DEPENDENCIES, EXPECTED, parse_dependencies
from mlsim.workload.workload_jobs import LogBlock, OwnColumns

_MEMORY = f"{REQUEST}{MEMORY}"
_EXPECTED = "a whole number, or nothing if unknown"
_EXPECTED_MEMORY = f"{_EXPECTED} (MB of 10^6 B), or a size with its unit, such as 3174 MiB"
_LARGEST = 1e15
_LARGEST_MEMORY = 1e12  # MB


def further_columns(names: Sequence[str]) -> list[str]:
    """Return the columns among these that mlsim does not read."""
    read = {*KNOWN, DEPENDENCIES, *(f"{name}_name" for name in CODED if name in names)}
    return [name for name in names if name not in read and not is_request(name)]


def log_of_table(place: str, table: pl.DataFrame, options: Reading) -> WholeLog:
    """Return the log in a table of CSV's columns, with dates and durations as Polars has them."""
    log_columns.check_names(place, table.columns)
    if not table.height:
        raise InputError(f"{place}: holds no job")
    header: Header = {}
    further = further_columns(table.columns)
    table = log_columns.in_seconds(table, header)
    return LogTable(place, table, header, options, further=further).log()


class LogTable:
    """Reads a table of jobs whose columns have the names of CSV workloads; a reader may ``require`` more.

    A cell that makes no sense is an InputError; if lenient, its row is left out and counted. ``further``:
    columns that mlsim does not read; ``locate``: beginning of a message about a cell; ``rows``: what messages
    call rows.
    """

    def __init__(
        self,
        place: str,
        table: pl.DataFrame,
        header: Header,
        options: Reading,
        *,
        further: Sequence[str] = (),
        locate: Callable[[str, int], str] | None = None,
        rows: str = "rows",
    ) -> None:
        self._place, self._table, self._header, self._options = place, table, header, options
        self._further, self._locate, self._rows = further, locate or self._row_of, rows
        log_columns.check_own(place, options.own, further)
        self.columns = np.full((N_COLUMNS, table.height), -1.0)
        self.sound = np.ones(table.height, np.bool_)  # rows that are valid so far
        names = table.columns
        for name in (name for name in names if name in KNOWN and KNOWN[name] not in IDENTIFIERS):
            with self._typed(name):
                self.columns[KNOWN[name]], fits = log_columns.read_column(name, table[name], header)
            self.require(name, fits, KNOWN[name].expected)
        self._identifiers = self._read_identifiers()
        self._add_names_of_codes()
        self._asked = self._read_requests([name for name in names if is_request(name)])
        self._after = None
        if DEPENDENCIES in names:
            with self._typed(DEPENDENCIES):
                cells = table[DEPENDENCIES].cast(pl.String).to_list()
                self._after, fits = parse_dependencies(cells, self._ids.number)
            self.require(DEPENDENCIES, fits, EXPECTED)
        if asking := [name for name in names if is_request(name) or name == NODE_COUNT]:
            header["request_columns"] = asking
        if ignored := [name for name in further if name not in options.own]:
            header["ignored_columns"] = ignored

    def require(self, name: str, fits: Mask, expected: str) -> None:
        """Leave out the rows whose cell of a column does not fit, or raise an InputError about the first."""
        if not self._options.lenient and not fits.all():
            raise InputError(
                f"{self._locate(name, int(np.argmin(fits)))}; expected {expected}\n"
                f"  to skip and count such {self._rows}, set workload.lenient: true"
            )
        self.sound &= fits

    def log(self, broken: int = 0, counts: Mapping[str, int] | None = None) -> WholeLog:
        """Return the log; ``broken`` and ``counts`` add what was skipped before."""
        of = {name: log_columns.own_column(self._place, self._table[name]) for name in self._options.own}
        own = OwnColumns(of) if of else None
        jobs = LogBlock.from_columns(self.columns, self._asked, self._after, own, self._identifiers)
        broken += int(np.sum(~self.sound))
        return WholeLog(jobs.rows(self.sound), self._header, broken, counts or {})

    def _row_of(self, name: str, row: int) -> str:
        return f"{self._place}: row {row + 1}: {name} is {self._table[name][row]!r}"

    def _typed(self, name: str) -> AbstractContextManager[None]:
        found = str(self._table[name].dtype)[:40]
        return refusing_damage(f"{self._place}: column {name} is of type {found}; expected numbers or texts")

    def _read_identifiers(self) -> dict[Field, Ints]:
        with self._typed("job_id"):
            self._ids = log_columns.Identifiers(self._table["job_id"], self.sound, self._header)
        self.require("job_id", self._ids.fits, Field.JOB_ID.expected)
        found = {Field.JOB_ID: self._ids.values}
        if "preceding_job" in self._table.columns:
            with self._typed("preceding_job"):
                found[Field.PRECEDING_JOB], fits = self._ids.others(self._table["preceding_job"])
            self.require("preceding_job", fits, Field.PRECEDING_JOB.expected)
        return found

    def _add_names_of_codes(self) -> None:
        """Add the names in columns such as ``user_name`` to the header."""
        known = names_of(self._header)
        for column in CODED:
            word = f"{column}_name"
            if column in self._table.columns and word in self._table.columns and word not in self._further:
                with self._typed(word):
                    of_codes = {column: _names_in(self._table[column], self._table[word])}
                self._header |= {} if column in known else directives_of(of_codes)

    def _read_requests(self, names: Sequence[str]) -> ResourceRequests | None:
        """Read requests for units and resources; totals must divide evenly among the units."""
        if not names:
            return None
        if f"{REQUEST}cores" in names:
            raise InputError(
                f"{self._place}: column request_cores: write the cores of a job as its processors"
            )
        values: dict[str, Ints] = {}
        exact = None
        for name in names:
            with self._typed(name):
                cells = self._table[name]
                cells = cells if cells.dtype.is_numeric() else cells.cast(pl.String)
            if name == _MEMORY:
                values[name], exact, fits = _memory(cells)
                fits &= values[name] <= _LARGEST_MEMORY
            else:
                values[name], fits = _whole(cells, 1 if name == "units" else 0)
            self.require(name, fits, _EXPECTED_MEMORY if name == _MEMORY else _EXPECTED)
        units: Ints = values.pop("units", np.full(self._table.height, -1, np.int64))
        amounts_of: dict[str, NDArray[Any]] = {
            "processors": self.columns[Field.REQUESTED_PROCESSORS],
            **values,
        }
        for name, amounts in amounts_of.items():
            if name.removeprefix(REQUEST) in self._options.shared:
                continue  # a machine-wide resource is not divided among units
            fits = (units < 1) | (amounts < 0) | (amounts % np.maximum(units, 1) == 0)
            if name == _MEMORY and exact is not None:
                fits |= exact >= 0  # counted in bytes
            self.require(name, fits, "a multiple of the job's units")
        totals = np.empty((self._table.height, len(values)), np.int64)
        for column, amounts in enumerate(values.values()):
            totals[:, column] = amounts
        return ResourceRequests(tuple(name.removeprefix(REQUEST) for name in values), units, totals, exact)


def _names_in(codes: pl.Series, names: pl.Series) -> dict[int, str]:
    """Return the name that each code has in the same row, the first if there are several."""
    if not codes.dtype.is_numeric():
        return {}
    pairs = pl.DataFrame({"code": codes.cast(pl.Int64), "name": names.cast(pl.String)})
    named = pairs.drop_nulls().filter(pl.col("code") >= 0).unique("code", keep="first").sort("code")
    return dict(zip(named["code"].to_list(), named["name"].to_list(), strict=True))


def _memory(cells: pl.Series) -> tuple[Ints, Ints | None, Mask]:
    """Read memory: whole MB, and the exact bytes of those with a unit (None where there are none)."""
    if cells.dtype.is_numeric() or not cells.cast(pl.String).str.contains("[A-Za-z]").any():
        values, fits = _whole(cells, 0)
        return values, None, fits
    texts = cells.cast(pl.String).str.strip_chars().fill_null("")
    with_unit = texts.str.contains("[A-Za-z]")
    values, fits = _whole(texts.set(with_unit, ""), 0)
    sizes = {text: sized(text) for text in texts.filter(with_unit).unique().to_list()}
    exact = np.array([sizes.get(text, -1) for text in texts.to_list()], np.int64)
    written = with_unit.to_numpy()
    values[written] = -(-exact[written] // MB)
    return values, exact, fits & (~written | (exact >= 0))


def _whole(cells: pl.Series, least: int) -> tuple[Ints, Mask]:
    """Read whole numbers from ``least`` up; -1 for unknown ones and -1 itself."""
    numbers, empty = log_columns.numbers_of(cells)
    whole = (numbers == np.floor(numbers)) & (np.abs(numbers) < _LARGEST)
    fits: Mask = empty | (whole & ((numbers >= least) | (numbers == -1)))
    return np.where(whole, numbers, -1.0).astype(np.int64), fits
