"""From the perturbations of a machine to those of one loop on some of its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mlsim.coordination import NodeSet
from mlsim.platform import Perturbations

if TYPE_CHECKING:
    from mlsim.application.perturbation import Perturbation

__all__ = ["loop_perturbation"]


def loop_perturbation(
    perturbations: Perturbations,
    nodes: NodeSet,
    node_of_pe: NDArray[np.int64],
    start: float,
    end: float,
) -> Perturbation:
    """Return the slow-downs that a loop's PEs meet.

    Parameters
    ----------
    perturbations
        Those of the machine.
    nodes
        The nodes of the loop.
    node_of_pe
        For each PE the index of its node in ``nodes``.
    start
        When the loop starts, in s of simulated time; times of the result count from then.
    end
        Slow-downs that begin from then on, in s of simulated time, are left out.

    Returns
    -------
    Perturbation
        One row for each node, in the order of ``nodes``.
    """
    from mlsim.application.perturbation import Perturbation

    rows = [perturbations.steps(node, start, end) for node in nodes.node.tolist()]
    return Perturbation(
        slow_of_pe=node_of_pe,
        slow_index=np.cumsum([0, *(len(row.time) for row in rows)], dtype=np.int64),
        slow_time=np.concatenate([np.empty(0), *(row.time for row in rows)]) - start,
        slow_factor=np.concatenate([np.empty(0), *(row.factor for row in rows)]),
    )
