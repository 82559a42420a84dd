"""The self-contained report page: template, style, script and data in one text."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from mlsim._runtime.arrays import Floats
from mlsim.analysis.formatting import ENDS, clock, count, duration, number, share
from mlsim.analysis.machine_metrics import Transfers, transfers
from mlsim.analysis.page.page_data import MOST_BOXES, PageLoops, run_data
from mlsim.analysis.plots.chart_style import INK, job_palette, paper_style, scale_palette
from mlsim.analysis.plots.comparison_plots import slowdown_ecdf, wait_by_size, wait_ecdf
from mlsim.analysis.plots.job_colours import palette_of_jobs
from mlsim.analysis.plots.recorded_plots import (
    recorded_against_simulated,
    recorded_ecdf,
    recorded_utilization,
)
from mlsim.analysis.recorded_waits import SIDES, START, RecordedWaits
from mlsim.analysis.run_comparison import COMPARED, compare_metrics, is_wall_clock
from mlsim.record import JobState, Records
from mlsim.record.column_types import words_of
from mlsim.record.derived_times import wait_time

if TYPE_CHECKING:
    import polars as pl


def inline_picture(figure: Figure, name: str, words: str, wide: bool = False) -> str:
    """Return a figure element; ``words`` are caption and text alternative, ``name`` prefixes its ids."""
    buffer = io.StringIO()
    with paper_style():
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    # In the colours of the page, light or dark; in black where it is saved as a file.
    svg = svg.replace(INK, "currentColor").replace("#dddddd", "var(--line, #dddddd)")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|xlink:href="#|url\(#)', rf"\g<1>{name}-", svg)
    label = f'role="img" aria-label="{escape(words, quote=True)}" '
    svg = svg.replace("<svg ", f"<svg {label}", 1)
    return f"<figure{' class=wide' if wide else ''}>{svg}<figcaption>{escape(words)}</figcaption></figure>"


_SCRIPTS = ("page_kit.js", "page_timeline.js", "page.js")  # of one scope, which page.html opens
_COLUMN = 110.0  # width of the still pictures, in mm; two are side by side
_DRAWN_TOGETHER = 7  # most runs whose lines are distinguishable


@dataclass(frozen=True)
class PageRun:
    """A run that a page is about."""

    label: str
    summary: Mapping[str, Any]
    records: Records
    scenario: str
    loops: PageLoops = field(default_factory=PageLoops.none)

    @property
    def is_loop(self) -> bool:
        """Whether it is one loop, simulated alone or executed for real: its page begins with the loop."""
        return len(self.records.jobs.job_id) == 1 == len(self.records.loops.job)


@dataclass(frozen=True)
class PageStudy:
    """The results of a study."""

    label: str
    table: pl.DataFrame  # one row per run or loop: labels and metrics


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
    loops = bool(runs) and all(run.is_loop for run in runs)
    data = {
        "states": words_of(JobState),
        "palette": _palette(palette_of_jobs()),
        "hues": len(job_palette()),
        "scale": _palette(scale_palette()),
        "loops": loops,
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
        "CARDS": _by_run([cards(run.summary, _loop_facts(run) if loops else ()) for run in runs]),
        "DISTRIBUTIONS": "" if loops or not runs else _distributions(runs),
        "RECORDED": _section(
            "Recorded beside simulated",
            [_beside_log(run, k) for k, run in enumerate(runs)],
            "The log of this run has no starts of jobs.",
        ),
        "APPLICATIONS": _section(
            "Applications", [applications(run.summary) for run in runs], "All jobs have one application."
        ),
        "COORDINATION": _section(
            "Nodes given on by coordination",
            [coordination(run.records) for run in runs],
            "No node was given back early in this run.",
        ),
        "SCENARIOS": _by_run([_scenario(run) for run in runs]),
        "STYLE": _file("page.css"),
        "SCRIPT": "".join(map(_file, _SCRIPTS)),
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


def _palette(colours: Floats) -> list[list[int]]:
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


def _section(title: str, parts: Sequence[str], otherwise: str) -> str:
    """Return a section with a part per run, ``otherwise`` where one has none; empty if all have none."""
    told = [part or f"<p>{otherwise}</p>" for part in parts]
    return f"<section><h2>{title}</h2>{_by_run(told)}</section>" if any(parts) else ""


def _distributions(runs: Sequence[PageRun]) -> str:
    """Return pictures of waits and slowdowns, all runs in one where they can be distinguished."""
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
    waits = ((run.label, wait_time(run.records.jobs)) for run in runs)
    told = (f"{label}: {share(float(np.mean(found[~np.isnan(found)] == 0.0)))}" for label, found in waits)
    return f"Jobs that did not wait: {'; '.join(told)}."


def _beside_log(run: PageRun, place: int) -> str:
    """Return waits and utilization of a log beside those simulated; empty if the log has no starts."""
    started = ~np.isnan(run.records.jobs.start_time)
    if np.isnan(run.records.own.of.get(START, np.full(len(started), np.nan))[started]).all():
        return ""
    waits = RecordedWaits(run.records)
    overall, counts, named = waits.overall, waits.counts, {run.label: run.records}
    told = "; ".join(
        f"{side}: mean {clock(overall[side]['mean'])}, median {clock(overall[side]['median'])}, 90 % up to "
        f"{clock(overall[side]['p90'])}, {share(overall[side]['no_wait'])} did not wait"
        for side in SIDES
    )
    words = (
        f"{counts['compared']:,} of {count(counts['jobs'], 'job')} have both starts; {told}. Distance "
        f"{number(overall['distance'])} (Kolmogorov-Smirnov), rank correlation "
        f"{number(overall['rank_correlation'])}."
    )
    pictures = (
        inline_picture(draw(named, _COLUMN), f"recorded-{k}-{place}", caption)
        for k, (draw, caption) in enumerate(_BESIDE_LOG.items())
    )
    table = data_table(
        waits.most_different.drop("submit_time", START, "start_time"), "Jobs that differ most (s)."
    )
    return f'<p>{escape(words)}</p><div class="pictures">{"".join(pictures)}</div>{table}'


_BESIDE_LOG: Mapping[Callable[..., Figure], str] = {
    recorded_ecdf: "Jobs that waited at most so long.",
    recorded_against_simulated: "Jobs by both waits; on the line they are equal.",
    recorded_utilization: "Share of cores that jobs held.",
}

Summary = Mapping[str, Any]

_MOST_ROWS = 40
_MOST_RUNS = 500


Fact = tuple[str, str, str]


def _loop_facts(run: PageRun) -> list[Fact]:
    """Return the key figures of a loop alone."""
    loops = run.records.loops
    pes, steps, iterations = (int(column[0]) for column in (loops.pes, loops.steps, loops.iterations))
    busy, overhead, idle = (float(column[0]) for column in (loops.busy, loops.overhead, loops.idle))
    whole = max(busy + overhead + idle, 1e-300)
    how = ", ".join(filter(None, (count(pes, "PE"), str(run.summary.get("technique") or ""))))
    words = f"{share(overhead / whole)} overhead, {share(idle / whole)} idle"
    return [
        ("parallel loop time", duration(float(loops.t_loop[0])), how),
        ("chunks", f"{steps:,}", f"of {count(iterations, 'iteration')}"),
        ("time of the PEs", f"{share(busy / whole)} busy", words),
    ]


_OF_QUEUES = (
    "jobs completed",
    "makespan",
    "mean wait",
    "mean bounded slowdown",
    "queue length",
    "cores allocated",
)


def cards(summary: Summary, loop: Sequence[Fact] = ()) -> str:
    """Return the key figures; those of a ``loop`` alone in place of those of queues."""
    jobs, queue, used = summary["jobs"], summary["queue_length"], summary["utilization"]
    ends = [f"{jobs[end]:,} {end}" for end in ENDS if jobs.get(end)]
    facts = [
        ("jobs completed", f"{jobs['completed']:,}", ", ".join([f"of {jobs['submitted']:,}", *ends])),
        ("makespan", duration(summary["makespan"]), f"{number(summary['throughput'])} jobs/h"),
        ("cores allocated", share(used["allocated"]), f"{share(used['busy'])} busy"),
        _spread_parts("wait", summary["wait_time"], clock),
        _spread_parts("bounded slowdown", summary["bounded_slowdown"], number),
        ("queue length", number(queue["mean"]), f"mean over time; at most {number(queue['max'])}"),
    ]
    if recorded := summary.get("workload", {}).get("calibrate_to"):
        facts.append(("run times of loops", "as recorded", f"under {recorded}"))
    facts += _facts_of_some_runs(summary)
    if loop:
        facts = [*loop, *(fact for fact in facts if fact[0] not in _OF_QUEUES)]
    made = (
        f'<div><dt>{escape(name)}</dt><dd class="value">{escape(value)}</dd>'
        f'<dd class="more">{escape(more)}</dd></div>'
        for name, value, more in facts
    )
    return f'<dl class="cards">{"".join(made)}</dl>'


def _facts_of_some_runs(summary: Summary) -> list[Fact]:
    """Return the facts on loops, coordination, outages and energy."""
    facts, loops, given, failures = [], summary["loops"], summary["coordination"], summary["failures"]
    if loops["count"]:
        whole = loops["busy"] + loops["overhead"] + loops["idle"]
        busy = share(loops["busy"] / whole if whole else None)
        more = f"mean of {count(loops['count'], 'loop')}; PEs {busy} busy"
        facts.append(("loop imbalance", f"{number(loops['imbalance']['mean'])} %", more))
    if given["releases"]:
        hours = number(given["released_node_seconds"] / 3600.0)
        more = f"{count(given['releases'], 'node')} by {count(given['jobs_releasing'], 'job')}"
        facts.append(("released early", f"{hours} node h", more))
    if failures["node_failures"] or failures["node_drains"]:
        more = f"{count(failures['node_failures'], 'failure')}, {count(failures['node_drains'], 'drain')}"
        facts.append(("availability", share(failures["availability"]), more))
    if summary.get("energy") is not None:
        energy = summary["energy"]
        more = f"mean power {number(energy['mean_power'] / 1e3)} kW"
        facts.append(("energy", f"{number(energy['total'] / 3.6e6)} kWh", more))
    return facts


def _spread_parts(name: str, values: Summary, write: Any) -> Fact:
    more = f"median {write(values['median'])}, p99 {write(values['p99'])}, max {write(values['max'])}"
    return f"mean {name}", write(values["mean"]), more


def comparison(labels: Sequence[str], summaries: Sequence[Summary], tolerance: float) -> str:
    """Return the table of metrics side by side: runs as rows where they are many."""
    if len(labels) < 2:
        return ""
    rows = [row for row in compare_metrics(summaries, tolerance) if any(v is not None for v in row["values"])]
    write = {metric.key: metric.write for metric in COMPARED}
    many = len(labels) > 5
    if many:
        head = "".join(f'<th scope="col">{escape(row["metric"])}</th>' for row in rows)
        lines = [
            _line(escape(label), "".join(_cell(row, write[row["metric"]], place) for row in rows))
            for place, label in enumerate(labels[:_MOST_RUNS])
        ]
        first = "run"
    else:
        head = "".join(f'<th scope="col">{escape(label)}</th>' for label in labels)
        lines = [
            _line(
                escape(row["title"]),
                "".join(_cell(row, write[row["metric"]], place) for place in range(len(labels))),
            )
            for row in rows
        ]
        first = "metric"
    words = (
        f"Against {labels[0]}: ▲ better, ▼ worse, by more than {tolerance * 100:.3g} % of its value; "
        "single runs tell no smaller difference from chance."
    )
    head = f'<th scope="col">{first}</th>{head}'
    return _table(head, lines, words, "Comparison of runs", sortable=many)


def _line(name: str, cells: str) -> str:
    return f'<tr><th scope="row">{name}</th>{cells}</tr>'


def _cell(row: Mapping[str, Any], write: Any, place: int) -> str:
    value = row["values"][place]
    raw = "" if value is None else f' data-value="{value!r}"'
    if not place:
        return f"<td{raw}>{escape(write(value))}</td>"
    percent, verdict = row["percent"][place - 1], row["verdicts"][place - 1]
    more = "" if not percent or is_wall_clock(row) else f' <span class="verdict">{percent:+.1f} %</span>'
    mark = f' class="{verdict}"' if verdict in ("better", "worse") else ""
    said = f'<span class="sr"> {verdict}</span>' if mark else ""
    return f"<td{raw}{mark}>{escape(write(value))}{more}{said}</td>"


def data_table(table: pl.DataFrame, words: str, most: int = _MOST_RUNS) -> str:
    """Return a data frame as a table that can be sorted, with its first rows."""
    shown = table.head(most)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    lines = ["<tr>" + "".join(map(_plain_cell, row)) + "</tr>" for row in shown.iter_rows()]
    if len(table) > most:
        words += f" Shown: the first {most:,} of {len(table):,}."
    return _table(head, lines, words, words, sortable=True)


def _plain_cell(value: Any) -> str:
    if value is None:
        return '<td data-value=""></td>'
    if isinstance(value, float):
        return f'<td data-value="{value!r}">{escape(number(value))}</td>'
    return f"<td>{escape(str(value))}</td>"


_OF_APPLICATIONS: Mapping[str, Callable[[Any], str]] = {
    "jobs": "{:,}".format,
    "completed": "{:,}".format,
    "core-hours": number,
    "run time": clock,
    "wait": clock,
    "bounded slowdown": number,
    "imbalance (%)": number,
    "nodes released": str,
}


def applications(summary: Summary) -> str:
    """Return the table of jobs and loops by application; empty where all jobs have one."""
    found: Summary = summary.get("applications") or {}
    lines = []
    for name, one in found.items():
        values = [one["jobs"]["submitted"], one["jobs"]["completed"], one["core_seconds"] / 3600.0]
        values += [one[key]["mean"] for key in ("run_time", "wait_time", "bounded_slowdown")]
        values.append(one["loops"]["imbalance"]["mean"] if "loops" in one else None)
        values.append(one.get("coordination", {}).get("releases"))
        cells = "".join(
            '<td data-value=""></td>' if value is None else f'<td data-value="{value!r}">{write(value)}</td>'
            for value, write in zip(values, _OF_APPLICATIONS.values(), strict=True)
        )
        techniques = ", ".join(one.get("techniques", {})) or "rigid"
        lines.append(_line(escape(name), f"<td class=text>{escape(techniques)}</td>{cells}"))
    head = "".join(f'<th scope="col">{title}</th>' for title in _OF_APPLICATIONS)
    head = f'<th scope="col">application</th><th scope="col" class=text>techniques</th>{head}'
    words = "Run time, wait and slowdown are means over jobs, imbalance is one over loops."
    return _table(head, lines, words, "Applications", sortable=True) if lines else ""


def coordination(records: Records) -> str:
    """Return early releases with givers, takers and node-hours gained; empty if there are none."""
    held = records.occupancy
    if not held.released.any():
        return ""
    found = transfers(records)
    pairs = _pairs(records, found)
    given = count(int(held.count[held.released].sum()), "node")
    words = (
        f"{given} were given back early; {count(len(np.unique(found.taker)), 'job')} started on them while "
        f"their givers still ran, and won {number(float(found.seconds.sum()) / 3600.0)} node-hours."
    )
    caption = (
        "Node-hours won count from the start on a node to the taker's or the giver's end, whichever is first."
    )
    if len(pairs) > _MOST_ROWS:
        caption += f" Shown: the {_MOST_ROWS} largest of {len(pairs):,} pairs of jobs."
    jobs = records.jobs.job_id
    lines = [
        f"<tr><td>{jobs[giver]}</td><td>{jobs[taker]}</td><td class=text>{escape(_listed(nodes))}</td>"
        f'<td data-value="{start!r}">{escape(duration(start))}</td>'
        f'<td data-value="{seconds!r}">{number(seconds / 3600.0)}</td></tr>'
        for giver, taker, start, seconds, nodes in pairs[:_MOST_ROWS]
    ]
    titles = ("given by job", "to job", "nodes", "first at", "node-hours won")
    head = "".join(
        f'<th scope="col"{" class=text" if title == "nodes" else ""}>{title}</th>' for title in titles
    )
    body = _table(head, lines, caption, "Nodes given on", sortable=True) if pairs else ""
    return f"<p>{escape(words)}</p>{body}"


def _pairs(records: Records, found: Transfers) -> list[tuple[int, int, float, float, list[str]]]:
    """Sum up by giver and taker: first start, node-seconds won, nodes; those with most first."""
    sums: dict[tuple[int, int], tuple[float, float, list[str]]] = {}
    columns = (found.giver, found.taker, found.node, found.start, found.seconds)
    for giver, taker, node, start, seconds in zip(*(column.tolist() for column in columns), strict=True):
        first, won, nodes = sums.get((giver, taker), (start, 0.0, []))
        sums[giver, taker] = first, won + seconds, [*nodes, records.nodes.name[node]]
    pairs = [(giver, taker, *entry) for (giver, taker), entry in sums.items()]
    return sorted(pairs, key=lambda pair: (-pair[3], pair[:2]))


def _table(head: str, lines: Sequence[str], words: str, label: str, sortable: bool) -> str:
    """Return a table that scrolls sideways where it is wide."""
    kind = ' class="sortable"' if sortable else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label, quote=True)}">'
        f"<table{kind}><caption><span>{escape(words)}</span></caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _listed(names: Sequence[str], most: int = 6) -> str:
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - most} more" if len(unique) > most else ""
    return ", ".join(unique[:most]) + more
