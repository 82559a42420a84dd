"""Declaration of a log format.

A module ``<word>_log.py`` of this room is the format ``<word>``: it declares a :class:`Format` called
``FORMAT``, and nothing else has to know of it. Such modules are imported to recognize any log, so they import
polars (200 ms) inside the functions that need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mlsim.workload.log_times import Rates
    from mlsim.workload.named_columns import NamedColumns
    from mlsim.workload.swf_fields import Header
    from mlsim.workload.workload_jobs import LogBlock


@dataclass(frozen=True, slots=True)
class WholeLog:
    """A log in memory."""

    jobs: LogBlock
    """In the order of the file."""
    header: Header
    broken_lines: int = 0
    """Broken jobs skipped."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Whatever else was skipped, with the number of times."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Options of reading a log."""

    lenient: bool = False
    """Skip and count broken lines."""
    own: Sequence[str] = ()
    """Further columns that are wanted (``workload.columns``)."""
    shared: Sequence[str] = ()
    """Names of machine-wide resources, of which jobs ask for any amount (``platform.shared``)."""
    rates: Rates | None = None
    """Rates that turn operations and bytes into seconds."""


STRICT: Final = Reading()


@dataclass(frozen=True, slots=True)
class Format:
    """A log format: recognition, reader and writer."""

    word: str
    """Name in scenarios."""
    meaning: str
    begins: Callable[[bytes], bool]
    """Whether the first bytes of a file, decompressed and without blanks, are of this format."""
    read: Callable[[Path, Reading], WholeLog] | None = None
    """Reads a log as a whole; None for SWF, which is read block by block."""
    suffix: str = ""
    """Of its files, compression aside; empty where they have none of their own."""
    writer: Callable[[IO[bytes], Header, Iterable[NamedColumns]], None] | None = None
    """Writes blocks of jobs, all of the same columns, to an open file; None where logs are not written in
    this format, and for SWF."""
    in_blocks: bool = False
    """Whether logs are written block by block, so that not all jobs are in memory."""
    keeps_header: bool = True
    """Whether a file holds the header, and codes with it; otherwise columns hold the names of codes."""
    check: Callable[[LogBlock, Path], None] | None = None
    """Rejects jobs that the format cannot express (jobs, file they come from)."""
    further: bool = False
    """Whether logs may have further columns, for the user's own code."""
    numbered: bool = False
    """Whether it has numbered fields and directives, as SWF has, and is written as that."""
    breadth: int = 0
    """Formats are tried in this order: 0 has a mark of its own, broader ones take similar files too."""

    @property
    def can_be_written(self) -> bool:
        """Whether logs can be converted to it."""
        return self.numbered or self.writer is not None
