"""Writer of logs of which only a block of jobs at a time is in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from mlsim.errors import InputError
from mlsim.scenario import WorkloadFormat
from mlsim.workload.compression import SUFFIXES, new_file
from mlsim.workload.format_record import Format
from mlsim.workload.log_formats import FORMATS, format_of_name
from mlsim.workload.named_columns import NamedColumns, named_columns
from mlsim.workload.swf_fields import Header
from mlsim.workload.swf_log import write_swf_blocks
from mlsim.workload.workload_jobs import LogBlock

_AT_ONCE = 1 << 16


def check_format(path: Path) -> WorkloadFormat:
    """Return the format that the suffix of a file says, if logs can be written to it block by block.

    Raises
    ------
    InputError
        If they cannot.
    """
    found = format_of_name(path)
    if found is not None and FORMATS[found].in_blocks:
        return found
    suffixes = [known.suffix for known in FORMATS.values() if known.in_blocks]
    raise InputError(
        f"{path}: its suffix is none of {', '.join(suffixes)}, each also with {', '.join(SUFFIXES[:-1])} "
        f"or {SUFFIXES[-1]} behind it; mlsim workload convert makes other formats"
    )


def write_blocks(path: Path, header: Header, blocks: Iterable[LogBlock]) -> int:
    """Write a log as its suffix says; return how many jobs it has.

    Parameters
    ----------
    path
        Where to; to a temporary name first, then renamed, so that no half a log is ever seen.
    header
        What the log says of itself; CSV keeps no more of it than the names behind codes.
    blocks
        The jobs, in order. CSV and Parquet have the columns of which the first 65,536 jobs know something.

    Raises
    ------
    InputError
        If the format cannot be written so, or a column is known of later jobs only.
    OutputError
        If the file cannot be written.
    """
    found = check_format(path)
    count = _Count()
    counted = count.of(blocks)
    if FORMATS[found].numbered:
        write_swf_blocks(path, header, (block.numbered() for block in counted))
        return count.jobs
    known = FORMATS[found]
    named = (named_columns(b, header, all_names=not known.keeps_header) for b in _joined(counted))
    write_columns(path, known, header, _aligned(path, named))
    return count.jobs


def write_columns(path: Path, to: Format, header: Header, blocks: Iterable[NamedColumns]) -> None:
    """Write blocks of the same columns in a format that has a writer of columns."""
    assert to.writer is not None
    with new_file(path) as file:
        to.writer(file, header, blocks)


class _Count:
    """Counts jobs as they pass."""

    def __init__(self) -> None:
        self.jobs = 0

    def of(self, blocks: Iterable[LogBlock]) -> Iterator[LogBlock]:
        for block in blocks:
            self.jobs += len(block)
            yield block


def _joined(blocks: Iterable[LogBlock]) -> Iterator[LogBlock]:
    """Yield blocks of 65,536 jobs or a little more."""
    waiting: list[LogBlock] = []
    for block in blocks:
        waiting.append(block)
        if sum(map(len, waiting)) >= _AT_ONCE:
            yield LogBlock.concatenate(waiting)
            waiting = []
    if waiting:
        yield LogBlock.concatenate(waiting)


def _aligned(path: Path, blocks: Iterable[NamedColumns]) -> Iterator[NamedColumns]:
    """Yield blocks of the same columns; what is unknown of a whole block is told as unknown."""
    kinds: Mapping[str, bool] | None = None
    for columns in blocks:
        found = {name: isinstance(column, list) for name, column in columns.items()}
        kinds = found if kinds is None else kinds
        if any(kinds.get(name) is not texts for name, texts in found.items()):
            late = next(name for name, texts in found.items() if kinds.get(name) is not texts)
            raise InputError(
                f"{path}: column {late}: the first jobs say nothing of it; try a file of suffix .swf"
            )
        n = len(columns["job_id"])
        yield {
            name: columns.get(name, [""] * n if texts else np.full(n, -1, np.int64))
            for name, texts in kinds.items()
        }
