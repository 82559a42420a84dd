"""Assignment of applications to the jobs of a workload: by columns of the workload, and by rules."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from mlsim._runtime.arrays import Floats, Ints, Mask, NDArray
from mlsim.errors import InputError
from mlsim.scenario import ApplicationConfig, Scenario, words
from mlsim.scenario.assignment_section import COLUMNS, OF_JOB, AssignRule, Step, placeholders
from mlsim.scenario.field_types import nearest
from mlsim.scenario.scenario_text import plain
from mlsim.workload import JobBlock, Workload, names_of

if TYPE_CHECKING:
    from mlsim.application.iteration_costs import CostProfiles

_ITERATIONS = "iterations"
_SHOWN = 12  # names in a message


@dataclass(frozen=True)
class Kind:
    """One of the applications that jobs have, with what columns of the workload replace in it."""

    name: str  # in the scenario; empty where all jobs have one
    scenario: Scenario  # in which all jobs have it
    costs: CostProfiles | None  # None for rigid jobs

    @property
    def technique(self) -> str | None:
        """Its technique; None for rigid jobs."""
        return None if self.costs is None else str(self.scenario.application.technique)


@dataclass(frozen=True)
class Assignment:
    """The applications of the jobs of a run, by place in the log."""

    kinds: tuple[Kind, ...]
    of_job: Ints  # place of each job's application in `kinds`
    iterations: Ints | None = None  # of each job's own loop, -1: none; None where no column has them
    read: frozenset[str] = frozenset()  # further columns of the log that only the assignment needs
    replaced: tuple[str, ...] = ()  # columns of the log that replaced keys of applications
    unused: tuple[str, ...] = ()  # keys of rules that match no job

    @property
    def runs_loops(self) -> bool:
        """Whether a job executes a loop."""
        return any(kind.costs is not None for kind in self.kinds)

    def counts(self, names: Iterable[str]) -> dict[str, int]:
        """Count the jobs that have each application."""
        jobs = np.bincount(self.of_job, minlength=len(self.kinds)).tolist()
        return {
            name: sum(n for n, kind in zip(jobs, self.kinds, strict=True) if kind.name == name)
            for name in names
        }

    def columns(self) -> dict[str, tuple[Ints, dict[int, str]]]:
        """Return application and technique of each job as codes with names, -1 for none."""
        found = {}
        for column, texts in (
            ("application", [kind.name for kind in self.kinds]),
            ("technique", [kind.technique for kind in self.kinds]),
        ):
            names = sorted({text for text in texts if text})
            codes = np.array([names.index(text) if text else -1 for text in texts], np.int64)
            found[column] = codes[self.of_job], dict(enumerate(names))
        return found


def columns_to_read(scenario: Scenario) -> tuple[str, ...]:
    """Return the further columns of a log that the assignment reads where they are there."""
    if not scenario.assigns:
        return ()
    rules = scenario.assign or ()
    named = [name for rule in rules for name in rule.where or ()]
    named += [name for one in scenario.by_application.values() for name in _columns_of_path(one.application)]
    own = (*OF_JOB, _ITERATIONS) if scenario.applications is not None else ()
    return tuple(dict.fromkeys([*own, *(name for name in named if name not in COLUMNS)]))


def _columns_of_path(section: ApplicationConfig) -> list[str]:
    return placeholders(section.costs.path) if section.costs.path is not None else []


def assign(
    scenario: Scenario, workload: Workload, open_costs: Callable[[Scenario], CostProfiles]
) -> Assignment | None:
    """Find the application of each job, all checked; None where all jobs have the scenario's.

    ``open_costs`` opens the costs of the scenario of one application.
    """
    if not scenario.assigns:
        return None
    names = list(scenario.by_application)
    rules = _Rules(scenario, workload, names)
    wanted = columns_to_read(scenario)
    of_path = {name for one in scenario.by_application.values() for name in _columns_of_path(one.application)}
    parts: list[Ints] = []
    own: dict[str, list[NDArray[Any]]] = {name: [] for name in ("job_id", *wanted, *sorted(of_path))}
    for block in workload.blocks():
        parts.append(rules.of_block(block))
        for name, read_before in own.items():
            column = _column(block, name)
            if column is not None:
                read_before.append(column)
    columns = {name: np.concatenate(arrays) for name, arrays in own.items() if arrays}
    rules.check_all_known()
    kinds, of_job = _Kinds(scenario, workload, open_costs, names).of_jobs(np.concatenate(parts), columns)
    loops = columns.get(_ITERATIONS) if scenario.applications is not None else None
    read = frozenset(wanted) - set(scenario.workload.columns or ())
    iterations = None if loops is None else _whole(columns["job_id"], loops)
    own_keys = (*OF_JOB[1:], _ITERATIONS) if scenario.applications is not None else ()
    replaced = [name for name in own_keys if name in columns and (_factors(columns[name])[0] >= 0).any()]
    return Assignment(kinds, of_job, iterations, read, tuple(replaced), rules.unused())


def _whole(job_id: Ints, values: NDArray[Any]) -> Ints:
    """Return numbers of iterations, -1 where a job has none of its own."""
    numbers = np.full(len(values), np.nan) if values.dtype == object else values.astype(np.float64)
    wrong = (numbers != np.floor(numbers)) & ~np.isnan(numbers) | (numbers > 2.0**62)
    wrong |= np.array([value is not None for value in values]) if values.dtype == object else False
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"workload: job {job_id[row]}: iterations is {values[row]!s}; expected a whole number, or nothing"
        )
    return np.where(numbers > 0, numbers, -1.0).astype(np.int64)


def _column(block: JobBlock, name: str) -> NDArray[Any] | None:
    """Return a column of jobs; None where the log has none of that name."""
    if name in COLUMNS:
        values: NDArray[Any] = getattr(block, name)
        return values
    return None if block.own is None else block.own.of.get(name)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
_GOLDEN, _MIX_1, _MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_UNSIGNED = (1 << 64) - 1


def uniform_by_id(seed: int, job_id: Ints) -> Floats:
    """Return a number in [0, 1) for each job, which depends on seed and identifier alone (SplitMix64)."""
    state = np.uint64((seed * _GOLDEN + _MIX_1) & _UNSIGNED)
    mixed = (job_id.astype(np.uint64) + state) * np.uint64(_GOLDEN)
    for shift, factor in ((30, _MIX_1), (27, _MIX_2)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53


class _Rules:
    """The rules of a scenario for the jobs of its workload, block by block."""

    def __init__(self, scenario: Scenario, workload: Workload, names: Sequence[str]) -> None:
        self._scenario, self._names = scenario, names
        self._rules: tuple[AssignRule, ...] = scenario.assign or ()
        self._header = workload.header
        self._codes = {of: dict(codes) for of, codes in names_of(workload.header).items()}
        self._matched = [0] * len(self._rules)
        self._known: dict[str, bool] = {}  # key of a condition -> whether the column is known of a job

    def of_block(self, block: JobBlock) -> Ints:
        """Return the place of each job's application among the names."""
        found = np.full(len(block), 0 if not self._rules and len(self._names) == 1 else -1, np.int64)
        own = None if self._scenario.applications is None else _column(block, "application")
        if own is not None:
            found = self._by_name(block, own, found)
        given = found >= 0
        if self._rules and not given.all():
            drawn = uniform_by_id(self._scenario.seed, block.job_id)
            for row, rule in enumerate(self._rules):
                matches = self._matches(row, rule, block)
                self._matched[row] += int(np.count_nonzero(matches & (found < 0)))
                places = np.array([self._names.index(name) for name, _ in rule.shares])
                ends = np.cumsum([share for _, share in rule.shares])[:-1]
                of_rule = places[np.searchsorted(ends, drawn, side="right")]
                found = np.where((found < 0) & matches, of_rule, found)
        if (found < 0).any():
            job = block.job_id[int(np.argmax(found < 0))]
            raise InputError(
                f"{self._scenario.source}: assign: no rule matches job {job}; add one for all others, e.g. "
                f"- {{default: {self._names[0]}}}"
            )
        return found

    def _by_name(self, block: JobBlock, own: NDArray[Any], found: Ints) -> Ints:
        """Return the applications that the column of the workload names."""
        codes, texts = _factors(own)
        places = np.array([self._place(block, codes, row, text) for row, text in enumerate(texts)] or [-1])
        return np.where(codes >= 0, places[np.maximum(codes, 0)], found)

    def _place(self, block: JobBlock, codes: Ints, row: int, text: object) -> int:
        if str(text) in self._names:
            return self._names.index(str(text))
        job = block.job_id[int(np.argmax(codes == row))]
        raise InputError(
            f"{self._scenario.source}: applications: job {job} of the workload has application "
            f"{str(text)!r}, and there is none of this name;{nearest(str(text), self._names)} allowed: "
            f"{', '.join(self._names)}"
        )

    def _matches(self, row: int, rule: AssignRule, block: JobBlock) -> Mask:
        """Return the jobs for which all conditions of a rule hold."""
        holds = np.ones(len(block), np.bool_)
        for name, test in (rule.where or {}).items():
            key = f"assign.{row}.where.{name}"
            values = _column(block, name)
            if values is None:
                further = [*self._header.get("ignored_columns", ()), *(block.own.of if block.own else ())]
                raise InputError(
                    f"{self._scenario.source}: {key}: the workload has no such column;"
                    f"{nearest(name, [*COLUMNS, *further])} it has: {', '.join((*COLUMNS, *further))}"
                )
            if values.dtype == object:
                known = np.array([value is not None for value in values], np.bool_)
            else:
                known = values >= 0 if name in COLUMNS else ~np.isnan(values.astype(np.float64))
            self._known[key] = self._known.get(key, False) or bool(known.any())
            some = np.zeros(len(block), np.bool_)
            for steps in test.alternatives:
                every = known.copy()
                for step in steps:
                    every &= self._step(key, name, values, step)
                some |= every
            holds &= some
        return holds

    def _step(self, key: str, name: str, values: NDArray[Any], step: Step) -> Mask:
        """Return the jobs whose value of a column compares as a step of a condition asks."""
        word, wanted = step
        compare, place = _OPERATORS[word], f"{self._scenario.source}: {key}"
        if values.dtype == object:
            if word not in ("==", "!="):
                raise InputError(f"{place}: {word} compares numbers, and the column holds texts")
            return np.asarray(compare(values, _text(wanted)), np.bool_)
        # The reader gave codes to names, which mean nothing to the user.
        are_names = isinstance(self._header.get(f"{name}_names"), list)
        if are_names and word not in ("==", "!="):
            raise InputError(f"{place}: {word} compares numbers, and the column holds names")
        if are_names or isinstance(wanted, str):
            text, names = _text(wanted), self._codes.get(name, {})
            codes = [code for code, called in names.items() if called == text]
            if not codes and not are_names and re.fullmatch(r"[+-]?\d+", text):
                codes = [int(text)]
            if not codes:
                has = ", ".join(list(names.values())[:_SHOWN]) or "numbers only"
                raise InputError(
                    f"{place}: no {name} of the workload is called {text!r};"
                    f"{nearest(text, names.values())} it has: {has}"
                )
            same = np.isin(values, codes)
            return same if word == "==" else ~same
        return np.asarray(compare(values, wanted), np.bool_)

    def check_all_known(self) -> None:
        """Refuse a condition on a column of which no job has a value."""
        for key, known in self._known.items():
            if not known:
                raise InputError(
                    f"{self._scenario.source}: {key}: unknown for every job of the workload; take the "
                    "condition out, or use another column"
                )

    def unused(self) -> tuple[str, ...]:
        """Return the keys of rules that match no job."""
        return tuple(f"assign.{row}" for row, count in enumerate(self._matched) if not count)


def _text(value: float | str) -> str:
    """Return a value as a log spells it: 1234567 and not 1.23457e+06."""
    return value if isinstance(value, str) else f"{value:.15g}"


def _factors(values: NDArray[Any]) -> tuple[Ints, list[Any]]:
    """Return the place of each value among the different ones, -1 where there is none."""
    if values.dtype == object:
        known = np.array([value is not None for value in values], np.bool_)
        distinct, places = np.unique(values[known].astype(str), return_inverse=True)
    else:
        known = ~np.isnan(values.astype(np.float64))
        distinct, places = np.unique(values[known], return_inverse=True)
    codes = np.full(len(values), -1, np.int64)
    codes[known] = places
    return codes, distinct.tolist()


class _Columns(NamedTuple):
    """Columns that replace keys of applications: codes of all jobs, and the value of each code."""

    codes: dict[str, Ints]
    values: dict[str, list[Any]]


class _Kinds:
    """The different applications that jobs have."""

    def __init__(
        self,
        scenario: Scenario,
        workload: Workload,
        open_costs: Callable[[Scenario], CostProfiles],
        names: Sequence[str],
    ) -> None:
        self._scenario, self._open_costs, self._names = scenario, open_costs, names
        self._of = scenario.by_application
        self._codes = {of: dict(codes) for of, codes in names_of(workload.header).items()}
        self._made: dict[tuple[str, ApplicationConfig], tuple[Scenario, CostProfiles | None]] = {}

    def of_jobs(
        self, application: Ints, columns: Mapping[str, NDArray[Any]]
    ) -> tuple[tuple[Kind, ...], Ints]:
        """Return the kinds, and the place of each job's, given the places of their applications."""
        given = _Columns({}, {})
        for name in OF_JOB[1:] if self._scenario.applications is not None else ():
            if name in columns:
                given.codes[name], given.values[name] = _factors(columns[name])
        for name in {of for one in self._of.values() for of in _columns_of_path(one.application)}:
            if name not in columns:
                raise InputError(
                    f"{self._scenario.source}: costs.path: the workload has no column {name}; take "
                    f"{{{name}}} out"
                )
            codes, values = _factors(columns[name])
            needs = [name in _columns_of_path(one.application) for one in self._of.values()]
            given.codes[f"{{{name}}}"] = np.where(np.array(needs)[application], codes, -1)
            given.values[f"{{{name}}}"] = values
        rows = np.stack([application, *given.codes.values()], axis=1)
        distinct, first, of_job = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        kinds = [
            self._kind(
                self._names[place], dict(zip(given.codes, codes, strict=True)), given, columns["job_id"][at]
            )
            for (place, *codes), at in zip(distinct.tolist(), first.tolist(), strict=True)
        ]
        self._check_messages(kinds)
        return tuple(kinds), of_job.reshape(-1).astype(np.int64)

    def _check_messages(self, kinds: Sequence[Kind]) -> None:
        """Refuse a trace of messages where a column of the workload gives loops several execution models."""
        loops = [kind.scenario.application.execution for kind in kinds if kind.costs is not None]
        if self._scenario.output.trace is words.TraceLevel.MESSAGES and len(set(loops)) > 1:
            models = ", ".join(dict.fromkeys(str(execution.model) for execution in loops))
            raise InputError(
                f"{self._scenario.source}: output.trace: messages shows one way of getting chunks, and the "
                f"column model of the workload gives loops several: {models}; write trace: chunks, or take "
                "the column out"
            )

    def _kind(self, name: str, codes: dict[str, int], given: _Columns, job: int) -> Kind:
        """Return an application with what columns replace in it; ``job``: the first that has it."""
        declared = self._of[name]
        changes = {key: given.values[key][code] for key, code in codes.items() if code >= 0}
        section = declared.application
        if changes or section.costs.by_column:
            try:
                section = self._changed(section, changes)
            except ValidationError as error:
                detail = error.errors()[0]
                message = detail.get("ctx", {}).get("text", detail["msg"])
                key = ".".join(map(str, detail["loc"]))
                raise InputError(self._refused(name, changes, job, f"{key}: {message}")) from error
        if (name, section) not in self._made:
            one = (
                declared if section is declared.application else self._scenario.of_application(name, section)
            )
            self._made[name, section] = one, None
            if one.runs_loops:
                for broken in one.broken_rules() if changes else ():
                    raise InputError(self._refused(name, changes, job, one.with_own_keys(broken.message)))
                with one.own_keys():
                    self._made[name, section] = one, self._open_costs(one)
        return Kind(name, *self._made[name, section])

    def _refused(self, name: str, changes: Mapping[str, Any], job: int, message: str) -> str:
        place = f"application {name}" if name else "the application"
        found = ", ".join(f"{key} {value}" for key, value in changes.items())
        return f"{self._scenario.source}: job {job} of the workload, {place} with {found}: {message}"

    def _changed(self, section: ApplicationConfig, changes: Mapping[str, Any]) -> ApplicationConfig:
        """Return an application with values of columns in place of its own."""
        new: dict[str, Any] = plain(section)
        if "model" in changes:
            model = str(changes["model"])
            try:
                new["model"] = words.ApplicationModel(model).value
                if new["model"] == words.ApplicationModel.RIGID:
                    new = {"model": new["model"]}  # other columns are for loops, and refused
            except ValueError:
                new |= {"model": "loop", "execution": new.get("execution", {}) | {"model": model}}
        if "costs" in changes:
            kept = {key: value for key, value in new.get("costs", {}).items() if "calibrate" in key}
            new["costs"] = kept | {"profile": "file", "path": str(changes["costs"])}
            new.pop("iterations", None)
        if "technique" in changes:
            new["technique"] = str(changes["technique"])
        if "steps" in changes:
            steps = changes["steps"]
            new["time_steps"] = int(steps) if float(steps).is_integer() else steps
        if "variation" in changes:
            new["costs"] = new.get("costs", {}) | {"variation": changes["variation"]}
        names = {key[1:-1]: value for key, value in changes.items() if key.startswith("{")}
        path = section.costs.path
        if path is not None and "costs" not in changes and placeholders(path):
            new["costs"]["path"] = self._path(path, names)
        return ApplicationConfig.model_validate(new)

    def _path(self, path: str, values: Mapping[str, Any]) -> str:
        """Return a path with the values of columns, by their names in the log where they have some."""
        texts = {}
        for name in placeholders(path):
            value = values.get(name)
            if value is None or (name in COLUMNS and not isinstance(value, str) and value < 0):
                raise InputError(
                    f"{self._scenario.source}: costs.path: {path} needs the {name} of every job, and the "
                    "workload lacks that of a job with this application"
                )
            called = self._codes.get(name, {}).get(value)
            texts[name] = called if called is not None else _text(value)
        return path.format(**texts)
