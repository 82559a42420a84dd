"""The one-screen summary of a run in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mlsim.analysis.formatting import ENDS, clock, count, duration, number, share

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
    table = _aggregate_table("per job")
    for name in ("wait_time", "response_time"):
        _add(table, name.replace("_", " "), summary[name], clock)
        _add(table, "  in s", summary[name], number, style="dim")
    _add(table, "slowdown", summary["slowdown"], number)
    _add(table, "bounded slowdown", summary["bounded_slowdown"], number)
    return table


def accuracy_table(rows: Mapping[str, Summary]) -> Table:
    """Lay out the accuracy of estimates, one row per estimate of :func:`~mlsim.analysis.metrics.accuracy`.

    Estimates that are too short and too long have their shares and mean errors; the last column is the share
    whose A = run time / estimate is within 25 % of 1.
    """
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    table.add_column("estimate", style="cyan", no_wrap=True)
    for title in ("MAE min", "short", "by min", "long", "by min", "exact", "A ± 25 %"):
        table.add_column(title, justify="right", no_wrap=True)
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
    table = _aggregate_table("per loop")
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


def _aggregate_table(title: str) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="bold")
    table.add_column(title, style="cyan", no_wrap=True)
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    return table


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
