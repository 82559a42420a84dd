"""HCP'19: plans times on pooled resources, then places by best-fit (thesis, HCP3)."""

from __future__ import annotations

from typing import ClassVar

from mlsim.batch.cp.planners.planner import Built, Planner, ReadNodes
from mlsim.batch.cp.problem.instance import Instance
from mlsim.batch.cp.solver.model import Scheduling

__all__ = ["Hcp19"]


class Hcp19(Planner):
    """Nodes are not in the model; a job that then finds no nodes waits for the next pass."""

    name: ClassVar[str] = "hcp19"
    pace: ClassVar[float] = 0.1

    def build(self, instance: Instance) -> Built:
        """Make start variables and one cumulative a resource type."""
        model = Scheduling.of(instance)
        read = self.place(model)
        scale = model.minimize(self.weights(instance.queued))
        model.search_by_priority()
        return Built(model, read, True, scale)

    def place(self, model: Scheduling) -> ReadNodes | None:
        """Return None: the model places no job, which is taken to add the least power that it can."""
        model.limit_power()
        return None
