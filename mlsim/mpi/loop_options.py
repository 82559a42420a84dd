"""Options of a scheduler, checked and looked up."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mlsim.application.selection.measured_costs import has_masters
from mlsim.application.techniques import Choice, canonical, choose
from mlsim.errors import InputError
from mlsim.mpi.rank_waiting import WaitStyle
from mlsim.scenario import (
    ParametersConfig,
    lacking_parameters,
    split_technique,
    user_function,
    with_parameters,
)
from mlsim.scenario import parameters_of as user_parameters
from mlsim.scenario.technique_section import wrong_levels
from mlsim.scenario.words import Choice as Keyword
from mlsim.scenario.words import (
    Compat,
    ExecutionModel,
    GlobalP,
    Growth,
    LockOrder,
    MasterRole,
    ServiceOrder,
    Technique,
    WeighedSize,
)

WARN_AFTER = 10.0
MODELS = {
    "cca": ExecutionModel.CCA,
    "dca": ExecutionModel.DCA,
    "hdca": ExecutionModel.HDCA,
    "hmw": ExecutionModel.HMW,
    "hierarchical-master-worker": ExecutionModel.HMW,
}
_KEYS = {"overhead": "h"}
_MOST_ITERATIONS = 1 << 62


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """Options of a :class:`LoopScheduler`; the simulator's words, units and defaults.

    Attributes
    ----------
    n
        Iterations, 0 to 2^62.
    technique
        Name of the catalogue, ``./file.py:function``, or ``X+Y`` under a model of two levels.
    model
        ``cca``, ``dca``, ``hdca``, or ``hmw`` (``hierarchical-master-worker``).
    technique_parameters
        Parameters of a user-defined function or class, by name.
    min_chunk
        Least chunk, but for the last one.
    weights
        One number per rank, of any sum, for WF and AWF and its variants; None: all equal.
    mu, sigma, h
        Mean and standard deviation of the iteration times, and overhead of one chunk, in s; for techniques
        that need them, see ``mlsim list techniques``.
    alpha, swr, batches, growth, awf_chunk, first_chunk
        Of TAP; of PLS; of FISS and VISS; of VISS; of AWF-C and AWF-E; of AF.
    random_from, random_to
        Bounds of RND's chunks, as shares of N/P.
    compat
        ``lb4mpi``: chunks as the library LB4MPI assigns them; for cca and dca.
    seed
        For RND.
    master
        ``non-dedicated`` (default) or ``dedicated``; for cca and hmw.
    break_after
        Iterations that a master executes between two polls for requests; for cca and hmw, where None means as
        many as take about 75 µs, as it has measured them.
        Under dca and hdca, None leaves chunks uncut; a number cuts the coordinator's chunks, so that MPI can
        make progress for it where the network does not (see docs/how-to/cluster.md).
    service_order
        ``fifo`` or ``lowest-rank``; for cca and hmw.
    request_ahead
        Iterations before the end of its chunk at which a worker asks for the next one; 0: when it has ended;
        for cca, and techniques that do not follow chunks by the clock.
    global_p
        P of the technique between nodes: ``nodes`` or ``pes``; for hdca and hmw.
    lock
        ``fifo`` or ``polling``: order in which locks are acquired, where a technique or a model needs them.
    injected_delay
        Seconds added to every chunk calculation.
    pieces
        Number of pieces in which the body executes a chunk of AF, which times each; 0: one per iteration.
    ranks_per_node
        Splits nodes into parts of this many ranks, for models of two levels on few machines; None: whole
        nodes.
    wait
        ``spin``, ``sleep``, or ``auto``: sleep where a node has more ranks than cores.
    warn_after
        Seconds after which a waiting rank reports a rank that has not arrived or was stopped; 0: never.
    """

    n: int
    technique: str = "GSS"
    model: str = "dca"
    technique_parameters: Mapping[str, Any] | None = None
    min_chunk: int = 1
    weights: Sequence[float] | None = None
    mu: float | None = None
    sigma: float | None = None
    h: float | None = None
    alpha: float = 1.3
    swr: float = 0.5
    batches: int | None = None
    growth: str = "converging"
    awf_chunk: str = "rest"
    first_chunk: float = 0.1
    random_from: float = 0.0
    random_to: float = 1.0
    compat: str = "none"
    seed: int = 0
    master: str = "non-dedicated"
    break_after: int | None = None
    service_order: str = "fifo"
    request_ahead: int = 0
    global_p: str = "nodes"
    lock: str = "fifo"
    injected_delay: float = 0.0
    pieces: int = 16
    ranks_per_node: int | None = None
    wait: WaitStyle = "auto"
    warn_after: float = WARN_AFTER

    def checked(self) -> LoopOptions:
        """Return the options with every keyword in its usual spelling; InputError for a wrong one."""
        _whole("n", self.n, 0, _MOST_ITERATIONS)
        _whole("min_chunk", self.min_chunk, 1, _MOST_ITERATIONS)
        _whole("pieces", self.pieces, 0, _MOST_ITERATIONS)
        _whole("request_ahead", self.request_ahead, 0, _MOST_ITERATIONS)
        for name in ("break_after", "ranks_per_node"):
            if getattr(self, name) is not None:
                _whole(name, getattr(self, name), 1, _MOST_ITERATIONS)
        if not 0.0 <= self.injected_delay < float("inf"):
            raise InputError(f"injected_delay: {self.injected_delay!r}; allowed: 0 s or more, finite")
        if not 0.0 < self.first_chunk <= 1.0:
            raise InputError(f"first_chunk: {self.first_chunk!r}; allowed: more than 0, up to 1")
        if not 0.0 <= self.warn_after < float("inf"):
            raise InputError(f"warn_after: {self.warn_after!r}; allowed: 0 s or more, finite")
        if self.wait not in ("auto", "spin", "sleep"):
            raise InputError(f"wait: {self.wait!r}; allowed: auto, spin, sleep")
        model = MODELS.get(self.model.casefold())
        if model is None:
            raise InputError(f"model: {self.model!r} cannot be run on MPI; allowed: {', '.join(MODELS)}")
        if self.request_ahead > 0 and model is not ExecutionModel.CCA:
            raise InputError(
                f"request_ahead: {self.request_ahead} under model {model}; allowed: 0, or model cca"
            )
        levels = split_technique(self.technique.strip())
        if not 1 <= len(levels) <= 2:
            raise InputError(f"technique: {self.technique!r}; allowed: one, or two as X+Y")
        own = self.technique_parameters or user_parameters(self.technique)
        if own and sum(user_function(level) is not None for level in levels) != 1:
            raise InputError(
                f"technique_parameters: {self.technique} names no function or class of yours, or two; "
                "parameters are for one, in a file"
            )
        names = with_parameters("+".join(map(canonical, levels)), own)
        global_p = _word("global_p", self.global_p, GlobalP)
        compat = _word("compat", self.compat, Compat)
        for message in wrong_levels(
            names, model, nowait=False, global_p=global_p, compat=compat, request_ahead=self.request_ahead
        ):
            raise InputError(f"technique: {message}")
        return replace(
            self,
            model=model.value,
            technique=names,
            technique_parameters=own or None,
            master=_word("master", self.master, MasterRole),
            service_order=_word("service_order", self.service_order, ServiceOrder),
            global_p=global_p,
            lock=_word("lock", self.lock, LockOrder),
            growth=_word("growth", self.growth, Growth),
            awf_chunk=_word("awf_chunk", self.awf_chunk, WeighedSize),
            compat=compat,
        )

    @property
    def has_master(self) -> bool:
        """Whether ranks ask a master for chunks."""
        return has_masters(self.model)

    @property
    def dedicated(self) -> bool:
        """Whether masters only serve."""
        return self.master == MasterRole.DEDICATED

    def fingerprint(self, more: object = None) -> bytes:
        """Return a hash of eight bytes of all options, and of more, which must be the same on all ranks."""
        words = (repr(self).replace("array(", "") + repr(more)).encode()
        return hashlib.blake2b(words, digest_size=8).digest()


def parameters_of(options: LoopOptions) -> ParametersConfig:
    """Return the parameters of techniques as a section of a scenario; InputError for a wrong value."""
    try:
        return ParametersConfig(
            sigma=options.sigma,
            mu=options.mu,
            overhead=options.h,
            alpha=options.alpha,
            swr=options.swr,
            batches=options.batches,
            growth=options.growth,
            awf_chunk=options.awf_chunk,
            random_from=options.random_from,
            random_to=options.random_to,
            compat=options.compat,
            weights=_weights(options),
            first_chunk=options.first_chunk,
            pieces=options.pieces,
        )
    except ValueError as error:
        raise InputError(f"LoopScheduler: {error}") from error


def _weights(options: LoopOptions) -> str | tuple[float, ...] | None:
    """Return the weights as a scenario has them: equal unless they are given."""
    if options.weights is not None:
        return tuple(map(float, options.weights))
    # Techniques of LB4MPI that learn take none, and begin as if they were equal.
    begins = options.compat == Compat.LB4MPI and options.technique != Technique("WF")
    return None if begins else "equal"


def chosen(options: LoopOptions, p: int) -> tuple[Choice, ...]:
    """Return the technique, or both of ``X+Y``, for ``p`` ranks; raise InputError for wrong options."""
    parameters = parameters_of(options)
    for key, message in lacking_parameters(options.technique, parameters):
        option = _KEYS.get(key, key)
        unit = "; in seconds" if key in ("sigma", "mu", "overhead") else ""
        raise InputError(f"{option}: {message.replace(', or statistics: profiled', '')}{unit}")
    # Costs are not known beforehand, so there are no prefix sums, of which the loop's length would follow.
    found = choose(options.technique, np.ones(p), np.zeros(1), parameters, 1, options.seed)
    learners = tuple(choice.name for choice in found if choice.is_object)
    for message in wrong_levels(
        options.technique, MODELS[options.model], False, None, options.global_p, learners
    ):
        raise InputError(f"technique: {message}")
    least = min(options.min_chunk, options.n + 1)
    choices = tuple(choice._replace(min_chunk=least) for choice in found)
    return choices if len(choices) == 2 else choices * 2


def _whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        top = "2^62" if high == _MOST_ITERATIONS else str(high)
        raise InputError(f"{name}: {value!r}; allowed: whole numbers from {low} to {top}")


def _word(name: str, value: str, words: type[Keyword]) -> str:
    try:
        return words(value).value
    except ValueError as error:
        raise InputError(f"{name}: {value!r}; allowed: {', '.join(words)}") from error


BREAK_EVERY = 75e-6
"""Approximate time that a master computes between two polls for requests, in s.

A poll costs some microseconds, so masters lose a tenth of their time at most. A request waits for half of
this time on average.
"""


def typical_break_after(mean: float) -> int:
    """Return the length of most pieces, in iterations of a mean cost in s."""
    return max(round(BREAK_EVERY / mean), 1) if mean > 0.0 else 1 << 30
