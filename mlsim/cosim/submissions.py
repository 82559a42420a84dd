"""The jobs of a workload as they are handed to a batch system: counted, further columns of theirs kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mlsim._memory import give_back
from mlsim.batch.room.requests import Requests
from mlsim.record.blocks import LARGE_ROWS
from mlsim.workload import JobBlock, Workload, count_marks
from mlsim.workload.own import OwnColumns

__all__ = ["Submissions"]


class Submissions:
    """The jobs of a workload, on their way to a batch system.

    Attributes
    ----------
    marks
        Counts of what was found odd in the jobs that were handed over.
    own
        Further columns of each block of jobs.
    """

    def __init__(self, workload: Workload, requests: Requests) -> None:
        self._workload, self._requests = workload, requests
        self.marks: Counter[str] = Counter()
        self.own: list[OwnColumns | None] = []

    def blocks(self) -> Iterator[JobBlock]:
        """Hand blocks over, count what their jobs met in cleaning, and keep further columns of the jobs."""
        give_back(self._workload.n_jobs > LARGE_ROWS)
        for block in self._workload.blocks():
            self.own.append(self._further(block))
            self.marks.update({name: count for name, count in count_marks(block.met).items() if count})
            yield block

    def _further(self, block: JobBlock) -> OwnColumns | None:
        """Return the columns of the user's own, and what jobs ask of nodes and of the machine as a whole."""
        requests = self._requests
        if requests.plain and not requests.shared:
            return block.own
        asked = {}
        if not requests.plain:
            units = requests.units_of(block)
            totals = requests.per_unit(block, units) * units[:, None]
            asked = {f"request_{name}": totals[:, k].copy() for k, name in enumerate(requests.resources) if k}
            if requests.per_job:
                asked["units"] = units
        shares = requests.shares_of(block)
        asked |= {f"request_{name}": shares[:, k].copy() for k, name in enumerate(requests.shared)}
        return OwnColumns(({} if block.own is None else block.own.of) | asked)
