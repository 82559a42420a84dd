"""CCA, centralized chunk calculation: a master, PE 0, sizes all chunks (Eleliemy 2021, §4.1)."""

from __future__ import annotations

import numpy as np

from mlsim._jit import kernel, shared
from mlsim.application.models.levels import ask_first
from mlsim.application.models.master import BAD_SIZE, DONE, attend, end_master
from mlsim.application.models.state import Inputs, State, close_state, open_state

__all__ = ["resume", "run"]


@kernel
def run(inputs: Inputs) -> int:
    """Simulate one loop; return how many chunks have rows, −1 if a technique is wrong."""
    owned = open_state(inputs)
    s = shared(owned)
    ask_first(s, s.queues[0])
    if attend(s, s.queues[0], np.inf) == BAD_SIZE:
        return -1
    end_master(s, s.queues[0], False)
    return close_state(owned.pes, owned.written, inputs.until, inputs.stats)


@kernel
def resume(owned: State) -> int:
    """Simulate until a technique is to be chosen, ``CHOOSE``, or to the end, ``DONE`` or ``BAD_SIZE``."""
    s = shared(owned)
    doing = attend(s, s.queues[0], np.inf)
    if doing == DONE:
        end_master(s, s.queues[0], False)
    return doing
