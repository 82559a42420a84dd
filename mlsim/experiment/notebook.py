"""How results show themselves in a notebook."""

from __future__ import annotations

import io
from base64 import b64encode
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from mlsim._files import read_bytes

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mlsim.experiment.comparison import RunComparison
    from mlsim.experiment.loops import LoopResult
    from mlsim.experiment.result import Result

__all__ = ["html_of_comparison", "html_of_loop", "html_of_run"]

_COLUMNS = 100
_TEXT = '<pre style="white-space:pre;overflow-x:auto;line-height:normal;font-family:monospace">{code}</pre>'


def html_of_run(result: Result) -> str:
    """Return the summary of a run, as the command line prints it, and its utilization over time."""
    from mlsim.analysis import summary_table

    return _html_of(summary_table(result.summary)) + _picture(result)


def html_of_loop(result: LoopResult) -> str:
    """Return the metrics of a loop, as the command line prints them."""
    from mlsim.analysis.loops import loop_table

    return _html_of(loop_table([result.facts]))


def html_of_comparison(comparison: RunComparison) -> str:
    """Return the tables of a comparison, as the command line prints them."""
    from rich.console import Group

    from mlsim.analysis.compare_tables import comparison_table, differences_table

    labels = comparison.labels
    parts = [comparison_table(labels, comparison.metrics, comparison.tolerance)]
    if comparison.differences:
        parts.insert(0, differences_table(labels, comparison.differences))
    return _html_of(Group(*parts))


def _html_of(shown: RenderableType) -> str:
    from rich.console import Console

    console = Console(record=True, file=io.StringIO(), width=_COLUMNS)
    console.print(shown)
    return console.export_html(inline_styles=True, code_format=_TEXT)


def _picture(result: Result) -> str:
    """Return the picture of the utilization, inside the page; nothing where no job ran."""
    if not len(result.records.occupancy.job):
        return ""
    from mlsim import _matplotlib

    _matplotlib.load()
    from mlsim.analysis.plots import draw_utilization

    with TemporaryDirectory(prefix="mlsim-") as directory:
        path = draw_utilization(Path(directory, "utilization.png"), result.records, result.scenario.name)
        data = b64encode(read_bytes(path)).decode()
    return f'<img alt="utilization over time" style="max-width:100%" src="data:image/png;base64,{data}">'
