"""Techniques in a loop: from a code to the size of the next chunk."""

from __future__ import annotations

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim._jit import inner_kernel, kernel, zeros
from mlsim.application.iteration_costs import cost_between
from mlsim.application.technique_catalogue import TECHNIQUES
from mlsim.application.technique_settings import (
    ADDRESS,
    ALPHA,
    BATCHES,
    FIRST_DENOMINATOR,
    FIRST_NUMERATOR,
    GEOMETRIC,
    HIGH_DENOMINATOR,
    HIGH_NUMERATOR,
    LB4MPI,
    LOW_DENOMINATOR,
    LOW_NUMERATOR,
    MU,
    OF_BATCH,
    OF_LB4MPI,
    OF_USER,
    OVERHEAD,
    SEED_HIGH,
    SEED_LOW,
    SIGMA,
    STATIC_DENOMINATOR,
    STATIC_NUMERATOR,
    USER,
    USER_OBJECT,
)
from mlsim.application.techniques.adaptive import adaptive_size, learn_timed, learn_waiting
from mlsim.application.techniques.bold import bold_size, note_assigned, note_finished
from mlsim.application.techniques.factoring import (
    SECONDS,
    factoring_each_size,
    factoring_recursive_size,
    factoring_size,
    factoring_straightforward_size,
    learn_chunk,
    learn_weights,
    learned_weight,
    weighted_size,
)
from mlsim.application.techniques.fixed import (
    ceil_div,
    fixed_size,
    modified_fixed_size,
    random_key,
    random_size,
    self_scheduling_size,
    share_size,
    static_size,
)
from mlsim.application.techniques.guided import (
    guided_recursive_size,
    guided_straightforward_size,
    taper_size,
    taper_straightforward_size,
)
from mlsim.application.techniques.lb4mpi import (
    ROUNDING,
    batch_chunk,
    forget_chunks,
    library_adaptive_size,
    library_slope,
    library_weight,
    new_batch,
    note_deviation,
    rounded,
)
from mlsim.application.techniques.linear import (
    default_batches,
    fixed_increase,
    fixed_increase_size,
    geometric_increase_size,
    increase_first_size,
    trapezoid_factoring_size,
    trapezoid_first_size,
    trapezoid_size,
    trapezoid_slope,
    variable_increase_size,
)
from mlsim.application.techniques.user_calls import object_size, user_size

STATIC = TECHNIQUES["STATIC"].code
SS = TECHNIQUES["SS"].code
FSC = TECHNIQUES["FSC"].code
MFSC = TECHNIQUES["mFSC"].code
GSS = TECHNIQUES["GSS"].code
TAP = TECHNIQUES["TAP"].code
TSS = TECHNIQUES["TSS"].code
FAC = TECHNIQUES["FAC"].code
FAC2 = TECHNIQUES["FAC2"].code
WF = TECHNIQUES["WF"].code
TFSS = TECHNIQUES["TFSS"].code
FISS = TECHNIQUES["FISS"].code
VISS = TECHNIQUES["VISS"].code
RND = TECHNIQUES["RND"].code
PLS = TECHNIQUES["PLS"].code
AWF = TECHNIQUES["AWF"].code
AWF_B = TECHNIQUES["AWF-B"].code
AWF_C = TECHNIQUES["AWF-C"].code
AWF_D = TECHNIQUES["AWF-D"].code
AWF_E = TECHNIQUES["AWF-E"].code
AF = TECHNIQUES["AF"].code
MAF = TECHNIQUES["mAF"].code
BOLD = TECHNIQUES["BOLD"].code

# As LB4MPI sizes them.
_LIBRARY_WF = LB4MPI + WF
_LIBRARY_AWF = LB4MPI + AWF
LIBRARY_AF = LB4MPI + AF
_LIBRARY_BY_BATCH = (LB4MPI + AWF_B, LB4MPI + AWF_D)
_LIBRARY_BY_CHUNK = (LB4MPI + AWF_C, LB4MPI + AWF_E)

_CONSTANT = tuple(entry.code for entry in TECHNIQUES.values() if entry.constant)
_LEARNING = tuple(entry.code for entry in TECHNIQUES.values() if entry.adaptive)
_ADAPTIVE = (*_LEARNING, *(LB4MPI + code for code in _LEARNING), USER_OBJECT)
_COUNTING_OVERHEAD = tuple(entry.code for entry in TECHNIQUES.values() if entry.counts_overhead)

# Places in a rule's whole numbers. SIZE: the size where it is constant, or of the first chunk; of RND: the
# smallest. SLOPE: by what it changes; of AWF: whether it weighs what is left at every request; of RND: the
# largest. PREVIOUS: the size of the batch. BATCH, LEFT: FAC's batch and what is left at its start; of LB4MPI:
# what is left of the batch; of BOLD: iterations that it does not count yet. MEMORY: numbers that a class of
# the user remembers, where they travel.
CODE, ITERATIONS, PES, MIN_CHUNK, CONSTANT, SIZE, SLOPE, PREVIOUS, BATCH, LEFT, KEY, USERS, MEMORY = range(13)
RULE_NUMBERS = 13
# Places in its real numbers: σ/μ, with TAP's α; of BOLD besides μ and h in s.
VARIATION, MEAN, LOST = range(3)
RULE_REALS = 3


@kernel
def needs_remaining(code: int) -> bool:
    """Whether a technique has no straightforward form: it needs what is left, or what others measured.

    Under a distributed model, the lock is then held from reading to assigning.
    """
    return is_adaptive(code) or code == USER or _is_library(code) or follows_chunks(code)


@inner_kernel
def _is_library(code: int) -> bool:
    """Whether a technique is LB4MPI's and remembers more, or needs to know more, than that of the source."""
    return LB4MPI <= code < USER


@kernel
def is_adaptive(code: int) -> bool:
    """Whether a technique learns within a loop, by :func:`learn`."""
    return code in _ADAPTIVE


@kernel
def times_iterations(code: int) -> bool:
    """Whether a technique learns the times of iterations, or of few: AF and its kin."""
    return code in (AF, MAF, LIBRARY_AF)


@kernel
def follows_chunks(code: int) -> bool:
    """Whether a technique sizes chunks by the time, and by who has got what and when."""
    return code == BOLD


@kernel
def remembers(code: int) -> bool:
    """Whether a technique has numbers for every PE: ``measured`` and ``sums`` of :func:`recursive_size`."""
    return is_adaptive(code) or follows_chunks(code)


@kernel
def counts_overhead(code: int) -> bool:
    """Whether a technique learns from the time between the request for a chunk and its end."""
    return code in _COUNTING_OVERHEAD


@kernel
def counts_breaks(code: int) -> bool:
    """Whether a technique learns from the time between a chunk's begin and its end, breaks included.

    So do AWF-D and AWF-E of LB4MPI, which do not count the wait for the chunk.
    """
    return code in (LB4MPI + AWF_D, LB4MPI + AWF_E)


@kernel
def new_rule() -> tuple[Ints, Floats]:
    """Return the memory of a rule: whole numbers (int64[13]) and real ones (float64[3]); see reset_rule."""
    return zeros(RULE_NUMBERS, np.int64), zeros(RULE_REALS, np.float64)


@kernel
def reset_rule(
    rule: Ints, reals: Floats, code: int, n: int, p: int, min_chunk: int, parameters: Floats
) -> None:
    """Prepare a technique for one loop, or for another one; a guide is to be made anew.

    Parameters
    ----------
    rule, reals
        From ``new_rule``.
    code
        Which technique.
    n, p
        Iterations (0 to 2^62) and PEs (1 to 2^31 − 1).
    min_chunk
        Least chunk, 1 or more.
    parameters
        See ``RuleSettings``.
    """
    rule[:] = 0
    rule[CODE] = code
    rule[ITERATIONS] = n
    rule[PES] = p
    rule[MIN_CHUNK] = min_chunk
    rule[CONSTANT] = 1 if code in _CONSTANT else 0
    if code == STATIC:
        rule[SIZE] = static_size(n, p)
    elif code == SS:
        rule[SIZE] = self_scheduling_size()
    elif code == FSC:
        rule[SIZE] = fixed_size(n, p, parameters[SIGMA], parameters[OVERHEAD])
    elif code == MFSC:
        rule[SIZE] = modified_fixed_size(n, p)
    elif code == TAP:
        reals[VARIATION] = parameters[ALPHA] * parameters[SIGMA] / parameters[MU]
    elif code in (TSS, TFSS):
        rule[SIZE] = trapezoid_first_size(n, p)
        rule[SLOPE] = trapezoid_slope(n, p)
        if parameters[OF_LB4MPI] != 0.0:
            rule[SLOPE] = library_slope(n, rule[SIZE])
    elif code == FAC:
        reals[VARIATION] = parameters[SIGMA] / parameters[MU]
        rule[BATCH] = -1
    elif code == BOLD:
        reals[VARIATION] = parameters[SIGMA] / parameters[MU]
        reals[MEAN], reals[LOST] = parameters[MU], parameters[OVERHEAD]
        rule[LEFT] = n
    elif code in (FISS, VISS):
        _prepare_increase(rule, n, p, parameters)
    elif code == RND:
        rule[KEY] = random_key(int(parameters[SEED_LOW]), int(parameters[SEED_HIGH]))
        low = share_size(n, p, int(parameters[LOW_NUMERATOR]), int(parameters[LOW_DENOMINATOR]))
        high = share_size(n, p, int(parameters[HIGH_NUMERATOR]), int(parameters[HIGH_DENOMINATOR]))
        rule[SIZE] = max(low, 1)
        rule[SLOPE] = max(high, 1)
    elif code == PLS:
        rule[SIZE] = share_size(n, p, int(parameters[STATIC_NUMERATOR]), int(parameters[STATIC_DENOMINATOR]))
        # P·K_0 may not fit in 64 bits
        rule[LEFT] = n - rule[SIZE] * p if rule[SIZE] <= n // p else 0
    elif code in (AWF_C, AWF_E):
        rule[SLOPE] = 0 if parameters[OF_BATCH] != 0.0 else 1
    elif code in (AF, MAF):
        rule[SIZE] = share_size(n, p, int(parameters[FIRST_NUMERATOR]), int(parameters[FIRST_DENOMINATOR]))
    elif code in OF_USER:
        rule[USERS] = int(parameters[ADDRESS])
    if rule[CONSTANT] != 0:
        if parameters[OF_LB4MPI] != 0.0:
            rule[MIN_CHUNK] = 1  # the library does not look at it
        rule[SIZE] = min(max(rule[SIZE], rule[MIN_CHUNK]), max(n, 1))


@inner_kernel
def constant_size(rule: Ints) -> int:
    """Return the size of all chunks where a technique has but one, else 0.

    Event loops ask once and then do without a call for every chunk, which takes as long as an event.
    """
    return int(rule[SIZE]) if rule[CONSTANT] != 0 else 0


@inner_kernel
def _prepare_increase(rule: Ints, n: int, p: int, parameters: Floats) -> None:
    """Prepare FISS or VISS."""
    batches = int(parameters[BATCHES])
    if batches == 0:
        batches = default_batches(n, p)
    rule[SIZE] = increase_first_size(n, p, batches)
    if rule[CODE] == FISS:
        rule[SLOPE] = fixed_increase(n, p, batches)
    else:
        rule[SIZE] = max(rule[SIZE], 1)
        rule[SLOPE] = int(parameters[GEOMETRIC])


@inner_kernel
def learn(
    code: int,
    measured: Floats,
    sums: Floats,
    weights: Floats,
    pe: int,
    prefix: Floats,
    speed: float,
    first: int,
    size: int,
    seconds: float,
    pieces: int,
    length: int,
    each: float,
) -> None:
    """Update an adaptive technique with a chunk that a PE has executed.

    Parameters
    ----------
    code
        A technique that is adaptive.
    measured, sums, weights
        What is known; changed.
    pe, first, size
        Who executed which iterations; size >= 1.
    prefix, speed
        Costs and relative speed, for AF, which measures every iteration.
    seconds
        Time the chunk took, for AWF and mAF; from asking to its end where the technique counts overhead.
    pieces
        In how many parts AF times a chunk; 0: each iteration.
    length, each
        How many iterations these parts have, all but the last, and what a part takes besides them, in s at
        speed 1.
    """
    if code in (AF, MAF):
        waited = 0.0
        if code == MAF:
            spent = cost_between(prefix, first, first + size) + each * ceil_div(size, length)
            waited = seconds - spent / speed
        _learn_costs(measured, sums, pe, prefix, speed, first, size, waited, pieces, length, each)
    elif code == LIBRARY_AF:
        if (
            each > 0.0 or cost_between(prefix, first, first + size) > 0.0
        ):  # one that took no time counts as none
            forget_chunks(measured, pe)
            _learn_costs(measured, sums, pe, prefix, speed, first, size, 0.0, pieces, length, each)
            note_deviation(measured, sums, pe)
    else:
        learn_chunk(measured, sums, weights, pe, size, seconds)


@inner_kernel
def _learn_costs(
    measured: Floats,
    sums: Floats,
    pe: int,
    prefix: Floats,
    speed: float,
    first: int,
    size: int,
    waited: float,
    pieces: int,
    length: int,
    each: float,
) -> None:
    """Update AF with a chunk that was timed in pieces, or each iteration of it."""
    if pieces > 0:
        learn_timed(measured, sums, pe, prefix, speed, first, size, waited, length, each)
    else:
        besides = waited + each * size / speed
        learn_waiting(measured, sums, pe, prefix, speed, first, size, besides)


@inner_kernel
def _by_step(rule: Ints, i: int, n: int, p: int) -> int:
    """Size a chunk by a technique that has one form, which needs the step alone."""
    code, size = rule[CODE], rule[SIZE]
    if code == TSS:
        return trapezoid_size(i, size, rule[SLOPE])
    if code == TFSS:
        return trapezoid_factoring_size(i, p, size, rule[SLOPE])
    if code == FISS:
        return fixed_increase_size(i, n, p, size, rule[SLOPE])
    if code == VISS:
        if rule[SLOPE] != 0:
            return geometric_increase_size(i, n, p, size)
        return variable_increase_size(i, p, size)
    return random_size(i, size, rule[SLOPE], rule[KEY])


@inner_kernel
def _weight(rule: Ints, weights: Floats, measured: Floats, sums: Floats, i: int, pe: int) -> float:
    """Return the weight of a PE at a step, from what has been learned until then."""
    code = rule[CODE]
    if code in (AWF_C, AWF_E):
        return learned_weight(measured, sums, weights, pe)
    if code in (AWF_B, AWF_D) and i % rule[PES] == 0:
        learn_weights(measured, sums, weights)
    return float(weights[pe])


@kernel
def recursive_size(
    rule: Ints,
    reals: Floats,
    weights: Floats,
    measured: Floats,
    sums: Floats,
    i: int,
    remaining: int,
    pe: int,
    now: float,
) -> int:
    """Size the next chunk from what is left.

    Parameters
    ----------
    rule, reals
        Of the technique; sizes must be asked for in the order of the steps.
    weights
        float64[P]; AWF-B and AWF-D change them.
    measured, sums
        Statistics of adaptive techniques, the chunks under way where a technique follows them, or the memory
        of a class of the user; others do not look at them.
    i, remaining, pe
        Scheduling step from 0, iterations left (1 or more), PE that asks.
    now
        Time, in s, where the technique follows chunks.

    Returns
    -------
    int
        From 1 to ``remaining``; below 1 only where a technique of the user gave that.
    """
    if rule[CONSTANT] != 0:
        return min(int(rule[SIZE]), remaining)
    code, n, p = int(rule[CODE]), int(rule[ITERATIONS]), int(rule[PES])
    if code == GSS:
        size = guided_recursive_size(remaining, p)
    elif code == TAP:
        size = taper_size(remaining / p, reals[VARIATION], n)
    elif code == FAC:
        if i % p == 0:
            rule[PREVIOUS] = factoring_size(i // p, remaining, p, reals[VARIATION])
        size = int(rule[PREVIOUS])
    elif code in (FAC2, WF, AWF, AWF_B, AWF_C, AWF_D, AWF_E):
        if rule[SLOPE] != 0:
            size = factoring_each_size(remaining, p)
        else:
            rule[PREVIOUS] = factoring_recursive_size(i, remaining, p, rule[PREVIOUS])
            size = int(rule[PREVIOUS])
        if code != FAC2:
            size = weighted_size(size, _weight(rule, weights, measured, sums, i, pe), n)
    elif code == PLS:
        size = int(rule[SIZE]) if i < p else guided_recursive_size(remaining, p)
    elif code in (AF, MAF):
        size = adaptive_size(measured, sums, pe, remaining, n, p, rule[SIZE])
    elif code == BOLD:
        size = _bold(rule, reals, measured, sums, remaining, pe, now)
    elif _is_library(code):
        size = _library_size(rule, weights, measured, sums, remaining, pe)
    elif code in OF_USER:
        if code == USER_OBJECT:
            size = object_size(rule[USERS], sums, n, p, remaining, i, pe)
        else:
            size = user_size(rule[USERS], n, p, remaining, i, pe)
        if size < 1:
            return size
    else:
        size = _by_step(rule, i, n, p)
    return min(max(size, int(rule[MIN_CHUNK])), remaining)


@inner_kernel
def _bold(
    rule: Ints, reals: Floats, measured: Floats, sums: Floats, remaining: int, pe: int, now: float
) -> int:
    """Size the next chunk of BOLD for a PE that has finished the one before, and follow it."""
    # What a node gets is added to what its PEs have under way.
    sums[0, 0] += rule[LEFT]
    rule[LEFT] = 0
    note_finished(measured, sums, pe)
    mu, overhead = reals[MEAN], reals[LOST]
    size = bold_size(sums, remaining, rule[PES], reals[VARIATION], overhead / mu, now)
    size = min(max(size, int(rule[MIN_CHUNK])), remaining)
    note_assigned(measured, sums, pe, size, mu, overhead, now)
    return size


@inner_kernel
def _library_size(
    rule: Ints, weights: Floats, measured: Floats, sums: Floats, remaining: int, pe: int
) -> int:
    """Size the next chunk of FAC2, WF, AWF or AF as LB4MPI does.

    PEs that have not been measured get the least chunk; the next one begins a new batch.
    """
    code, n, p, least = int(rule[CODE]), int(rule[ITERATIONS]), int(rule[PES]), int(rule[MIN_CHUNK])
    # AWF's seconds and AF's mean stand in one row
    if is_adaptive(code) and measured[SECONDS, pe] == 0.0:
        rule[LEFT] = 0
        return least
    if code == LIBRARY_AF:
        return library_adaptive_size(sums, pe, remaining, n, p)
    if code in _LIBRARY_BY_CHUNK:
        half = factoring_each_size(remaining, p)
        return rounded(half * library_weight(sums, pe, p), ROUNDING, n)
    if rule[LEFT] == 0:
        rule[PREVIOUS], rule[LEFT] = new_batch(remaining, p, least)
    size = int(rule[PREVIOUS])
    if code in (_LIBRARY_WF, _LIBRARY_AWF):
        size = rounded(size * weights[pe], 0.0, n)
    elif code in _LIBRARY_BY_BATCH:
        size = rounded(size * library_weight(sums, pe, p), ROUNDING, n)
    size = batch_chunk(size, least, rule[LEFT])
    rule[LEFT] -= size
    return size


@kernel
def straightforward_size(rule: Ints, reals: Floats, guide: Ints, weights: Floats, i: int, pe: int) -> int:
    """Size chunk ``i`` for a PE from ``i`` alone, for techniques that do not need what is left.

    Parameters
    ----------
    rule, reals, guide
        Of the technique; sizes asked for in the order of the steps are found fastest, but any order gives
        the same.
    weights
        float64[P].
    i, pe
        Scheduling step from 0, PE that asks.

    Returns
    -------
    int
        From ``min_chunk`` to N; below 1 only where a technique of the user gave that, or N = 0.
    """
    if rule[CONSTANT] != 0:
        return int(rule[SIZE])
    code, n, p = int(rule[CODE]), int(rule[ITERATIONS]), int(rule[PES])
    if code == GSS:
        size = guided_straightforward_size(guide, i, n, p)
    elif code == TAP:
        size = taper_straightforward_size(guide, i, n, p, reals[VARIATION])
    elif code == FAC:
        size = _factoring_by_step(rule, reals, i // p)
    elif code in (FAC2, WF, AWF):
        size = factoring_straightforward_size(i, n, p)
        if code != FAC2:
            size = weighted_size(size, weights[pe], n)
    elif code == PLS:
        size = int(rule[SIZE]) if i < p else guided_straightforward_size(guide, i - p, int(rule[LEFT]), p)
    elif code in OF_USER:
        size = user_size(rule[USERS], n, p, -1, i, pe)
        if size < 1:
            return size
    else:
        size = _by_step(rule, i, n, p)
    return min(max(size, int(rule[MIN_CHUNK])), n)


@kernel
def straightforward_sizes(
    rule: Ints, reals: Floats, guide: Ints, weights: Floats, i: int, pe: int, sizes: Ints
) -> None:
    """Size the chunks from ``i`` on, as many as ``sizes`` has places."""
    for k in range(len(sizes)):
        sizes[k] = straightforward_size(rule, reals, guide, weights, i + k, pe)


@inner_kernel
def _factoring_by_step(rule: Ints, reals: Floats, batch: int) -> int:
    """Return FAC's chunk by the step alone: R_0 = N, R_{b+1} = R_b − P·K_b; 1 when nothing is left."""
    p = rule[PES]
    if rule[BATCH] < 0 or batch < rule[BATCH]:
        rule[BATCH] = 0
        rule[LEFT] = rule[ITERATIONS]
        rule[PREVIOUS] = factoring_size(0, max(rule[LEFT], 1), p, reals[VARIATION])
    while rule[BATCH] < batch and rule[LEFT] > 0:
        # P·K_b may not fit in 64 bits
        size = rule[PREVIOUS]
        rule[LEFT] = rule[LEFT] - p * size if size <= rule[LEFT] // p else 0
        rule[BATCH] += 1
        rule[PREVIOUS] = 1
        if rule[LEFT] > 0:
            rule[PREVIOUS] = factoring_size(rule[BATCH], rule[LEFT], p, reals[VARIATION])
    return int(rule[PREVIOUS])
