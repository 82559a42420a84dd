"""The plan of a study: the digest of every run, a task for each, and its rows."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import numpy as np

from mlsim import __version__
from mlsim._files import expanded, open_file, read_bytes
from mlsim._runtime.arrays import Floats
from mlsim._runtime.shared_cache import sharing
from mlsim.errors import InputError
from mlsim.experiment.study.axes import Point, words_of
from mlsim.experiment.study.study_model import Balance, Study, Task, own_pictures
from mlsim.experiment.study.study_store import KEEP, Entries, covers
from mlsim.scenario import split_technique, user_function
from mlsim.scenario.scenario_paths import VARIABLE

_SHOWN = ("pictures", "csv", "writers")
"""Keys of ``output`` that are of no account for metrics; what is traced may be measured."""
_LONGEST_PATH = 4096


class Digests:
    """Computes the digests of the runs of one study.

    A digest covers the given keys (without name, description and output-only keys), the contents of all files
    that they name, and mlsim: version, sources, and installed plugins. Files are read once, so that changes
    during the study do not matter.
    """

    def __init__(self, kind: str, directory: Path) -> None:
        self._head = json.dumps([kind, *tool()])
        self._directory = directory
        self._files: dict[str, str] = {}

    def of(self, given: Mapping[str, Any]) -> str:
        """Return the digest of a run, by the given keys of its scenario."""
        kept = {key: value for key, value in given.items() if key not in ("name", "description")}
        if isinstance(kept.get("output"), Mapping):
            kept["output"] = {key: value for key, value in kept["output"].items() if key not in _SHOWN}
            if not kept["output"]:
                del kept["output"]
        files = sorted({found for text in _texts(kept) for found in [self._file(text)] if found})
        data = json.dumps([self._head, kept, files], sort_keys=True, default=str)
        return hashlib.sha256(data.encode("utf-8", "surrogateescape")).hexdigest()[:40]

    def output(self, given: Mapping[str, Any]) -> str:
        """Return the digest of the output-only keys."""
        output = given.get("output")
        data = json.dumps([given.get("name"), output], sort_keys=True, default=str)
        return hashlib.sha256(data.encode()).hexdigest()[:16]

    def _file(self, text: str) -> str:
        """Return the checksum of the file, or file of code, that a text names; "" if it names none."""
        found = self._files.get(text)
        if found is None:
            found = self._files[text] = "".join(self._checksums(text))
        return found

    def _checksums(self, text: str) -> Iterator[str]:
        if len(text) > _LONGEST_PATH or "\0" in text or "\n" in text:
            return
        own = (user_function(level) for level in split_technique(text))
        names = [text, *(found[0] for found in own if found is not None)]
        for name in dict.fromkeys(names):
            path = _found(name, self._directory)
            if path is not None:
                yield from (_content(part) for part in [path, *_siblings(path)])


def located(given: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Return the keys of a scenario with absolute paths of files, so that it may be stored anywhere.

    Files are at keys called ``path``, and before the colon of ``./file.py:Name``.
    """
    return {key: _located(key, value, directory) for key, value in given.items()}


def _located(key: str, value: Any, directory: Path) -> Any:
    if isinstance(value, Mapping):
        return located(value, directory)
    if isinstance(value, list | tuple):
        return [_located("", item, directory) for item in value]
    if not isinstance(value, str):
        return value
    if key == "path":
        path = _found(value, directory)
        return value if path is None else str(path.resolve())
    levels = []
    for level in split_technique(value):
        own = user_function(level)
        path = None if own is None else _found(own[0], directory)
        levels.append(level if own is None or path is None else f"{path.resolve()}:{own[1]}")
    return "+".join(levels)


def _found(name: str, directory: Path) -> Path | None:
    """Return the file of a name, by the search path of scenarios."""
    try:
        wanted = expanded(name)
        variable = os.environ.get(VARIABLE, "").split(os.pathsep)
        places = [directory, *(expanded(place) for place in variable if place), Path("traces")]
        return next((place / wanted for place in places if (place / wanted).is_file()), None)
    except (InputError, OSError, ValueError):  # the scenario reports it where it is to be a path
        return None


def _texts(value: Any) -> Iterator[str]:
    """Yield every text among the values of mappings and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _siblings(path: Path) -> Iterator[Path]:
    """Yield the modules beside a file of code that it imports, recursively."""
    seen, left = {path}, [path]
    while left:
        file = left.pop()
        if file.suffix != ".py":
            continue
        for name in _imported(file):
            for other in (path.parent / f"{name}.py", path.parent / name / "__init__.py"):
                if other not in seen and other.is_file():
                    seen.add(other)
                    left.append(other)
                    yield other


def _imported(file: Path) -> set[str]:
    try:
        tree = ast.parse(read_bytes(file))
    except (InputError, SyntaxError, ValueError, RecursionError):
        return set()  # its execution reports the error
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {(node.module or "").split(".")[0], *(alias.name for alias in node.names)}
    return names - {""}


def _content(path: Path) -> str:
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (InputError, OSError):
        return ""  # the run reports why it cannot be read


@cache
def tool() -> tuple[str, ...]:
    """Return the identity of mlsim: version, sources, and versions of packages with plugins for it."""
    package = Path(__file__).parents[2]
    sources = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        sources.update(file.relative_to(package).as_posix().encode())
        sources.update(read_bytes(file))
    plugins = sorted(
        f"{package.name} {package.version}"
        for package in distributions()
        if any(point.group.startswith("mlsim.") for point in package.entry_points)
    )
    return __version__, sources.hexdigest(), *plugins


@dataclass(frozen=True)
class Plan:
    """The runs of a study."""

    study: Study
    keys: Sequence[str]
    """Digest of each combination's run; combinations that are the same run have the same."""
    outputs: Sequence[str]
    """Digest of the output section of each."""
    logs: Sequence[int]
    """Number of the log and costs that each reads, whatever it selects; those of one are done together."""
    reads: Sequence[int]
    """Number of all that each reads and that is checked before the first run."""

    def missing(
        self,
        entries: Entries,
        store: Path | None,
        *,
        force: bool,
        retry_failed: bool,
        but: Collection[str] = (),
    ) -> list[Task]:
        """Return the tasks to execute, those of one log together, in the order of execution.

        Without ``store``, results are returned instead of stored. Runs of ``but`` are done already.
        """
        tasks: dict[str, Task] = {}
        groups: dict[int, int] = {}
        order: dict[str, int] = {}
        for place, key in enumerate(self.keys):
            if key in tasks or key in but:
                continue
            task = self._task(place, store)
            found = None if force else entries.get(key)
            failed = found is not None and found["status"] == "failed"
            if covers(found, task.keep, task.output, task.shows) and not (failed and retry_failed):
                continue
            tasks[key] = task
            order[key] = groups.setdefault(self.logs[place], len(groups))
        return sorted(tasks.values(), key=lambda task: order[task.key])

    def _task(self, place: int, store: Path | None) -> Task:
        study, point = self.study, self.study.points[place]
        shown = [picture.kind for picture in study.pictures if picture.shows(point.labels)]
        return Task(
            self.keys[place],
            point.labels,
            study.subject,
            study.cases.base,
            point.overrides,
            study.keep if store is not None else "summary",
            self.outputs[place],
            curve="utilization" in shown,
            balance="balance" in shown,
            pictures=own_pictures(study, point) if store is not None else {},
            store=store,
            timeout=study.timeout,
        )

    def check_files(self, tasks: Sequence[Task]) -> None:
        """Check the files and other inputs of the scenarios of tasks, each only once.

        Errors name the combination.
        """
        from mlsim.experiment.run_directory import check_needs

        subject = self.study.subject
        numbers = dict(zip(self.keys, self.reads, strict=True))
        seen: set[int] = set()
        for task in tasks:
            number = numbers[task.key]
            if number in seen:
                continue
            seen.add(number)
            try:
                scenario = subject.scenario(task.base, task.overrides)
                with sharing():
                    subject.check(scenario)
                if task.keep == "all":
                    check_needs(scenario)
            except InputError as error:
                raise InputError(f"{error} (combination {words_of(task.labels)})") from error


def plan_of(study: Study, digests: Digests) -> Plan:
    """Compute the digests of all runs of a study, for which every file that they name is read."""
    logs, reads = _Numbers(), _Numbers()
    keys, outputs = [], []
    for point in study.points:
        given = study.subject.given(study.cases.base, point.overrides)
        keys.append(digests.of(given))
        outputs.append(digests.output(given))
        logs.add([_whole_log(given), _value_at(given, "application.costs")])
        reads.add([_value_at(given, key) for key in (*study.subject.reads, *_ALSO_READ[study.keep])])
    return Plan(study, keys, [sys.intern(output) for output in outputs], logs.found, reads.found)


_ALSO_READ = {keep: () if keep == "summary" else ("output",) for keep in KEEP}


class _Numbers:
    """Numbers values; equal values get equal numbers."""

    def __init__(self) -> None:
        self.found: list[int] = []
        self._known: dict[str, int] = {}

    def add(self, value: object) -> None:
        """Add a value."""
        text = json.dumps(value, sort_keys=True, default=str)
        self.found.append(self._known.setdefault(text, len(self._known)))


def _whole_log(given: dict[str, Any]) -> Any:
    """Return the keys of a scenario's log, without its selection."""
    log = given.get("workload")
    return {key: value for key, value in log.items() if key != "select"} if isinstance(log, dict) else log


def _value_at(values: Any, key: str) -> Any:
    """Return the value of a dotted key; None if it is missing."""
    for part in key.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return values


@dataclass(frozen=True)
class StudyRow:
    """The results of one combination."""

    labels: Mapping[str, str]
    """Of each axis."""
    metrics: Mapping[str, float]
    """By title; NaN where the run has none, or has failed."""
    found: Mapping[str, float]
    """Published values by title."""
    failed: str = ""
    """Why the run failed; empty: it did not."""
    key: str = ""
    """Digest of the run."""
    entries: Entries | None = None
    """The entries of all its stored results."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """All metrics: the summary of the run, or the facts of the loop; empty if it failed."""
        facts: Mapping[str, Any] = self._kept().get("summary", {})
        return facts

    @property
    def reference(self) -> float | None:
        """The reference value of the first metric; None without one."""
        return self.found.get(next(iter(self.metrics)))

    @property
    def curve(self) -> tuple[Floats, Floats] | None:
        """Times (s) and busy shares of the machine, if a picture shows them."""
        curve = self._kept().get("curve")
        return None if curve is None else (np.array(curve[0], float), np.array(curve[1], float))

    @property
    def balance(self) -> Balance | None:
        """The balance of each job's loop, if a picture shows it."""
        found = self._kept().get("balance")
        if found is None:
            return None
        jobs, ratios = np.array(found["job_id"], np.int64), np.array(found["max_over_mean"], float)
        return Balance(jobs, found["executable"], ratios)

    def _kept(self) -> Mapping[str, Any]:
        found = None if self.entries is None else self.entries.get(self.key)
        return {} if found is None else found


def row_of(study: Study, point: Point, key: str, entries: Entries) -> StudyRow:
    """Make the row of a combination whose run is done."""
    content = entries.get(key)
    if content is None:
        raise InputError(
            f"{study.source}: the results of {dict(point.labels)} are gone; start the study again"
        )
    failed = content.get("message", "")
    metrics = {
        title: math.nan if failed else metric_of(content["summary"], name, study.source)
        for title, name in study.metrics.items()
    }
    compared = tuple(label for name, label in point.labels.items() if name != study.repetitions)
    return StudyRow(point.labels, metrics, study.reference.get(compared, {}), failed, key, entries)


def rows_of(plan: Plan, entries: Entries, made: Mapping[int, StudyRow] | None = None) -> list[StudyRow]:
    """Return the rows of all combinations, in order; ``made`` are those that exist already, by position."""
    points = zip(plan.study.points, plan.keys, strict=True)
    there = made or {}
    return [
        there.get(place) or row_of(plan.study, point, key, entries)
        for place, (point, key) in enumerate(points)
    ]


def metric_of(summary: Mapping[str, Any], key: str, source: Path) -> float:
    """Return a metric of a run by its dotted key; NaN without a value.

    Raises InputError if the summary lacks the key and it does not end in ``?``, or if it is no number.
    """
    value: Any = summary
    for part in key.removesuffix("?").split("."):
        if not isinstance(value, Mapping) or part not in value:
            if key.endswith("?"):
                return math.nan
            raise InputError(
                f"{source}: metrics: {key}: not in the summary of {summary.get('scenario', 'a loop')}"
            )
        value = value[part]
    if value is None:
        return math.nan
    if not isinstance(value, int | float):
        allowed = ", ".join(f"{key}.{part}" for part in value) if isinstance(value, Mapping) else "numbers"
        raise InputError(f"{source}: metrics: {key} is {type(value).__name__}, no number; allowed: {allowed}")
    return float(value)
