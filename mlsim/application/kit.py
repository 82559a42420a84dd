"""Building blocks of user-defined execution models: the declaration, and the parts of the built-in ones.

A model is a function of :class:`Inputs` that fills ``inputs.stats`` and ``inputs.rows`` and returns the
number of chunk rows, or −1 where a user-defined technique gave a size below 1 (−2: the one between nodes).
This one assigns chunks of one size at a queue that takes no time:

>>> @execution_model(levels=1, hands_out_first=True)
... def in_blocks(inputs, size=10):
...     owned = open_state(inputs)
...     s = shared(owned)
...     queue = s.queues[0]
...     ask_first(s, queue)
...     while True:
...         pe = enter(s, queue)
...         if pe == NOBODY:
...             break
...         me, arrival = s.pes[pe], due_of(s.matches, queue.tree, queue.width, pe)
...         chunk = min(size, queue.end - queue.position)
...         following = np.inf
...         if chunk > 0 and arrival < s.until:
...             end = execute(s, me, pe, queue.step, queue.position, chunk, arrival)
...             queue.position, queue.step = queue.position + chunk, queue.step + 1
...             following = next_request(s, me, pe, end)
...         else:
...             notify(s, me, arrival)
...         move(s.matches, queue.tree, queue.width, pe, following)
...     return close_state(owned.pes, owned.written, inputs.until, inputs.stats)

Functions are compiled when a loop first needs them, once per process. Declare the functions that they call
with :func:`kernel`, or :func:`inlined` if they are small. Each part is documented where it is defined.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from mlsim import _jit
from mlsim._runtime import interpreted
from mlsim.application.user_code import PROPERTIES, compilable
from mlsim.execution_models import MODELS, ModelProperties
from mlsim.execution_models.cca import BAD_SIZE, DONE, REFILL, assign, attend, end_master, spend_serving
from mlsim.execution_models.chunk_execution import (
    FAR,
    NEAR,
    ask_first,
    ask_nodes,
    back_at,
    execute,
    keep_row,
    leave,
    message,
    next_request,
    notify,
    publish_node,
    refill,
    report,
    slowed,
    take,
)
from mlsim.execution_models.dca import BAD, CALCULATES, NOBODY, answer_node, claim, enter
from mlsim.execution_models.event_queue import due_lowest_rank, due_of, move
from mlsim.execution_models.loop_state import Inputs, State, close_state, open_state

__all__ = [
    "BAD",
    "BAD_SIZE",
    "CALCULATES",
    "DONE",
    "FAR",
    "NEAR",
    "NOBODY",
    "REFILL",
    "Inputs",
    "State",
    "answer_node",
    "ask_first",
    "ask_nodes",
    "assign",
    "attend",
    "back_at",
    "claim",
    "close_state",
    "due_lowest_rank",
    "due_of",
    "end_master",
    "enter",
    "execute",
    "execution_model",
    "inlined",
    "keep_row",
    "kernel",
    "leave",
    "message",
    "move",
    "next_request",
    "notify",
    "np",
    "open_state",
    "publish_node",
    "refill",
    "report",
    "shared",
    "slowed",
    "spend_serving",
    "take",
]

F = TypeVar("F", bound=Callable[..., Any])
Model = TypeVar("Model", bound=Callable[..., Any])

shared = _jit.shared
_READABLE = dict.fromkeys(key for model in MODELS.values() for key in model.properties.reads)


def execution_model(
    *,
    levels: int,
    nodes: bool = False,
    releases: bool = False,
    hands_out_first: bool = False,
    adaptive: bool = False,
    reads: tuple[str, ...] = (),
) -> Callable[[Model], Model]:
    """Declare a function, or a class with a method ``run``, an execution model.

    A function is compiled. A class is created with the parameters of the scenario, and its ``run(inputs)`` is
    called uncompiled: it can pass ``inputs`` and parameters of its own to a kernel.

    Parameters
    ----------
    levels
        Of techniques: 1, or 2 for X+Y, between nodes and within them.
    nodes
        Whether it needs to know which PEs share a node; always with two levels.
    releases
        Whether nodes can leave a loop and return while it runs: the model calls :func:`next_request` for the
        next request of a PE, and :func:`ask_first` for the first; with two levels see :func:`back_at` and
        :func:`leave`.
    hands_out_first
        Whether PEs are notified that no work is left only once all of it has been handed out; this speeds up
        the computation of the remaining work when a node is idle.
    adaptive
        Whether techniques can learn within a loop, or follow chunks by the clock: the model calls
        :func:`report` when a PE arrives at its queue, and sets the queue's ``clock`` to the time before
        :func:`take` and :func:`assign`.
    reads
        Keys of ``application.execution`` that not all models read; with ``master``, its first PE, or that of
        each node, is a master, which may be dedicated. Others raise ValueError.
    """
    if levels not in (1, 2):
        raise ValueError(f"execution_model: levels is {levels!r}; allowed: 1, 2")
    keys = (reads,) if isinstance(reads, str) else tuple(reads)
    for key in keys:
        if key not in _READABLE:
            raise ValueError(f"execution_model: reads names {key!r}; allowed: {', '.join(_READABLE)}")
    properties = ModelProperties(
        levels, bool(nodes) or levels == 2, bool(releases), bool(hands_out_first), bool(adaptive), keys
    )

    def declare(model: Model) -> Model:
        declared = model if isinstance(model, type) else _compiled(model)
        setattr(declared, PROPERTIES, properties)
        return cast(Model, declared)

    return declare


def _compiled(model: Callable[..., Any]) -> Callable[..., Any]:
    """Return a Python function that calls the kernel: kernels carry neither signature nor properties."""
    compiled = kernel(model) if inspect.isfunction(model) else model

    @wraps(model)
    def run(inputs: Inputs, *own: Any, **parameters: Any) -> Any:
        place = "application.execution.model.parameters"
        given = {name: compilable(f"{place}.{name}", value) for name, value in parameters.items()}
        return compiled(inputs, *own, **given)

    return run


def kernel(function: F) -> F:
    """Compile a function like mlsim's kernels, on its first call, without a cache on disk."""
    return _compile(function)


def inlined(function: F) -> F:
    """Inline a function into each kernel that calls it."""
    return _compile(function, inline="always")


def _compile(function: F, **options: Any) -> F:
    if _jit.INTERPRETED:
        return interpreted.with_error_model(function)
    _jit.require_numba(f"{function.__module__}.{function.__qualname__}")
    import numba

    return cast(F, numba.njit(nogil=True, error_model="numpy", **options)(function))
