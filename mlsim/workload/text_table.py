"""Tables of text: lines with any delimiter, rows that names have broken, and columns read cell by cell.

Every step works on whole columns; only rows whose number of cells is wrong are looked at one by one.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from mlsim.errors import InputError
from mlsim.workload.format_record import quoted_rows

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.%/-]*")
_MOST_LINES = 100  # of one row


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows of text cells: ``lines`` has the number of each row's first line."""

    cells: pl.DataFrame
    lines: pl.Series
    broken: list[tuple[int, str]] = field(default_factory=list)  # line and fault of rows that are left out
    counts: Counter[str] = field(default_factory=Counter)

    def where(self, mask: pl.Series) -> "TextTable":
        """Return the rows of a mask."""
        return TextTable(self.cells.filter(mask), self.lines.filter(mask), self.broken, self.counts)


def delimiter_of(head: str) -> str:
    """Return what stands between the names of a line of names; an empty text where there is only one."""
    names = head.strip().strip('"')
    first = _NAME.search(names)
    rest = names[first.end() :] if first else ""
    between = re.match(r'"?([^A-Za-z0-9"]+)"?', rest)
    return "" if between is None else between[1].strip(" ") or between[1]


def text_table(
    place: str,
    text: str,
    known: Sequence[str],
    fits: Callable[[Mapping[str, str]], bool],
    texts: Sequence[str],
    join: Callable[[list[str], list[str]], list[str]] | None = None,
) -> TextTable:
    """Read lines below a line of names, divided by whatever stands between these; ``known`` spells names.

    A row with too many cells has a delimiter in one of its texts, and one with too few a newline: they are
    joined where the row then ``fits``, in the first possible of the columns ``texts``, else of any. ``join``
    joins cells that the delimiter divides in every row, given these and the names.
    """
    lines = [line.rstrip("\r") for line in text.split("\n")]
    start = next(k for k, line in enumerate(lines) if line.strip())
    delimiter = delimiter_of(lines[start])
    if not delimiter.strip(" "):
        raise InputError(f"{place}: line {start + 1}: no delimiter stands between the names of columns")
    quoted = '"' in text and len(delimiter) == 1 and delimiter != "|"
    try:
        rows = list(quoted_rows([f"{line}\n" for line in lines[start:]], delimiter)) if quoted else []
    except csv.Error as error:
        raise InputError(f"{place}: cannot be read as text between quotes: {error}") from error
    head = rows.pop(0)[1] if rows else lines[start].split(delimiter)
    spelled = {name.lower(): name for name in known}
    names = [spelled.get(name.lower(), name) for name in (cell.strip().strip('"') for cell in head)]
    closed = not names[-1]  # each line ends with a delimiter
    names = [name or f"column {k}" for k, name in enumerate(names[: len(names) - closed], start=1)]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(f"{place}: line {start + 1}: column {twice[0]:.60} is there twice")
    width = len(names) + closed
    strange: list[tuple[int, list[str]]] = []
    if quoted:
        rows = [(start + line, row) for line, row in rows]
        whole = [(line, row) for line, row in rows if len(row) == width]
        strange = [(line, row) for line, row in rows if len(row) != width and any(row)]
        parts = pl.DataFrame(
            [row for _, row in whole], schema=[(f"field_{k}", pl.String) for k in range(width)], orient="row"
        )
        places = pl.Series([line for line, _ in whole], dtype=pl.Int64)
    else:
        body = pl.DataFrame({"text": lines[start + 1 :]}, schema={"text": pl.String}).with_row_index(
            "line", start + 2
        )
        body = body.filter(pl.col("text").str.strip_chars() != "")
        even = body["text"].str.count_matches(delimiter, literal=True) == width - 1
        fine = body.filter(even)
        parts = fine["text"].str.split_exact(delimiter, width - 1).struct.unnest()
        places = fine["line"].cast(pl.Int64)
        strange = [(line, row.split(delimiter)) for line, row in body.filter(~even).iter_rows()]
    frame = parts.select(pl.col(f"field_{k}").str.strip_chars().alias(name) for k, name in enumerate(names))
    again = frame.select(pl.all_horizontal(pl.col(name) == name for name in names)).to_series()
    table = TextTable(frame.filter(~again), places.filter(~again))
    mender = _Mender(names, delimiter, closed, fits, texts, join)
    mended = list(mender.rows(strange, table.broken))
    if not mended:
        return table
    if mender.joined:
        table.counts["rejoined_rows"] += mender.joined
    more = pl.DataFrame([row for _, row in mended], schema=frame.schema, orient="row")
    numbers = pl.concat([table.lines, pl.Series([line for line, _ in mended], dtype=pl.Int64)])
    order = numbers.arg_sort()
    return TextTable(pl.concat([table.cells, more])[order], numbers[order], table.broken, table.counts)


@dataclass
class _Mender:
    """Joins what delimiters and newlines in texts have divided."""

    names: list[str]
    delimiter: str
    closed: bool
    fits: Callable[[Mapping[str, str]], bool]
    texts: Sequence[str]
    join: Callable[[list[str], list[str]], list[str]] | None
    joined: int = 0  # rows whose texts were joined

    def rows(
        self, strange: Sequence[tuple[int, list[str]]], broken: list[tuple[int, str]]
    ) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows that could be mended, and note the others."""
        k = 0
        while k < len(strange):
            line, cells = strange[k]
            taken, row = 1, self._row(cells)
            while row is None and k + taken < len(strange) and taken < _MOST_LINES:
                follower, more = strange[k + taken]
                if follower != line + taken or len(cells) > len(self.names) + self.closed:
                    break
                cells = [*cells[:-1], f"{cells[-1]} {more[0]}", *more[1:]]
                taken, row = taken + 1, self._row(cells)
            if row is None:
                found = len(strange[k][1])
                broken.append((line, f"{found} cells; the first line names {len(self.names)} columns"))
                taken = 1
            else:
                plain = self.join is not None and len(self.join(cells, self.names)) <= len(row) + self.closed
                self.joined += taken > 1 or not plain
                yield line, row
            k += taken

    def _row(self, cells: list[str]) -> list[str] | None:
        cells = [cell.strip() for cell in cells]
        if self.join is not None:
            cells = self.join(cells, self.names)
        if len(cells) == len(self.names) + 1 and not cells[-1]:
            cells.pop()
        extra = len(cells) - len(self.names)
        if extra < 0:
            return None
        order = [*(name for name in self.texts if name in self.names), *self.names]
        for name in dict.fromkeys(order if extra else self.names[:1]):
            at = self.names.index(name)
            row = [*cells[:at], self.delimiter.join(cells[at : at + extra + 1]), *cells[at + extra + 1 :]]
            if self.fits(dict(zip(self.names, row, strict=True))):
                return row
        return None


Cell = Callable[[str], Any]
"""Reads a cell that is not empty: a value, None if it is unknown, a ValueError with the expected form."""


class Columns:
    """Columns of a log, read of columns of text; ``faults`` has the first one of each row.

    ``fast`` reads the plain cells of a reader at once, as null where the reader itself has to look.
    """

    def __init__(self, cells: pl.DataFrame, fast: Mapping[Cell, Callable[[pl.Series], pl.Series]]) -> None:
        self.cells, self._fast = cells, fast
        self.read: dict[str, pl.Series] = {}
        self.sources: dict[str, list[str]] = {}
        self.faults: dict[int, str] = {}

    def add(self, column: str, sources: Mapping[str, Cell], kind: type[pl.DataType]) -> None:
        """Read a column: in each row the first of its sources with a value."""
        there = {name: read for name, read in sources.items() if name in self.cells.columns}
        if not there:
            return
        values = pl.Series(column, [None] * self.cells.height, dtype=kind)
        for name, read in there.items():
            found = self._mapped(name, read, values.is_null(), kind)
            values = pl.select(pl.when(values.is_null()).then(found).otherwise(values)).to_series()
        self.read[column], self.sources[column] = values.alias(column), list(there)

    def _mapped(self, name: str, read: Cell, wanted: pl.Series, kind: type[pl.DataType]) -> pl.Series:
        cells = self.cells[name].set(~wanted | (self.cells[name] == ""), None)
        if read in self._fast:
            plain = self._fast[read](cells)
            cells = cells.set(plain.is_not_null(), None)
        known: dict[str, Any] = {}
        wrong: dict[str, str] = {}
        for text in cells.drop_nulls().unique().to_list():
            try:
                known[text] = read(text)
            except ValueError as error:
                wrong[text] = f"{name} is {text!r:.60}; expected {error}"
        for row in cells.is_in(list(wrong)).fill_null(False).arg_true().to_list() if wrong else ():
            self.faults.setdefault(row, wrong[cells[row]])
        found = pl.Series([None] * cells.len(), dtype=kind)
        if known:
            found = cells.replace_strict(list(known), list(known.values()), default=None, return_dtype=kind)
        return pl.select(pl.coalesce(plain, found)).to_series() if read in self._fast else found
