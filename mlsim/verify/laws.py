"""All laws, judged on one run."""

from __future__ import annotations

from typing import Final

from mlsim.record import Records
from mlsim.scenario import Scenario
from mlsim.verify.cap_law import judge_cap
from mlsim.verify.capacity_law import judge_nodes, judge_shared
from mlsim.verify.drain_law import judge_drains, judge_failures
from mlsim.verify.job_laws import judge_arrivals, judge_stays, judge_walltimes
from mlsim.verify.promises import judge_conservative, judge_easy
from mlsim.verify.schedule import Schedule
from mlsim.verify.verdicts import Verdict

__all__ = ["PROMISES", "judge"]

PROMISES: Final = ("easy", "conservative")
"""Promises that can be asked for whatever dispatcher made a schedule."""


def judge(records: Records, scenario: Scenario, promise: str | None = None) -> tuple[Verdict, ...]:
    """Judge the schedule of a run by every law.

    Parameters
    ----------
    records
        The tables of the run.
    scenario
        Its scenario.
    promise
        One of :data:`PROMISES`, which is judged whatever dispatcher the scenario names. Default: that of its
        backfilling.

    Returns
    -------
    tuple of Verdict
        One a law. The schedule keeps them all if no verdict has a breach.
    """
    run = Schedule(records, scenario)
    laws = [judge_arrivals, judge_walltimes, judge_stays, judge_nodes, judge_shared]
    laws += [judge_drains, judge_failures] + ([judge_cap] if run.is_on_machine else [])
    return (
        *(law(run) for law in laws),
        judge_easy(run, promise == "easy"),
        judge_conservative(run, promise == "conservative"),
    )
