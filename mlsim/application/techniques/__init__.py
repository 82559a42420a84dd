"""Techniques: the rules for chunk sizes, as compiled functions, one module a family."""

from mlsim.application.techniques.adaptive import adaptive_size
from mlsim.application.techniques.factoring import factoring_recursive_size, factoring_straightforward_size
from mlsim.application.techniques.fixed import self_scheduling_size, static_size
from mlsim.application.techniques.guided import guided_recursive_size, guided_straightforward_size
from mlsim.application.techniques.rules import new_rule, recursive_size, straightforward_size
from mlsim.application.techniques.sequence import Form, sequence
from mlsim.application.techniques.trapezoid import trapezoid_size

__all__ = [
    "Form",
    "adaptive_size",
    "factoring_recursive_size",
    "factoring_straightforward_size",
    "guided_recursive_size",
    "guided_straightforward_size",
    "new_rule",
    "recursive_size",
    "self_scheduling_size",
    "sequence",
    "static_size",
    "straightforward_size",
    "trapezoid_size",
]
