"""``mlsim learn classes``: small and large jobs, predicted week by week, and what schedules make of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlsim.cli.learn.options import Jobs, Out, check_read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlsim.experiment.weekly import WholeLog
    from mlsim.learning.classes import Quality, VariantResult
    from mlsim.learning.features import JobFeatures, Known
    from mlsim.scenario import Policy, Scenario

__all__ = ["classes"]


def classes(
    context: typer.Context,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE ...", help="Scenarios, each with its log.", show_default=False),
    ],
    policies: Annotated[
        str, typer.Option(metavar="NAME,...", help="Policies to simulate.")
    ] = "FCFS,WFP,SAF,SPF",
    trees: Annotated[int, typer.Option(min=1, help="Trees of each week's forest.")] = 100,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of the forests.")] = 0,
    known: Annotated[
        str,
        typer.Option(
            metavar="ended|submitted|at-once",
            help="What is known of other jobs: what had ended when the week began; what was submitted before "
            "it; what was submitted before the job. The last two know run times that nobody could.",
        ),
    ] = "ended",
    reference: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Gains that others found, to show beside: log, dispatcher (EASY++, FCFS-CI), a value.",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a value of the scenarios.")
    ] = None,
    jobs: Jobs = None,
    out: Out = None,
) -> None:
    """Predict which jobs are small, week by week, and simulate five variants (Zrigui 2021, ch. 6).

    Small jobs run shorter than the median of the week before. A random forest learns at the end of each week
    from all that has ended by the log. Variants: base; classification (small jobs first);
    classification-idempotent (with the safeguard, which kills jobs that were wrongly taken for small);
    class-clairvoyant; runtimes-clairvoyant. Printed are quality of the classes, cumulative bounded
    slowdowns, and lost work; and the gains of classification-idempotent (CI) and of EASY++ over EASY-FCFS,
    where FCFS is among the policies (Table 6.6).

    mlsim learn classes scenarios/kth.yaml --policies FCFS,SAF
    """
    from mlsim.batch.weekly.forest import check_library
    from mlsim.cli.learn.progress import show_rows
    from mlsim.cli.learn.reference import results_of_others
    from mlsim.errors import InputError
    from mlsim.learning.class_parts import predicted_in_parts, rival_in_parts, variants_in_parts
    from mlsim.learning.classes import check_scenario, quality_of
    from mlsim.learning.features import Known
    from mlsim.learning.parts import parts_in, write_tables
    from mlsim.scenario import Backfill, Policy, load, parse_overrides

    check_library()
    chosen = _policies(policies)
    if known not in tuple(Known):
        raise InputError(f"--known: {known!r}; allowed: {', '.join(Known)}")
    scenarios = [load(file, parse_overrides(overrides or [])) for file in files]
    for scenario in scenarios:
        check_scenario(scenario, chosen)
    names = [scenario.name for scenario in scenarios]
    if len(set(names)) < len(names):
        raise InputError(f"{', '.join(names)}: each scenario needs a name of its own")
    gained = Policy.FCFS in chosen and any(one.batch.backfill is Backfill.EASY for one in scenarios)
    check_read(context, {"reference": (gained, "FCFS among --policies, and batch.backfill: easy")})
    dispatchers = ["EASY++", *(name for policy in chosen for name in (str(policy), f"{policy}-CI"))]
    others = (
        {} if reference is None else results_of_others(reference, {"log": names, "dispatcher": dispatchers})
    )
    source = {key: float(value) for key, value in others.items()}
    what = Known(known)
    logs, every = _read(scenarios, what)
    quality, weeks, variants, gains = [], [], [], []
    with parts_in(out, "learn classes", ", ".join(names), jobs) as parts:
        for scenario, log, features in zip(scenarios, logs, every, strict=True):
            predicted = predicted_in_parts(parts, log, features, what, trees=trees, seed=seed)
            found = quality_of(features, predicted)
            quality.append(_quality_row(log, found))
            weeks += _week_rows(scenario.name, found)
            results = variants_in_parts(parts, log, what, predicted, chosen)
            variants += _variant_rows(log, results)
            if Policy.FCFS in chosen and scenario.batch.backfill is Backfill.EASY:
                gains += _gain_rows(scenario.name, results, *rival_in_parts(parts, scenario), source)
        show_rows("Classes", _transposed(quality))
        show_rows("Variants: bounded slowdowns", variants)
        if gains:
            show_rows("Gains over EASY-FCFS (%), bounded slowdown", gains)
        if out is not None:
            tables = {"classes": quality, "weeks": weeks, "variants": variants, "gains": gains}
            write_tables(out, {f"{name}.csv": _csv(rows) for name, rows in tables.items()})
    if out is not None:
        print(f"Written: {out}")


def _read(scenarios: list[Scenario], what: Known) -> tuple[list[WholeLog], list[JobFeatures]]:
    """Read the logs, and make the features of their jobs."""
    from mlsim._progress import followed
    from mlsim.cli.progress import working
    from mlsim.experiment.weekly import whole_log
    from mlsim.learning.classes import check_weeks
    from mlsim.learning.features import features_of

    with working("features of jobs", len(scenarios)) as work:
        logs = [whole_log(scenario) for scenario in scenarios]
        for log in logs:
            check_weeks(log.scenario.name, log.jobs)
        return logs, [features_of(log.jobs, log.local, what) for log in followed(logs, work)]


def _policies(text: str) -> list[Policy]:
    """Read the policies to simulate."""
    from mlsim.errors import InputError
    from mlsim.scenario import Policy

    allowed = [policy for policy in Policy if policy is not Policy.FAIRSHARE]  # users are not known here
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in allowed:
            raise InputError(f"--policies: {name!r}; allowed: {', '.join(allowed)}")
    return [Policy(name) for name in names]


def _csv(rows: list[dict[str, object]]) -> str | None:
    """Return rows as CSV, cells empty where a number is not defined; None of no rows."""
    import polars as pl

    if not rows:
        return None
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return frame.with_columns(pl.col(pl.Float64).fill_nan(None)).write_csv()


def _quality_row(log: WholeLog, found: Quality) -> dict[str, object]:
    """Return what Zrigui's Tables 6.1, 6.2, 6.4 and 6.5 say, of one log."""
    import numpy as np

    jobs = log.jobs
    divider = float(np.median(jobs.run_time))
    small = jobs.run_time < divider
    area = jobs.run_time * jobs.processors
    low, middle, high = np.nanpercentile(found.weekly[:, 0], [10, 50, 90])
    return {
        "log": log.scenario.name,
        "jobs": len(jobs),
        "divider (s)": divider,
        "small premature %": 100 * float(np.mean(small & (jobs.walltime > divider))),
        "small area %": 100 * float(area[small].sum() / area.sum()),
        "accuracy %": 100 * found.accuracy,
        "precision %": 100 * found.precision,
        "recall %": 100 * found.recall,
        "false small %": 100 * found.false_small,
        "false large %": 100 * found.false_large,
        "weekly accuracy %, p10": 100 * float(low),
        "weekly accuracy %, median": 100 * float(middle),
        "weekly accuracy %, p90": 100 * float(high),
    }


def _week_rows(log: str, found: Quality) -> list[dict[str, object]]:
    """Return a row for each week after the first that has jobs."""
    return [
        {"log": log, "week": week, "accuracy %": accuracy, "precision %": precision, "recall %": recall}
        for week, (accuracy, precision, recall) in zip(
            found.weeks.tolist(), (100 * found.weekly).tolist(), strict=True
        )
    ]


def _variant_rows(
    log: WholeLog, results: Mapping[tuple[Policy, str], VariantResult]
) -> list[dict[str, object]]:
    """Return a row for each policy and variant."""
    rows: list[dict[str, object]] = []
    for (policy, variant), found in results.items():
        base = results[policy, "base"]
        rows.append(
            {
                "log": log.scenario.name,
                "policy": str(policy),
                "variant": variant,
                "cumulative": found.bounded_slowdown,
                "to base %": 100 * (found.bounded_slowdown / base.bounded_slowdown - 1),
                "mean small": found.mean_small,
                "mean large": found.mean_large,
                "killed": found.killed,
                "lost node-seconds": found.lost_node_seconds,
                "jobs": found.jobs,
            }
        )
    return rows


def _gain_rows(
    log: str,
    results: Mapping[tuple[Policy, str], VariantResult],
    rival: float,
    rival_jobs: int,
    source: Mapping[tuple[str, str], float],
) -> list[dict[str, object]]:
    """Return by how much EASY++, and each policy with classes and safeguard, is below EASY-FCFS."""
    from mlsim.scenario import Policy

    base = results[Policy.FCFS, "base"]
    means = {"EASY++": rival / rival_jobs}
    for (policy, variant), found in results.items():
        if variant == "base" and policy is not Policy.FCFS:
            means[str(policy)] = found.bounded_slowdown / found.jobs
        if variant == "classification-idempotent":
            means[f"{policy}-CI"] = found.bounded_slowdown / found.jobs
    rows: list[dict[str, object]] = []
    for name, mean in means.items():
        gain = 100 * (1 - mean / (base.bounded_slowdown / base.jobs))
        row = {"log": log, "dispatcher": name, "mean": mean, "gain %": gain}
        rows.append(row | ({"source %": source.get((log, name))} if source else {}))
    return rows


def _transposed(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Return a row for each fact, with a column for each log, whose name is the first fact."""
    first, *facts = rows[0]
    return [{first: fact} | {str(row[first]): row[fact] for row in rows} for fact in facts]
