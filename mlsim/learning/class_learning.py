"""Small and large jobs: classes predicted by a random forest (Zrigui 2021, ch. 6)."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from mlsim._files import expanded
from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim._runtime.shared_cache import bytes_of, shared
from mlsim.analysis import job_metrics
from mlsim.batch.clock.replay_many import class_obstacle, replay_classes
from mlsim.batch.predictors.weekly_forests import Categories, Forest, first_features
from mlsim.errors import InputError
from mlsim.experiment import runner
from mlsim.experiment.weekly_runs import WholeLog, whole_log
from mlsim.learning.feature_importance import FEATURES, importance_of
from mlsim.learning.learning_parts import Part, Parts
from mlsim.record.derived_times import TAU
from mlsim.scenario import BatchConfig, Policy, Scenario, dump, loads
from mlsim.workload import JobBlock, job_selection


class Known(StrEnum):
    """Jobs whose classes are known when the class of another job is predicted."""

    ENDED = "ended"
    SUBMITTED = "submitted"
    AT_ONCE = "at-once"


@dataclass(frozen=True)
class JobFeatures:
    """Features and classes of jobs."""

    values: Floats  # float64[jobs, 20]: in the order of `FEATURE_NAMES`; -1 where nothing is known
    week: Ints  # Week of each job's submission, from 0
    known_from: Ints  # The first week in which each job's run time is known
    # Median run time of the jobs that ended in the week before (s), frozen at submission; of the last week
    # with any where none did, NaN in the first week.
    divider: Floats
    small: Ints  # 1 if the run time is below the divider (the first one for jobs without), else 0


def features_of(jobs: JobBlock, local: Floats, known: Known = Known.ENDED) -> JobFeatures:
    """Return the features of jobs in arrival order; ``local`` are submit times on the log's clocks (s)."""
    zero, week = weeks_from_first(jobs)
    known_from = week + 1
    if known is Known.ENDED:
        ends = job_selection.recorded_starts(jobs) + jobs.run_time
        # The edge at which an end is known: one that falls on an edge is known there.
        edge = np.ceil((ends - zero) / job_selection.WEEK_SECONDS).astype(np.int64)
        known_from = np.maximum(edge, known_from)
    n_weeks = int(week.max()) + 1 if len(jobs) else 0
    # Of each week: the median run time of the jobs that became known at its begin.
    dividers = np.full(n_weeks + 1, np.nan)
    for number in range(1, n_weeks + 1):
        times = jobs.run_time[known_from == number]
        dividers[number] = np.median(times) if len(times) else dividers[number - 1]
    divider = dividers[week] if n_weeks else np.empty(0)
    known_dividers = dividers[~np.isnan(dividers)]
    judged = np.where(np.isnan(divider), known_dividers[0] if len(known_dividers) else np.nan, divider)
    small = (jobs.run_time < judged).astype(np.int64)
    values = first_features(jobs.walltime, jobs.processors.astype(np.float64), local)
    _write_history(jobs, values, small, week, known_from, known is Known.AT_ONCE)
    return JobFeatures(values, week, known_from, divider, small)


def weeks_from_first(jobs: JobBlock) -> tuple[float, Ints]:
    """Return the first submit time (s), and the week of each submission, counted from it, from 0."""
    zero = float(jobs.submit_time[0]) if len(jobs) else 0.0
    return zero, np.floor((jobs.submit_time - zero) / job_selection.WEEK_SECONDS).astype(np.int64)


def _write_history(
    jobs: JobBlock, values: Floats, small: Ints, week: Ints, known_from: Ints, at_once: bool
) -> None:
    n_weeks = int(week.max()) + 1 if len(jobs) else 0
    users, categories = jobs.user.tolist(), Categories()
    by_edge = np.argsort(known_from, kind="stable")
    edges = np.searchsorted(known_from[by_edge], np.arange(n_weeks + 1), side="right")
    rows_of = np.searchsorted(week, np.arange(n_weeks + 1), side="left")
    added = 0
    for number in range(n_weeks):
        for row in () if at_once else by_edge[added : edges[number]].tolist():
            categories.add(row, users[row], values[row].tolist(), int(small[row]))
        added = max(added, int(edges[number]))
        for row in range(int(rows_of[number]), int(rows_of[number + 1])):
            categories.write(users[row], values[row])
            if at_once:
                categories.add(row, users[row], values[row].tolist(), int(small[row]))


VARIANTS: Final = (
    "base",
    "classification",
    "classification-idempotent",
    "class-clairvoyant",
    "runtimes-clairvoyant",
)
# Base: no classes. Classification: predicted ones. -idempotent: with the safeguard. Clairvoyant: with the
# right classes, or the right run times and no classes.
_WEEKLY: Final = ("accuracy", "precision", "recall")


def policies_of(text: str) -> list[Policy]:
    """Read the policies to simulate, with commas between."""
    allowed = [policy for policy in Policy if policy is not Policy.FAIRSHARE]  # users are not known here
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in allowed:
            raise InputError(f"--policies: {name!r}; allowed: {', '.join(allowed)}")
    return [Policy(name) for name in names]


def check_scenario(scenario: Scenario, policies: Sequence[Policy]) -> None:
    """Check that all variants of some policies can be simulated on the log of a scenario."""
    for policy in policies:
        config = scenario.batch.model_copy(update={"policy": policy})
        obstacle = class_obstacle(config)
        if obstacle is not None:
            key, needed = obstacle
            raise InputError(
                f"{scenario.source}: batch.{key}: is {getattr(config, key)}; classes of jobs need {needed}"
            )
        unweighted = [each.message for each in config.broken_rules() if each.key == "weights"]
        if policy is Policy.LINEAR and unweighted:
            raise InputError(
                f"{scenario.source}: batch.weights: {unweighted[0]}; write batch.policy: linear beside them"
            )


def check_weeks(name: str, jobs: JobBlock) -> None:
    """Raise InputError unless a log has at least two weeks."""
    if int(weeks_from_first(jobs)[1].max(initial=0)) < 1:
        found = "all its jobs are submitted within a week" if len(jobs) else "it has no jobs"
        raise InputError(
            f"{name}: {found}; classes are told from the second week on, by what ended before. "
            "Needed: a log of two weeks or more"
        )


def predict_week(features: JobFeatures, week: int, trees: int, seed: int) -> tuple[Floats, Mask]:
    """Return the importance of features in a week, and which of its jobs are predicted to be small.

    The forest is that of the jobs that had ended by the week.
    """
    rows, known = np.flatnonzero(features.week == week), np.flatnonzero(features.known_from <= week)
    if not len(rows) or not len(known):
        return np.full(2 * len(FEATURES), np.nan), np.zeros(len(rows), np.bool_)
    forest = Forest(features.values[known], features.small[known], trees, seed)
    values = features.values[rows]
    return importance_of(forest, values, features.small[rows], seed), forest.are_small(values)


@dataclass(frozen=True)
class Quality:
    """Quality of predicted classes; small is the positive class where no other is named."""

    accuracy: float  # Of all jobs after the first week
    precision: float  # Likewise
    recall: float  # Likewise
    precision_large: float  # Likewise, with large as the positive class
    recall_large: float  # Likewise
    false_small: float  # Share of these jobs that were wrongly predicted small
    false_large: float  # Share of these jobs that were wrongly predicted large
    weeks: Ints  # The weeks after the first that have jobs
    weekly: Floats  # float64[weeks, 3]: accuracy, precision and recall of each of these; NaN where undefined


def quality_of(features: JobFeatures, small: Mask) -> Quality:
    """Return the quality of predicted classes."""
    later = features.week > 0
    truth, week = features.small[later] == 1, features.week[later]
    said = small[later]
    weeks = np.unique(week)
    quality = job_metrics.class_quality
    weekly = [
        [quality(truth[week == number], said[week == number])[name] for name in _WEEKLY] for number in weeks
    ]
    return Quality(**quality(truth, said), weeks=weeks, weekly=np.array(weekly).reshape(-1, len(_WEEKLY)))


@dataclass(frozen=True)
class VariantResult:
    """Result of one variant of ch. 6 on a whole log."""

    bounded_slowdown: float  # Cumulative: the sum over all jobs that ran
    mean_small: float  # Mean bounded slowdown of the jobs that turned out small
    mean_large: float  # Mean bounded slowdown of the others
    killed: int  # Jobs that the safeguard killed, each counted once
    lost_node_seconds: float  # Node-seconds of their first attempts
    jobs: int  # Jobs that ran; each completes once
    # Mean bounded slowdown of the jobs submitted in each calendar month, from the first; NaN without jobs
    monthly: tuple[float, ...] = ()


def run_variant(
    variant: str, log: WholeLog, features: JobFeatures, predicted: Mask, config: BatchConfig
) -> VariantResult:
    """Simulate a whole log, in arrival order, under one of :data:`VARIANTS`."""
    jobs, units = log.jobs, log.units
    large = np.zeros(len(jobs), np.bool_)
    small: Mask = {
        "base": large,
        "runtimes-clairvoyant": large,
        "class-clairvoyant": (features.small == 1) & (features.week > 0),
    }.get(variant, predicted)
    if variant == "runtimes-clairvoyant":
        jobs = replace(jobs, walltime=np.maximum(jobs.run_time, 1e-9))
    guard = variant == "classification-idempotent"
    found = replay_classes(jobs, config, units, small, features.divider, safeguard=guard)
    ran = ~np.isnan(found.start)
    response, time = (found.end - jobs.submit_time)[ran], (found.end - found.start)[ran]
    values = np.maximum(response / np.maximum(time, TAU), 1.0)
    mask = features.small[ran] == 1
    month = (months_of(log) - months_of(log).min())[ran]
    with np.errstate(invalid="ignore"):  # months without jobs
        monthly = np.bincount(month, values) / np.bincount(month)

    def mean(part: Floats) -> float:
        return float(part.mean()) if len(part) else float("nan")

    return VariantResult(
        bounded_slowdown=float(values.sum()),
        mean_small=mean(values[mask]),
        mean_large=mean(values[~mask]),
        killed=int(np.count_nonzero(~np.isnan(found.killed))),
        lost_node_seconds=float(found.lost.sum()),
        jobs=int(ran.sum()),
        monthly=tuple(monthly.tolist()),
    )


def months_of(log: WholeLog) -> Ints:
    """Return the month of each job's submission on the log's clocks, since January 1970."""
    return log.local.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)


def predicted_in_parts(
    parts: Parts, log: WholeLog, features: JobFeatures, known: Known, *, trees: int, seed: int
) -> tuple[Mask, Ints, Floats]:
    """Return which jobs are predicted to be small, and the weeks with the importance of their features.

    Each week is a part; ``features`` are made by ``known``.
    """
    scenario = log.scenario
    weeks = np.unique(features.week[features.week > 0])
    wanted = [
        Part({"log": scenario.name, "week": str(week)}, scenario, _week, (week, known, trees, seed))
        for week in weeks.tolist()
    ]
    small = np.zeros(len(features.week), np.bool_)
    importance = np.full((len(weeks), 2 * len(FEATURES)), np.nan)
    for row, (week, found) in enumerate(zip(weeks.tolist(), parts.results(wanted), strict=True)):
        importance[row] = found[: 2 * len(FEATURES)]
        small[features.week == week] = found[2 * len(FEATURES) :] == 1.0
    return small, weeks, importance


_PLAIN: Final = 6  # numbers of a result before those of months


def variants_in_parts(
    parts: Parts, log: WholeLog, known: Known, predicted: Mask, policies: Sequence[Policy]
) -> dict[tuple[Policy, str], VariantResult]:
    """Return the results of each policy under each variant, each a part."""
    bits = zlib.compress(np.packbits(predicted).tobytes())
    cases = [(policy, variant) for policy in policies for variant in VARIANTS]
    wanted = [
        Part(
            {"log": log.scenario.name, "policy": str(policy), "variant": variant},
            log.scenario,
            _variant_by_month,
            (policy, variant, known, bits),
        )
        for policy, variant in cases
    ]
    results = {}
    for case, values in zip(cases, parts.results(wanted), strict=True):
        one, monthly = VariantResult(*values[:_PLAIN].tolist()), tuple(values[_PLAIN:].tolist())
        results[case] = replace(one, killed=int(one.killed), jobs=int(one.jobs), monthly=monthly)
    return results


def rival_in_parts(parts: Parts, scenario: Scenario) -> tuple[float, int]:
    """Return the cumulative bounded slowdown of EASY++ (Tsafrir et al. 2007) on a log, and how many jobs ran.

    It predicts the mean of a user's last two run times, backfills shortest first, else in arrival order.
    """
    keys = {"batch.policy": "FCFS", "batch.predictor": "EASY++", "batch.backfill_order": "SPF"}
    changed = loads(dump(scenario), scenario.source, keys, expanded(Path(scenario.source)).parent)
    (found,) = parts.results([Part({"log": scenario.name, "dispatcher": "EASY++"}, changed, _slowdown)])
    total, jobs = found.tolist()
    return total, int(jobs)


def _slowdown(scenario: Scenario) -> Floats:
    """Return the sum of bounded slowdowns of the jobs that ran, and their number."""
    values = job_metrics.JOB_METRICS["bounded_slowdown"].values(runner.run(scenario).records.jobs, TAU)
    return np.array([np.nansum(values), np.count_nonzero(~np.isnan(values))], np.float64)


def _week(scenario: Scenario, week: int, known: Known, trees: int, seed: int) -> Floats:
    return np.concatenate(predict_week(_shared_log(scenario, known)[1], week, trees, seed))


def _variant_by_month(
    scenario: Scenario, policy: Policy, variant: str, known: Known, predicted: bytes
) -> Floats:
    """Simulate one variant of one policy; ``predicted`` are bits of the jobs in arrival order, compressed."""
    log, features = _shared_log(scenario, known)
    bits = np.frombuffer(zlib.decompress(predicted), np.uint8)
    small = np.unpackbits(bits, count=len(log.jobs)).astype(np.bool_)
    config = scenario.batch.model_copy(update={"policy": policy})
    *plain, monthly = astuple(run_variant(variant, log, features, small, config))
    return np.array([*plain, *monthly], np.float64)


def _shared_log(scenario: Scenario, known: Known) -> tuple[WholeLog, JobFeatures]:
    """Return a log with its features, made once for all parts in one process."""

    def make() -> tuple[tuple[WholeLog, JobFeatures], int]:
        log = whole_log(scenario)
        features = features_of(log.jobs, log.local, known)
        return (log, features), bytes_of(log.jobs) + bytes_of(features)

    return shared(("log of classes", dump(scenario), known), make)


def frame_of(rows: Sequence[Mapping[str, object]]) -> pl.DataFrame | None:
    """Return rows as a table, cells empty where a number is not defined; None of no rows."""
    frame = pl.DataFrame(rows, infer_schema_length=None)
    return frame.with_columns(pl.col(pl.Float64).fill_nan(None)) if rows else None


def quality_row(log: WholeLog, found: Quality) -> dict[str, object]:
    """Return the entries of Zrigui's Tables 6.1, 6.2, 6.4 and 6.5 for one log."""
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
        "precision of large %": 100 * found.precision_large,
        "recall of large %": 100 * found.recall_large,
        "false small %": 100 * found.false_small,
        "false large %": 100 * found.false_large,
        "weekly accuracy %, p10": 100 * float(low),
        "weekly accuracy %, median": 100 * float(middle),
        "weekly accuracy %, p90": 100 * float(high),
    }


def week_rows(log: str, found: Quality) -> list[dict[str, object]]:
    """Return a row for each week after the first that has jobs."""
    return [
        {"log": log, "week": week, "accuracy %": accuracy, "precision %": precision, "recall %": recall}
        for week, (accuracy, precision, recall) in zip(
            found.weeks.tolist(), (100 * found.weekly).tolist(), strict=True
        )
    ]


def variant_rows(
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
                "months": int(np.count_nonzero(~np.isnan(found.monthly))),
                "months below base": int(np.sum(np.array(found.monthly) < base.monthly)),
            }
        )
    return rows


def month_rows(log: WholeLog, results: Mapping[tuple[Policy, str], VariantResult]) -> list[dict[str, object]]:
    """Return the mean bounded slowdown of each calendar month under each policy and variant (Fig. 6.6)."""
    first = int(months_of(log).min())
    return [
        {
            "log": log.scenario.name,
            "month": str(np.datetime64(first + number, "M")),
            "policy": str(policy),
            "variant": variant,
            "mean": mean,
        }
        for (policy, variant), found in results.items()
        for number, mean in enumerate(found.monthly)
        if not np.isnan(mean)
    ]


def gain_rows(
    log: str,
    results: Mapping[tuple[Policy, str], VariantResult],
    rival: float,
    rival_jobs: int,
    source: Mapping[tuple[str, str], float],
) -> list[dict[str, object]]:
    """Return by how much EASY++, and each policy with classes and safeguard, is below EASY-FCFS."""
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
