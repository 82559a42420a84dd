"""The self-contained report page: template, style, script and data in one text."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from mlsim.analysis.formatting import clock, count, number, share
from mlsim.analysis.page.page_data import MOST_BOXES, PageLoops, run_data
from mlsim.analysis.page.page_parts import cards, comparison, coordination, data_table
from mlsim.analysis.plots.paper_style import paper_style
from mlsim.record import JobState, Records
from mlsim.record.column_types import words_of

if TYPE_CHECKING:
    import polars as pl


def inline_picture(figure: Figure, name: str, words: str, wide: bool = False) -> str:
    """Return a figure element with a picture; ``words`` are its caption and text alternative.

    ``name`` must be unique on the page: it separates the ids inside the pictures.
    """
    buffer = io.StringIO()
    with paper_style():
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|xlink:href="#|url\(#)', rf"\g<1>{name}-", svg)
    label = f'role="img" aria-label="{escape(words, quote=True)}" '
    svg = svg.replace("<svg ", f"<svg {label}", 1)
    return f"<figure{' class=wide' if wide else ''}>{svg}<figcaption>{escape(words)}</figcaption></figure>"


_COLUMN = 110.0
"""Width of the still pictures, in mm; two are side by side."""
_DRAWN_TOGETHER = 7
"""Most runs whose lines are distinguishable."""


@dataclass(frozen=True)
class PageRun:
    """A run that a page is about."""

    label: str
    summary: Mapping[str, Any]
    records: Records
    scenario: str
    loops: PageLoops = field(default_factory=PageLoops.none)


@dataclass(frozen=True)
class PageStudy:
    """The results of a study."""

    label: str
    table: pl.DataFrame
    """One row per run or loop: labels and metrics."""


def page_text(
    runs: Sequence[PageRun],
    studies: Sequence[PageStudy] = (),
    *,
    others: Sequence[tuple[str, Mapping[str, Any]]] = (),
    tolerance: float = 0.01,
    most_boxes: int = MOST_BOXES,
    version: str = "",
) -> str:
    """Return the page as text: HTML with style, script and data. The same records give the same text.

    ``others`` are names and summaries of runs that appear only in the comparison. Differences up to
    ``tolerance``, a share of the first run's value, are not marked. A Gantt chart has at most ``most_boxes``
    rectangles, the largest ones, and states that.
    """
    names = [run.label for run in runs] + [name for name, _ in others]
    summaries = [run.summary for run in runs] + [summary for _, summary in others]
    title = _title(runs, studies)
    data = {
        "states": words_of(JobState),
        "palette": _palette("job"),
        "scale": _palette("scale"),
        "runs": [{"label": run.label, **run_data(run.records, run.loops, most_boxes)} for run in runs],
    }
    compared = comparison(names, summaries, tolerance)
    parts = {
        "TITLE": escape(title),
        "SUBTITLE": escape(f"{count(len(names), 'run')}; mlsim {version}".strip()),
        "STUDY": "".join(_study(study) for study in studies),
        "COMPARISON": f"<section><h2>Comparison</h2>{compared}</section>" if compared else "",
        "RUN_TITLE": "Summary" if len(runs) == 1 else "Run by run",
        "ONE_RUN": " hidden" if len(runs) < 2 else "",
        "CHOICES": "".join(f'<option value="{k}">{escape(run.label)}</option>' for k, run in enumerate(runs)),
        "CARDS": _by_run([cards(run.summary) for run in runs]),
        "DISTRIBUTIONS": _distributions(runs) if runs else "",
        "COORDINATION": _coordination(runs),
        "SCENARIOS": _by_run([_scenario(run) for run in runs]),
        "STYLE": _file("page.css"),
        "SCRIPT": _file("page.js"),
        # No text of the data may end the element that holds it.
        "DATA": json.dumps(_without_nan(data), allow_nan=False, separators=(",", ":")).replace(
            "<", "\\u003c"
        ),
    }
    pieces = _file("page.html").split("@")
    return "".join(piece if k % 2 == 0 else parts[piece] for k, piece in enumerate(pieces))


def _file(name: str) -> str:
    return files("mlsim.analysis.page").joinpath(name).read_text(encoding="utf-8")


def _title(runs: Sequence[PageRun], studies: Sequence[PageStudy]) -> str:
    scenarios = list(dict.fromkeys(str(run.summary.get("scenario", "")) for run in runs))
    return ", ".join([*(study.label for study in studies), *scenarios[:4]]) or "mlsim"


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(child) for child in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _palette(which: str) -> list[list[int]]:
    from mlsim.analysis.plots.chart_style import job_palette, scale_palette

    colours = job_palette() if which == "job" else scale_palette()
    return [[round(part * 255) for part in colour] for colour in colours.tolist()]


def _by_run(parts: Sequence[str]) -> str:
    return "".join(
        f'<div data-run="{k}"{" hidden" if k else ""}>{part}</div>' for k, part in enumerate(parts) if part
    )


def _study(study: PageStudy) -> str:
    words = f"Results of the study, one row a run: {count(len(study.table), 'row')}."
    return f"<section><h2>Study {escape(study.label)}</h2>{data_table(study.table, words)}</section>"


def _scenario(run: PageRun) -> str:
    title = f"<summary>Scenario of {escape(run.label)}, with all defaults</summary>"
    return f"<details>{title}<pre>{escape(run.scenario)}</pre></details>"


def _coordination(runs: Sequence[PageRun]) -> str:
    parts = [coordination(run.records) for run in runs]
    if not any(parts):
        return ""
    told = [part or "<p>No node was given back early in this run.</p>" for part in parts]
    return f"<section><h2>Nodes given on by coordination</h2>{_by_run(told)}</section>"


def _distributions(runs: Sequence[PageRun]) -> str:
    """Return pictures of waits and slowdowns, all runs in one where they can be distinguished."""
    from mlsim.analysis.plots.distribution_plots import slowdown_ecdf, wait_by_size, wait_ecdf

    shown = [run for run in runs if np.any(~np.isnan(run.records.jobs.start_time))][:_DRAWN_TOGETHER]
    if not shown:
        return ""
    named = {run.label: run.records for run in shown}
    left = f" Of {len(runs)} runs the first {len(shown)}." if len(shown) < len(runs) else ""
    waits = _quartiles(shown, "wait_time", clock)
    slowdowns = _quartiles(shown, "bounded_slowdown", number)
    pictures = (
        inline_picture(wait_ecdf(named, _COLUMN), "wait", f"Jobs that waited at most so long. {waits}{left}"),
        inline_picture(
            slowdown_ecdf(named, _COLUMN), "slowdown", f"Share of jobs by bounded slowdown. {slowdowns}{left}"
        ),
        inline_picture(
            wait_by_size(named, _COLUMN),
            "size",
            "Wait by the processors asked for: quartiles with the median, whiskers from 5 % to 95 % of "
            f"the jobs, diamonds at the mean. {_unwaited(shown)}{left}",
        ),
    )
    return f'<section><h2>Waits and slowdowns</h2><div class="pictures">{"".join(pictures)}</div></section>'


def _quartiles(runs: Sequence[PageRun], key: str, write: Any) -> str:
    told = (
        f"{label}: median {write(values['median'])}, 90 % up to {write(values['p90'])}"
        for label, values in ((run.label, run.summary[key]) for run in runs)
    )
    return "; ".join(told) + "."


def _unwaited(runs: Sequence[PageRun]) -> str:
    from mlsim.record.derived_times import wait_time

    waits = ((run.label, wait_time(run.records.jobs)) for run in runs)
    told = (f"{label}: {share(float(np.mean(found[~np.isnan(found)] == 0.0)))}" for label, found in waits)
    return f"Jobs that did not wait: {'; '.join(told)}."
