"""What learning leaves in a directory."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from mlsim.experiment.directories import complete_or_gone
from mlsim.learning.mixed import Mixed
from mlsim.learning.transfer import Transfer
from mlsim.learning.vectors import FEATURES
from mlsim.scenario import Policy, Scenario, WeightsConfig, dump

__all__ = ["write_mixed", "write_transfer"]


def write_mixed(directory: Path, found: Mixed, scenario: Scenario) -> None:
    """Write weekly values and the scenario with the learned weights.

    Parameters
    ----------
    directory
        A new one: ``weeks.csv`` has a row a week (part, mean bounded slowdown of each policy, the weights
        that were best in hindsight), ``learned.yaml`` is the scenario under w*_train.
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
    text = dump(scenario.model_copy(update={"batch": batch}))
    with complete_or_gone(directory) as place:
        (place.partial / "weeks.csv").write_text(frame.write_csv(), encoding="utf-8")
        (place.partial / "learned.yaml").write_text(text, encoding="utf-8")


def write_transfer(directory: Path, found: Transfer, reference: str) -> None:
    """Write what policies learned on each log are worth on all of them.

    Parameters
    ----------
    directory
        A new one: ``transfer.csv`` has a row for each policy and log of the test (weeks, mean bounded
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
    with complete_or_gone(directory) as place:
        (place.partial / "transfer.csv").write_text(pl.DataFrame(rows).write_csv(), encoding="utf-8")
        (place.partial / "weights.csv").write_text(pl.DataFrame(weights).write_csv(), encoding="utf-8")
