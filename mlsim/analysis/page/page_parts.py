"""Parts of the report page that need no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.analysis.formatting import ENDS, clock, count, duration, number, share
from mlsim.analysis.run_comparison import COMPARED, compare_metrics
from mlsim.record import Records
from mlsim.record.derived_times import away_until

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Transfers:
    """One row per node that one job released and another got before the first had ended.

    Jobs are rows of the run's jobs, nodes rows of its nodes.
    """

    giver: Ints
    taker: Ints
    node: Ints
    start: Floats  # when the other job received it [s]
    seconds: Floats  # node-seconds until the taker left it or the giver ended; parts of nodes count in part


def transfers(records: Records) -> Transfers:
    """Find, for each node that was released early, the jobs that started on it while its giver ran."""
    held = records.occupancy
    until = away_until(held, records.jobs, records.attempts)
    given = _spread(held.node, held.count, np.flatnonzero(held.released))
    lent = np.unique(given[1])
    row, node = _spread(held.node, held.count, np.flatnonzero(np.isin(held.node, lent) | (held.count > 1)))
    is_lent = np.isin(node, lent)
    row, node = row[is_lent], node[is_lent]
    order = np.lexsort((held.start[row], node))
    row, node = row[order], node[order]
    first, last = np.searchsorted(node, lent, "left"), np.searchsorted(node, lent, "right")
    pairs: list[tuple[Ints, Ints]] = []
    for place, node_number in enumerate(lent.tolist()):
        here, there = given[0][given[1] == node_number], row[first[place] : last[place]]
        low = np.searchsorted(held.start[there], held.end[here], "left")
        high = np.searchsorted(held.start[there], until[here], "left")
        many = np.maximum(high - low, 0)
        inside = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
        pairs.append((np.repeat(here, many), there[np.repeat(low, many) + inside]))
    giver, taker = (
        np.concatenate([pair[side] for pair in pairs]) if pairs else np.empty(0, np.int64) for side in (0, 1)
    )
    nodes = np.concatenate(
        [np.full(len(pair[0]), node_number) for pair, node_number in zip(pairs, lent.tolist(), strict=True)]
        or [np.empty(0, np.int64)]
    )
    other = held.job[giver] != held.job[taker]
    giver, taker, nodes = giver[other], taker[other], nodes[other]
    length = np.minimum(held.end[taker], until[giver]) - held.start[taker]
    part = held.cores[taker] / records.nodes.cores[nodes]
    order = np.lexsort((held.job[taker], nodes, held.start[taker]))
    return Transfers(
        held.job[giver][order],
        held.job[taker][order],
        nodes[order],
        held.start[taker][order],
        (length * part)[order],
    )


def _spread(node: Ints, count: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return a row and a node for each node of each row."""
    row = np.repeat(rows, count[rows])
    inside = np.arange(len(row)) - np.repeat(np.cumsum(count[rows]) - count[rows], count[rows])
    return row, node[row] + inside


Summary = Mapping[str, Any]

_MOST_ROWS = 40
_MOST_RUNS = 500


def cards(summary: Summary) -> str:
    """Return the key figures."""
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
    facts += _facts_of_some_runs(summary)
    made = (
        f'<div><dt>{escape(name)}</dt><dd class="value">{escape(value)}</dd>'
        f'<dd class="more">{escape(more)}</dd></div>'
        for name, value, more in facts
    )
    return f'<dl class="cards">{"".join(made)}</dl>'


def _facts_of_some_runs(summary: Summary) -> list[tuple[str, str, str]]:
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


def _spread_parts(name: str, values: Summary, write: Any) -> tuple[str, str, str]:
    more = f"median {write(values['median'])}, p99 {write(values['p99'])}, max {write(values['max'])}"
    return f"mean {name}", write(values["mean"]), more


def comparison(labels: Sequence[str], summaries: Sequence[Summary], tolerance: float) -> str:
    """Return the table of metrics side by side: runs as rows where they are many."""
    if len(labels) < 2:
        return ""
    rows = [row for row in compare_metrics(summaries, tolerance) if any(v is not None for v in row["values"])]
    write = {metric.key: metric.write for metric in COMPARED}
    parts = {metric.key for metric in COMPARED if metric.title.startswith(" ")}
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
                is_part=row["metric"] in parts,
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


def _line(name: str, cells: str, is_part: bool = False) -> str:
    return f'<tr><th scope="row"{" class=part" if is_part else ""}>{name}</th>{cells}</tr>'


def _cell(row: Mapping[str, Any], write: Any, place: int) -> str:
    value = row["values"][place]
    raw = "" if value is None else f' data-value="{value!r}"'
    if not place:
        return f"<td{raw}>{escape(write(value))}</td>"
    percent, verdict = row["percent"][place - 1], row["verdicts"][place - 1]
    more = "" if percent is None or not percent else f' <span class="verdict">{percent:+.1f} %</span>'
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
        f"<table{kind}><caption>{escape(words)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _listed(names: Sequence[str], most: int = 6) -> str:
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - most} more" if len(unique) > most else ""
    return ", ".join(unique[:most]) + more
