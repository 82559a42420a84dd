"""The section ``assign``: rules by which jobs get one of several applications."""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from string import Formatter
from typing import Annotated, Any

from mlsim.scenario.amount_types import list_schema
from mlsim.scenario.field_types import (
    TIME,
    AdviceError,
    FieldType,
    Pairs,
    mapping_of,
    nearest,
    parse_value,
    shown,
)
from mlsim.scenario.section_base import Parameters, Violation

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,59}")
"""Names of applications, which are parts of dotted keys."""
ALLOWED_NAMES = "letters, digits, _ and -, a letter first"
TIME_COLUMNS = ("submit_time", "run_time", "walltime")
"""Columns of jobs that hold seconds: conditions on them may have units."""
COLUMNS = (
    *("job_id", *TIME_COLUMNS, "processors", "node_count", "user", "group", "executable", "queue"),
    *("partition", "qos", "status", "loop_iterations"),
)
"""Columns that every workload has, though single values may be unknown."""
OF_JOB = ("application", "technique", "model", "steps", "variation", "costs")
"""Columns of a workload that replace keys of a job's application; ``iterations`` is one as well."""

_COMPARISON = re.compile(r"(<=|>=|!=|==|<|>|=)\s*(\S.*)")
_AND = re.compile(r"\s+and\s+")

Step = tuple[str, float | str]
"""A comparison: operator and value."""


@dataclass(frozen=True)
class Test:
    """A condition on one column: any of the ``alternatives`` holds, each of which is one or more steps."""

    written: object  # as in the file
    alternatives: tuple[tuple[Step, ...], ...]


def _step(column: str, operator: str, value: object) -> Step:
    """Read the value of a comparison: seconds for times, else a number or a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise AdviceError(f"{column}: {shown(value)} is neither a number nor a text")
    if column in TIME_COLUMNS:
        return operator, parse_value(value, TIME)[0]
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if operator in ("==", "!="):
            return operator, value.strip()
        if not math.isfinite(number):
            raise AdviceError(f"{column}: {operator} needs a number, and {shown(value)} is none")
        return operator, number
    if not math.isfinite(value):
        raise AdviceError(f"{column}: {shown(value)} is not a finite number")
    return operator, float(value)


def _alternative(column: str, value: object) -> tuple[Step, ...]:
    if not isinstance(value, str) or not _COMPARISON.fullmatch(value.strip()):
        return (_step(column, "==", value),)
    steps = []
    for part in _AND.split(value.strip()):
        found = _COMPARISON.fullmatch(part)
        if found is None:
            raise AdviceError(f"{column}: {shown(part)} is no comparison such as '>= 64'")
        steps.append(_step(column, {"=": "=="}.get(found[1], found[1]), found[2]))
    return tuple(steps)


def _read_test(name: object, value: object) -> tuple[str, Test]:
    column = {"walltimes": "walltime", "size": "processors"}.get(str(name), str(name))
    values = value if isinstance(value, list | tuple) else [value]
    if not values:
        raise AdviceError(f"{column}: an empty list matches no job; take the condition out")
    written = tuple(values) if isinstance(value, list | tuple) else value
    return column, Test(written, tuple(_alternative(column, item) for item in values))


def _written_test(test: Any) -> object:
    return list(test.written) if isinstance(test.written, tuple) else test.written


_PLAIN = {"type": ["number", "string"]}
Conditions = Annotated[
    Pairs[str, Test],
    mapping_of(
        "columns of the workload, each with a value, a list of values, or a comparison, e.g. "
        "{executable: [3, 17], processors: '>= 64'}",
        _read_test,
        {"additionalProperties": {"anyOf": [_PLAIN, list_schema(_PLAIN)]}},
        _written_test,
    ),
]

Shares = tuple[tuple[str, float], ...]
"""Names of applications with their shares of the jobs, which sum up to 1."""


def _read_shares(value: object) -> Shares:
    if isinstance(value, str) and value.strip():
        return ((value.strip(), 1.0),)
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"{shown(value)} is no name")
    shares = []
    for name, share in value.items():
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0.0 < share <= 1.0:
            raise AdviceError(f"the share of {name} is {shown(share)}; allowed: more than 0, up to 1")
        shares.append((str(name), float(share)))
    total = math.fsum(share for _, share in shares)
    if abs(total - 1.0) > 1e-6:
        raise AdviceError(f"the shares sum up to {total:g}; allowed: a sum of 1")
    return tuple(shares)


def _shown_shares(shares: Shares) -> object:
    return shares[0][0] if len(shares) == 1 else dict(shares)


Assigned = Annotated[
    Shares,
    FieldType(
        "the name of an application, or names with shares of the jobs, e.g. {render: 0.7, measured: 0.3}",
        _read_shares,
        {"anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": {"type": "number"}}]},
        _shown_shares,
    ),
]


class AssignRule(Parameters):
    """A rule of ``assign``: the jobs that it is for, and their application."""

    where: Conditions | None = None
    """Conditions on columns of the workload, all of which must hold: a value, a list of values, a name of the
    log, or a comparison such as '>= 64' or '> 1 h and <= 4 h'. Default: all jobs.
    """
    application: Assigned | None = None
    """Application of the jobs for which the conditions hold and no earlier rule is: a name, or names with
    shares, which are drawn by job id and seed.
    """
    default: Assigned | None = None
    """Application of all jobs for which no earlier rule is; the same as application without where."""

    @property
    def shares(self) -> Shares:
        """The applications that the rule assigns, with their shares."""
        return self.application or self.default or ()

    def broken_rules(self) -> Iterator[Violation]:
        """Check that a rule assigns once, and a default to all jobs."""
        if self.application is not None and self.default is not None:
            yield Violation("default", "given together with application; give one of them", ("application",))
        elif self.application is None and self.default is None:
            yield Violation("application", "missing; write application: NAME, or default: NAME", ("default",))
        elif self.default is not None and self.where is not None:
            yield Violation("where", "a default is for all other jobs; write application: NAME", ("default",))


def wrong_rules(rules: tuple[AssignRule, ...], known: Collection[str]) -> Iterator[Violation]:
    """Check that rules assign applications that there are, and that none is after one for all jobs."""
    for row, rule in enumerate(rules):
        key = f"assign.{row}.{'application' if rule.application is not None else 'default'}"
        for name, _ in rule.shares:
            if name not in known:
                message = (
                    f"there is no application {name!r};{nearest(name, known)} allowed: {', '.join(known)}"
                )
                yield Violation(key, message, ("applications",))
        if rule.where is None and row < len(rules) - 1:
            message = f"is for all jobs, so that assign.{row + 1} is for none; write it last"
            yield Violation(key, message, (f"assign.{row}.where",))


def placeholders(path: str) -> list[str]:
    """Return the columns of the workload that a path names in braces; a ValueError if it is malformed.

    Examples
    --------
    >>> placeholders("costs/{executable}.npy")
    ['executable']
    """
    found = []
    for _, name, format_spec, conversion in Formatter().parse(path):
        if name is not None:
            if not name.isidentifier() or format_spec or conversion:
                raise ValueError(f"{{{name}}} is no column of the workload; write e.g. {{executable}}")
            found.append(name)
    return list(dict.fromkeys(found))
