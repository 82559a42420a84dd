"""Jobs delayed by each policy: tables and pictures (Zrigui 2021, §4.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from mlsim._runtime.arrays import Floats
from mlsim.analysis.job_metrics import JOB_METRICS, backfilled_share, weekly
from mlsim.cosim.scenario_inputs import workload_of
from mlsim.errors import InputError
from mlsim.experiment import runner
from mlsim.experiment.study import Study
from mlsim.learning.learning_parts import Part, Parts
from mlsim.record import Jobs
from mlsim.record.derived_times import TAU
from mlsim.scenario import Scenario
from mlsim.workload.workload_jobs import JobBlock

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_PREMATURE = 100.0  # times of its run time that a premature job asks for, at least
_MOST_DELAYED = 100  # jobs with the largest slowdowns whose sizes are analysed

# Shares of jobs by bounded slowdown: 1, above 1 and below 10, from 10 and below 100, from 100.
CATEGORIES: Final = ("slowdown 1 %", "1 to 10 %", "10 to 100 %", "100 or more %")
# Metrics whose cumulative means are kept week by week.
CURVES: Final = ("bounded_slowdown", "per_processor_bounded_slowdown", "wait_time")
DELAYS: Final = (
    "premature %",
    "premature to standard",
    *CATEGORIES,
    "q of the most delayed, lower quartile",
    "median",
    "upper quartile",
    "backfilled %",
    *(f"mean {JOB_METRICS[name].title}" for name in CURVES),
)
"""Columns of :meth:`Delays.row`, in order."""


@dataclass(frozen=True)
class Delays:
    """Delays of jobs in one run."""

    premature: float  # share of premature jobs (%)
    ratio: float  # mean bounded slowdown of these, divided by that of the others; NaN without either
    shares: Floats  # float64[4]: shares of jobs by CATEGORIES (%)
    backfilled: float  # share of the started jobs (%)
    sizes: Floats  # processors of the hundred most delayed jobs (or fewer), largest slowdown first
    curves: Floats  # float64[3, weeks]: mean of each of CURVES over all jobs that ended by the end of a week

    def row(self) -> Floats:
        """Return one number for each of :data:`DELAYS`."""
        quartiles = np.percentile(self.sizes, [25, 50, 75]) if len(self.sizes) else np.full(3, np.nan)
        means = self.curves[:, -1] if self.curves.size else np.full(len(CURVES), np.nan)
        return np.array([self.premature, self.ratio, *self.shares, *quartiles, self.backfilled, *means])

    def packed(self) -> Floats:
        """Return all fields in one row of numbers."""
        head = [len(self.sizes), self.premature, self.ratio, *self.shares.tolist(), self.backfilled]
        return np.concatenate([head, self.sizes, self.curves.ravel()])

    @classmethod
    def unpacked(cls, row: Floats) -> Delays:
        """Return the delays of a row made by :meth:`packed`."""
        count, premature, ratio = int(row[0]), float(row[1]), float(row[2])
        sizes, curves = np.split(row[8:], [count])
        return cls(premature, ratio, row[3:7], float(row[7]), sizes, curves.reshape(len(CURVES), -1))


# Labels of all axes of a study but its repetitions to the runs of all repetitions.
Samples = Mapping[tuple[str, ...], Sequence[Delays]]


def delays_of(jobs: Jobs) -> Delays:
    """Return the delays of jobs in one run; jobs that did not run are left out."""
    slowdown = JOB_METRICS["bounded_slowdown"].values(jobs, TAU)
    ran = ~np.isnan(slowdown)
    if not ran.any():
        nothing = np.empty((len(CURVES), 0))
        return Delays(np.nan, np.nan, np.full(len(CATEGORIES), np.nan), np.nan, np.empty(0), nothing)
    found = [weekly(jobs, JOB_METRICS[name].values(jobs, TAU)) for name in CURVES]
    before = np.full((len(CURVES), int(found[0].week[0]) - 1), np.nan)  # until the first job ended
    curves = np.hstack([before, np.array([one.cumulative_mean for one in found])])
    slowdown, processors = slowdown[ran], jobs.processors[ran]
    premature = jobs.walltime[ran] >= _PREMATURE * (jobs.end_time - jobs.start_time)[ran]
    both = premature.any() and not premature.all()
    category = np.searchsorted([1.0, 10.0, 100.0], slowdown, side="right") - (slowdown == 1.0)
    worst = np.argsort(-slowdown, kind="stable")[:_MOST_DELAYED]
    return Delays(
        premature=100.0 * float(premature.mean()),
        ratio=float(slowdown[premature].mean() / slowdown[~premature].mean()) if both else np.nan,
        shares=100.0 * np.bincount(category, minlength=len(CATEGORIES)) / len(slowdown),
        backfilled=100.0 * (backfilled_share(jobs) or 0.0),
        sizes=processors[worst].astype(np.float64),
        curves=curves,
    )


def _job_delays(scenario: Scenario) -> Floats:
    return delays_of(runner.run(scenario).records.jobs).packed()


def _premature(scenario: Scenario) -> Floats:
    jobs = JobBlock.concatenate(list(workload_of(scenario).blocks()))
    share = 100.0 * np.mean(jobs.walltime >= _PREMATURE * jobs.run_time)
    return np.array([share, len(jobs), jobs.run_time.mean()])


def delays_of_study(study: Study, parts: Parts) -> Samples:
    """Return the delays in the repetitions of each combination of a study of runs, without its metrics."""
    if study.subject.kind != "runs":
        raise InputError(f"{study.source}: of: {study.subject.kind}; needed: runs")
    cases = list(study.cases)
    wanted = [Part(point.labels, scenario, _job_delays) for point, scenario in cases]
    groups: dict[tuple[str, ...], list[Delays]] = {}
    for (point, _), found in zip(cases, parts.results(wanted), strict=True):
        labels = tuple(value for axis, value in point.labels.items() if axis != study.repetitions)
        groups.setdefault(labels, []).append(Delays.unpacked(found))
    return groups


def means_of(samples: Iterable[Delays]) -> Floats:
    """Return the means over runs of :data:`DELAYS`, ignoring undefined ones; NaN where none is defined."""
    found = np.array([sample.row() for sample in samples])
    known = ~np.isnan(found)
    count = known.sum(axis=0)
    total: Floats = np.where(known, found, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def premature_of_study(study: Study, parts: Parts) -> Mapping[tuple[str, ...], Floats]:
    """Return share of premature jobs (%), number of jobs and mean run time (s) of each whole log."""
    axes = log_axes(study)
    logs: dict[tuple[str, ...], Scenario] = {}
    cases = list(study.cases)
    for point, scenario in cases:
        labels = tuple(point.labels[axis] for axis in axes)
        if labels not in logs:
            whole = scenario.workload.model_copy(update={"resample": None})
            logs[labels] = scenario.model_copy(update={"workload": whole})
    wanted = [
        Part(dict(zip(axes, labels, strict=True)), scenario, _premature) for labels, scenario in logs.items()
    ]
    parts.plan(len(wanted) + len(cases))  # their delays come next
    return dict(zip(logs, parts.results(wanted), strict=True))


def log_axes(study: Study) -> list[str]:
    """Return the axes of a study that vary the jobs by keys of ``workload``; without one, the first."""
    axes = [axis for axis in study.axes if axis.name != study.repetitions]
    found = []
    for axis in axes:
        keys = [key for point in axis.points.values() for key in point if key.startswith("workload.")]
        if not all(key.startswith("workload.resample") for key in keys):
            found.append(axis.name)
    return found or [axis.name for axis in axes[:1]]


def policy_axis(study: Study) -> str:
    """Return the axis of a study that varies the policy: with key ``batch.policy``, or the last."""
    found = [axis.name for axis in study.axes if any("batch.policy" in keys for keys in axis.points.values())]
    return next((name for name in found if name in study.compared), study.compared[-1])


Panels = Mapping[str, Mapping[str, Sequence[Delays]]]


def delay_pictures(samples: Samples, trim: int) -> dict[str, Callable[[], Figure]]:
    """Return pictures by file name (Fig. 4.1 to 4.4): a panel per log, a colour per policy, the last label.

    ``trim`` best and worst runs are left out of curves, by the value at their end.
    """
    panels: dict[str, dict[str, Sequence[Delays]]] = {}
    for labels, runs in samples.items():
        panels.setdefault(", ".join(labels[:-1]), {})[labels[-1]] = runs

    def shares() -> Figure:
        from mlsim.analysis.plots.panel_plots import Panel, bars

        names, place = [name.removesuffix(" %") for name in CATEGORIES], slice(2, 2 + len(CATEGORIES))
        drawn = []
        for title, policies in panels.items():
            values = {name: means_of(runs)[place].tolist() for name, runs in policies.items()}
            drawn.append(Panel(title, names, values))
        return bars(drawn, "Jobs by bounded slowdown", "% of jobs")

    def curve(number: int) -> Callable[[], Figure]:
        return lambda: _draw_curves(panels, number, trim)

    return {
        **{f"cumulative-{name.replace('_', '-')}": curve(number) for number, name in enumerate(CURVES)},
        "most-delayed": lambda: _boxes(
            panels, "sizes", "The hundred most delayed jobs of each sample", "processors", "log"
        ),
        "slowdown-shares": shares,
        "backfilled": lambda: _boxes(
            panels, "backfilled", "Backfilled jobs over samples", "% of started jobs", "linear"
        ),
    }


def _draw_curves(panels: Panels, number: int, trim: int) -> Figure:
    """Draw cumulative means week by week: the mean over runs, and their least and most."""
    from mlsim.analysis.plots.panel_plots import LinePanel, Look, lines

    drawn = []
    for title, policies in panels.items():
        bands = {name: _band(runs, number, trim) for name, runs in policies.items()}
        series = {name: (weeks, mean) for name, (weeks, mean, _, _) in bands.items()}
        ends = {name: (low, high) for name, (_, _, low, high) in bands.items()}
        drawn.append(LinePanel(title, series, ends))
    metric = JOB_METRICS[CURVES[number]]
    unit = "" if metric.unit == "1" else f" ({metric.unit})"
    title = "Mean over all jobs that ended by the end of a week: mean of samples, least to most"
    return lines(drawn, title, "week", f"{metric.title}{unit}", Look(across=3, own_scales=True))


def _band(runs: Sequence[Delays], number: int, trim: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return weeks, and mean, least and most of the remaining runs in each, up to the end of the shortest."""
    curves = [run.curves[number] for run in runs]
    curves.sort(key=lambda values: float(values[-1]) if len(values) else np.inf)
    kept = curves[trim : len(curves) - trim] or curves
    length = min(map(len, kept))
    values = np.array([curve[:length] for curve in kept])
    return np.arange(1.0, length + 1), values.mean(axis=0), values.min(axis=0), values.max(axis=0)


def _boxes(panels: Panels, field: str, title: str, unit: str, scale: Literal["linear", "log"]) -> Figure:
    from mlsim.analysis.plots.comparison_plots import value_boxes

    def values(runs: Sequence[Delays]) -> Floats:
        return np.concatenate([np.atleast_1d(getattr(run, field)) for run in runs])

    shown = {
        name: {policy: values(runs) for policy, runs in policies.items()} for name, policies in panels.items()
    }
    return value_boxes(shown, title, unit, scale)
