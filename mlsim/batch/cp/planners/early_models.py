"""Versions 1 and 2 of HCP and PCP, for ablation (thesis, Table 5.1)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mlsim._arrays import Floats
from mlsim.batch.cp.planners.pcp import UnitIntervals, parts_of_places
from mlsim.batch.cp.planners.planner import Built, Planner
from mlsim.batch.cp.problem.instance import Instance, Queued
from mlsim.batch.cp.solver.cp_model import Scheduling


def _shrunk_horizon(instance: Instance) -> int:
    """Return the sum of all remaining run times; running jobs past their estimate count negatively."""
    running = instance.running
    _, first = np.unique(running.job_id, return_index=True)
    left = np.where(running.late > 0, -running.late, running.remaining)[first]
    return int(left.sum() + instance.queued.duration.sum())


class Hcp2(Planner):
    """HCP with the reduced model, improved search control, and at least 1 s for running jobs."""

    name: ClassVar[str] = "hcp2"
    pace: ClassVar[float] = 0.1
    of_slowdowns: ClassVar[bool] = False

    def priority(self, instance: Instance) -> Floats:
        """Weigh the wait by max(ewt) / ewt; ties go to the smaller demand, resources x duration."""
        queued = instance.queued
        wait = (instance.now - queued.arrival) * self.weights(queued)
        pool = np.maximum(instance.capacity.sum(axis=0), 1)
        demand = (queued.request / pool).sum(axis=1) * queued.units * queued.duration
        order = np.lexsort((queued.arrival, demand, -wait))
        priority = np.empty(len(queued))
        priority[order] = -np.arange(len(queued), dtype=np.float64)
        return priority

    def weights(self, queued: Queued) -> Floats:
        """Return the weight of each queued job, max(ewt) / ewt."""
        weights: Floats = queued.ewt.max(initial=1.0) / queued.ewt
        return weights

    def build(self, instance: Instance) -> Built:
        """Make start variables and one cumulative a resource type."""
        model = Scheduling.of(instance, self.horizon(instance))
        model.limit_power()
        return Built(model, None, False, model.minimize(self.weights(instance.queued)))

    def horizon(self, _instance: Instance) -> int | None:
        """Return None: the model's horizon is the end of the serial schedule."""
        return None


class Hcp1(Hcp2):
    """HCP2 with running jobs that outlived their estimate as they are."""

    name: ClassVar[str] = "hcp1"

    def horizon(self, instance: Instance) -> int | None:
        """Return the sum of remaining run times, less what running jobs are past their estimates."""
        return _shrunk_horizon(instance)


class Pcp2(Hcp2):
    """PCP: only waiting beyond the queue's ewt counts; jobs are considered as they arrived."""

    name: ClassVar[str] = "pcp2"
    pace: ClassVar[float] = 0.07

    def parts(self, instance: Instance) -> Floats:
        """Count as in PCP'19."""
        return parts_of_places(instance)

    def priority(self, instance: Instance) -> Floats:
        """Return the wait of each queued job: the longest-waiting goes first."""
        wait: Floats = instance.now - instance.queued.arrival
        return wait

    def weights(self, queued: Queued) -> Floats:
        """Return the weight of each queued job, 1 / ewt."""
        weights: Floats = 1.0 / queued.ewt
        return weights

    def build(self, instance: Instance) -> Built:
        """Make PCP'19's model with the objective max(0, (s - q - ewt) / ewt)."""
        model = Scheduling.of(instance, self.horizon(instance))
        units = UnitIntervals(model)
        queued = instance.queued
        after = queued.arrival + queued.ewt - instance.now
        return Built(model, units.read, False, model.minimize(self.weights(queued), after))


class Pcp1(Pcp2):
    """PCP2 with running jobs that outlived their estimate as they are."""

    name: ClassVar[str] = "pcp1"

    def horizon(self, instance: Instance) -> int | None:
        """Return the sum of remaining run times, less what running jobs are past their estimates."""
        return _shrunk_horizon(instance)
