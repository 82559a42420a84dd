"""The metrics of runs and loops as tables in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mlsim.analysis.formatting import ENDS, brief, clock, count, duration, number, share
from mlsim.analysis.group_metrics import CODED
from mlsim.analysis.job_metrics import SLOWDOWN_BINS
from mlsim.analysis.run_summary import best_loop

if TYPE_CHECKING:
    import polars as pl


_COLUMNS = ("mean", "std", "median", "p90", "p99", "max")

Summary = Mapping[str, Any]


def summary_table(summary: Summary) -> RenderableType:
    """Lay out a summary of :func:`mlsim.analysis.summarize`.

    Loops and coordination appear if there are any.
    """
    blocks: list[RenderableType] = [_title(summary), _facts(_system_facts(summary)), _job_aggregates(summary)]
    estimates = summary["estimates"]
    if estimates["predictor"] not in (None, "walltime"):
        blocks.append(accuracy_table({name: estimates[name] for name in ("prediction", "walltime")}))
    if summary["loops"]["count"]:
        blocks += [_facts(_loop_facts(summary["loops"])), _loop_aggregates(summary["loops"])]
    if summary["energy"] is not None:
        blocks.append(_facts(_energy_facts(summary["energy"])))
    failures = summary["failures"]
    if failures["node_failures"] or failures["node_drains"]:
        blocks.append(_facts(_failure_facts(failures)))
    if summary["coordination"]["messages"] or summary["coordination"]["releases"]:
        blocks.append(_facts(_coordination_facts(summary["coordination"])))
    if "cp" in summary:
        blocks.append(_facts(_plan_facts(summary["cp"])))
    spaced = [blocks[0], *(Padding(block, (1, 0, 0, 0), expand=False) for block in blocks[1:])]
    return Padding(Group(*spaced), (0, 1), expand=False)


def _title(summary: Summary) -> Text:
    technique = f"technique {summary['technique']}" if summary["technique"] else None
    rest = [f"seed {summary['seed']}", *filter(None, [technique])]
    return Text.assemble((str(summary["scenario"]), "bold"), (f"  {', '.join(rest)}", "dim"))


def _facts(facts: Mapping[str, str]) -> Table:
    """Lay out names and values in two columns."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    for name, value in facts.items():
        table.add_row(name, value)
    return table


def _system_facts(summary: Summary) -> dict[str, str]:
    queue, used = summary["queue_length"], summary["utilization"]
    return {
        "jobs": _job_words(summary["jobs"]),
        "makespan": _exact(summary["makespan"]),
        "  from submission": _exact(summary["makespan_from_submit"]),
        "utilization": f"{share(used['busy'])} busy, {share(used['allocated'])} allocated",
        **_shared_facts(summary.get("shared", {})),
        "throughput": f"{number(summary['throughput'])} jobs/h",
        "queue length": f"mean {number(queue['mean'])}, max {number(queue['max'])}",
    }


def _shared_facts(shared: Mapping[str, Summary]) -> dict[str, str]:
    """Describe the use of machine-wide resources."""
    return {
        f"  {name}": f"{share(used['utilization'])} held, at most {used['max']:,} of {used['capacity']:,} "
        f"{used['unit']}".rstrip()
        for name, used in shared.items()
    }


def _plan_facts(cp: Summary) -> dict[str, str]:
    status = ", ".join(f"{number} {word}" for word, number in cp["status"].items() if number)
    facts = {"planning": f"{count(cp['passes'], 'plan')}: {status}"}
    if cp["fallbacks"]:
        facts["  without solution"] = f"EASY decided instead of {count(cp['fallbacks'], 'plan')}"
    if cp["unplaced"]:
        facts["  unplaced"] = f"{count(cp['unplaced'], 'start')} found no nodes"
    facts["  per pass"] = f"build {number(cp['build_ms'])} ms, solve {number(cp['solve_ms'])} ms"
    return facts


def _job_words(jobs: Mapping[str, int]) -> str:
    """Describe counts of jobs, without outcomes that did not occur."""
    ends = [f"{jobs[end]:,} {end}" for end in ENDS if jobs.get(end)]
    return ", ".join([f"{jobs['submitted']:,} submitted", f"{jobs['completed']:,} completed", *ends])


def _job_aggregates(summary: Summary) -> Table:
    table = _table("per job", _COLUMNS)
    for name in ("wait_time", "response_time"):
        _add(table, name.replace("_", " "), summary[name], clock)
        _add(table, "  in s", summary[name], number, style="dim")
    _add(table, "slowdown", summary["slowdown"], number)
    _add(table, "bounded slowdown", summary["bounded_slowdown"], number)
    return table


def accuracy_table(rows: Mapping[str, Summary]) -> Table:
    """Lay out the accuracy of estimates, one row per estimate.

    Estimates that are too short and too long have their shares and mean errors; the last column is the share
    whose A = run time / estimate is within 25 % of 1.
    """
    table = _table("estimate", ("MAE min", "short", "by min", "long", "by min", "exact", "A ± 25 %"))
    for name, row in rows.items():
        under, over = row["under"], row["over"]
        table.add_row(
            name,
            _minutes(row["mae"]),
            share(under["share"]),
            _minutes(under["mean"]),
            share(over["share"]),
            _minutes(over["mean"]),
            share(row["exact"]),
            share(row["within_25"]),
        )
    return table


def _minutes(seconds: float | None) -> str:
    return number(None if seconds is None else seconds / 60.0)


def _loop_facts(loops: Summary) -> dict[str, str]:
    total = loops["busy"] + loops["overhead"] + loops["idle"]
    parts = [
        f"{share(loops[part] / total if total else None)} {part}" for part in ("busy", "overhead", "idle")
    ]
    return {
        "loops": f"{count(loops['count'], 'loop')}, {count(loops['iterations'], 'iteration')}, "
        f"{count(loops['steps'], 'scheduling step')}",
        "PE time": ", ".join(parts),
    }


def _loop_aggregates(loops: Summary) -> Table:
    table = _table("per loop", _COLUMNS)
    _add(table, "loop time", loops["t_loop"], clock)
    _add(table, "  in s", loops["t_loop"], number, style="dim")
    _add(table, "c.o.v. of finish", loops["cov"], number)
    _add(table, "imbalance in %", loops["imbalance"], number)
    _add(table, "max/mean", loops["max_over_mean"], number)
    return table


def _coordination_facts(coordination: Summary) -> dict[str, str]:
    return {
        "coordination": f"{count(coordination['messages'], 'message')}, "
        f"{count(coordination['releases'], 'node')} released early "
        f"by {count(coordination['jobs_releasing'], 'job')}",
        "given back": f"{number(coordination['released_node_seconds'] / 3600)} node-hours, "
        f"{number(coordination['released_core_seconds'] / 3600)} core-hours",
    }


def _energy_facts(energy: Summary) -> dict[str, str]:
    total = energy["total"]
    parts = [f"{share(energy[part] / total if total else None)} {part}" for part in ("jobs", "idle", "off")]
    return {
        "energy": f"{number(total / 3.6e6)} kWh: {', '.join(parts)}",
        "power": f"mean {_kilowatts(energy['mean_power'])}, max {_kilowatts(energy['max_power'])}",
    }


def _kilowatts(watts: float | None) -> str:
    return f"{number(None if watts is None else watts / 1000)} kW"


def _failure_facts(failures: Summary) -> dict[str, str]:
    outages = f"{count(failures['node_failures'], 'failure')}, {count(failures['node_drains'], 'drain')}"
    jobs = f"{count(failures['restarts'], 'restart')} of {count(failures['jobs_restarted'], 'job')}"
    return {
        "outages": f"{outages} of nodes; {share(failures['availability'])} of node time in use",
        "restarts": f"{jobs}, {number(failures['lost_core_seconds'] / 3600)} core-hours lost",
    }


def _add(
    table: Table,
    name: str,
    aggregate: Summary,
    write: Callable[[float | None], str],
    style: str | None = None,
) -> None:
    table.add_row(name, *(write(aggregate[column]) for column in _COLUMNS), style=style)


def _exact(seconds: float | None) -> str:
    """Format a duration for a reader, with its seconds."""
    short = duration(seconds)
    return short if seconds is None or seconds < 60 else f"{short} ({seconds:,.0f} s)"


Write = Callable[[float | None], str]

_PASS_TIMES = ("mean", "median", "p90", "p99", "max")
_MOST_ROWS = 25
"""Limit of users, queues ... in a table: those with most jobs."""
_LONGEST_LABEL = 24


def metrics_table(summary: Summary, by_class: pl.DataFrame, pass_times: pl.DataFrame) -> RenderableType:
    """Lay out the metrics that the one-screen summary omits.

    ``summary`` has the key ``self`` of the run; the tables are those of :mod:`mlsim.analysis.breakdowns`.
    """
    blocks = [_further_aggregates(summary), _facts(_pass_facts(summary)), _histogram(summary)]
    if by_class.height:
        blocks.append(breakdown_table(by_class, "class"))
    if pass_times.height:
        blocks.append(pass_time_table(pass_times))
    spaced = Group(*(Padding(block, (0, 0, 1, 0), expand=False) for block in blocks))
    return Padding(spaced, (0, 1), expand=False)


def _table(first: str, titles: Sequence[str]) -> Table:
    """Make a table with a column of names and columns of numbers."""
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    table.add_column(first, style="cyan", no_wrap=True)
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def _further_aggregates(summary: Summary) -> RenderableType:
    table = _table("further", _COLUMNS)

    def add(name: str, aggregate: Summary, write: Write) -> None:
        table.add_row(name, *(write(aggregate.get(column)) for column in _COLUMNS))

    add("slowdown per processor", summary["per_processor_bounded_slowdown"], number)
    add("queue length over time", summary["queue_length"], number)
    if summary["passes"]:
        add("queue length at passes", summary["passes"]["queue_length"], number)
    if _pass_time(summary):
        add("wall time of a pass", _pass_time(summary), brief)
    return table


def _pass_time(summary: Summary) -> dict[str, Any]:
    """Return the metrics of passes; empty without passes."""
    found: dict[str, Any] = summary["self"].get("pass_time", {})
    return found if found.get("count") else {}


def _pass_facts(summary: Summary) -> dict[str, str]:
    facts = {"backfilled": f"{share(summary['backfilled_share'])} of the jobs that started"}
    if times := _pass_time(summary):
        facts["passes"] = f"{times['count']:,}, {brief(times['total'])} of wall time"
    return facts


def _histogram(summary: Summary) -> RenderableType:
    table = _table("jobs by slowdown", SLOWDOWN_BINS)
    for name, counts in summary["slowdown_histogram"].items():
        total = sum(counts.values())
        table.add_row(name.replace("_", " "), *(f"{counts[place]:,}" for place in SLOWDOWN_BINS))
        shares = (share(counts[place] / total if total else None) for place in SLOWDOWN_BINS)
        table.add_row("", *shares, style="dim")
    return table


def pass_time_table(pass_times: pl.DataFrame) -> RenderableType:
    """Lay out the wall time of passes by queue length."""
    table = _table("queue length", ("passes", *_PASS_TIMES))
    for row in pass_times.iter_rows(named=True):
        low, high = row["low"], row["high"]
        name = str(low) if low == high else f"{low:,}-{high:,}"
        table.add_row(name, f"{row['passes']:,}", *(brief(row[part]) for part in _PASS_TIMES))
    return table


def breakdown_table(table: pl.DataFrame, by: str) -> RenderableType:
    """Lay out jobs by group, from :func:`mlsim.analysis.breakdowns.breakdown`.

    Of users and the like the largest.
    """
    if by == "week":
        words = "so far: mean over all jobs ended by then; p10, p90: of the means of the weeks so far"
        return Group(_rows(by, table, _WEEKLY), Text(f"b.s.: bounded slowdown; {words}", "dim"))
    shown = table
    if by in CODED and table.height > _MOST_ROWS:
        shown = table.sort("jobs", descending=True, maintain_order=True).head(_MOST_ROWS)
    left = table.height - shown.height
    more = f"; {left} more with fewer jobs are in --csv and --json" if left else ""
    return Group(_rows(by, shown, _BY_GROUP), Text(f"b.s.: bounded slowdown{more}", "dim"))


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


_Column = tuple[str, str, Write]

_BY_GROUP: Sequence[_Column] = (
    ("jobs", "jobs", _count),
    ("core-h", "core_hours", _count),
    ("mean wait", "wait_time.mean", clock),
    ("p90", "wait_time.p90", clock),
    ("mean b.s.", "bounded_slowdown.mean", number),
    ("median", "bounded_slowdown.median", number),
    ("p90", "bounded_slowdown.p90", number),
    ("max", "bounded_slowdown.max", number),
)
_WEEKLY: Sequence[_Column] = (
    ("jobs", "jobs", _count),
    ("mean wait", "wait_time.mean", clock),
    ("sum", "wait_time.sum", clock),
    ("mean b.s.", "bounded_slowdown.mean", number),
    ("sum", "bounded_slowdown.sum", number),
    ("so far", "bounded_slowdown.cumulative_mean", number),
    ("p10", "bounded_slowdown.band_low", number),
    ("p90", "bounded_slowdown.band_high", number),
)


def _rows(by: str, table: pl.DataFrame, columns: Sequence[_Column]) -> Table:
    laid_out = _table(f"by {by}", [title for title, _, _ in columns])
    laid_out.collapse_padding = True
    # Where room is short, long names take more lines; numbers are never cut.
    laid_out.columns[0].no_wrap, laid_out.columns[0].overflow = False, "fold"
    for row in table.iter_rows(named=True):
        label = row[by] if len(row[by]) <= _LONGEST_LABEL else f"{row[by][: _LONGEST_LABEL - 1]}…"
        laid_out.add_row(Text(label), *(write(row[key]) for _, key, write in columns))
    return laid_out


Facts = Mapping[str, Any]

_LOOP_COLUMNS = ("T_loop", "", "steps", "c.o.v.", "imbalance", "max/mean", "overhead")


def loop_table(loops: Sequence[Facts]) -> Table:
    """Lay out loops for the terminal, one per row, the shortest marked with a star.

    Overhead is its share of the PEs' time from the loop's start until the last PE learns that there is no
    more work. Expects facts of :func:`loop_facts`; a rule separates techniques.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, show_edge=False)
    table.add_column("technique", style="cyan", no_wrap=True)
    table.add_column("model", no_wrap=True)
    for name in _LOOP_COLUMNS:
        table.add_column(name, justify="left" if name == "" else "right", no_wrap=True)
    best = best_loop(loops) if len(loops) > 1 else -1
    many = len({facts["model"] for facts in loops}) > 1
    for row, facts in enumerate(loops):
        last = row + 1 == len(loops) or loops[row + 1]["technique"] != facts["technique"]
        table.add_row(*_cells(facts, row == best), end_section=last and many)
    return table


def _cells(facts: Facts, best: bool) -> list[Text]:
    total = facts["busy"] + facts["overhead"] + facts["idle"]
    imbalance = facts["imbalance"]
    words = [
        facts["technique"],
        facts["model"],
        loop_seconds(facts["t_loop"]),
        "*" if best else "",
        f"{facts['steps']:,}",
        "-" if facts["cov"] is None else f"{facts['cov']:.2g}",
        "-" if imbalance is None else f"{imbalance:.2f} %",
        "-" if facts["max_over_mean"] is None else f"{facts['max_over_mean']:.3f}",
        share(facts["overhead"] / total if total else None),
    ]
    return [
        Text(word, style="bold green" if best and place in (2, 3) else "") for place, word in enumerate(words)
    ]


def loop_seconds(seconds: float) -> str:
    """Format a loop's time with four digits, so that loops can be compared."""
    if seconds and seconds < 1e-3:
        return f"{seconds * 1e6:.4g} µs"
    if seconds and seconds < 1.0:
        return f"{seconds * 1e3:.4g} ms"
    return f"{seconds:.4g} s" if seconds < 1000 else f"{seconds:,.0f} s ({duration(seconds)})"
