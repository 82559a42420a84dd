"""An execution model of one's own: DCA, where every PE claims its chunks at a window at PE 0."""

from mlsim.application.kit import execution_model, inlined, np, shared
from mlsim.execution_models.chunk_execution import (
    FAR,
    ask_first,
    execute,
    message,
    next_request,
    notify,
    report,
)
from mlsim.execution_models.dca import BAD, CALCULATES, NOBODY, claim, enter
from mlsim.execution_models.event_queue import due_of, move
from mlsim.execution_models.loop_state import close_state, open_state

BAD_SIZE = -1.0


@execution_model(
    levels=1,
    releases=True,
    hands_out_first=True,
    adaptive=True,
    reads=("atomic_service", "lock", "lock_retry", "request_cost", "start_up", "start_up_std"),
)
def window(inputs):
    """Simulate one loop; return how many chunks have rows."""
    owned = open_state(inputs)
    s = shared(owned)
    window = s.queues[0]
    ask_first(s, window)
    while True:
        pe = enter(s, window)
        if pe == NOBODY:
            break
        arrival = due_of(s.matches, window.tree, window.width, pe)
        following = arrival
        while following == arrival:  # two events of one PE at the same moment follow each other
            following = serve(s, pe, arrival)
            if following == BAD_SIZE:
                return -1
        move(s.matches, window.tree, window.width, pe, following)
    return close_state(owned.pes, owned.written, inputs.until, inputs.stats)


@inlined
def serve(s, pe, arrival):
    """Serve an atomic of a PE; return when its next one arrives, in s."""
    window, me, seat = s.queues[0], s.pes[pe], s.seats[pe]
    report(s, window, me, pe)
    size = claim(s, window, s.outer, seat, pe, arrival, me.thinking)
    if size == BAD:
        return BAD_SIZE
    if size == CALCULATES:
        return window.free + me.thinking
    start = window.free + message(me, FAR)
    if size == 0 or start >= s.until:
        notify(s, me, start)
        return np.inf
    end = execute(s, me, pe, seat.step, window.first, size, start)
    return next_request(s, me, pe, end) + me.to_far
