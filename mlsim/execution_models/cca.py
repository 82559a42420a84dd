"""CCA, centralized chunk calculation, and the master of all models with masters (Eleliemy 2021, §4.1)."""

import numpy as np

from mlsim._jit import inlined, inner_kernel, kernel, leaf_kernel, shared
from mlsim.execution_models import OF_MASTERS, OF_QUEUES, ModelEntry, ModelProperties
from mlsim.execution_models import chunk_execution as chunks
from mlsim.execution_models.chunk_execution import NEAR, message
from mlsim.execution_models.event_queue import due_lowest_rank, move
from mlsim.execution_models.loop_state import PE, Inputs, Queue, State, close_state, open_state
from mlsim.execution_models.technique_state import note_bad_size, size_from_rest
from mlsim.techniques.fixed import begin_of_part, ceil_div
from mlsim.techniques.technique_rules import CYCLIC, STATIC_CODES


def next_length(length: int, part: int, seconds: float, every: float) -> int:
    """Return the most iterations of a master's next part, after one of ``part`` iterations in ``seconds``.

    It has as many (>= 1) as take ``every`` seconds at that rate, where ``length`` was the last limit.
    """
    most = 2 * length  # so that a few quick iterations do not lead to a long part of slow ones
    if seconds * most <= every * part:
        return most
    return max(int(part * every / seconds), 1)


_next_length = leaf_kernel(next_length)  # real masters call the Python function
GOES_ON, ATTENTION, REFILL, DONE, BAD_SIZE, CHOOSE = range(6)
_EXECUTING = 2


@inner_kernel
def attend(s: State, m: Queue, attention: float) -> int:
    """Follow a master until it needs another one or a selection; return the reason.

    ``REFILL``: its queue is empty. ``ATTENTION``: a reply arrived at ``attention`` [s]. ``CHOOSE``: a
    technique must be selected; the request that caused it is served afterwards.
    """
    while True:
        due = np.inf if m.awaiting != 0 else s.matches[m.tree + 1].time
        if m.clock >= s.until:
            return DONE
        if attention <= m.clock and (due > m.clock or (not s.costs.lowest_rank and due > attention)):
            return ATTENTION
        if due <= m.clock:
            doing = _serve(s, m)
            if doing != GOES_ON:
                return doing
        elif m.own_position < m.own_end:
            _execute_own(s, m, min(due, attention))
        elif min(due, attention) < np.inf:
            m.clock = min(due, attention)
        else:
            return DONE


@inlined
def _serve(s: State, m: Queue) -> int:
    """Answer the request that is next in the order of service."""
    rank = s.matches[m.tree + 1].rank
    if s.costs.lowest_rank:
        rank = due_lowest_rank(s.matches, m.tree, m.width, m.clock)
    pe = m.first_pe + rank
    me = s.pes[pe]
    if _report(s, m, me, pe):
        return CHOOSE
    step, size, back = m.earlier + m.step, 0, np.inf
    if m.number == 0:
        size = assign(s, m, rank, pe)
        step = m.earlier + (rank - m.masters) if s.outer.code in STATIC_CODES else step
    elif m.position < m.end:
        size = chunks.take(s, m, pe)
    else:
        back = chunks.back_at(s, m, m.clock)
        if back == m.clock:
            return REFILL
        if back >= s.until and m.exhausted == 0:  # without a message of the global master
            m.exhausted = 1
            s.queues[0].exhausted += 1
    if size < 0:
        return BAD_SIZE
    if size == 0:
        asked = chunks.leave(s, me, max(m.clock + message(me, NEAR), me.since), back)
        move(s.matches, m.tree, m.width, rank, asked + me.to_near)
        return GOES_ON
    spend_serving(s, m)
    following = np.inf
    # A PE that requested ahead may still be executing its previous chunk.
    start = max(m.clock + message(me, NEAR), me.since)
    if pe == m.first_pe and not s.costs.threaded:
        m.own_position, m.own_end = m.first, m.first + size
        m.own_step, m.own_begun = step, 0
    elif start < s.until:
        if s.costs.ahead > 0 and s.outer.code != CYCLIC and pe != m.first_pe:
            following = _execute_and_ask(s, me, pe, step, m.first, size, start) + me.to_near
        else:
            end = chunks.execute(s, me, pe, step, m.first, size, start)
            following = chunks.next_request(s, me, pe, end) + me.to_near
    move(s.matches, m.tree, m.width, rank, following)
    return GOES_ON


@leaf_kernel
def _report(s: State, m: Queue, me: PE, pe: int) -> bool:
    """Learn from the chunks that a PE had executed at its request; return whether a selection is due.

    Loops whose PEs request ahead do not stop for selections.
    """
    who = pe - m.first_pe - m.masters
    if s.costs.ahead > 0 and s.learns:
        chunks.report(s, m, s.before[pe], who)
        if me.unreported == _EXECUTING:
            return False
    return bool(chunks.report(s, m, me, who))


@leaf_kernel
def _execute_and_ask(s: State, me: PE, pe: int, step: int, first: int, size: int, start: float) -> float:
    """Execute a chunk; return the time [s] of the next request: ``ahead`` iterations before its end."""
    if s.learns and me.unreported == _EXECUTING:
        _keep_chunk(me, s.before[pe])
    end = chunks.execute(s, me, pe, step, first, size, start)
    asks = start
    if size > s.costs.ahead:
        before = size - s.costs.ahead
        cost = chunks.cost_of(s, first, first + before)
        if s.costs.piece_time > 0.0:
            cost += s.costs.piece_time * ceil_div(before, me.last_part)
        asks = start + chunks.slowed(s, cost / me.speed, start, pe)
    if asks >= s.until:
        return np.inf
    if len(s.pe_unavailability.begin) > 0 and chunks.present_at(s, pe, asks) > asks:
        return chunks.next_request(s, me, pe, end)  # its node leaves, and the PE with it after its chunk
    me.asked = asks
    if s.learns:
        me.unreported = _EXECUTING
    return asks


@leaf_kernel
def _keep_chunk(me: PE, before: PE) -> None:
    """Copy the measurements of a PE's last chunk, to be reported at its next request."""
    before.pace, before.spent, before.waited, before.took = me.pace, me.spent, me.waited, me.took
    before.finish, before.last_start, before.last_step = me.finish, me.last_start, me.last_step
    before.last_first, before.last_size, before.last_part = me.last_first, me.last_size, me.last_part
    before.unreported = 1


@inlined
def assign(s: State, q: Queue, rank: int, named: int) -> int:
    """Assign a chunk of the loop; return its size, 0 if nothing is left, −1 if the technique is wrong.

    ``named`` is the PE or node in the error message.
    """
    t, seat, who = s.outer, s.seats[rank], rank - q.masters
    q.first = q.position
    if t.code in STATIC_CODES:
        q.first = begin_of_part(q.begun, q.end, who, q.constant) if seat.taken == 0 else q.end
    seat.taken += 1
    if q.first >= q.end:
        return 0
    size = min(q.constant, q.end - q.first)
    if size == 0:
        size = size_from_rest(t, 0, t.weights, q.step, q.end - q.first, who, q.clock)
        if size < 1:
            note_bad_size(t, q.step, named, size)
            return -1
    q.position = q.first + size
    q.step += 1
    return size


@leaf_kernel
def spend_serving(s: State, m: Queue) -> None:
    """Advance a master's clock by the calculation of a size.

    It counts as overhead within a chunk of its own, and for a dedicated master.
    """
    me = s.pes[m.first_pe]
    done = m.clock + (me.calculation + s.costs.assignment)
    if m.masters > 0 or m.own_begun != 0:
        me.overhead += min(done, s.until) - m.clock
    m.clock = done


@leaf_kernel
def _execute_own(s: State, m: Queue, request: float) -> None:
    """Execute a master's own chunk up to the first break at which a request waits, or to its end."""
    me = s.pes[m.first_pe]
    if m.own_begun == 0:
        m.own_begun, m.own_seconds = 1, 0.0
        me.chunks += 1
        me.last_first, me.last_size = m.own_position, m.own_end - m.own_position
        if _as_real(s):
            m.own_parts, m.own_squares = 0, 0.0
            me.last_part = chunks.part_length(s, me.last_size)
        me.last_start = m.clock
        me.overhead += m.clock - me.since
        if s.costs.inside:
            cost = chunks.cost_of(s, m.own_position, m.own_end)
            if s.costs.piece_time > 0.0:
                cost += s.costs.piece_time * ceil_div(me.last_size, me.last_part)
            m.own_left = cost / me.speed
    request = min(request, s.until)
    if s.costs.inside:
        _execute_to_interruption(s, m, me, request)
    elif s.costs.break_time > 0.0 or _as_real(s):
        _execute_with_long_breaks(s, m, me, request)
    else:
        reached, time = m.own_position, 0.0
        if s.costs.block == 0:
            reached = _last_break_before(s, m, me, request)
        while True:
            reached = min(reached + s.costs.break_after, m.own_end)
            seconds = chunks.cost_of(s, m.own_position, reached) / me.speed
            time = m.clock + chunks.slowed(s, seconds, m.clock, m.first_pe)
            if reached == m.own_end or time >= request:
                break
        m.own_position = reached
        m.own_seconds += min(time, s.until) - m.clock
        m.clock = time
    if m.own_position == m.own_end and m.clock < s.until:
        _finish_own(s, m, me)


@inner_kernel
def _last_break_before(s: State, m: Queue, me: PE, request: float) -> int:
    """Return a master's position at the last break before a request, for linear costs, in O(log N).

    Loops with linear costs may be too long to visit each break.
    """
    every, begin = s.costs.break_after, m.own_position
    low, high = 0, (m.own_end - 1 - begin) // every  # numbers of breaks
    while low < high:
        middle = high - (high - low) // 2
        seconds = chunks.cost_of(s, begin, begin + middle * every) / me.speed
        if m.clock + chunks.slowed(s, seconds, m.clock, m.first_pe) < request:
            low = middle
        else:
            high = middle - 1
    return begin + low * every


@leaf_kernel
def _execute_with_long_breaks(s: State, m: Queue, me: PE, request: float) -> None:
    """Execute a master's own chunk up to the first break with a request at its end, as breaks take time."""
    timed = me.last_part if _as_real(s) else m.own_end - m.own_position
    while True:
        length = max(m.own_length, 1) if s.costs.break_every > 0.0 else s.costs.break_after
        reached = min(m.own_position + min(length, timed), m.own_end)
        seconds = (chunks.cost_of(s, m.own_position, reached) + s.costs.piece_time) / me.speed
        end = m.clock + chunks.slowed(s, seconds, m.clock, m.first_pe)
        part, took = reached - m.own_position, end - m.clock
        m.own_parts += 1
        m.own_squares += took * took / part
        if s.costs.break_every > 0.0:
            # Bounded, so that repeated doubling does not overflow.
            longest = s.costs.iterations + 1
            m.own_length = min(_next_length(length, part, took, s.costs.break_every), longest)
        m.own_seconds += min(end, s.until) - m.clock
        m.own_position, m.clock = reached, end
        if reached == m.own_end or end >= s.until:
            return
        m.clock = end + s.costs.break_time
        me.overhead += min(m.clock, s.until) - end
        if m.clock >= request:
            return


@leaf_kernel
def _execute_to_interruption(s: State, m: Queue, me: PE, request: float) -> None:
    """Execute a master's own chunk up to a request, which interrupts it in an iteration, or to its end."""
    begin = m.clock
    m.clock = begin + chunks.slowed(s, m.own_left, begin, m.first_pe)
    if m.clock <= request:
        m.own_position = m.own_end
        m.own_seconds += m.clock - begin
        return
    m.own_left = max(m.own_left - chunks.executed(s, begin, request, m.first_pe), 0.0)
    m.own_seconds += request - begin
    m.clock = request
    if request < s.until:
        m.clock = request + s.costs.break_time
        me.overhead += min(m.clock, s.until) - request


@inlined
def _as_real(s: State) -> bool:
    """Whether a master executes its chunks in parts, each a call of the loop's body, as in real runs."""
    return bool(s.costs.piece_time > 0.0 or s.costs.break_every > 0.0)


@leaf_kernel
def _finish_own(s: State, m: Queue, me: PE) -> None:
    """End a master's own chunk; it requests the next one at once."""
    chunks.keep_row(s, me, m.first_pe, m.own_step, m.clock)
    cost = chunks.cost_of(s, me.last_first, m.own_end)
    if s.costs.inside:
        if s.costs.piece_time > 0.0:
            cost += s.costs.piece_time * ceil_div(me.last_size, me.last_part)
    elif _as_real(s):
        cost += s.costs.piece_time * m.own_parts
        me.parts, me.squares = m.own_parts, m.own_squares
    seconds = cost / me.speed
    if len(s.perturbation.slow_time) > 0:
        me.pace = me.speed * (seconds / m.own_seconds) if seconds > 0.0 else me.speed
        seconds = m.own_seconds
    me.busy += seconds
    me.finish = m.clock
    me.spent, me.took = seconds, m.clock - me.since
    me.waited = me.took - seconds
    me.last_step, me.unreported = m.own_step, 1
    me.asked, me.since = m.clock, m.clock
    m.own_begun = 0
    if s.outer.code == CYCLIC and s.seats[m.seats].taken > 0:  # not of the technique before
        m.own_position, size = chunks.next_of_cycle(m, me.last_first)
        m.own_end, m.own_step = m.own_position + size, m.own_step + m.members - m.masters
        if size > 0:
            return
    move(s.matches, m.tree, m.width, 0, m.clock)


@leaf_kernel
def end_master(s: State, m: Queue, ended: bool) -> None:
    """Complete a master's results; ``ended``: the loop was aborted before it had notified all PEs."""
    me = s.pes[m.first_pe]
    if m.own_begun != 0:  # executing its own chunk
        chunks.keep_row(s, me, m.first_pe, m.own_step, s.until)
        me.busy += m.own_seconds
        me.finish = s.until
        me.asked, me.since = s.until, s.until
    if m.masters > 0:
        for pe in range(m.first_pe + 1, m.first_pe + m.members):
            ended = ended or s.pes[pe].notified_at < 0.0
        me.notified_at = s.until if ended else min(m.clock, s.until)
        me.idle = me.notified_at - me.overhead


@kernel
def run(inputs: Inputs) -> int:
    """Simulate one loop; return the number of chunk rows, −1 if the technique is wrong."""
    owned = open_state(inputs)
    s = shared(owned)
    chunks.ask_first(s, s.queues[0])
    if attend(s, s.queues[0], np.inf) == BAD_SIZE:
        return -1
    end_master(s, s.queues[0], False)
    return close_state(owned.pes, owned.written, inputs.until, inputs.stats)


@kernel
def resume(owned: State) -> int:
    """Simulate up to the next selection, ``CHOOSE``, or to the end, ``DONE`` or ``BAD_SIZE``."""
    s = shared(owned)
    doing = attend(s, s.queues[0], np.inf)
    if doing == DONE:
        end_master(s, s.queues[0], False)
    return doing


MODEL = ModelEntry(
    name="cca",
    meaning="centralized: PE 0 is the master; it calculates and assigns every chunk on request. Dedicated, "
    "or executing chunks itself and checking for requests after every break_after iterations",
    reference="Cariño and Banicescu 2005; Eleliemy 2021, §4.1",
    properties=ModelProperties(
        releases=True, hands_out_first=True, asking="master", reads=(*OF_MASTERS, *OF_QUEUES, "request_ahead")
    ),
    run=run,
    resume=resume,
    aliases=("centralized",),
)
