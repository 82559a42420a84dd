"""The smallest area first, and nothing planned, with the placement of the list planner.

What planning adds to placement is the difference to this: nodes are chosen by the planner's own code. Jobs
are gone through in the order of their area (estimate x largest share of a resource); each that fits starts.
"""

from __future__ import annotations

import numpy as np

from mlsim.batch.cp.cp_solve import Control
from mlsim.batch.cp.list_planner import Found, Lists
from mlsim.batch.cp.planning_dispatcher import CpDispatcher
from mlsim.scenario import CpConfig


class _Greedy(Lists):
    """One list in place of three; no start is kept, and no room left free."""

    def _keep_start(self, duration, *_args):
        return np.zeros(len(duration), np.bool_)

    def _keep_free(self, jobs, *_args):
        return np.zeros(jobs.requests.shape)

    def _best_list(self, task, earliest):
        share = (task.jobs.requests * task.jobs.units[:, None] * task.scarcity).max(axis=1)
        order = np.argsort(share * task.jobs.durations, kind="stable")
        starts = np.empty(len(order), np.int64)
        cost = task.schedule(order, starts)
        return Found(order, starts, cost, earliest, float(task.ranks.weights @ earliest))


class GreedySaf(CpDispatcher):
    """Answers for a pass."""

    def __init__(self):
        super().__init__(_Greedy(Control(0.02, 0.02, 1, True, 1, 1)), CpConfig())
        self._planner.experience = self._experience
