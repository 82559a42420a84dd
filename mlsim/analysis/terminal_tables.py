"""The metrics of runs and loops as tables in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.text import Text

from mlsim.analysis.formatting import ENDS, brief, clock, count, duration, number, share
from mlsim.analysis.job_metrics import CODED, NAMES, SLOWDOWN_BINS
from mlsim.analysis.run_summary import best_loop
from mlsim.analysis.table_layout import NumberTable, spaced

if TYPE_CHECKING:
    import polars as pl


Summary = Mapping[str, Any]
Write = Callable[[float | None], str]


def summary_table(summary: Summary) -> RenderableType:
    """Lay out a summary of :func:`mlsim.analysis.summarize`, with loops and the like if there are any."""
    technique = f", technique {summary['technique']}" if summary["technique"] else ""
    title = (str(summary["scenario"]), "bold"), (f"  seed {summary['seed']}{technique}", "dim")
    blocks: list[RenderableType] = [Text.assemble(*title), _facts(_system_facts(summary))]
    blocks.append(_job_aggregates(summary))
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
    if flows := summary.get("workflows"):
        mean = {name: flows[name]["mean"] for name in ("makespan", "stretch")}
        means = f"mean makespan {_exact(mean['makespan'])}, mean stretch {number(mean['stretch'])}"
        blocks.append(
            _facts({"workflows": f"{flows['count']:,}, {flows['unfinished']:,} unfinished; {means}"})
        )
    if "recorded" in summary.get("workload", {}):
        blocks.append(_facts(_recorded_facts(summary["workload"]["recorded"])))
    if "cp" in summary:
        blocks.append(_facts(_plan_facts(summary["cp"])))
    return spaced(blocks)


def _facts(facts: Mapping[str, str]) -> NumberTable:
    """Lay out names and texts in two columns."""
    return NumberTable(("", ""), facts.items(), left=("",))


def _system_facts(summary: Summary) -> dict[str, str]:
    queue, used, jobs = summary["queue_length"], summary["utilization"], summary["jobs"]
    ends = [f"{jobs[end]:,} {end}" for end in ENDS if jobs.get(end)]
    shared = {
        f"  {name}": f"{share(one['utilization'])} held, at most {one['max']:,} of {one['capacity']:,} "
        f"{one['unit']}".rstrip()
        for name, one in summary.get("shared", {}).items()
    }
    return {
        "jobs": ", ".join([f"{jobs['submitted']:,} submitted", f"{jobs['completed']:,} completed", *ends]),
        "makespan": _exact(summary["makespan"]),
        "  from submission": _exact(summary["makespan_from_submit"]),
        "utilization": f"{share(used['busy'])} busy, {share(used['allocated'])} allocated",
        **shared,
        "throughput": f"{number(summary['throughput'])} jobs/h",
        "queue length": f"mean {number(queue['mean'])}, max {number(queue['max'])}",
    }


def _recorded_facts(recorded: Summary) -> dict[str, str]:
    over, first = recorded["over_allocated"], recorded["first_late"]
    facts = {"recorded starts": f"{recorded['starts']:,}, {recorded['late']:,} of them late"}
    if first:
        jobs = ", ".join(f"{job['job_id']} (at {clock(job['recorded'])})" for job in first)
        late = f"{clock(recorded['late_mean'])} on average, {clock(recorded['late_max'])} at most"
        facts |= {"  late": f"{late}; first jobs {jobs}"}
    if over["cores"]:
        seconds, since = clock(over["seconds"]), clock(over["first"])
        facts["  over-allocated"] = f"{seconds}, by up to {over['cores']:,} cores, from {since} on"
    if "elsewhere" in recorded:
        unknown = f"{recorded['unknown_nodes']:,} have nodes that the platform lacks"
        facts["  on other nodes"] = f"{count(recorded['elsewhere'], 'job')}; {unknown}"
    return facts


def _plan_facts(cp: Summary) -> dict[str, str]:
    status = ", ".join(f"{number} {word}" for word, number in cp["status"].items() if number)
    facts = {"planning": f"{count(cp['passes'], 'plan')}: {status}"}
    if cp["fallbacks"]:
        facts["  without solution"] = f"EASY decided instead of {count(cp['fallbacks'], 'plan')}"
    if cp["unplaced"]:
        facts["  unplaced"] = f"{count(cp['unplaced'], 'start')} found no nodes"
    facts["  per pass"] = f"build {number(cp['build_ms'])} ms, solve {number(cp['solve_ms'])} ms"
    return facts


_Row = tuple[str, Summary, Write]


def _aggregates(title: str, rows: Sequence[_Row]) -> NumberTable:
    """Lay out aggregates; rows of indented names repeat the one above in other units."""
    table = NumberTable((title, *NAMES))
    for name, aggregate, write in rows:
        cells = (write(aggregate.get(column)) for column in NAMES)
        table.add(name, *cells, style="dim" if name.startswith(" ") else "")
    return table


def _job_aggregates(summary: Summary) -> NumberTable:
    wait, response = summary["wait_time"], summary["response_time"]
    rows: list[_Row] = [("wait time", wait, clock), ("  in s", wait, number)]
    rows += [("response time", response, clock), ("  in s", response, number)]
    rows += [("slowdown", summary["slowdown"], number)]
    return _aggregates("per job", [*rows, ("bounded slowdown", summary["bounded_slowdown"], number)])


def accuracy_table(rows: Mapping[str, Summary]) -> RenderableType:
    """Lay out the accuracy of estimates."""
    titles = ("estimate", "MAE (min)", "too short", "by (min)", "too long", "by (min)", "exact", "±25 %")
    table = NumberTable(titles, beside=("by (min)",))
    for name, row in rows.items():
        under, over = ((share(row[end]["share"]), _over(row[end]["mean"], 60.0)) for end in ("under", "over"))
        exact, near = share(row["exact"]), share(row["within_25"])
        table.add(name, _over(row["mae"], 60.0), *under, *over, exact, near)
    words = "MAE: mean absolute error; by: in the mean of these; ±25 %: run time / estimate in 0.75 to 1.25"
    return Group(table, Text(words, "dim"))


def _over(value: float | None, unit: float) -> str:
    return number(None if value is None else value / unit)


def _parts(whole: Summary, names: Sequence[str], total: float) -> str:
    """Write the shares of parts in their total."""
    return ", ".join(f"{share(whole[name] / total if total else None)} {name}" for name in names)


def _loop_facts(loops: Summary) -> dict[str, str]:
    total = loops["busy"] + loops["overhead"] + loops["idle"]
    return {
        "loops": f"{count(loops['count'], 'loop')}, {count(loops['iterations'], 'iteration')}, "
        f"{count(loops['steps'], 'scheduling step')}",
        "PE time": _parts(loops, ("busy", "overhead", "idle"), total),
    }


def _loop_aggregates(loops: Summary) -> NumberTable:
    rows: list[_Row] = [("loop time", loops["t_loop"], clock), ("  in s", loops["t_loop"], number)]
    rows += [("c.o.v. of finish", loops["cov"], number), ("imbalance in %", loops["imbalance"], number)]
    return _aggregates("per loop", [*rows, ("max/mean", loops["max_over_mean"], number)])


def _coordination_facts(coordination: Summary) -> dict[str, str]:
    return {
        "coordination": f"{count(coordination['messages'], 'message')}, "
        f"{count(coordination['releases'], 'node')} released early "
        f"by {count(coordination['jobs_releasing'], 'job')}",
        "given back": f"{number(coordination['released_node_seconds'] / 3600)} node-hours, "
        f"{number(coordination['released_core_seconds'] / 3600)} core-hours",
    }


def _energy_facts(energy: Summary) -> dict[str, str]:
    parts = _parts(energy, ("jobs", "idle", "off"), energy["total"])
    mean, most = _over(energy["mean_power"], 1000), _over(energy["max_power"], 1000)
    return {
        "energy": f"{number(energy['total'] / 3.6e6)} kWh: {parts}",
        "power": f"mean {mean} kW, max {most} kW",
    }


def _failure_facts(failures: Summary) -> dict[str, str]:
    outages = f"{count(failures['node_failures'], 'failure')}, {count(failures['node_drains'], 'drain')}"
    jobs = f"{count(failures['restarts'], 'restart')} of {count(failures['jobs_restarted'], 'job')}"
    return {
        "outages": f"{outages} of nodes; {share(failures['availability'])} of node time in use",
        "restarts": f"{jobs}, {number(failures['lost_core_seconds'] / 3600)} core-hours lost",
    }


def _exact(seconds: float | None) -> str:
    """Format a duration for a reader, with its seconds."""
    short = duration(seconds)
    return short if seconds is None or seconds < 60 else f"{short} ({seconds:,.0f} s)"


_PASS_TIMES = ("mean", "median", "p90", "p99", "max")
_MOST_ROWS = 25  # limit of users, queues ... in a table: those with most jobs
_LONGEST_LABEL = 24


def metrics_table(summary: Summary, by_class: pl.DataFrame, pass_times: pl.DataFrame) -> RenderableType:
    """Lay out the metrics that the one-screen summary omits, and tables of breakdowns."""
    times = summary["self"].get("pass_time", {})
    passes = summary["passes"]
    rows: list[_Row] = [
        ("slowdown per processor", summary["per_processor_bounded_slowdown"], number),
        ("queue length over time", summary["queue_length"], number),
        *([("queue length at passes", passes["queue_length"], number)] if passes else ()),
    ]
    facts = {"backfilled": f"{share(summary['backfilled_share'])} of the jobs that started"}
    if times.get("count"):
        rows.append(("wall time of a pass", times, brief))
        facts["passes"] = f"{times['count']:,}, {brief(times['total'])} of wall time"
    blocks: list[RenderableType] = [_aggregates("further", rows), _facts(facts), _histogram(summary)]
    if by_class.height:
        blocks.append(breakdown_table(by_class, "class"))
    if pass_times.height:
        blocks.append(pass_time_table(pass_times))
    return spaced(blocks)


def _histogram(summary: Summary) -> RenderableType:
    table = NumberTable(("jobs by slowdown", *SLOWDOWN_BINS))
    for name, counts in summary["slowdown_histogram"].items():
        total = sum(counts.values())
        table.add(name.replace("_", " "), *(f"{counts[place]:,}" for place in SLOWDOWN_BINS))
        shares = (share(counts[place] / total if total else None) for place in SLOWDOWN_BINS)
        table.add("", *shares, style="dim")
    return table


def pass_time_table(pass_times: pl.DataFrame) -> NumberTable:
    """Lay out the wall time of passes by queue length."""
    table = NumberTable(("queue length", "passes", *_PASS_TIMES))
    for row in pass_times.iter_rows(named=True):
        low, high = row["low"], row["high"]
        name = str(low) if low == high else f"{low:,}-{high:,}"
        table.add(name, f"{row['passes']:,}", *(brief(row[part]) for part in _PASS_TIMES))
    return table


def breakdown_table(table: pl.DataFrame, by: str) -> RenderableType:
    """Lay out jobs by group, as :func:`~mlsim.analysis.breakdowns.breakdown` has them; at most 25 users."""
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
    ("p90 wait", "wait_time.p90", clock),
    ("mean b.s.", "bounded_slowdown.mean", number),
    ("median b.s.", "bounded_slowdown.median", number),
    ("p90 b.s.", "bounded_slowdown.p90", number),
    ("max b.s.", "bounded_slowdown.max", number),
)
_WEEKLY: Sequence[_Column] = (
    ("jobs", "jobs", _count),
    ("mean wait", "wait_time.mean", clock),
    ("sum of waits", "wait_time.sum", clock),
    ("mean b.s.", "bounded_slowdown.mean", number),
    ("sum of b.s.", "bounded_slowdown.sum", number),
    ("so far", "bounded_slowdown.cumulative_mean", number),
    ("p10", "bounded_slowdown.band_low", number),
    ("p90", "bounded_slowdown.band_high", number),
)


def _rows(by: str, table: pl.DataFrame, columns: Sequence[_Column]) -> NumberTable:
    laid_out = NumberTable((f"by {by}", *(title for title, _, _ in columns)))
    for row in table.iter_rows(named=True):
        label = row[by] if len(row[by]) <= _LONGEST_LABEL else f"{row[by][: _LONGEST_LABEL - 1]}…"
        laid_out.add(label, *(write(row[key]) for _, key, write in columns))
    return laid_out


_LOOP_COLUMNS = ("technique", "model", "T_loop", "steps", "c.o.v.", "imbalance", "max/mean", "overhead")


def loop_table(loops: Sequence[Summary]) -> NumberTable:
    """Lay out facts of :func:`loop_facts`, the shortest loop starred; an empty line separates techniques.

    Overhead is its share of the time from the loop's start until the last PE learns that no work is left.
    """
    table = NumberTable(_LOOP_COLUMNS, keys=2, ruled=True)
    best = best_loop(loops) if len(loops) > 1 else -1
    many = len({facts["model"] for facts in loops}) > 1
    for row, facts in enumerate(loops):
        if many and row and loops[row - 1]["technique"] != facts["technique"]:
            table.end_section()
        table.add(*_cells(facts, row == best, len(loops) > 1))
    return table


def _cells(facts: Summary, best: bool, starred: bool) -> list[str | Text]:
    total = facts["busy"] + facts["overhead"] + facts["idle"]
    imbalance = facts["imbalance"]
    time = loop_seconds(facts["t_loop"])
    return [
        facts["technique"],
        facts["model"],
        Text(f"{time} *", "bold green") if best else f"{time}  " if starred else time,
        f"{facts['steps']:,}",
        "-" if facts["cov"] is None else f"{facts['cov']:.2g}",
        "-" if imbalance is None else f"{imbalance:.2f} %",
        "-" if facts["max_over_mean"] is None else f"{facts['max_over_mean']:.3f}",
        share(facts["overhead"] / total if total else None),
    ]


def loop_seconds(seconds: float) -> str:
    """Format a loop's time with four digits, so that loops can be compared."""
    if seconds and seconds < 1e-3:
        return f"{seconds * 1e6:.4g} µs"
    if seconds and seconds < 1.0:
        return f"{seconds * 1e3:.4g} ms"
    return f"{seconds:.4g} s" if seconds < 1000 else f"{seconds:,.0f} s ({duration(seconds)})"
