"""Techniques: the rules for chunk sizes, as compiled functions, one module a family."""

from mlsim.application.techniques.sequence import Form, sequence
from mlsim.application.techniques.technique_rules import (
    new_rule,
    recursive_size,
    reset_rule,
    straightforward_size,
)

__all__ = [
    "Form",
    "new_rule",
    "recursive_size",
    "reset_rule",
    "sequence",
    "straightforward_size",
]
