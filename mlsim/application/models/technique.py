"""A technique at work at one queue, or at the queues of all nodes, and what it learns from their PEs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import inlined, kernel
from mlsim.application.settings import RuleSettings
from mlsim.application.techniques.adaptive import new_measurements
from mlsim.application.techniques.guided import FRACTION_WORDS, new_guide
from mlsim.application.techniques.rules import (
    counts_overhead,
    is_adaptive,
    learn,
    needs_remaining,
    new_rule,
    recursive_size,
)

if TYPE_CHECKING:
    from mlsim.application.models.state import PE

__all__ = ["Technique", "learn_chunk", "note_bad_size", "open_technique", "size_from_rest"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Technique(NamedTuple):
    """A technique; the arrays of ``rules``, ``reals``, ``measured``, ``sums`` are of one queue each.

    Attributes
    ----------
    code, min_chunk, parameters, bad_size
        As in ``RuleSettings``.
    locks, learns, whole
        Whether it reads what is left, learns within a loop, and from the time since asking.
    rules, reals, guide
        See ``reset_rule``.
    weights
        Of whoever executes.
    measured, sums
        What is known at a queue.
    own_measured, own_sums
        What nodes have measured but not yet made known; otherwise the same as these.
    """

    code: int
    min_chunk: int
    parameters: Floats
    bad_size: Ints
    locks: bool
    learns: bool
    whole: bool
    rules: Ints
    reals: Floats
    guide: Ints
    weights: Floats
    measured: Floats
    sums: Floats
    own_measured: Floats
    own_sums: Floats


@kernel
def open_technique(settings: RuleSettings, queues: int, most: int, by_nodes: bool) -> Technique:
    """Set a technique to work at some queues, to each of which at most ``most`` come to execute."""
    code, learns = settings.code, is_adaptive(settings.code)
    rule, reals = new_rule()
    one_measured, one_sums = new_measurements(most if learns else 1)
    kept = queues if learns else 1
    measured = np.zeros((kept, one_measured.shape[0], one_measured.shape[1]))
    sums = np.zeros((kept, one_sums.shape[0], one_sums.shape[1]))
    return Technique(
        code,
        settings.min_chunk,
        settings.parameters,
        settings.trouble,
        needs_remaining(code),
        learns,
        counts_overhead(code),
        np.zeros((queues, len(rule)), np.int64),
        np.zeros((queues, len(reals))),
        new_guide(FRACTION_WORDS),
        settings.weights.copy(),
        measured,
        sums,
        np.zeros_like(measured) if by_nodes else measured,
        np.zeros_like(sums) if by_nodes else sums,
    )


@inlined
def size_from_rest(t: Technique, queue: int, weights: Floats, step: int, remaining: int, who: int) -> int:
    """Size the next chunk of a queue from what is left; below 1 where a technique of the user is wrong."""
    known = queue if t.learns else 0
    return recursive_size(
        t.rules[queue], t.reals[queue], weights, t.measured[known], t.sums[known], step, remaining, who
    )


@inlined
def learn_chunk(
    t: Technique,
    measured: Floats,
    sums: Floats,
    weights: Floats,
    who: int,
    me: PE,
    prefix: Floats,
    share: float,
    seconds: float,
) -> None:
    """Learn from a PE's last chunk, as from one of somebody ``share`` times as fast."""
    learn(
        t.code,
        measured,
        sums,
        weights,
        who,
        prefix,
        me.pace * share,
        me.last_first,
        me.last_size,
        seconds / share,
    )


@inlined
def note_bad_size(t: Technique, step: int, who: int, size: int) -> None:
    """Keep where a technique of the user gave a size below 1."""
    t.bad_size[0], t.bad_size[1], t.bad_size[2] = step, who, size
