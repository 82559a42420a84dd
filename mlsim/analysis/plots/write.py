"""The pictures that runs and loops leave in their directories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mlsim.analysis.plots.chunks import Curve, chunk_sizes
from mlsim.analysis.plots.gantt import gantt
from mlsim.analysis.plots.pes import pe_timeline
from mlsim.analysis.plots.style import write_picture
from mlsim.analysis.plots.utilization import utilization_over_time
from mlsim.record import Records

__all__ = ["draw_chunk_sizes", "draw_gantt", "draw_pes", "draw_utilization"]


def draw_gantt(path: Path, records: Records, title: str) -> Path:
    """Write the nodes over time, coloured by job, as PNG; see :func:`gantt`.

    The same records give the same bytes.

    Parameters
    ----------
    path
        The file to write.
    records
        What happened.
    title
        The picture's title: the scenario's name.

    Raises
    ------
    OutputError
        If the file cannot be written; the message names it.
    """
    return write_picture(gantt(records, title), path)


def draw_utilization(path: Path, records: Records, title: str) -> Path:
    """Write utilization and queue length over time as PNG; see :func:`utilization_over_time`.

    Parameters and errors are those of :func:`draw_gantt`.
    """
    return write_picture(utilization_over_time(records, title), path)


def draw_pes(path: Path, records: Records, title: str) -> Path:
    """Write the PEs of one loop over time as PNG; see :func:`pe_timeline`.

    Parameters and errors are those of :func:`draw_gantt`; the records hold one loop and its chunks.
    """
    return write_picture(pe_timeline(records, title), path)


def draw_chunk_sizes(path: Path, curves: Sequence[Curve], title: str) -> Path:
    """Write chunk sizes over scheduling steps as PNG; see :func:`chunk_sizes`.

    Parameters
    ----------
    path
        The file to write.
    curves
        One a loop.
    title
        The picture's title.

    Raises
    ------
    OutputError
        If the file cannot be written; the message names it.
    """
    return write_picture(chunk_sizes(curves, title), path)
