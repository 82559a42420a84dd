"""Free resources over time on classes of nodes, and list scheduling in them."""

from typing import NamedTuple

import numpy as np

from mlsim._jit import inner_kernel, kernel, leaf_kernel, shared
from mlsim._runtime.arrays import Floats, Ints, Mask
from mlsim.batch.cp.instance import NO_PLACE, Instance, PowerPart, SharedPart, ranks_of

NEVER = np.iinfo(np.int64).max // 4
_DISLIKED = 1e6  # weight of dislike, relative to free resources, which never exceed the capacity of a node
_COSTLIER = 1e3  # weight of a rank of power, where the cap leaves enough for preferred nodes
_COSTLY = 1e12  # weight of a rank of power where the cap does not: more than everything else

# What a search for the earliest start notes of each class: the start it looked at last, the step of the
# profile that covers it, how many units fit on a node from then on, and from when on more may fit.
_SEEN, _STEP, _FIT, _MORE = range(4)

# What is known of the power of nodes of each kind, int64[3, K], where that matters: what each node, or core,
# adds (microwatts); kinds by it, the least first; and its rank, 0 for the least.
_WATTS, _CHEAPEST, _RANK = range(3)


class Profiles(NamedTuple):
    """Free resources over time, before anything is planned: C classes of nodes that are alike."""

    sizes: Ints  # int64[C]: nodes of each class
    first: Ints  # int64[C]: where the nodes of each class begin in `members`
    n_steps: Ints  # int64[C]: steps of each profile
    times: Ints  # int64[C, S]: begin of each step, seconds from now, 0 first
    room: Ints  # int64[C, S, R]: free on each node of the class
    kind: Ints  # int64[C]: the kind of nodes (`Kinds`)
    members: Ints  # int64[N]: nodes, class by class

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.sizes)


class Demands(NamedTuple):
    """Requests of waiting jobs, one row per job."""

    units: Ints
    durations: Ints  # int64[n]: s
    requests: Ints  # int64[n, R]: of one unit
    dislike: Floats  # float64[n, K]: penalty for nodes of each kind; infinite where the job may not be
    asked: Ints  # int64[n, S]: machine-wide amounts; with a cap on power one column more, of 0
    counts: Ints  # int64[n]: nodes, or cores, per unit that count for power


class Ranks(NamedTuple):
    """Weights of jobs and what they leave for others, one row per job."""

    weights: Floats  # float64[n]: cost of a second of waiting
    keep_free: Floats  # float64[n, R]: amounts that a job must leave free in all if it starts now
    # bool[n]: whether a start that is not now is a reservation: later jobs of the order are placed around it.
    # Otherwise the start is only what the job could have at its place in the order.
    keep_start: Mask
    makespan: bool  # whether the cost of a list is the time until its last job ends, not weight x start
    limit: int = NEVER  # no start from this time on is looked for


class _Job(NamedTuple):
    """Request of one job; ``asked`` are machine-wide amounts, of which power is set where it is placed."""

    units: int
    duration: int
    request: Ints
    dislike: Floats
    per_unit: int
    asked: Ints


class _Space(NamedTuple):
    """Profiles for the placement of jobs, and weights for the choice of nodes."""

    nodes: Profiles
    whole: Profiles  # of machine-wide amounts, as of one node
    power: Ints  # as of `power_of_kinds`
    scarcity: Floats  # float64[R]: weight of each type for best-fit


def power_of_kinds(watts: Ints) -> Ints:
    """Return int64[3, K], the power of kinds for kernels, from microwatts per node or core."""
    return np.stack((watts, np.argsort(watts, kind="stable"), ranks_of(watts)))


def profiles_of(instance: Instance, remaining: Ints, kind: Ints) -> Profiles:
    """Group nodes by what is free on them from now on; nodes of different kinds are never in one class.

    ``remaining`` is the time (s) until the expected end of each running box, ``kind`` that of each node.
    """
    running = instance.running
    amounts = running.request * running.units[:, None]
    held: Mask = amounts.sum(axis=1) > 0
    order = np.lexsort((remaining, running.node))
    order = order[held[order]]
    sizes = np.bincount(running.node[order], minlength=instance.n_nodes)
    deepest = int(sizes.max(initial=0)) + 1
    shape = (instance.n_nodes, deepest)
    times = np.zeros(shape, np.int64)
    room = np.zeros((*shape, len(instance.resources)), np.int64)
    steps = np.zeros(instance.n_nodes, np.int64)
    _fill(instance.free, running.node[order], remaining[order], amounts[order], steps, times, room)
    # Nodes with the same bytes are alike; steps that are not used are all zero.
    rows = np.column_stack((kind, instance.capacity, steps, times, room.reshape(instance.n_nodes, -1)))
    _, example, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    # Classes in the order of their first nodes.
    rank = np.argsort(np.argsort(example))
    which, example = rank[which], np.sort(example)
    count = np.bincount(which, minlength=len(example)).astype(np.int64)
    return Profiles(
        count,
        np.cumsum(count) - count,
        steps[example],
        np.ascontiguousarray(times[example]),
        np.ascontiguousarray(room[example]),
        kind[example],
        np.argsort(which, kind="stable"),
    )


def _of_one_node(free: Ints, ends: Ints, held: Ints) -> Profiles:
    """Return what is free of some amounts over time, as the profile of one node.

    ``free`` (S,) is free now, and ``held`` (m, S) is returned at ``ends`` (m,).
    """
    ends, place = np.unique(ends, return_inverse=True)
    more = np.zeros((len(ends), len(free)), np.int64)
    np.add.at(more, place.reshape(-1), held)
    times = np.concatenate(([0], ends)).astype(np.int64)
    room = np.cumsum(np.concatenate((free[None, :], more)), axis=0).astype(np.int64)
    one = np.ones(1, np.int64)
    return Profiles(one, one * 0, one * len(times), times[None, :], room[None, :, :], one * 0, one * 0)


def whole_of(part: SharedPart, power: PowerPart) -> Profiles:
    """Return the free machine-wide amounts over time as the profile of one node.

    With a cap on power, the power that jobs may add is the last amount.
    """
    free, held, remaining = part.free, part.held_by(len(part.remaining)), part.remaining
    if power:
        both = np.zeros((len(held) + len(power.held), held.shape[1] + 1), np.int64)
        both[: len(held), :-1], both[len(held) :, -1] = held, power.held
        free, held = np.append(free, power.free), both
        remaining = np.concatenate((remaining, power.remaining))
    return _of_one_node(free, remaining, held)


def is_pool(instance: Instance) -> bool:
    """Return whether every plan on the pool of all nodes can be placed on nodes.

    It can where there is one resource type and all queued jobs ask for the same g of it per unit: a node with
    x free has x // g slots, a slot serves any unit, and running jobs only ever free slots. At each start
    enough slots are then free on some nodes, whichever units hold the others.
    """
    request = instance.queued.request
    return (
        request.shape[1] == 1
        and request.size > 0
        and bool(request[0, 0] > 0 and (request == request[0]).all())
    )


def pool_of(instance: Instance, remaining: Ints) -> Profiles:
    """Return the free slots of all nodes over time as the profile of one node; :func:`is_pool` must hold.

    ``remaining`` is the time (s) until the expected end of each running box.
    """
    size, running = int(instance.queued.request[0, 0]), instance.running
    order = np.lexsort((remaining, running.node))
    node, held = running.node[order], (running.request[:, 0] * running.units)[order]
    # What is free on the node of each box before and after its end: slots are whole on a node.
    ended = np.cumsum(held)
    first = np.searchsorted(node, node)
    after = instance.free[node, 0] + ended - (ended - held)[first]
    slots = after // size - (after - held) // size
    free = (instance.free[:, 0] // size).sum()
    return _of_one_node(np.array([free]), remaining[order], slots[:, None])


def work_space(base: Profiles, jobs: int) -> Profiles:
    """Make arrays for the profiles after this many jobs have been placed."""
    nodes = int(base.sizes.sum())
    classes = min(base.n_classes + 2 * jobs, nodes)
    steps = base.times.shape[1] + 2 * jobs
    room = np.zeros((classes, steps, base.room.shape[2]), np.int64)
    sizes, first, n_steps, kind = np.zeros((4, classes), np.int64)
    return Profiles(sizes, first, n_steps, np.zeros((classes, steps), np.int64), room, kind, base.members)


@kernel
def _fill(
    free: Ints, node: Ints, remaining: Ints, amounts: Ints, steps: Ints, times: Ints, room: Ints
) -> None:
    """Write the profile of each node from its running boxes, which are in order of (node, end)."""
    for n in range(free.shape[0]):
        room[n, 0] = free[n]
        steps[n] = 1
    for box in range(node.size):
        n = node[box]
        k = steps[n]
        if times[n, k - 1] != remaining[box]:
            times[n, k] = remaining[box]
            room[n, k] = room[n, k - 1]
            steps[n] = k + 1
            k += 1
        room[n, k - 1] += amounts[box]


@leaf_kernel
def _job(row: int, jobs: Demands, asked: Ints) -> _Job:
    """Return the request of a job; ``asked`` receives its machine-wide amounts."""
    for r in range(len(asked)):
        asked[r] = jobs.asked[row, r]
    return _Job(
        jobs.units[row], jobs.durations[row], jobs.requests[row], jobs.dislike[row], jobs.counts[row], asked
    )


@leaf_kernel
def _step_at(c: int, at: int, p: Profiles) -> int:
    """Return the step of a class's profile at a time."""
    k = 0
    while k + 1 < p.n_steps[c] and p.times[c, k + 1] <= at:
        k += 1
    return k


@inner_kernel
def _fit(c: int, first: int, at: int, job: _Job, p: Profiles) -> tuple[int, int]:
    """Return the units that fit on one node of a class from ``at`` on, and the time when more may fit.

    ``first`` is the step at ``at``. At most the units of the job are counted, and if all fit, no later start
    has more.
    """
    n = p.n_steps[c]
    fit, tightest = job.units, first
    k = first
    while k < n and (k == first or p.times[c, k] < at + job.duration):
        for r in range(len(job.request)):
            # A division is dear, and needed only where this step is as tight as any before.
            if job.request[r] > 0 and p.room[c, k, r] < (fit + 1) * job.request[r]:
                fit = min(fit, p.room[c, k, r] // job.request[r])
                tightest = k
        if fit <= 0:
            break
        k += 1
    more = NEVER
    # As long as the tightest step is still to come, a later start meets it, too.
    if fit < job.units and tightest + 1 < n:
        more = p.times[c, tightest + 1]
    return fit, more


@inner_kernel
def _earliest_in_class(c: int, not_before: int, limit: int, duration: int, request: Ints, p: Profiles) -> int:
    """Return the earliest start, before ``limit``, of one unit on a node of a class; else ``limit``."""
    n = p.n_steps[c]
    start = not_before
    k = _step_at(c, start, p)
    while start < limit:
        j = k
        good = True
        while j < n and (j == k or p.times[c, j] < start + duration):
            for r in range(len(request)):
                # Of what the machine has as a whole less than nothing may be free: a cap has fallen.
                if request[r] > 0 and p.room[c, j, r] < request[r]:
                    good = False
            if not good:
                break
            j += 1
        if good:
            return start
        k = j + 1
        if k >= n:
            return limit
        start = p.times[c, k]
    return limit


@leaf_kernel
def _earliest_by_whole(not_before: int, limit: int, job: _Job, space: _Space) -> int:
    """Return the earliest start, before ``limit``, by machine-wide amounts alone; else ``limit``."""
    return _earliest_in_class(0, not_before, limit, job.duration, job.asked, space.whole)


@inner_kernel
def _look(c: int, at: int, job: _Job, p: Profiles, sweep: Ints) -> int:
    """Count the units that fit on a class from ``at`` on; return the change since the last count."""
    k = sweep[c, _STEP]
    while k + 1 < p.n_steps[c] and p.times[c, k + 1] <= at:
        k += 1
    fit, more = _fit(c, k, at, job, p)
    change: int = p.sizes[c] * (fit - sweep[c, _FIT])
    sweep[c, _SEEN], sweep[c, _STEP], sweep[c, _FIT], sweep[c, _MORE] = at, k, fit, more
    return change


@inner_kernel
def _earliest_on_nodes(
    not_before: int, limit: int, job: _Job, n_classes: int, p: Profiles, sweep: Ints
) -> int:
    """Return the earliest start of all units of a job on the nodes it may use; else ``limit`` or later.

    The sweep goes from one time at which more may fit on a class to the next. Until then the last count of a
    class is an upper bound: a later start ends later, and may meet less room, not more. So the other classes
    are counted again only where the sum of these bounds reaches the job's units.
    """
    if job.units == 1:
        for c in range(n_classes):
            if job.dislike[p.kind[c]] < np.inf and limit > not_before:
                limit = _earliest_in_class(c, not_before, limit, job.duration, job.request, p)
        return limit
    most = 0
    for c in range(n_classes):
        sweep[c, _SEEN], sweep[c, _STEP], sweep[c, _FIT], sweep[c, _MORE] = not_before, 0, 0, NEVER
        if job.dislike[p.kind[c]] < np.inf:
            most += _look(c, not_before, job, p, sweep)
            if most >= job.units:
                return not_before
    while True:
        at = NEVER
        for c in range(n_classes):
            at = min(at, sweep[c, _MORE])
        if at >= limit:
            return limit
        for c in range(n_classes):
            if sweep[c, _MORE] <= at:
                most += _look(c, at, job, p, sweep)
        if most >= job.units:
            for c in range(n_classes):
                if sweep[c, _FIT] > 0 and sweep[c, _SEEN] < at:
                    most += _look(c, at, job, p, sweep)
            if most >= job.units:
                return at


@leaf_kernel
def _ask_power(power: int, job: _Job) -> None:
    """Set a job's request of the power cap."""
    job.asked[len(job.asked) - 1] = power


@leaf_kernel
def _least_power(job: _Job, power: Ints, on_kind: Ints) -> int:
    """Return a job's least power if these units fit on each kind; NO_PLACE if too few fit."""
    left, added = job.units, 0
    for k in range(power.shape[1]):
        kind = power[_CHEAPEST, k]
        here = min(left, on_kind[kind])
        added += here * power[_WATTS, kind]
        left -= here
    least: int = added * job.per_unit
    return least if left == 0 else NO_PLACE


@inner_kernel
def _earliest_under_cap(
    not_before: int, limit: int, job: _Job, n_classes: int, space: _Space, sweep: Ints
) -> int:
    """Return the earliest start at which nodes, machine-wide amounts and the power cap suffice.

    The sweep is that of :func:`_earliest_on_nodes`. Until more may fit on a class, the least power found is a
    lower bound, so starts before there is that much power, and all else, are skipped.
    """
    p, power = space.nodes, space.power
    on_kind = np.zeros(power.shape[1], np.int64)
    at = not_before
    for c in range(n_classes):
        sweep[c, _SEEN], sweep[c, _STEP], sweep[c, _FIT], sweep[c, _MORE] = at, 0, 0, NEVER
        if job.dislike[p.kind[c]] < np.inf:
            on_kind[p.kind[c]] += _look(c, at, job, p, sweep)
    while at < limit:
        then = NEVER
        least = _least_power(job, power, on_kind)
        if least < NO_PLACE:
            _ask_power(least, job)
            then = _earliest_by_whole(at, NEVER, job, space)
        if then == at:
            for c in range(n_classes):
                if sweep[c, _FIT] > 0 and sweep[c, _SEEN] < at:
                    on_kind[p.kind[c]] += _look(c, at, job, p, sweep)
            if _least_power(job, power, on_kind) == least:
                return at
            continue
        for c in range(n_classes):
            then = min(then, sweep[c, _MORE])
        at = then
        for c in range(n_classes):
            if sweep[c, _MORE] <= at:
                on_kind[p.kind[c]] += _look(c, at, job, p, sweep)
    return limit


@inner_kernel
def _earliest(not_before: int, limit: int, job: _Job, n_classes: int, space: _Space, sweep: Ints) -> int:
    """Return the earliest start, before ``limit``, at which nodes and machine-wide amounts suffice.

    Else ``limit`` or later. Neither search skips a start that it allows, so the first one on which both agree
    is the earliest.
    """
    if space.power.shape[1] > 0:
        return _earliest_under_cap(not_before, limit, job, n_classes, space, sweep)
    at = _earliest_on_nodes(not_before, limit, job, n_classes, space.nodes, sweep)
    while at < limit and len(job.asked) > 0:
        then = _earliest_by_whole(at, limit, job, space)
        if then == at or then >= limit:
            return then
        at = _earliest_on_nodes(then, limit, job, n_classes, space.nodes, sweep)
    return at


@inner_kernel
def _split(c: int, kept: int, new: int, p: Profiles) -> None:
    """Leave ``kept`` nodes in a class; the others become the class ``new``, behind the last."""
    n = p.n_steps[c]
    p.sizes[new] = p.sizes[c] - kept
    p.first[new] = p.first[c] + kept
    p.n_steps[new] = n
    p.times[new, :n] = p.times[c, :n]
    p.room[new, :n] = p.room[c, :n]
    p.kind[new] = p.kind[c]
    p.sizes[c] = kept


@inner_kernel
def _break_at(c: int, at: int, p: Profiles) -> None:
    """Split the step of a class's profile at a time, so that a step begins there."""
    n = p.n_steps[c]
    k = n
    while p.times[c, k - 1] > at:
        k -= 1
    if p.times[c, k - 1] == at:
        return
    n_resources = p.room.shape[2]
    for j in range(n, k, -1):
        p.times[c, j] = p.times[c, j - 1]
        for r in range(n_resources):  # compiled, faster than so short a slice
            p.room[c, j, r] = p.room[c, j - 1, r]
    p.times[c, k] = at
    for r in range(n_resources):
        p.room[c, k, r] = p.room[c, k - 1, r]
    p.n_steps[c] = n + 1


@inner_kernel
def _reserve(c: int, units: int, at: int, duration: int, request: Ints, p: Profiles) -> None:
    """Reserve units on each node of a class."""
    end = at + duration
    _break_at(c, at, p)
    _break_at(c, end, p)
    for k in range(p.n_steps[c]):
        if at <= p.times[c, k] < end:
            for r in range(len(request)):
                p.room[c, k, r] -= units * request[r]


@inner_kernel
def _take(c: int, each: int, at: int, job: _Job, p: Profiles, nodes: Ints) -> None:
    """Reserve ``each`` units on each node of a class; write the nodes, unless ``nodes`` is empty."""
    _reserve(c, each, at, job.duration, job.request, p)
    for j in range(len(nodes)):
        nodes[j] = p.members[p.first[c] + j // each]


@inner_kernel
def _weigh(at: int, job: _Job, scarcity: Floats, p: Profiles, load: Floats, fits: Ints) -> None:
    """Find the units that fit on a node of each class, and the order in which classes are used."""
    for c in range(len(load)):
        load[c], fits[c], k = np.inf, 0, 0
        if job.dislike[p.kind[c]] < np.inf:
            k = _step_at(c, at, p)
            fits[c], _ = _fit(c, k, at, job, p)
        if fits[c] > 0:
            load[c] = _DISLIKED * job.dislike[p.kind[c]]
            for r in range(len(job.request)):
                load[c] += p.room[c, k, r] * scarcity[r]


@inner_kernel
def _power_in_order(job: _Job, power: Ints, p: Profiles, load: Floats, fits: Ints) -> int:
    """Return a job's power if classes are used in the order of their load."""
    loads = load.copy()
    left, added = job.units, 0
    while left > 0:
        c = int(np.argmin(loads))
        loads[c] = np.inf
        here = min(left, p.sizes[c] * fits[c])
        added += here * power[_WATTS, p.kind[c]]
        left -= here
    in_all: int = added * job.per_unit
    return in_all


@inner_kernel
def _sort_by_power(at: int, job: _Job, space: _Space, load: Floats, fits: Ints) -> None:
    """Prefer classes of less power, and set the job's power in its request.

    Power decides among classes that are liked equally; among all, if the job would otherwise exceed the cap.
    """
    p, power = space.nodes, space.power
    for c in range(len(load)):
        load[c] += _COSTLIER * power[_RANK, p.kind[c]]
    _ask_power(_power_in_order(job, power, p, load, fits), job)
    if _earliest_by_whole(at, at + 1, job, space) == at:
        return
    for c in range(len(load)):
        load[c] += _COSTLY * power[_RANK, p.kind[c]]
    _ask_power(_power_in_order(job, power, p, load, fits), job)


@inner_kernel
def _place(at: int, job: _Job, n_classes: int, space: _Space, nodes: Ints) -> int:
    """Place a job that fits: least disliked nodes first, then the fullest; return the number of classes.

    ``nodes`` receives the node of each unit, unless it is empty.
    """
    p = space.nodes
    load, fits = np.empty(n_classes), np.empty(n_classes, np.int64)
    _weigh(at, job, space.scarcity, p, load, fits)
    if space.power.shape[1] > 0:
        _sort_by_power(at, job, space, load, fits)
    if len(job.asked) > 0:
        _reserve(0, 1, at, job.duration, job.asked, space.whole)
    left = job.units
    while left > 0:
        c = int(np.argmin(load))
        load[c] = np.inf
        full = min(p.sizes[c], left // fits[c])
        rest = min(fits[c], left - full * fits[c]) if full < p.sizes[c] else 0
        other = c
        if full > 0:
            if full < p.sizes[c]:
                other = n_classes
                _split(c, full, other, p)
                n_classes += 1
            placed = len(nodes) - left
            _take(c, fits[c], at, job, p, nodes[placed : placed + full * fits[c]])
            left -= full * fits[c]
        if rest > 0:
            if p.sizes[other] > 1:
                _split(other, 1, n_classes, p)
                n_classes += 1
            placed = len(nodes) - left
            _take(other, rest, at, job, p, nodes[placed : placed + rest])
            left -= rest
    return n_classes


@kernel
def alone(jobs: Demands, power: Ints, profiles: Profiles, whole: Profiles) -> Ints:
    """Return the earliest start of each job if no other job waited."""
    n_classes, weightless = len(profiles.sizes), np.empty(0)
    space = shared(_Space(profiles, whole, power, weightless))
    starts = np.empty(len(jobs.units), np.int64)
    sweep, asked = np.empty((n_classes, 4), np.int64), np.empty(jobs.asked.shape[1], np.int64)
    for row in range(len(starts)):
        job = shared(_job(row, jobs, asked))
        starts[row] = _earliest(0, NEVER, job, n_classes, space, sweep)
    return starts


@kernel
def reset(base: Profiles, work: Profiles) -> None:
    """Copy profiles to a work space."""
    work.sizes[:] = 0
    for c in range(len(base.sizes)):
        work.sizes[c], work.first[c], work.n_steps[c] = base.sizes[c], base.first[c], base.n_steps[c]
        work.kind[c] = base.kind[c]
        for k in range(base.n_steps[c]):
            work.times[c, k] = base.times[c, k]
            for r in range(base.room.shape[2]):
                work.room[c, k, r] = base.room[c, k, r]


@inner_kernel
def _free_now(n_classes: int, p: Profiles) -> Floats:
    """Return what is free now on all nodes, by resource."""
    pool = np.zeros(p.room.shape[2])
    for c in range(n_classes):
        for r in range(len(pool)):
            pool[r] += p.sizes[c] * p.room[c, 0, r]
    return pool


@inner_kernel
def _lacks_headroom(job: _Job, keep_free: Floats, pool: Floats) -> bool:
    """Whether a job that starts now would leave less free than it must."""
    for r in range(len(pool)):
        if keep_free[r] > 0 and pool[r] - job.units * job.request[r] < keep_free[r]:
            return True
    return False


@kernel
def list_schedule(
    order: Ints,
    jobs: Demands,
    ranks: Ranks,
    scarcity: Floats,
    power: Ints,
    bound: float,
    work: Profiles,
    whole: Profiles,
    starts: Ints,
    nodes: Ints,
) -> float:
    """Schedule the jobs of an order one by one, each at its earliest start around those before it.

    Returns the cost; infinity if it reaches ``bound`` or a job can never start. ``work`` and ``whole`` are
    copies of the profiles of nodes and of machine-wide amounts (:func:`work_space`), and changed. ``starts``
    receives the start of each job, ``nodes`` the nodes of the units of the jobs that start now, in their
    order, unless it is empty.
    """
    space = shared(_Space(work, whole, power, scarcity))
    n_classes = 0
    while n_classes < len(work.sizes) and work.sizes[n_classes] > 0:  # none of a work space is empty
        n_classes += 1
    pool = _free_now(n_classes, space.nodes)
    sweep, asked = np.empty((len(work.sizes), 4), np.int64), np.empty(jobs.asked.shape[1], np.int64)
    cost = 0.0
    written = 0
    for row in order:
        job = shared(_job(row, jobs, asked))
        later = 1 if _lacks_headroom(job, ranks.keep_free[row], pool) else 0
        at = _earliest(later, ranks.limit, job, n_classes, space, sweep)
        starts[row] = at
        if ranks.makespan:
            cost = max(cost, float(at + job.duration))
        else:
            cost += ranks.weights[row] * at
        if at >= NEVER or cost >= bound:
            return np.inf
        here = nodes[:0]
        if at > 0:
            if not ranks.keep_start[row]:
                continue
        else:
            for r in range(len(pool)):
                pool[r] -= job.units * job.request[r]
            if len(nodes) > 0:
                here = nodes[written : written + job.units]
                written += job.units
        n_classes = _place(at, job, n_classes, space, here)
    return cost
