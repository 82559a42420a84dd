"""Columns of workload files by name, and one way from a table of them to a log, for every format."""

import difflib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import polars as pl

from mlsim._files.parquet import refusing_damage
from mlsim._runtime.arrays import Floats, Ints, Mask, NDArray
from mlsim.errors import InputError
from mlsim.scenario import field_types, resources_section
from mlsim.scenario.resources_section import DEVICE_PARTS
from mlsim.workload import log_fields, workload_jobs
from mlsim.workload.format_record import Reading, WholeLog
from mlsim.workload.log_attempts import settle_attempts
from mlsim.workload.log_fields import CODED, ExtraField, Field, Header
from mlsim.workload.workload_dependencies import DEPENDENCIES, EXPECTED, parse_dependencies

_REQUIRED = ("job_id", "submit_time", "run_time")
_WALLTIMES = ("walltime", "estimate")
_LIKE = {
    "processors": ("proc", "cpu", "core", "node", "slot", "size"),
    "walltime": ("wall", "limit", "estim"),
}
_OPTIONAL = (
    *("status", "preceding_job", "think_time", "withdraw_time", *CODED),
    *("loop_iterations", "loop_limit", "node_count", "recorded_start"),
)
_OTHER_NAMES: dict[str, Field | ExtraField] = {
    "processors": Field.REQUESTED_PROCESSORS,
    "walltime": Field.REQUESTED_TIME,
    "estimate": Field.REQUESTED_TIME,
}
KNOWN: dict[str, Field | ExtraField] = {
    field.name.lower(): field
    for field in (*Field, *ExtraField)
    if field.name.lower() in (*_REQUIRED, *_OPTIONAL)
} | _OTHER_NAMES
"""Column of the log for each name that is understood."""
# Columns that may hold dates. One before the first submission (clocks differ) counts as at it.
TIMES = ("submit_time", "withdraw_time", "recorded_start")

_SHOWN_NAMES, _SHOWN_LETTERS, _SHOWN_OWN = 40, 60, 20
_NEVER_EMPTY = (Field.JOB_ID, Field.SUBMIT_TIME)
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_WHOLE = r"^[+-]?[0-9]{1,15}$"
_DIGITS = r"^\+?[0-9]+$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"


def check_names(place: str, names: Sequence[str]) -> None:
    """Check that every required column is there, and none twice; ``place``: file, and line, for messages."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InputError(f"{place}: column {_some(twice)} is there twice")
    if all(name in names for name in _WALLTIMES):
        raise InputError(f"{place}: columns walltime and estimate mean the same; keep one of them")
    lacking = [name for name in (*_REQUIRED, "processors") if name not in names]
    lacking += [] if any(name in names for name in _WALLTIMES) else ["walltime"]
    others = [name for name in further_columns(names) if name != workload_jobs.RECORDED_NODES]
    meant = {
        name: difflib.get_close_matches(name, others[:_SHOWN_NAMES], 1, 0.6 if name in _REQUIRED else 0.8)
        or [other for other in others if any(part in other.lower() for part in _LIKE.get(name, ()))][:1]
        for name in lacking
    }
    # Others may be missing, unless a column seems to be one of them under another name.
    missing = [name for name, near in meant.items() if near or name in _REQUIRED]
    if missing:
        hints = [near for name in missing for near in meant[name]]
        hint = f"\n  is {', '.join(hints)} meant?" if hints else ""
        raise InputError(
            f"{place}: column {', '.join(missing)} is missing\n"
            f"  found: {_some(names)}\n"
            f"  required: {', '.join(_REQUIRED)}; optional: walltime, processors, "
            f"{', '.join(_OPTIONAL)}, dependencies, recorded_nodes, units, request_<resource>{hint}"
        )


def _some(names: Sequence[str]) -> str:
    """Return the first few names, shortened, for a message."""
    shown = [name if len(name) <= _SHOWN_LETTERS else name[:_SHOWN_LETTERS] + "..." for name in names]
    more = f" and {len(names) - _SHOWN_NAMES:,} more" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(shown[:_SHOWN_NAMES]) + more


def _is_empty(texts: pl.Series) -> pl.Series:
    return texts.is_null() | (texts == "").fill_null(True)


def read_column(name: str, cells: pl.Series, header: Header) -> tuple[Floats, Mask]:
    """Return a column's values, -1 where unknown, and which make sense; the header gets names of codes."""
    field = KNOWN[name]
    if name in CODED and not cells.dtype.is_numeric():
        texts = cells.cast(pl.String).str.strip_chars()
        if not (texts.str.contains(_WHOLE).fill_null(True) | _is_empty(texts)).all():
            return _codes(name, texts, header), np.ones(cells.len(), np.bool_)
    values, empty = numbers_of(cells)
    if field not in _NEVER_EMPTY:
        values[empty] = -1.0
    return values, field.allows(values)


def numbers_of(cells: pl.Series) -> tuple[Floats, Mask]:
    """Return the numbers of a column, NaN where it has none, and which cells are empty."""
    if cells.dtype.is_numeric():
        values = cells.cast(pl.Float64).fill_null(np.nan).to_numpy().copy()
        return values, np.isnan(values)
    cells = cells.cast(pl.String).str.strip_chars()
    values = cells.cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy().copy()
    values[~cells.str.contains(_NUMBER).fill_null(False).to_numpy()] = np.nan
    return values, _is_empty(cells).to_numpy()


def _codes(name: str, cells: pl.Series, header: Header) -> Floats:
    """Encode a text column: numbers from 1 in the order in which names first appear, -1 for unknown."""
    named = cells.set(cells == "", None)
    names = named.drop_nulls().unique(maintain_order=True)
    header[f"{name}_names"] = names.to_list()
    numbers = pl.Series(range(1, names.len() + 1), dtype=pl.Float64)
    return named.replace_strict(names, numbers, default=-1.0, return_dtype=pl.Float64).to_numpy().copy()


# Further columns, for the user's own code


def check_own(place: str, wanted: Sequence[str], further: Sequence[str]) -> None:
    """Check that the columns of ``workload.columns`` are among the further ones of a log."""
    for name in wanted:
        if name not in further:
            there = ", ".join(further[:_SHOWN_OWN]) or "none"
            raise InputError(
                f"{place}: workload.columns: there is no further column {name!r};"
                f"{field_types.nearest(name, further)} the log has: {there}"
            )


def own_column(place: str, series: pl.Series) -> NDArray[Any]:
    """Read numbers, booleans or texts: as whole numbers if all are, as numbers if all that are there are."""
    nodes = series.name == workload_jobs.RECORDED_NODES  # names, even those of digits alone
    if nodes or series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype == pl.String:
        empty = _is_empty(series)
        if nodes or empty.all() or not (series.str.contains(_NUMBER).fill_null(False) | empty).all():
            texts = np.empty(series.len(), object)
            texts[:] = [text or None for text in series.to_list()]
            return texts
        whole = not empty.any() and series.str.contains(_WHOLE).all()
        series = series.cast(pl.Int64) if whole else series.cast(pl.Float64, strict=False)
    if series.dtype == pl.Boolean:
        series = series.cast(pl.Int64)
    if not series.dtype.is_numeric():
        raise InputError(
            f"{place}: workload.columns: column {series.name} is of type {series.dtype}; allowed: numbers, "
            "booleans, texts"
        )
    if series.dtype.is_integer() and not series.null_count():
        return series.cast(pl.Int64).to_numpy(writable=True)
    return series.cast(pl.Float64).fill_null(np.nan).to_numpy(writable=True)


class Identifiers:
    """The identifiers of the jobs of a log: ``values`` (0 where one makes no sense), and which ``fits``.

    Where one of a ``sound`` row is no number, all are names, kept in the header: a job's number is the place
    of its name among the different ones, from 1.
    """

    def __init__(self, cells: pl.Series, sound: Mask, header: Header) -> None:
        self._names: list[str] = []
        self._numbers: dict[str, int] | None = None
        if not cells.dtype.is_numeric():
            cells = cells.cast(pl.String).str.strip_chars()
            given = pl.Series(sound) & ~_is_empty(cells)
            if not cells.filter(given).str.contains(_NUMBER).all():
                self._names = cells.filter(given).unique(maintain_order=True).to_list()
                self._numbers = {name: number for number, name in enumerate(self._names, 1)}
                header[log_fields.JOB_NAMES] = self._names
                values = cells.replace_strict(self._numbers, default=0, return_dtype=pl.Int64)
                self.values = values.fill_null(0).to_numpy().copy()
                self.fits = self.values > 0
                return
        self.values, self.fits = _whole(cells)

    def others(self, cells: pl.Series) -> tuple[Ints, Mask]:
        """Read a column of identifiers of other jobs; -1 for none."""
        if cells.dtype.is_numeric():
            values, fits = _whole(cells)
            none = cells.is_null() | (cells.is_nan() if cells.dtype.is_float() else False) | (cells < 1)
        else:
            cells = cells.cast(pl.String).str.strip_chars()
            none = cells.is_null() | cells.is_in(["", "-1", "0"])
            if self._numbers is None:
                values, fits = _whole(cells)
            else:
                texts = cells.set(none.fill_null(True), "").to_list()
                values = np.array([self.number(text) if text else 0 for text in texts], np.int64)
                fits = values > 0
        empty: Mask = none.fill_null(True).to_numpy()
        return np.where(empty, -1, values), fits | empty

    def number(self, text: str) -> int | None:
        """Return the number of a job by its text, a new one for an unknown name; None if it is none."""
        if self._numbers is None:
            return log_fields.exact_id(text)
        if text not in self._numbers:
            self._names.append(text)
            self._numbers[text] = len(self._names)
        return self._numbers[text]


def _whole(cells: pl.Series) -> tuple[Ints, Mask]:
    """Read whole numbers from 0 below 2^63, exactly."""
    if cells.dtype.is_integer():
        whole = cells.cast(pl.Int64, strict=False)
    elif cells.dtype.is_numeric():
        whole = _from_floats(cells.cast(pl.Float64))
    else:
        digits = cells.str.contains(_DIGITS)
        whole = cells.str.strip_prefix("+").cast(pl.Int64, strict=False)
        if not digits.fill_null(False).all():
            floats = _from_floats(cells.cast(pl.Float64, strict=False))
            whole = pl.select(pl.when(digits).then(whole).otherwise(floats)).to_series()
    fits: Mask = (whole >= 0).fill_null(False).to_numpy()
    return np.where(fits, whole.fill_null(0).to_numpy(), 0), fits


def _from_floats(cells: pl.Series) -> pl.Series:
    values = cells.fill_null(np.nan).to_numpy()
    fits = Field.JOB_ID.allows(values) & (values < 2.0**63)
    return pl.Series(np.where(fits, values, -1.0).astype(np.int64))


# Dates and durations


def in_seconds(table: pl.DataFrame, header: Header) -> pl.DataFrame:
    """Return a table whose dates are seconds since the first submission, and durations seconds.

    Dates without a zone count as UTC, as those of sacct. A wrong cell becomes a text that no time is.
    """
    found = {name: table[name] for name in table.columns if name in KNOWN}
    durations = {name: cells for name, cells in found.items() if cells.dtype == pl.Duration}
    found |= {name: cells.dt.total_microseconds() / 1e6 for name, cells in durations.items()}
    moments = {}
    if "submit_time" in found and _holds_dates(found["submit_time"]):
        moments = {name: _moments(found[name]) for name in TIMES if name in found}
        zero = moments["submit_time"].min()
    if not moments or not isinstance(zero, float):
        return table.with_columns(**found)
    if zero.is_integer():
        header["UnixStartTime"] = str(int(zero))
    for name, times in moments.items():
        cells, found[name] = found[name].cast(pl.String), (times - zero).clip(0.0)
        wrong = times.is_null() & ~_is_empty(cells.str.strip_chars())
        if wrong.any():
            seconds = found[name].cast(pl.String)
            found[name] = pl.select(pl.when(wrong).then(cells).otherwise(seconds)).to_series()
    return table.with_columns(**found)


def _holds_dates(cells: pl.Series) -> bool:
    if cells.dtype == pl.String:
        return bool(cells.str.strip_chars().str.contains(_DATE).any())
    return cells.dtype in (pl.Date, pl.Datetime)


def _moments(cells: pl.Series) -> pl.Series:
    """Return seconds since 1970, null for what is no date."""
    if cells.dtype in (pl.Date, pl.Datetime):
        return cells.cast(pl.Datetime("us")).dt.epoch("us") / 1e6
    texts = cells.cast(pl.String).str.strip_chars()
    known = {text: _moment(text) for text in texts.unique().to_list()}
    return pl.Series([known[text] for text in texts.to_list()], dtype=pl.Float64)


def _moment(text: str | None) -> float | None:
    try:
        return log_fields.unix_time(text or "")
    except ValueError:
        return None


_MEMORY = f"{workload_jobs.REQUEST}{resources_section.MEMORY}"
_EXPECTED = "a whole number, or nothing if unknown"
_EXPECTED_AMOUNT = "a whole number, a share of a device (0.001 to 0.999), or nothing if unknown"
_ROUNDING = 1e-6
_EXPECTED_MEMORY = f"{_EXPECTED} (MB of 10^6 B), or a size with its unit, such as 3174 MiB"
_LARGEST = 1e15
_LARGEST_MEMORY = 1e12  # MB


def further_columns(names: Sequence[str]) -> list[str]:
    """Return the columns among these that mlsim does not read."""
    read = {*KNOWN, DEPENDENCIES, *(f"{name}_name" for name in CODED if name in names)}
    return [name for name in names if name not in read and not workload_jobs.is_request(name)]


def log_of_table(
    place: str,
    table: pl.DataFrame,
    options: Reading,
    header: Header | None = None,
    further: Sequence[str] | None = None,
) -> WholeLog:
    """Return the log in a table of CSV's columns, with dates and durations as Polars has them.

    ``further``: columns that mlsim does not read, also those that are not in the table.
    """
    check_names(place, table.columns)
    if not table.height:
        raise InputError(f"{place}: holds no job")
    header = {} if header is None else header
    further = further_columns(table.columns) if further is None else further
    return LogTable(place, in_seconds(table, header), header, options, further=further).log()


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
        check_own(place, options.own, further)
        self.columns = np.full((log_fields.N_COLUMNS, table.height), -1.0)
        self.sound = np.ones(table.height, np.bool_)  # rows that are valid so far
        names = table.columns
        for name in (name for name in names if name in KNOWN and KNOWN[name] not in log_fields.IDENTIFIERS):
            with self._typed(name):
                self.columns[KNOWN[name]], fits = read_column(name, table[name], header)
            self.require(name, fits, KNOWN[name].expected)
        nodes = self.columns[ExtraField.NODE_COUNT]
        self._assumed = (nodes < 1) & ("processors" not in names)
        self.columns[Field.REQUESTED_PROCESSORS][self._assumed] = 1.0
        self._identifiers = self._read_identifiers()
        self._add_names_of_codes()
        self._asked = self._read_requests([name for name in names if workload_jobs.is_request(name)])
        self._after = None
        if DEPENDENCIES in names:
            with self._typed(DEPENDENCIES):
                cells = table[DEPENDENCIES].cast(pl.String).to_list()
                self._after, fits = parse_dependencies(cells, self._ids.number)
            self.require(DEPENDENCIES, fits, EXPECTED)
        if asking := [
            name for name in names if workload_jobs.is_request(name) or name == workload_jobs.NODE_COUNT
        ]:
            header["request_columns"] = asking
        self._own = options.wanted(further)
        self._ignored = [name for name in further if name not in self._own]
        if self._ignored:
            header["ignored_columns"] = self._ignored

    def require(self, name: str, fits: Mask, expected: str) -> None:
        """Leave out the rows whose cell of a column does not fit, or raise an InputError about the first."""
        if not self._options.lenient and not fits.all():
            raise InputError(
                f"{self._locate(name, int(np.argmin(fits)))}; expected {expected}\n"
                f"  to skip and count such {self._rows}, set workload.lenient: true"
            )
        self.sound &= fits

    def log(
        self,
        broken: int = 0,
        counts: Mapping[str, int] | None = None,
        understood: Mapping[str, str] | None = None,
        requeued: Mask | None = None,
    ) -> WholeLog:
        """Return the log; ``broken`` and ``counts`` add what was skipped before; see WholeLog.

        ``requeued``: of accounting, which records are of attempts that returned to the queue.
        """
        of = {name: own_column(self._place, self._table[name]) for name in self._own}
        own = workload_jobs.OwnColumns(of) if of else None
        wait, start, submit = (
            self.columns[k] for k in (Field.WAIT_TIME, ExtraField.RECORDED_START, Field.SUBMIT_TIME)
        )
        wait[:] = np.where((wait < 0) & (start >= submit), start - submit, wait)
        jobs = workload_jobs.LogBlock.from_columns(
            self.columns, self._asked, self._after, own, self._identifiers
        )
        broken += int(np.sum(~self.sound))
        assumed = int(np.count_nonzero(self._assumed & self.sound))
        more = {"assumed_processors": assumed} if assumed else {}
        names = understood or {name: name for name in self._table.columns if name not in self._ignored}
        jobs = jobs.rows(self.sound)
        if requeued is not None:
            join = self._options.join_attempts
            jobs, attempts = settle_attempts(jobs, requeued[self.sound], join=join)
            more |= attempts
        return WholeLog(jobs, self._header, broken, {**(counts or {}), **more}, names)

    def _row_of(self, name: str, row: int) -> str:
        return f"{self._place}: row {row + 1}: {name} is {self._table[name][row]!r}"

    def _typed(self, name: str) -> AbstractContextManager[None]:
        found = str(self._table[name].dtype)[:40]
        return refusing_damage(f"{self._place}: column {name} is of type {found}; expected numbers or texts")

    def _read_identifiers(self) -> dict[Field, Ints]:
        with self._typed("job_id"):
            self._ids = Identifiers(self._table["job_id"], self.sound, self._header)
        self.require("job_id", self._ids.fits, Field.JOB_ID.expected)
        found = {Field.JOB_ID: self._ids.values}
        if "preceding_job" in self._table.columns:
            with self._typed("preceding_job"):
                found[Field.PRECEDING_JOB], fits = self._ids.others(self._table["preceding_job"])
            self.require("preceding_job", fits, Field.PRECEDING_JOB.expected)
        return found

    def _add_names_of_codes(self) -> None:
        """Add the names in columns such as ``user_name`` to the header."""
        known = log_fields.names_of(self._header)
        for column in CODED:
            word = f"{column}_name"
            if column in self._table.columns and word in self._table.columns and word not in self._further:
                with self._typed(word):
                    of_codes = {column: _names_in(self._table[column], self._table[word])}
                self._header |= {} if column in known else log_fields.directives_of(of_codes)

    def _read_requests(self, names: Sequence[str]) -> workload_jobs.ResourceRequests | None:
        """Read requests for units and resources; totals must divide evenly among the units."""
        if not names:
            return None
        if f"{workload_jobs.REQUEST}cores" in names:
            raise InputError(
                f"{self._place}: column request_cores: write the cores of a job as its processors"
            )
        values: dict[str, Ints] = {}
        exact, parts = None, dict[str, Ints]()
        for name in names:
            with self._typed(name):
                cells = self._table[name]
                cells = cells if cells.dtype.is_numeric() else cells.cast(pl.String)
            if name == _MEMORY:
                values[name], exact, fits = _memory(cells)
                fits &= values[name] <= _LARGEST_MEMORY
            else:
                values[name], fits = _amounts(cells, 1 if name == "units" else 0)
                if name != "units" and (shares := _shares(cells)).any():
                    parts[name.removeprefix(workload_jobs.REQUEST)] = shares
                    values[name], fits = np.where(shares > 0, 1, values[name]), fits | (shares > 0)
            expected = {_MEMORY: _EXPECTED_MEMORY, "units": _EXPECTED}.get(name, _EXPECTED_AMOUNT)
            self.require(name, fits, expected)
        units: Ints = values.pop("units", np.full(self._table.height, -1, np.int64))
        amounts_of: dict[str, NDArray[Any]] = {
            "processors": self.columns[Field.REQUESTED_PROCESSORS],
            **values,
        }
        for name, amounts in amounts_of.items():
            if name.removeprefix(workload_jobs.REQUEST) in self._options.shared:
                continue  # a machine-wide resource is not divided among units
            fits = (units < 1) | (amounts < 0) | (amounts % np.maximum(units, 1) == 0)
            if name == _MEMORY and exact is not None:
                fits |= exact >= 0  # counted in bytes
            if (share := parts.get(name.removeprefix(workload_jobs.REQUEST))) is not None:
                one = (share == 0) | ((units <= 1) & (self.columns[ExtraField.NODE_COUNT] <= 1))
                self.require(name, one, "whole devices of a job of several units or nodes")
            self.require(name, fits, "a multiple of the job's units")
        totals = np.empty((self._table.height, len(values)), np.int64)
        for column, amounts in enumerate(values.values()):
            totals[:, column] = amounts
        return workload_jobs.ResourceRequests(
            tuple(name.removeprefix(workload_jobs.REQUEST) for name in values), units, totals, exact, parts
        )


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
        values, fits = _amounts(cells, 0)
        return values, None, fits
    texts = cells.cast(pl.String).str.strip_chars().fill_null("")
    with_unit = texts.str.contains("[A-Za-z]")
    values, fits = _amounts(texts.set(with_unit, ""), 0)
    sizes = {text: workload_jobs.sized(text) for text in texts.filter(with_unit).unique().to_list()}
    exact = np.array([sizes.get(text, -1) for text in texts.to_list()], np.int64)
    written = with_unit.to_numpy()
    values[written] = -(-exact[written] // workload_jobs.MB)
    return values, exact, fits & (~written | (exact >= 0))


def _amounts(cells: pl.Series, least: int) -> tuple[Ints, Mask]:
    """Read whole numbers from ``least`` up; -1 for unknown ones and -1 itself."""
    numbers, empty = numbers_of(cells)
    whole = (numbers == np.floor(numbers)) & (np.abs(numbers) < _LARGEST)
    fits: Mask = empty | (whole & ((numbers >= least) | (numbers == -1)))
    return np.where(whole, numbers, -1.0).astype(np.int64), fits


def _shares(cells: pl.Series) -> Ints:
    """Return the thousandths that shares of a device are; 0 of all else."""
    if cells.dtype.is_integer():
        return np.zeros(len(cells), np.int64)
    numbers, _ = numbers_of(cells)
    exact = np.where((numbers > 0) & (numbers < 1), numbers, 0.0) * DEVICE_PARTS
    parts = np.rint(exact)
    return np.where((np.abs(exact - parts) < _ROUNDING) & (parts < DEVICE_PARTS), parts, 0.0).astype(np.int64)
