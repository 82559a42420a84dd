"""The pictures that a run leaves in its directory."""

from __future__ import annotations

from pathlib import Path

from mlsim.analysis.plots.gantt import gantt
from mlsim.analysis.plots.style import write_picture
from mlsim.analysis.plots.utilization import utilization_over_time
from mlsim.record import Records

__all__ = ["draw_gantt", "draw_utilization"]


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
