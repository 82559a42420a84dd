"""A model as an installed package would have it: chunks of 100 iterations, one for each PE."""

from mlsim.application.kit import execution_model, shared
from mlsim.execution_models.chunk_execution import execute
from mlsim.execution_models.loop_state import close_state, open_state


@execution_model(levels=1)
def blocks(inputs):
    """Simulate one loop; return how many chunks have rows."""
    owned = open_state(inputs)
    s = shared(owned)
    for pe in range(len(s.pes)):
        me = s.pes[pe]
        me.notified_at = execute(s, me, pe, pe, 100 * pe, 100, 0.0)
    return close_state(owned.pes, owned.written, inputs.until, inputs.stats)
