"""CCA, centralized chunk calculation: a master, PE 0, sizes all chunks (Eleliemy 2021, §4.1)."""

from __future__ import annotations

import numpy as np

from mlsim._jit import kernel, shared
from mlsim.application.models.levels import ask_first
from mlsim.application.models.master import BAD_SIZE, attend, end_master
from mlsim.application.models.state import Inputs, close_state, open_state

__all__ = ["run"]


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
