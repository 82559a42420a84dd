"""The section ``workload.resample``: another workload from the weeks of a log."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from mlsim.scenario.values.field_types import Natural, OneOf, Whole
from mlsim.scenario.values.section import Section
from mlsim.scenario.words import ResampledBy

__all__ = ["MOST_WEEKS", "ResampleConfig"]

MOST_WEEKS = 100_000


class ResampleConfig(Section):
    """Weeks of the log, put together anew before anything is selected (Zrigui 2021, Algorithm 2)."""

    weeks: Annotated[int, Whole(1, MOST_WEEKS)] = Field(examples=[10])
    """How many weeks the new workload has."""
    by: OneOf[ResampledBy] = ResampledBy.USER
    """Whose weeks are drawn, with replacement: user (of each user by itself) or week (of all together)."""
    seed: Natural | None = None
    """Of the draws. Default: the scenario's, so that seeds of a study are samples."""
