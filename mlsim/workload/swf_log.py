"""The Standard Workload Format, v2.2: reader and writer; what is written reads back equal."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlsim._files import bounded_lines, named
from mlsim._runtime.arrays import Floats, Ints
from mlsim.errors import InputError
from mlsim.workload import log_fields
from mlsim.workload.format_record import Format, new_file, read_chunks
from mlsim.workload.log_fields import IDENTIFIERS, SURE_DIGITS, Field, Header
from mlsim.workload.swf_kernel import COLUMNS, FULL, LINE, LOOK, POSITION, ROW, STATE_LENGTH, WIDTH

Bytes = NDArray[np.uint8]

BLOCK_JOBS = 65_536
_SHOWN_CHARACTERS = 60
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SwfBlock:
    """Some jobs of a log, in the log's order."""

    columns: Floats  # shape (18, jobs): the columns of SWF in the order of `Field`
    lines: Ints  # line number of each job in the decompressed file, from 1
    extras: list[tuple[str, ...]]  # texts per job, of the columns after the 18th, if they are wanted
    # Row to job_id and preceding_job, of the rows in which float64 may not hold these.
    exact: dict[int, tuple[int, int]] = dataclass_field(default_factory=dict)

    def __len__(self) -> int:
        return self.lines.size

    def identifiers(self) -> dict[Field, Ints]:
        """Return the columns of identifiers, exactly."""
        columns = self.columns
        if self.exact:  # of which float64 makes some too large by one
            columns = np.where(columns < 2.0**63, columns, 0.0)
        found = {field: columns[field].astype(np.int64) for field in IDENTIFIERS}
        for row, numbers in self.exact.items():
            for field, number in zip(IDENTIFIERS, numbers, strict=True):
                found[field][row] = number
        return found

    def column(self, field: Field) -> Floats:
        """Return one column, float64, -1 where the log does not know."""
        return np.ascontiguousarray(self.columns[field])


class SwfReader:
    """Reads one log, compressed or not, from its start to its end, once.

    If ``lenient``, broken lines are skipped and counted in ``broken_lines``. ``extras``: keep the columns
    after the 18th, as text. The ``header`` is complete after the first block; a repeated key has a list.
    """

    def __init__(
        self, path: str | Path, *, lenient: bool = False, extras: bool = False, block_jobs: int = BLOCK_JOBS
    ) -> None:
        self.path = Path(path)
        self.header: Header = {}
        self.broken_lines = 0
        self._lenient = lenient
        self._wants_extras = extras
        self._extras: list[tuple[str, ...]] = []
        self._submits: dict[int, str] = {}  # row to text, of the rows that the kernel would not read
        self._exact: dict[int, tuple[int, int]] = {}  # row to identifiers, likewise
        self._columns = np.empty((COLUMNS, block_jobs))
        self._lines = np.empty(block_jobs, np.int64)
        self._tails = np.empty((block_jobs, 2), np.int64)
        self._state = np.zeros(STATE_LENGTH, np.int64)

    def blocks(self) -> Iterator[SwfBlock]:
        """Yield the jobs in blocks; only the last one may be short."""
        from mlsim.workload.swf_kernel import scan  # imports numba, which takes long

        state = self._state
        state[:] = 0
        state[LINE] = 1
        for text in _whole_lines(self.path):
            state[POSITION] = 0
            data = np.frombuffer(text, np.uint8)
            while state[POSITION] < data.size:
                before = int(state[ROW])
                answer = scan(data, state, self._columns, self._lines, self._tails)
                if self._wants_extras:
                    tails = self._tails[before : state[ROW]].tolist()
                    self._extras += [tuple(_as_text(text[start:end]).split()) for start, end in tails]
                if answer == FULL:
                    yield self._take_block()
                elif answer == LOOK:
                    self._look(text)
        if state[ROW]:
            yield self._take_block()

    def _take_block(self) -> SwfBlock:
        rows = int(self._state[ROW])
        self._state[ROW] = 0
        columns, lines = self._columns[:, :rows].copy(), self._lines[:rows].copy()
        if self._submits:
            texts = [self._submits.get(row, "") for row in range(rows)]
            jobs = [
                f"{job:.0f} (line {line})" for job, line in zip(columns[Field.JOB_ID], lines, strict=True)
            ]
            log_fields.check_distinct(named(self.path), texts, columns[Field.SUBMIT_TIME], jobs.__getitem__)
        block = SwfBlock(columns, lines, self._extras, self._exact)
        self._extras, self._exact, self._submits = [], {}, {}
        return block

    def _look(self, text: bytes) -> None:
        """Read the line at the position, which the kernel passed on."""
        state = self._state
        start = int(state[POSITION])
        end = text.index(b"\n", start)
        line = text[start:end].strip()
        if line.startswith(b";"):
            log_fields.add_directive(self.header, _as_text(line[1:]))
        else:
            self._take_line(line)
        state[POSITION] = end + 1
        state[LINE] += 1

    def _take_line(self, line: bytes) -> None:
        state = self._state
        words = line.split()
        problem = _problem(words, int(state[WIDTH]))
        if problem is None:
            row = int(state[ROW])
            self._columns[:, row] = [float(word) for word in words[:COLUMNS]]
            self._lines[row] = state[LINE]
            if len(words[Field.SUBMIT_TIME]) > SURE_DIGITS:
                self._submits[row] = words[Field.SUBMIT_TIME].decode()
            job, preceding = (words[field] for field in IDENTIFIERS)
            if max(len(job), len(preceding)) > SURE_DIGITS:
                self._exact[row] = _exact(job), _exact(preceding)
            if self._wants_extras:
                self._extras.append(tuple(_as_text(word) for word in words[COLUMNS:]))
            state[WIDTH] = len(words)
            state[ROW] = row + 1
        elif self._lenient:
            self.broken_lines += 1
        else:
            raise InputError(
                f"{self.path}:{state[LINE]}: broken line: {problem}\n"
                f"  found: {_shown(line)}\n"
                "  to skip and count such lines, set workload.lenient: true"
            )


def read_swf(path: str | Path, *, lenient: bool = False, extras: bool = False) -> tuple[Header, SwfBlock]:
    """Read a whole log into memory: its header and all its jobs."""
    reader = SwfReader(path, lenient=lenient, extras=extras)
    blocks = list(reader.blocks())
    if not blocks:
        return reader.header, SwfBlock(np.empty((COLUMNS, 0)), np.empty(0, np.int64), [])
    firsts = np.cumsum([0, *map(len, blocks)]).tolist()
    exact = {
        first + row: ids
        for first, block in zip(firsts, blocks, strict=False)
        for row, ids in block.exact.items()
    }
    return reader.header, SwfBlock(
        np.concatenate([block.columns for block in blocks], axis=1),
        np.concatenate([block.lines for block in blocks]),
        [words for block in blocks for words in block.extras],
        exact,
    )


def _whole_lines(path: Path) -> Iterator[bytes]:
    """Yield pieces of the file that start at a line's start and end with a newline."""
    rest = b""
    at_start = True
    for chunk in bounded_lines(path, read_chunks(path), "log in SWF"):
        text = rest + chunk
        if at_start and len(text) >= len(_BYTE_ORDER_MARK):
            text = text.removeprefix(_BYTE_ORDER_MARK)
            at_start = False
        end = text.rfind(b"\n") + 1
        rest = text[end:]
        if end:
            yield text[:end]
    if rest:
        yield rest + b"\n"


def _problem(words: list[bytes], width: int) -> str | None:
    """Return the fault of a line of these columns, or None."""
    if len(words) < COLUMNS:
        return f"{len(words)} columns; expected at least {COLUMNS}"
    numbers = [float(word) if _NUMBER.fullmatch(word) else np.nan for word in words[:COLUMNS]]
    for field, word, number in zip(Field, words, numbers, strict=False):
        too_long = field in IDENTIFIERS and number >= 0 and log_fields.exact_id(word) is None
        if too_long or not field.allows(np.array([number])).all():
            return f"{field.label} (column {field + 1}) is {_shown(word)}; expected {field.expected}"
    if width and len(words) != width:
        return f"{len(words)} columns; expected {width}, as on the first line of numbers"
    return None


def _exact(word: bytes) -> int:
    """Return an identifier, exactly."""
    found = log_fields.exact_id(word)
    return int(float(word)) if found is None else found  # below 0: unknown


def _shown(data: bytes) -> str:
    """Return a text for a message: printable, quoted and short."""
    text = _as_text(data[: _SHOWN_CHARACTERS + 1])
    return ascii(text) if len(text) <= _SHOWN_CHARACTERS else ascii(text[:_SHOWN_CHARACTERS]) + " ..."


def _as_text(data: bytes) -> str:
    """Decode as UTF-8, else as Latin-1, in which old logs spell names."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


_ROWS_AT_ONCE = 16_384


def write_swf(
    path: str | Path,
    header: Mapping[str, str | Sequence[str]],
    columns: Mapping[Field, ArrayLike],
    extras: Sequence[Sequence[str]] | None = None,
) -> None:
    """Write a log; the suffix .gz, .bz2, .xz or .zst compresses, and the complete file is renamed.

    Columns that are not given are -1. ``extras``: words for the columns after the 18th, one sequence per job.
    """
    write_swf_blocks(Path(path), header, [columns], extras)


def write_swf_blocks(
    path: Path,
    header: Mapping[str, str | Sequence[str]],
    blocks: Iterable[Mapping[Field, ArrayLike]],
    extras: Sequence[Sequence[str]] | None = None,
) -> None:
    """Write a log as :func:`write_swf` does, of which only a block of jobs at a time is in memory."""
    comments = list(log_fields.header_lines(header))
    with new_file(path) as file:
        file.write("".join(f"{comment}\n" for comment in comments).encode())
        for columns in blocks:
            for lines in _rows(_checked(columns), extras):
                file.write(lines)


def _checked(columns: Mapping[Field, ArrayLike]) -> list[Floats | Ints]:
    """Return all 18 columns, checked; identifiers stay whole numbers, as float64 may not hold them."""
    given = {field: np.atleast_1d(np.asarray(values)) for field, values in columns.items()}
    lengths = {values.shape for values in given.values()}
    if len(lengths) != 1:
        raise ValueError(f"columns must be given and of one length, found shapes {sorted(lengths)}")
    for field, values in given.items():
        floats = values.astype(np.float64)
        wrong = floats[~field.allows(floats)]
        if wrong.size:
            raise ValueError(f"{field.label} holds {wrong[0]}; expected {field.expected}")
        if field not in IDENTIFIERS or values.dtype != np.int64:
            given[field] = floats
    unknown = np.full(lengths.pop(), -1, np.int64)
    return [given.get(field, unknown) for field in Field]


def _tails(extras: Sequence[Sequence[str]] | None, jobs: int) -> list[str]:
    if extras is None:
        return [""] * jobs
    if len(extras) != jobs or len({len(words) for words in extras}) > 1:
        raise ValueError("extras must hold the same number of words for every job")
    for words in extras:
        for word in words:
            if word.split() != [word]:
                raise ValueError(f"extras hold {word!r}; expected one word without blanks")
    return ["".join(f" {word}" for word in words) for words in extras]


def _rows(columns: list[Floats | Ints], extras: Sequence[Sequence[str]] | None) -> Iterator[bytes]:
    """Yield the lines of the jobs, many at once."""
    jobs = columns[0].size
    tails = _tails(extras, jobs)
    for first in range(0, jobs, _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        words = zip(*(log_fields.number_words(column[rows]) for column in columns), strict=True)
        lines = (f"{' '.join(row)}{tail}\n" for row, tail in zip(words, tails[rows], strict=True))
        yield "".join(lines).encode()


FORMAT = Format(
    "swf",
    "Standard Workload Format, version 2.2",
    lambda _: True,
    suffix=".swf",
    in_blocks=True,
    numbered=True,
    breadth=3,
    units="times in s, memory in KB of 1024 B per processor",
)
