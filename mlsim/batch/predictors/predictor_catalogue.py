"""The predictors by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlsim.batch.predictors.predictor import Predictor
from mlsim.batch.predictors.run_time_predictors import (
    Confident,
    DataDriven,
    EasyPlusPlus,
    LastTwo,
    Walltime,
    user_predictor,
)
from mlsim.scenario import Predictor as PredictorName


@dataclass(frozen=True, slots=True)
class PredictorEntry:
    """A predictor: name, what it predicts, source, what makes one (none where jobs are told at once)."""

    name: str
    meaning: str
    reference: str
    make: Callable[[], Predictor] | None


PREDICTORS = (
    PredictorEntry(PredictorName.WALLTIME, "what the user asked for (alias W)", "", Walltime),
    PredictorEntry(PredictorName.ACTUAL, "the run time itself, which nobody can know (alias R)", "", None),
    PredictorEntry(
        PredictorName.DATA_DRIVEN,
        "last run time of a similar job of the user: by name, queue, walltime and request, then by less",
        "Galleguillos 2020, §4.1",
        DataDriven,
    ),
    PredictorEntry(
        PredictorName.CONFIDENT,
        "the walltime, for users whose last 3 jobs used 80 % of theirs in the mean; D for all others",
        "Galleguillos 2020, §4.2",
        Confident,
    ),
    PredictorEntry(
        PredictorName.LAST_TWO, "mean of the user's last two run times", "Tsafrir et al. 2007", LastTwo
    ),
    PredictorEntry(
        PredictorName.EASY_PLUS_PLUS,
        "L2, raised in steps for jobs that outlive their prediction",
        "Tsafrir et al. 2007",
        EasyPlusPlus,
    ),
    PredictorEntry(
        PredictorName.FOREST_MEAN,
        "mean by a random forest over features of jobs, which learns weekly; needs scikit-learn",
        "features: Zrigui 2021, Table 6.3",
        None,
    ),
    PredictorEntry(
        PredictorName.FOREST_QUANTILE,
        "the same, of a quantile (batch.quantile)",
        "features: Zrigui 2021, Table 6.3",
        None,
    ),
)


def make_predictor(name: str) -> Predictor:
    """Return a new predictor by its name in a scenario, files as seen from the current directory.

    Raises
    ------
    InputError
        If a predictor of the user cannot be made.
    """
    for entry in PREDICTORS:
        if entry.name == name and entry.make is not None:
            return entry.make()
    return user_predictor(name)
