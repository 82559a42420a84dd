"""PCP'21s: PCP'21 for requests that are all alike (paper, section 3, Search)."""

from __future__ import annotations

from typing import ClassVar

from mlsim.batch.cp.planners.pcp21 import Pcp21, Positions
from mlsim.batch.cp.solver.model import Scheduling

__all__ = ["Pcp21s"]


class Pcp21s(Pcp21):
    """Branches on all start times before any position.

    A conflict then goes back to a start time, and does not permute positions that are worth the same.
    """

    name: ClassVar[str] = "pcp21s"

    def search(self, model: Scheduling, positions: Positions) -> None:
        """Branch on starts as HCP'19 does, then on positions."""
        from ortools.sat.python import cp_model

        model.search_by_priority()
        places = [variable for column in positions.variables for variable in column]
        model.cp.add_decision_strategy(places, cp_model.CHOOSE_FIRST, cp_model.SELECT_MIN_VALUE)
