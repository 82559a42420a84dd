"""Techniques by name, with the scenario's parameters, and their chunk sizes in order."""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from mlsim._runtime.arrays import Floats
from mlsim.application.user_code import compile_technique
from mlsim.errors import InputError
from mlsim.scenario.section_base import parameters_of, user_function
from mlsim.scenario.technique_section import ParametersConfig, lacking_parameters, split_technique
from mlsim.scenario.words import Compat, StaticShare, Statistics, Technique, WeightSource
from mlsim.techniques import TECHNIQUES
from mlsim.techniques import rule_layout as layout
from mlsim.techniques import technique_rules as rules
from mlsim.techniques.guided import FRACTION_WORDS, new_guide
from mlsim.techniques.rule_layout import OF_LB4MPI, PARAMETERS, UNTIMED, USER_OBJECT, RuleSettings
from mlsim.techniques.technique_entry import Given

# Techniques that weigh the PEs.
WEIGHTED = frozenset(
    name for name, entry in TECHNIQUES.items() if "application.parameters.weights" in entry.options
)


class Choice(NamedTuple):
    """One technique of a loop, with its parameters; see ``RuleSettings``."""

    name: str  # as in the catalogue, or ``./file.py:function``
    code: int
    min_chunk: int
    parameters: Floats
    weights: Floats  # float64[P], of sum P: the weight of every PE of the loop

    @property
    def of_user(self) -> bool:
        """Whether it is user-defined."""
        return self.code in layout.OF_USER

    @property
    def is_object(self) -> bool:
        """Whether it is a user-defined class, which has a memory."""
        return self.code == USER_OBJECT

    @property
    def of_lb4mpi(self) -> bool:
        """Whether it follows the chunk sizes of LB4MPI."""
        return bool(self.parameters[OF_LB4MPI])

    @property
    def times_iterations(self) -> bool:
        """Whether it learns from times of single iterations or small groups of them."""
        if not self.is_object:
            return rules.RULES[self.code].times_iterations
        function = user_function(self.name)
        assert function is not None, "user-defined classes are in files"
        return compile_technique(*function, parameters_of(self.name)).times_pieces

    def settings(self, weights: Floats | None = None) -> RuleSettings:
        """Return the parameters for kernels; ``weights``, of any sum, replace its own."""
        column = self.weights if weights is None else scaled(weights)
        return RuleSettings(
            self.code, self.min_chunk, read_only(self.parameters), read_only(column), np.zeros(3, np.int64)
        )

    def wrong_size(self, rule: RuleSettings, n: int, p: int) -> InputError:
        """Return the error of a user-defined technique after a kernel stopped because of it."""
        step, pe, size = rule.bad_size.tolist()
        did = "raised an exception" if size == layout.RAISED else f"returned a chunk of {size} iterations"
        return InputError(
            f"technique {self.name}: in a loop of {n} iterations on {p} PEs it {did} at step {step} for PE "
            f"{pe}; allowed: a whole number, 1 or more"
        )


def choose(
    technique: str,
    speed: Floats,
    prefix: Floats,
    parameters: ParametersConfig,
    min_chunk: int,
    seed: int,
    iterations: int | None = None,
) -> tuple[Choice, ...]:
    """Look up the technique of a loop, or the two of ``X+Y``, with the parameters of a scenario.

    ``prefix``, of the iteration costs, is for ``statistics: profiled``; ``iterations``: of the loop, if it
    has no entry for each. Raises InputError if a technique is unknown, or parameters are missing or do not
    fit.
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
        sigma, mu = _statistics(code, name, parameters, prefix, n)
        column = np.zeros(PARAMETERS)
        column[layout.ADDRESS], column[OF_LB4MPI] = address, parameters.compat is Compat.LB4MPI
        values = rules.RULES[code].values
        if values is not None:
            samples = rules.RULES[code].samples and parameters.swr is StaticShare.SAMPLED
            spread = sampled_ratio(prefix, n, seed) if samples else 0.0
            own = values(Given(parameters, seed, sigma, mu, spread))
            column[layout.OWN : layout.OWN + len(own)] = own
        # Larger values mean the same, and n + 1 prevents integer overflow.
        least = min(min_chunk, n + 1)
        choice = Choice(name, code, least, column, first_weights(name, parameters, speed))
        column[layout.PIECES] = (parameters.pieces or 0) if choice.times_iterations else UNTIMED
        choices.append(choice)
    return tuple(choices)


def reads_each_cost(technique: str) -> bool:
    """Whether a technique, or one of two, needs the cost of each iteration, not only of chunks."""
    names = map(canonical, split_technique(technique))
    found = (None if user_function(name) else TECHNIQUES[name].rule for name in names)
    return any(
        rule is None or rule.times_iterations or rule.needs_statistics or rule.samples for rule in found
    )


_SAMPLE = 5


def sampled_ratio(prefix: Floats, n: int, seed: int) -> float:
    """Return the shortest over the longest of five random iteration costs (Shih, Yang and Tseng 2007).

    1 if the longest is 0, or there are no iterations. ``prefix`` is of each iteration, or linear.
    """
    if n == 0:
        return 1.0
    k = np.random.default_rng((seed, _SAMPLE)).choice(n, min(_SAMPLE, n), replace=False)
    costs = prefix[1] + prefix[2] * k if prefix[0] < 0.0 else prefix[k + 1] - prefix[k]
    longest = costs.max()
    return float(min(max(costs.min() / longest, 0.0), 1.0)) if longest > 0.0 else 1.0


def check_techniques(techniques: Iterable[str]) -> None:
    """Check that the user-defined techniques of a scenario can be compiled."""
    for technique in techniques:
        for name in split_technique(technique):
            if user_function(name):
                _code(name, Compat.NONE)


@lru_cache(maxsize=256)
def canonical(name: str) -> str:
    """Return a technique's name in the spelling of the catalogue."""
    if user_function(name):
        return name
    try:
        return Technique(name).value
    except ValueError as error:
        raise InputError(
            f"technique: {name!r} is not known; allowed: {', '.join(TECHNIQUES)}, ./file.py:function"
        ) from error


def _code(name: str, compat: Compat) -> tuple[int, int]:
    """Return a technique's code, and the address of its rule if it is user-defined."""
    function = user_function(name)
    if function is None:
        entry = TECHNIQUES[name]
        library = layout.LB4MPI + entry.code
        return (library if compat is Compat.LB4MPI and library in rules.RULES else entry.code), 0
    compiled = compile_technique(*function, parameters_of(name))
    return compiled.code, compiled.address


def _statistics(
    code: int, name: str, parameters: ParametersConfig, prefix: Floats, n: int
) -> tuple[float, float]:
    """Return σ and μ of the iteration times [s]."""
    needs = {need.key: need for need in rules.RULES[code].needs}
    if "sigma" not in needs:
        return 0.0, 0.0
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
    if sigma == 0.0 and needs["sigma"].positive:
        raise InputError(
            f"technique {name} on a loop of {n} iterations: all cost the same, so "
            "application.parameters.statistics: profiled gives sigma 0, by which "
            f"{name} divides; allowed: costs that differ, or statistics: given"
        )
    if mu == 0.0 and "mu" in needs:
        raise InputError(
            f"technique {name} on a loop of {n} iterations: all cost 0, so "
            "application.parameters.statistics: profiled gives mu 0, by which it divides"
        )
    return sigma, mu


_NOISE = 1e-6


def first_weights(name: str, parameters: ParametersConfig, speed: Floats) -> Floats:
    """Return the weight of every PE, of sum P; 1 for techniques without weights."""
    p = len(speed)
    given = parameters.weights
    if name not in WEIGHTED or given is WeightSource.EQUAL:
        return np.ones(p)
    if given is None and name != Technique("WF"):
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
    """Scale weights to a mean of 1."""
    if (weights == weights[0]).all():
        return np.ones(len(weights))
    result: Floats = weights * (len(weights) / weights.sum())
    return result


def is_adaptive_over_steps(choice: Choice, selected: bool = False) -> bool:
    """Whether a technique keeps learned weights: AWF, and its variants where techniques are ``selected``."""
    if choice.name == Technique("AWF"):
        return True
    return selected and choice.name in WEIGHTED and choice.name != Technique("WF") and not choice.of_lb4mpi


def read_only(values: Floats) -> Floats:
    """Return a read-only, contiguous float64 view: the one array type that kernels are compiled for."""
    column = np.ascontiguousarray(values, dtype=np.float64).view()
    column.flags.writeable = False
    return column


Form = Literal["recursive", "straightforward"]

_MOST_ITERATIONS = 1 << 62
MOST_PES = (1 << 31) - 1


def sequence(
    technique: str,
    n: int,
    p: int,
    form: Form = "recursive",
    min_chunk: int = 1,
    parameters: ParametersConfig | None = None,
    seed: int = 0,
) -> list[int]:
    """List a technique's chunk sizes, as if steps claimed their iterations in order and PEs took turns.

    ``form`` is ``recursive``, from the remaining iterations, as CCA, or ``straightforward``, from the step,
    as DCA. All PEs are equally fast. Raises InputError for numbers out of range (0 to 2^62 iterations ``n``,
    1 to 2^31 − 1 PEs), for unknown techniques and missing parameters, and for techniques whose sizes follow
    measured times or the clock.

    Examples
    --------
    >>> sequence("GSS", 10, 4)
    [3, 2, 2, 1, 1, 1]
    >>> sequence("GSS", 10, 4, "straightforward")
    [3, 2, 2, 2, 1]
    """
    if form not in ("recursive", "straightforward"):
        raise InputError(f"form: {form!r} is not known; allowed: recursive, straightforward")
    if not 0 <= n <= _MOST_ITERATIONS:
        raise InputError(f"N: {n} iterations; allowed: 0 to 2^62")
    if not 1 <= p <= MOST_PES:
        raise InputError(f"P: {p} PEs; allowed: 1 to {MOST_PES}")
    if not 1 <= min_chunk <= _MOST_ITERATIONS:
        raise InputError(f"min_chunk: {min_chunk}; allowed: 1 to 2^62")
    chosen = ParametersConfig() if parameters is None else parameters
    if chosen.statistics is Statistics.PROFILED:
        raise InputError("statistics: profiled: there are no costs without a loop; give sigma and mu")
    if chosen.swr is StaticShare.SAMPLED and canonical(technique) == Technique("PLS"):
        raise InputError("swr: sampled: there are no costs without a loop; give a number, 0 to 1")
    names = split_technique(technique)
    if len(names) != 1:
        raise InputError(f"technique: {technique} names {len(names)}; allowed: one")
    weighed = p if canonical(names[0]) in WEIGHTED else 1
    (choice,) = choose(names[0], np.ones(weighed), np.zeros(1), chosen, 1, seed)
    if rules.remembers(choice.code):
        learns = rules.is_adaptive(choice.code)
        by = "measured iteration times" if learns else "the time and the chunks under way"
        raise InputError(f"technique: {choice.name} sizes chunks by {by}; simulate a loop to see them")
    if form == "straightforward" and rules.needs_remaining(choice.code):
        raise InputError(
            f"technique: {choice.name} reads the remaining iterations and has no straightforward form; "
            "allowed: recursive"
        )
    return _sizes(choice, n, p, form, min_chunk)


def _sizes(choice: Choice, n: int, p: int, form: Form, min_chunk: int) -> list[int]:
    settings = choice.settings()
    (rule, reals), guide = rules.new_rule(), new_guide(FRACTION_WORDS)
    rules.reset_rule(rule, reals, choice.code, n, p, min_chunk, settings.parameters)
    weights, unmeasured, unsummed = choice.weights, np.zeros((3, 1)), np.zeros((2, 2))
    sizes: list[int] = []
    remaining = n
    while remaining > 0:
        step, pe = len(sizes), len(sizes) % p
        if form == "recursive":
            size = rules.recursive_size(rule, reals, weights, unmeasured, unsummed, step, remaining, pe, 0.0)
        else:
            size = min(rules.straightforward_size(rule, reals, guide, weights, step, pe), remaining)
        if size < 1:
            settings.bad_size[:] = step, pe, size
            raise choice.wrong_size(settings, n, p)
        sizes.append(int(size))
        remaining -= size
    return sizes
