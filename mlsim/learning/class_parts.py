"""Classes and variants of ch. 6 in parts: each week's forest, and each variant of each policy."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np

from mlsim._arrays import Floats, Mask
from mlsim._files import expanded
from mlsim._shared import bytes_of, shared
from mlsim.analysis.metrics.jobs import JOB_METRICS
from mlsim.experiment.weekly import WholeLog, whole_log
from mlsim.learning.classes import VARIANTS, VariantResult, predict_week, run_variant
from mlsim.learning.features import JobFeatures, Known, features_of
from mlsim.learning.parts import Part, Parts, Work
from mlsim.record.derived import TAU
from mlsim.scenario import Policy, Scenario, dump, loads

__all__ = ["predicted_in_parts", "rival_in_parts", "variants_in_parts"]


def predicted_in_parts(
    parts: Parts, log: WholeLog, features: JobFeatures, known: Known, *, trees: int, seed: int
) -> Mask:
    """Return what :func:`mlsim.learning.classes.predict_classes` does, each week a part.

    Parameters
    ----------
    parts
        Who does them.
    log, features
        The jobs.
    known
        What ``features`` are made of.
    trees, seed
        Of the forests.
    """
    weeks = range(1, int(features.week.max()) + 1)
    wanted = [
        Part({"log": log.scenario.name, "week": str(week)}, log.scenario, _Forest(week, known, trees, seed))
        for week in weeks
    ]
    small = np.zeros(len(features.week), np.bool_)
    for week, found in zip(weeks, parts.results(wanted), strict=True):
        small[features.week == week] = found == 1.0
    return small


def variants_in_parts(
    parts: Parts, log: WholeLog, known: Known, predicted: Mask, policies: Sequence[Policy]
) -> dict[tuple[Policy, str], VariantResult]:
    """Return each policy under each variant, each a part.

    Parameters
    ----------
    parts
        Who does them.
    log
        The jobs.
    known
        What the features are made of.
    predicted
        Which jobs were predicted to be small.
    policies
        Which take the place of that of the scenario.
    """
    bits = zlib.compress(np.packbits(predicted).tobytes())
    cases = [(policy, variant) for policy in policies for variant in VARIANTS]
    wanted = [
        Part(
            {"log": log.scenario.name, "policy": str(policy), "variant": variant},
            log.scenario,
            _Variant(policy, variant, known, bits),
        )
        for policy, variant in cases
    ]
    return {case: _result(found) for case, found in zip(cases, parts.results(wanted), strict=True)}


def rival_in_parts(parts: Parts, scenario: Scenario) -> tuple[float, int]:
    """Return the cumulative bounded slowdown of EASY++ on a log, and how many jobs ran.

    EASY++ (Tsafrir et al. 2007) predicts the mean of a user's last two run times, backfills shortest first,
    and serves in order of arrival; the rest is that of the scenario.
    """
    keys = {"batch.policy": "FCFS", "batch.predictor": "EASY++", "batch.backfill_order": "SPF"}
    place = Path(scenario.source)
    changed = loads(dump(scenario), scenario.source, keys, expanded(place).parent)
    part = Part({"log": scenario.name, "dispatcher": "EASY++"}, changed, _Run())
    (found,) = parts.results([part])
    total, jobs = found.tolist()
    return total, int(jobs)


@dataclass(frozen=True)
class _Run(Work):
    """Simulates a scenario as it is."""

    def found(self, scenario: Scenario) -> Floats:
        """Return the sum of bounded slowdowns of the jobs that ran, and their number."""
        from mlsim.experiment.runner import run

        values = JOB_METRICS["bounded_slowdown"].values(run(scenario).records.jobs, TAU)
        return np.array([np.nansum(values), np.count_nonzero(~np.isnan(values))], np.float64)


@dataclass(frozen=True)
class _Forest(Work):
    """Predicts the classes of one week."""

    week: int
    known: Known
    trees: int
    seed: int

    def found(self, scenario: Scenario) -> Floats:
        """Return 1 for each job of the week that is predicted to be small, else 0."""
        features = _shared_log(scenario, self.known)[1]
        return predict_week(features, self.week, self.trees, self.seed).astype(np.float64)


@dataclass(frozen=True)
class _Variant(Work):
    """Simulates one variant of one policy."""

    policy: Policy
    variant: str
    known: Known
    predicted: bytes
    """Bits of the jobs in arrival order, compressed."""

    def found(self, scenario: Scenario) -> Floats:
        """Return the values of a result in the order of its fields."""
        log, features = _shared_log(scenario, self.known)
        bits = np.frombuffer(zlib.decompress(self.predicted), np.uint8)
        small = np.unpackbits(bits, count=len(log.jobs)).astype(np.bool_)
        config = scenario.batch.model_copy(update={"policy": self.policy})
        return np.array(
            astuple(run_variant(self.variant, log.jobs, features, small, config, log.units)), np.float64
        )


def _result(found: Floats) -> VariantResult:
    values: Mapping[str, float] = dict(
        zip((field.name for field in fields(VariantResult)), found.tolist(), strict=True)
    )
    return VariantResult(
        bounded_slowdown=values["bounded_slowdown"],
        mean_small=values["mean_small"],
        mean_large=values["mean_large"],
        killed=int(values["killed"]),
        lost_node_seconds=values["lost_node_seconds"],
        jobs=int(values["jobs"]),
    )


def _shared_log(scenario: Scenario, known: Known) -> tuple[WholeLog, JobFeatures]:
    """Return a log with its features, made once for all parts that one process does."""

    def make() -> tuple[tuple[WholeLog, JobFeatures], int]:
        log = whole_log(scenario)
        features = features_of(log.jobs, log.local, known)
        return (log, features), bytes_of(log.jobs) + bytes_of(features)

    return shared(("log of classes", dump(scenario), known), make)
