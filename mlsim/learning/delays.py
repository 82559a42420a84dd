"""Who is delayed by a policy, over the runs of a study: Zrigui 2021, §4.3 (Tables 4.1, 4.2, Figs. 4.2, 4.3).

A job is *premature* if it asks for at least a hundred times of what it runs. Policies that go by estimates
delay such jobs, which need not have waited. The means of metrics hide them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from mlsim._arrays import Floats
from mlsim.analysis.metrics.jobs import JOB_METRICS
from mlsim.cosim import workload_of
from mlsim.errors import InputError
from mlsim.experiment.study import Study
from mlsim.learning.parts import Part, Parts, Work
from mlsim.record import Jobs
from mlsim.record.derived import TAU
from mlsim.scenario import Scenario
from mlsim.workload.jobs import JobBlock

__all__ = ["DELAYS", "delays_of", "delays_of_study", "premature_of_study"]

_PREMATURE = 100.0
"""Times of its run time that a premature job asks for, at least."""
_MOST_DELAYED = 100
"""Jobs of the largest slowdowns whose sizes are looked at."""

DELAYS: Final = (
    "premature %",
    "premature to standard",
    "slowdown 1 %",
    "1 to 10 %",
    "10 to 100 %",
    "100 or more %",
    "q of the most delayed, lower quartile",
    "median",
    "upper quartile",
)
"""What :func:`delays_of` gives, in order."""


def delays_of(jobs: Jobs) -> Floats:
    """Return who is delayed in one run.

    Parameters
    ----------
    jobs
        All jobs; those that did not run are left out.

    Returns
    -------
    ndarray of float64, shape (9,)
        Share of premature jobs (%); the mean bounded slowdown of these, divided by that of the others (NaN
        where either are none); shares (%) of jobs by bounded slowdown: 1, above 1 and below 10, from 10 and
        below 100, from 100; quartiles of the processors of the hundred most delayed jobs.
    """
    slowdown = JOB_METRICS["bounded_slowdown"].values(jobs, TAU)
    ran = ~np.isnan(slowdown)
    if not ran.any():
        return np.full(len(DELAYS), np.nan)
    slowdown, processors = slowdown[ran], jobs.processors[ran]
    premature = jobs.walltime[ran] >= _PREMATURE * (jobs.end_time - jobs.start_time)[ran]
    both = premature.any() and not premature.all()
    ratio = slowdown[premature].mean() / slowdown[~premature].mean() if both else np.nan
    category = np.searchsorted([1.0, 10.0, 100.0], slowdown, side="right") - (slowdown == 1.0)
    shares = 100.0 * np.bincount(category, minlength=4) / len(slowdown)
    worst = np.argsort(-slowdown, kind="stable")[:_MOST_DELAYED]
    return np.array(
        [
            100.0 * premature.mean(),
            ratio,
            *shares.tolist(),
            *np.percentile(processors[worst], [25, 50, 75]).tolist(),
        ]
    )


@dataclass(frozen=True)
class _Delays(Work):
    """Simulates a scenario."""

    def found(self, scenario: Scenario) -> Floats:
        """Return who is delayed."""
        from mlsim.experiment.runner import run

        return delays_of(run(scenario).records.jobs)


@dataclass(frozen=True)
class _Premature(Work):
    """Counts the premature jobs of a log."""

    def found(self, scenario: Scenario) -> Floats:
        """Return their share."""
        jobs = JobBlock.concatenate(list(workload_of(scenario).blocks()))
        return np.array([100.0 * np.mean(jobs.walltime >= _PREMATURE * jobs.run_time)])


def delays_of_study(study: Study, parts: Parts) -> Mapping[tuple[str, ...], Floats]:
    """Return who is delayed, over the repetitions of each combination of a study of runs.

    Parameters
    ----------
    study
        Its keys ``metrics``, ``trim`` and pictures are of no account here.
    parts
        Who does its runs.

    Returns
    -------
    mapping
        Labels of all axes but the repetitions, in order of the axes, to the means over the repetitions of
        what :func:`delays_of` gives, those that are defined.

    Raises
    ------
    InputError
        If the study is not one of runs.
    """
    if study.subject.kind != "runs":
        raise InputError(f"{study.source}: of: {study.subject.kind}; needed: runs")
    cases = list(study.cases)
    wanted = [Part(point.labels, scenario, _Delays()) for point, scenario in cases]
    groups: dict[tuple[str, ...], list[Floats]] = {}
    for (point, _), found in zip(cases, parts.results(wanted), strict=True):
        labels = tuple(value for axis, value in point.labels.items() if axis != study.repetitions)
        groups.setdefault(labels, []).append(found)
    return {labels: _means(np.array(found)) for labels, found in groups.items()}


def _means(found: Floats) -> Floats:
    """Return the means of columns over the rows where they are defined; NaN where they are nowhere."""
    known = ~np.isnan(found)
    count = known.sum(axis=0)
    total: Floats = np.where(known, found, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def premature_of_study(study: Study, parts: Parts) -> Mapping[str, float]:
    """Return the share of premature jobs (%) in each log of a study, as it is, whatever is drawn from it.

    Logs are named by the first axis.
    """
    logs: dict[str, Scenario] = {}
    for point, scenario in study.cases:
        name = next(iter(point.labels.values()), scenario.name)
        if name not in logs:
            whole = scenario.workload.model_copy(update={"resample": None})
            logs[name] = scenario.model_copy(update={"workload": whole})
    found = parts.results([Part({"log": name}, scenario, _Premature()) for name, scenario in logs.items()])
    return {name: float(one[0]) for name, one in zip(logs, found, strict=True)}
