"""A workload that is made, of a model or of a log: its jobs in blocks, and what a log says of how."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from mlsim._progress import followed, stage
from mlsim.workload.header import Header
from mlsim.workload.jobs import JobBlock
from mlsim.workload.named import log_of

if TYPE_CHECKING:
    import polars as pl

__all__ = ["PLACE", "Made"]

PLACE = Path("workload.generate")
"""What messages about made jobs begin with, in place of a log."""


class Made(ABC):
    """A workload that is made."""

    @property
    @abstractmethod
    def header(self) -> Header:
        """What a log says of how it was made."""

    @property
    def place(self) -> Path:
        """What messages about its jobs begin with."""
        return PLACE

    @property
    def identity(self) -> str | None:
        """What tells these jobs from others, so that runs may share them; None where nothing does."""
        return None

    @property
    def length(self) -> int | None:
        """How many jobs there are, about; None if that is not known before they are made."""
        return None

    @abstractmethod
    def blocks(self) -> Iterator[JobBlock]:
        """Yield the jobs in arrival order, in blocks; the same ones at every call."""

    def jobs(self) -> JobBlock:
        """Return all jobs at once."""
        return JobBlock.concatenate(list(self.blocks()))

    def frame(self) -> pl.DataFrame:
        """Return all jobs as a data frame, with the columns of CSV workloads, which ``mlsim.run`` takes."""
        import polars as pl

        from mlsim.workload.named import named_columns

        return pl.DataFrame(named_columns(log_of(self.jobs()), self.header, all_names=True))

    def write(self, path: str | Path) -> int:
        """Write the jobs as SWF, CSV or Parquet, as the suffix says, compressed or not; return how many.

        Raises
        ------
        InputError
            If the suffix says no such format.
        OutputError
            If the file cannot be written.
        """
        from mlsim.workload.block_writer import write_blocks

        header = self.header
        with stage("jobs", self.length) as work:
            blocks = followed(self.blocks(), work, len)
            return write_blocks(Path(path), header, map(log_of, blocks))
