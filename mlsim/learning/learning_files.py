"""Files of learning."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from mlsim.experiment.study.study_plan import located
from mlsim.learning.learning_parts import write_tables
from mlsim.learning.mixed_policies import Mixed
from mlsim.learning.policy_phases import PhaseBand
from mlsim.learning.policy_transfer import Transfer, TransferBand
from mlsim.learning.weight_search import FEATURES
from mlsim.scenario import Policy, Scenario, WeightsConfig
from mlsim.scenario.scenario_text import mapping_text, plain


def write_mixed(directory: Path, found: Mixed, scenario: Scenario) -> None:
    """Write weekly values and the scenario with the learned weights.

    Parameters
    ----------
    directory
        Files: ``weeks.csv`` has a row a week (part, mean bounded slowdown of each policy, the weights
        that were best in hindsight), ``learned.yaml`` is the scenario under w*_train, files by their whole
        paths, so that it runs from there.
    found
        What was found.
    scenario
        On which.
    """
    parts = ["train" if t else "test" if u else "" for t, u in zip(found.train, found.test, strict=True)]
    weights = {f"best {name}": found.best[:, place] for place, name in enumerate(FEATURES)}
    frame = pl.DataFrame({"week": found.weeks, "part": parts, **found.means, **weights})
    named = dict(zip(FEATURES, found.learned.tolist(), strict=True))
    batch = scenario.batch.model_copy(update={"policy": Policy.LINEAR, "weights": WeightsConfig(**named)})
    text = mapping_text(located(plain(scenario.model_copy(update={"batch": batch})), scenario.directory))
    write_tables(directory, {"weeks.csv": frame.write_csv(), "learned.yaml": text})


def write_transfer(directory: Path, found: Transfer, reference: str) -> None:
    """Write what policies learned on each log are worth on all of them.

    Parameters
    ----------
    directory
        Files: ``transfer.csv`` has a row for each policy and log of the test (weeks, mean bounded
        slowdown of a week, paired difference to the reference with its interval and p), ``weights.csv`` the
        weights learned on each log.
    found
        What was found.
    reference
        The policy that others are compared with.
    """
    rows = []
    for log, means in found.means.items():
        for policy in means:
            spread = found.against(log, policy, reference)
            rows.append(
                {
                    "policy": policy,
                    "tested on": log,
                    "weeks": len(found.weeks[log]),
                    "mean": spread.mean,
                    f"difference to {reference}": spread.difference,
                    "difference_low": spread.difference_low,
                    "difference_high": spread.difference_high,
                    "p": spread.p,
                }
            )
    weights = [
        {"learned on": log} | dict(zip(FEATURES, vector.tolist(), strict=True))
        for log, vector in found.weights.items()
    ]
    write_tables(
        directory,
        {"transfer.csv": pl.DataFrame(rows).write_csv(), "weights.csv": pl.DataFrame(weights).write_csv()},
    )


def write_phases(directory: Path, band: PhaseBand | None) -> None:
    """Write ``phases.csv``: a row for each policy and phase of the cut, with its sums over both parts.

    None: there is no band this time, and no such file.
    """
    if band is None:
        write_tables(directory, {"phases.csv": None})
        return
    rows = [
        {"policy": name, "phase": phase, "train": train, "test": test}
        for name in band.test
        for phase, train, test in zip(
            band.phases.tolist(), band.train[name].tolist(), band.test[name].tolist(), strict=True
        )
    ]
    write_tables(directory, {"phases.csv": pl.DataFrame(rows).write_csv()})


def write_transfer_phases(directory: Path, band: TransferBand | None) -> None:
    """Write ``phases.csv``: a row for each policy, log of the test and phase of the cut, with its mean.

    None: there is no band this time, and no such file.
    """
    if band is None:
        write_tables(directory, {"phases.csv": None})
        return
    rows = [
        {"policy": policy, "tested on": log, "phase": phase, "mean": mean}
        for log, means in band.means.items()
        for policy, values in means.items()
        for phase, mean in zip(band.phases[log].tolist(), values.tolist(), strict=True)
    ]
    write_tables(directory, {"phases.csv": pl.DataFrame(rows).write_csv()})
