"""Requests of jobs for units and resources, and units of memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlsim._runtime.arrays import Ints, Mask
from mlsim.scenario.unit_types import SIZE, parse_value

NODE_COUNT = "node_count"  # Column of the number of nodes of a job
REQUEST = "request_"  # Prefix of the columns of resources


def is_request(name: str) -> bool:
    """Whether a column of this name is a request for units or a resource."""
    return name == "units" or (name.startswith(REQUEST) and name != REQUEST)


@dataclass(frozen=True, slots=True)
class ResourceRequests:
    """Units and totals of jobs, row by row."""

    names: tuple[str, ...]  # The resources of the columns of `totals`
    units: Ints  # int64[n]: identical units of each job; -1 where the scenario decides
    totals: Ints  # (n, names): what all units together ask for (memory in MB, rounded up), -1 likewise
    exact: Ints | None = None  # bytes of memory that the log gives in another unit than MB, else -1

    def select(self, rows: NDArray[Any] | slice) -> ResourceRequests:
        """Return the jobs of a mask, an index array or a slice."""
        exact = None if self.exact is None else np.ascontiguousarray(self.exact[rows])
        units, totals = np.ascontiguousarray(self.units[rows]), np.ascontiguousarray(self.totals[rows])
        return ResourceRequests(self.names, units, totals, exact)

    def ordered(self, names: tuple[str, ...]) -> ResourceRequests:
        """Return the same with columns for ``names``, -1 in new ones."""
        totals = np.full((len(self.units), len(names)), -1, np.int64)
        for column, name in enumerate(self.names):
            totals[:, names.index(name)] = self.totals[:, column]
        return ResourceRequests(names, self.units, totals, self.exact)

    def columns(self) -> dict[str, Ints]:
        """Return the requests as columns of a workload file."""
        totals = {f"request_{name}": self.totals[:, column] for column, name in enumerate(self.names)}
        return {"units": self.units, **totals}

    @staticmethod
    def unspecified(n: int, names: tuple[str, ...] = ()) -> ResourceRequests:
        """Return the requests of ``n`` jobs that leave everything to the scenario."""
        return ResourceRequests(names, np.full(n, -1, np.int64), np.full((n, len(names)), -1, np.int64))


def join_requests(parts: Sequence[ResourceRequests | None], sizes: Sequence[int]) -> ResourceRequests | None:
    """Join the requests of blocks of jobs end to end; -1 for blocks without requests."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    names = known[0].names
    filled = [
        ResourceRequests.unspecified(size, names) if part is None else part
        for part, size in zip(parts, sizes, strict=True)
    ]
    units, totals = (np.concatenate([getattr(part, name) for part in filled]) for name in ("units", "totals"))
    exact = None
    if any(part.exact is not None for part in filled):
        columns = [np.full(len(p.units), -1, np.int64) if p.exact is None else p.exact for p in filled]
        exact = np.concatenate(columns)
    return ResourceRequests(names, units, totals, exact)


@dataclass(frozen=True, slots=True)
class NodeSets:
    """The nodes that jobs may use, as far as these are not all."""

    masks: Mask  # (sets, nodes): which nodes are in each set
    of_job: Ints  # 0 for a job that may use all nodes, else 1 + the row of its set in `masks`

    @staticmethod
    def of(masks: Mask) -> NodeSets:
        """Return the sets of jobs, given the nodes of each job, shape (n, nodes)."""
        distinct, of_job = np.unique(masks, axis=0, return_inverse=True)
        return NodeSets(distinct, of_job.reshape(-1).astype(np.int64) + 1)

    def select(self, rows: NDArray[Any] | slice) -> NodeSets:
        """Return the sets of the jobs of a mask, an index array or a slice."""
        return NodeSets(self.masks, np.ascontiguousarray(self.of_job[rows]))


def join_node_sets(parts: Sequence[NodeSets | None], sizes: Sequence[int]) -> NodeSets | None:
    """Join the sets of blocks of jobs end to end; jobs of blocks without sets may use all nodes."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    of_job, n_sets = [], 0
    for part, size in zip(parts, sizes, strict=True):
        of_job.append(np.zeros(size, np.int64))
        if part is not None:
            of_job[-1][:] = np.where(part.of_job > 0, part.of_job + n_sets, 0)
            n_sets += len(part.masks)
    return NodeSets(np.concatenate([part.masks for part in known]), np.concatenate(of_job))


MB = 1_000_000  # Bytes in the MB of columns `request_memory`
SWF_KB = 1024.0  # Bytes in the KB of SWF logs
_SLURM = {"K": 1024, "": 1024**2, "M": 1024**2, "G": 1024**3, "T": 1024**4, "P": 1024**5}
_PBS_SIZE = re.compile(r"(\d{1,15})([kmgtp]?)[bw]?", re.IGNORECASE)
_SLURM_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([KMGTP]?)")


def slurm_size(text: str) -> int:
    """Return the bytes of an amount of memory of Slurm, such as 1.5G; a ValueError if it is none."""
    found = _SLURM_SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no amount of memory of Slurm")
    return int(Decimal(found[1]) * _SLURM[found[2]])


def pbs_size(text: str) -> int:
    """Return the bytes of an amount of memory of PBS, such as 4gb or 1kw; a ValueError if it is none."""
    found = _PBS_SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no amount of memory of PBS")
    factor: int = 1024 ** ("kmgtp".find(found[2].lower()) + 1 if found[2] else 0)
    return int(found[1]) * factor * (8 if text.lower().endswith("w") else 1)


def sized(text: str) -> int:
    """Return the bytes of a text with a unit, such as 3174 MiB, rounded down; -1 where it is none."""
    try:
        value, _ = parse_value(text, SIZE)
    except ValueError:
        return -1
    return int(value) if 0 <= value <= SIZE.most else -1
