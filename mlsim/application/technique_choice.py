"""Techniques by name, with the scenario's parameters, as kernels take them."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np

from mlsim._arrays import Floats
from mlsim.application import technique_settings
from mlsim.application.technique_catalogue import TECHNIQUES
from mlsim.application.technique_settings import RuleSettings
from mlsim.errors import InputError
from mlsim.scenario import (
    Compat,
    ParametersConfig,
    Statistics,
    Technique,
    WeighedSize,
    WeightSource,
    lacking_parameters,
    parameters_of,
    split_technique,
    user_function,
)

_SEED_BITS = 32
_DENOMINATOR = 10**9
WEIGHTED = frozenset(
    name for name, entry in TECHNIQUES.items() if "application.parameters.weights" in entry.options
)
"""Techniques that weigh the PEs."""


_WITHOUT_MEMORY = ("STATIC", "SS", "FSC", "mFSC", "GSS", "TSS")
"""Techniques that need to know no more where LB4MPI sizes them."""


_TIMED = (Technique.AF, Technique.MAF)
_OF_STATISTICS = (Technique.FSC, Technique.TAP, Technique.FAC, Technique.BOLD)
"""Techniques that are given what iterations take, and by how much that varies."""


class Choice(NamedTuple):
    """One technique of a loop, with its parameters.

    Attributes
    ----------
    name
        As in the catalogue, or ``./file.py:function``.
    code, min_chunk, parameters
        As in ``RuleSettings``.
    weights
        float64[P], of sum P: the weight of every PE of the loop.
    """

    name: str
    code: int
    min_chunk: int
    parameters: Floats
    weights: Floats

    @property
    def of_user(self) -> bool:
        """Whether it is one of the user's own."""
        return self.code in technique_settings.OF_USER

    @property
    def is_object(self) -> bool:
        """Whether it is a class of the user, which has a memory."""
        return self.code == technique_settings.USER_OBJECT

    @property
    def of_lb4mpi(self) -> bool:
        """Whether it sizes chunks as LB4MPI does."""
        return bool(self.parameters[technique_settings.OF_LB4MPI])

    @property
    def times_iterations(self) -> bool:
        """Whether it learns from the times of single iterations, or of few."""
        if not self.is_object:
            return self.name in _TIMED
        from mlsim.application.user_technique import compile_technique

        function = user_function(self.name)
        assert function is not None, "a class of the user is in a file"
        return compile_technique(*function, parameters_of(self.name)).times_pieces

    def settings(self, weights: Floats | None = None) -> RuleSettings:
        """Return the parameters as kernels take them, with other weights (of any sum) if given."""
        column = self.weights if weights is None else scaled(weights)
        return RuleSettings(
            self.code, self.min_chunk, _read_only(self.parameters), _read_only(column), np.zeros(3, np.int64)
        )

    def wrong_size(self, rule: RuleSettings, n: int, p: int) -> InputError:
        """Return what a technique of the user did wrong, after a kernel stopped because of it."""
        step, pe, size = rule.bad_size.tolist()
        did = (
            "raised an exception"
            if size == technique_settings.RAISED
            else f"gave a chunk of {size} iterations"
        )
        return InputError(
            f"technique {self.name}: in a loop of {n} iterations on {p} PEs it {did} at step {step} for PE "
            f"{pe}; allowed: a whole number, 1 or more"
        )


def choose(
    technique: str,
    speed: Floats,
    prefix: Floats,
    parameters: ParametersConfig,
    first_chunk: float,
    min_chunk: int,
    seed: int,
    pieces: int = 0,
    iterations: int | None = None,
) -> tuple[Choice, ...]:
    """Look up the technique of a loop, or the two of ``X+Y``.

    Parameters
    ----------
    technique
        Names of the catalogue (upper and lower case are the same), or ``./file.py:function``.
    speed
        float64[P]: relative speeds of the PEs.
    prefix
        Prefix sums of the iteration costs, or linear ones, for ``statistics: profiled``.
    parameters, first_chunk, min_chunk, seed, pieces
        As in a scenario.
    iterations
        Of the loop, where not each has an entry in ``prefix``; see :func:`reads_each_cost`.

    Raises
    ------
    InputError
        If there is no such technique, or its parameters are missing or do not fit the loop.
    """
    n = len(prefix) - 1 if iterations is None else iterations
    names = tuple(map(canonical, split_technique(technique)))
    if len(names) > 2:
        raise InputError(f"technique: {technique!r} names {len(names)}; allowed: one, or two as X+Y")
    for key, message in lacking_parameters(technique, parameters):
        raise InputError(f"application.parameters.{key}: {message}")
    choices = []
    for name in names:
        code, address = _code(name, parameters.compat)
        column = np.zeros(technique_settings.PARAMETERS)
        _fill(column, name, parameters, first_chunk, seed, prefix, n)
        column[technique_settings.ADDRESS] = address
        # More than the loop is long means no more than that, and stays clear of the integers' end.
        least = min(min_chunk, n + 1)
        choice = Choice(name, code, least, column, first_weights(name, parameters, speed))
        column[technique_settings.PIECES] = pieces if choice.times_iterations else technique_settings.UNTIMED
        choices.append(choice)
    return tuple(choices)


def reads_each_cost(technique: str) -> bool:
    """Whether a technique, or one of two, needs what each iteration costs, not what chunks of them do."""
    names = map(canonical, split_technique(technique))
    return any(name in _TIMED or name in _OF_STATISTICS or user_function(name) is not None for name in names)


def check_technique(technique: str) -> None:
    """Check that techniques of the user can be compiled; others are known to be right.

    Raises
    ------
    InputError
        If one cannot.
    """
    for name in split_technique(technique):
        if user_function(name):
            _code(name, Compat.NONE)


def canonical(name: str) -> str:
    """Return a technique's name as the catalogue writes it."""
    if user_function(name):
        return name
    try:
        return Technique(name).value
    except ValueError as error:
        raise InputError(
            f"technique: {name!r} is not known; allowed: {', '.join(TECHNIQUES)}, ./file.py:function"
        ) from error


def _code(name: str, compat: Compat) -> tuple[int, int]:
    """Return a technique's code, and the address of its rule if it is one of the user."""
    function = user_function(name)
    if function is None:
        if compat is Compat.LB4MPI and name not in _WITHOUT_MEMORY:
            same = Technique.FAC2 if name == Technique.FAC else name
            return technique_settings.LB4MPI + TECHNIQUES[same].code, 0
        return TECHNIQUES[name].code, 0
    from mlsim.application.user_technique import compile_technique

    compiled = compile_technique(*function, parameters_of(name))
    return compiled.code, compiled.address


def _fill(
    column: Floats,
    name: str,
    parameters: ParametersConfig,
    first_chunk: float,
    seed: int,
    prefix: Floats,
    n: int,
) -> None:
    """Write the parameters into their places."""
    column[technique_settings.FIRST_NUMERATOR], column[technique_settings.FIRST_DENOMINATOR] = _ratio(
        first_chunk
    )
    column[technique_settings.STATIC_NUMERATOR], column[technique_settings.STATIC_DENOMINATOR] = _ratio(
        parameters.swr
    )
    column[technique_settings.LOW_NUMERATOR], column[technique_settings.LOW_DENOMINATOR] = _ratio(
        parameters.random_from
    )
    column[technique_settings.HIGH_NUMERATOR], column[technique_settings.HIGH_DENOMINATOR] = _ratio(
        parameters.random_to
    )
    column[technique_settings.SIGMA], column[technique_settings.MU] = _statistics(name, parameters, prefix, n)
    column[technique_settings.OVERHEAD] = parameters.overhead or 0.0
    column[technique_settings.ALPHA] = parameters.alpha
    column[technique_settings.BATCHES] = parameters.batches or 0
    column[technique_settings.GEOMETRIC] = parameters.growth == "geometric"
    column[technique_settings.OF_BATCH] = parameters.awf_chunk is WeighedSize.BATCH
    column[technique_settings.OF_LB4MPI] = parameters.compat is Compat.LB4MPI
    column[technique_settings.SEED_LOW] = seed % (1 << _SEED_BITS)
    column[technique_settings.SEED_HIGH] = seed >> _SEED_BITS


@cache
def _ratio(share: float) -> tuple[int, int]:
    """Return a share as the fraction of its decimal digits: 0.1 is a tenth; one of 30 rounds up to 3."""
    ratio = Fraction(repr(float(share))).limit_denominator(_DENOMINATOR)
    return ratio.numerator, ratio.denominator


def _statistics(name: str, parameters: ParametersConfig, prefix: Floats, n: int) -> tuple[float, float]:
    """Return σ and μ of the iteration times [s]."""
    if name not in _OF_STATISTICS:
        return 0.0, 0.0
    if parameters.compat is Compat.LB4MPI and name == Technique.FAC:
        return 0.0, 0.0  # it is FAC2 there
    if parameters.statistics is not Statistics.PROFILED:
        return parameters.sigma or 0.0, parameters.mu or 0.0
    if n == 0:
        return 1.0, 1.0  # there is no chunk to size
    if prefix[0] < 0.0:  # linear costs
        count = float(n)
        mu = float(prefix[1] + prefix[2] * 0.5 * (count - 1.0))
        sigma = abs(float(prefix[2])) * math.sqrt((count * count - 1.0) / 12.0)
    else:
        costs = np.diff(prefix)
        sigma, mu = float(costs.std()), float(costs.mean())
    if sigma <= _NOISE * mu:
        sigma = 0.0
    if name == Technique.FSC and sigma == 0.0:
        raise InputError(
            f"technique FSC on a loop of {n} iterations: all cost the same, so "
            "application.parameters.statistics: profiled gives sigma 0, by which FSC divides; allowed: costs "
            "that differ, or statistics: given"
        )
    if name != Technique.FSC and mu == 0.0:
        raise InputError(
            f"technique {name} on a loop of {n} iterations: all cost nothing, so "
            "application.parameters.statistics: profiled gives mu 0, by which it divides"
        )
    return sigma, mu


_NOISE = 1e-6


def first_weights(name: str, parameters: ParametersConfig, speed: Floats) -> Floats:
    """Return the weight of every PE, of sum P; 1 for techniques that have no weights."""
    p = len(speed)
    given = parameters.weights
    if name not in WEIGHTED or given is WeightSource.EQUAL:
        return np.ones(p)
    if given is None and name != Technique.WF:
        return np.ones(p)
    if given is None or given is WeightSource.SPEED:
        return scaled(speed)
    weights = np.array(given, dtype=np.float64)
    if len(weights) != p:
        raise InputError(
            f"application.parameters.weights: {len(weights)} weights for technique {name} in a loop on {p} "
            f"PEs; allowed: {p} numbers, speed, or equal"
        )
    return scaled(weights)


def scaled(weights: Floats) -> Floats:
    """Scale weights so that their sum is their number."""
    if (weights == weights[0]).all():
        return np.ones(len(weights))
    result: Floats = weights * (len(weights) / weights.sum())
    return result


def is_adaptive_over_steps(choice: Choice, selected: bool = False) -> bool:
    """Whether a technique takes over weights learned in time steps before.

    AWF does, and its variants where each time step has another technique (``selected``): what they learn
    within a time step would be lost otherwise.
    """
    if choice.name == Technique.AWF:
        return True
    return selected and choice.name in WEIGHTED and choice.name != Technique.WF and not choice.of_lb4mpi


def _read_only(values: Floats) -> Floats:
    column = np.ascontiguousarray(values, dtype=np.float64).view()
    column.flags.writeable = False
    return column
