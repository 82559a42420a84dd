"""Sets of nodes as text: intervals such as ``0-3 7``."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mlsim._arrays import Ints
from mlsim._jit import kernel
from mlsim.errors import InputError
from mlsim.record.tables import Occupancy

__all__ = ["format_nodes", "job_node_sets", "parse_nodes"]

Bytes = NDArray[np.uint8]

_PIECE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


def format_nodes(nodes: ArrayLike) -> str:
    """Write a set of node numbers as intervals, ascending, one space between them.

    Parameters
    ----------
    nodes
        Node numbers >= 0, in any order; one may come twice.

    Examples
    --------
    >>> format_nodes([7, 0, 1, 2, 3])
    '0-3 7'
    """
    node = np.unique(np.asarray(nodes, np.int64))
    rows = np.array([0, len(node)], np.int64)
    return _texts(rows, node, np.ones_like(node))[0]


def parse_nodes(text: str) -> Ints:
    """Read intervals back into ascending node numbers.

    Raises
    ------
    InputError
        If a piece is neither a number nor two ascending numbers with a hyphen.

    Examples
    --------
    >>> parse_nodes("0-3 7")
    array([0, 1, 2, 3, 7])
    """
    pieces = [_parse_piece(piece, text) for piece in text.split()]
    return np.unique(np.concatenate([np.empty(0, np.int64), *pieces]))


def job_node_sets(occupancy: Occupancy, n_jobs: int) -> list[str]:
    """Write, for each job, the set of nodes it ever held; empty text for a job that held none.

    Parameters
    ----------
    occupancy
        Rows in any order; those of one job may touch, overlap or repeat.
    n_jobs
        Number of jobs; every row's job is below it.
    """
    if not len(occupancy.job):
        return [""] * n_jobs  # without loading kernels
    rows, order = _group_by_job(occupancy.job, occupancy.node, n_jobs)
    return _texts(rows, occupancy.node[order], occupancy.count[order])


def _parse_piece(piece: str, text: str) -> Ints:
    match = _PIECE.fullmatch(piece)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
    if last < first:
        raise InputError(f"{piece!r} in the node set {text!r} is no interval; write it like '0-3 7'")
    return np.arange(first, last + 1)


def _group_by_job(job: Ints, node: Ints, n_jobs: int) -> tuple[Ints, Ints]:
    """Order rows by (job, node); where each job's rows begin in that order, and the order."""
    order = _counting_order(node, np.arange(len(node)), int(node.max(initial=-1)) + 1)
    order = _counting_order(job, order, n_jobs)
    rows = np.zeros(n_jobs + 1, np.int64)
    np.cumsum(np.bincount(job, minlength=n_jobs), out=rows[1:])
    return rows, order


def _texts(rows: Ints, node: Ints, count: Ints) -> list[str]:
    """Write one text for each span of ``rows``: all bytes in one buffer, decoded once, then cut."""
    width = 2 * (len(str(int((node + count).max(initial=0)))) + 1)
    buffer = np.empty(width * len(node) + 1, np.uint8)
    ends = _write_sets(rows, node, count, buffer)
    text = buffer[: ends[-1]].tobytes().decode("ascii")
    bounds = ends.tolist()
    return [text[begin:end] for begin, end in pairwise(bounds)]


@kernel
def _counting_order(keys: Ints, order: Ints, n_keys: int) -> Ints:
    """Sort ``order`` by ``keys[order]``, stable, for keys in [0, n_keys)."""
    begins = np.zeros(n_keys + 1, np.int64)
    for key in keys:
        begins[key + 1] += 1
    for key in range(n_keys):
        begins[key + 1] += begins[key]
    result = np.empty_like(order)
    for row in order:
        key = keys[row]
        result[begins[key]] = row
        begins[key] += 1
    return result


@kernel
def _write_number(buffer: Bytes, at: int, number: int) -> int:
    """Write a number >= 0 in decimal; return where the next byte goes."""
    end = at + 1
    rest = number // 10
    while rest > 0:
        end += 1
        rest //= 10
    rest = number
    for place in range(end - 1, at - 1, -1):
        buffer[place] = 48 + rest % 10
        rest //= 10
    return end


@kernel
def _write_interval(buffer: Bytes, at: int, first: int, last: int) -> int:
    """Write ``first`` or ``first-last`` and a space; return where the next byte goes."""
    at = _write_number(buffer, at, first)
    if last > first:
        buffer[at] = 45  # "-"
        at = _write_number(buffer, at + 1, last)
    buffer[at] = 32  # " "
    return at + 1


@kernel
def _write_sets(rows: Ints, node: Ints, count: Ints, buffer: Bytes) -> Ints:
    """Write the merged intervals of each span of rows, ascending by node; return the texts' bounds."""
    ends = np.zeros(len(rows), np.int64)
    at = 0
    for span in range(len(rows) - 1):
        begin = rows[span]
        end = rows[span + 1]
        if begin < end:
            first = node[begin]
            last = first + count[begin] - 1
            for row in range(begin + 1, end):
                if node[row] > last + 1:
                    at = _write_interval(buffer, at, first, last)
                    first = node[row]
                    last = first + count[row] - 1
                else:
                    last = max(last, node[row] + count[row] - 1)
            at = _write_interval(buffer, at, first, last) - 1
        ends[span + 1] = at
    return ends
