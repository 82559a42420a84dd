"""The plan of a study: the digest of every run, a task for each, and its rows."""

import ast
import hashlib
import json
import math
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distributions
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from mlsim import __version__
from mlsim._files import expanded, open_file, read_bytes
from mlsim._runtime.arrays import Floats
from mlsim._runtime.shared_cache import sharing
from mlsim.errors import InputError
from mlsim.experiment import run_directory, stored_runs
from mlsim.experiment.study.axes import Point, search_path, words_of
from mlsim.experiment.study.study_file import KEEP, metric_of
from mlsim.experiment.study.study_model import Balance, Study, Task, own_pictures
from mlsim.experiment.study.study_store import Entries, covers
from mlsim.scenario import section_base, technique_section

_SHOWN = ("pictures", "csv", "writers")  # keys of `output` without influence on metrics; traces may have one
_LONGEST_PATH = 4096


class Digests:
    """Computes the digests of the runs of one study; every file is read once.

    A digest covers the given keys (without name, description and output-only keys), the contents of all files
    that they name, and mlsim with its plugins.
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
        texts = set(_texts(kept))
        self._files |= {text: self._checksums(text) for text in texts - self._files.keys()}
        files = sorted({self._files[text] for text in texts} - {""})
        data = json.dumps([self._head, kept, files], sort_keys=True, default=str)
        return hashlib.sha256(data.encode("utf-8", "surrogateescape")).hexdigest()[:40]

    def output(self, given: Mapping[str, Any]) -> str:
        """Return the digest of the output-only keys."""
        output = given.get("output")
        data = json.dumps([given.get("name"), output], sort_keys=True, default=str)
        return hashlib.sha256(data.encode()).hexdigest()[:16]

    def _checksums(self, text: str) -> str:
        """Return the checksum of the file, or files of code, that a text names; "" if it names none."""
        if len(text) > _LONGEST_PATH or "\0" in text or "\n" in text:
            return ""
        own = (section_base.user_function(level) for level in technique_section.split_technique(text))
        names = [text, *(found[0] for found in own if found is not None)]
        sums = []
        for path in filter(None, (_found(name, self._directory) for name in dict.fromkeys(names))):
            for part in (path, *_siblings(path)):
                with (
                    suppress(InputError, OSError),
                    open_file(part) as file,
                ):  # the run reports unreadable ones
                    sums.append(hashlib.file_digest(file, "sha256").hexdigest())
        return "".join(sums)


def located(given: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Return the keys of a scenario with absolute paths (keys ``path``, and files of code before a colon)."""
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
    for level in technique_section.split_technique(value):
        own = section_base.user_function(level)
        path = None if own is None else _found(own[0], directory)
        levels.append(level if own is None or path is None else f"{path.resolve()}:{own[1]}")
    return "+".join(levels)


def _found(name: str, directory: Path) -> Path | None:
    """Return the file of a name, by the search path of scenarios."""
    try:
        wanted = expanded(name)
        return next((place / wanted for place in search_path(directory) if (place / wanted).is_file()), None)
    except (InputError, OSError, ValueError):  # the scenario reports it where it is to be a path
        return None


def _texts(value: Any) -> Iterator[str]:
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
        names: set[str] = set()
        with suppress(InputError, SyntaxError, ValueError, RecursionError):  # its execution reports the error
            for node in ast.walk(ast.parse(read_bytes(file))):
                if isinstance(node, ast.Import):
                    names |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    names |= {(node.module or "").split(".")[0], *(alias.name for alias in node.names)}
        for name in names - {""}:
            for other in (path.parent / f"{name}.py", path.parent / name / "__init__.py"):
                if other not in seen and other.is_file():
                    seen.add(other)
                    left.append(other)
                    yield other


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
    """The runs of a study; equal numbers of inputs are equal inputs."""

    study: Study
    keys: Sequence[str]  # digest of each combination's run; the same run has the same digest
    outputs: Sequence[str]  # digest of the output section of each
    logs: Sequence[int]  # number of the log and costs of each; runs of one log are executed together
    reads: Sequence[int]  # number of all inputs of each, which are checked before the first run

    def missing(
        self,
        entries: Entries,
        store: Path | None,
        but: Collection[str] = (),
        *,
        force: bool = False,
        retry_failed: bool = False,
    ) -> list[Task]:
        """Return the tasks to execute, without the keys ``but``, those of one log together."""
        tasks: dict[str, Task] = {}
        order: dict[str, int] = {}
        groups: dict[int, int] = defaultdict(count().__next__)
        for place, key in enumerate(self.keys):
            if key in tasks or key in but:
                continue
            task = self._task(place, store)
            found = None if force else entries.get(key)
            failed = found is not None and found["status"] == "failed"
            if covers(found, task.keep, task.output, task.shows) and not (failed and retry_failed):
                continue
            tasks[key] = task
            order[key] = groups[self.logs[place]]
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
        """Check the files and other inputs of tasks, each once; errors name a combination."""
        subject = self.study.subject
        numbers = dict(zip(self.keys, self.reads, strict=True))
        first: dict[int, Task] = {}
        for task in tasks:
            first.setdefault(numbers[task.key], task)
        for task in first.values():
            try:
                scenario = subject.scenario(task.base, task.overrides)
                with sharing():
                    subject.check(scenario)
                if task.keep == "all":
                    run_directory.check_needs(scenario)
            except InputError as error:
                raise InputError(f"{error} (combination {words_of(task.labels)})") from error


def plan_of(study: Study, digests: Digests) -> Plan:
    """Compute the digests of all runs of a study, for which every file that they name is read."""
    numbers: dict[str, int] = defaultdict(count().__next__)
    read_keys = (*study.subject.reads, *(() if study.keep == KEEP[0] else ("output",)))
    keys, outputs, logs, reads = [], [], [], []

    def number_of(kind: str, *values: object) -> int:
        return numbers[json.dumps([kind, *values], sort_keys=True, default=str)]

    for point in study.points:
        given = study.subject.given(study.cases.base, point.overrides)
        keys.append(digests.of(given))
        outputs.append(sys.intern(digests.output(given)))
        log = given.get("workload")
        if isinstance(log, dict):  # without its selection
            log = {key: value for key, value in log.items() if key != "select"}
        logs.append(number_of("log", log, stored_runs.value_at(given, "application.costs")))
        reads.append(number_of("reads", *(stored_runs.value_at(given, key) for key in read_keys)))
    return Plan(study, keys, outputs, logs, reads)


@dataclass(frozen=True)
class StudyRow:
    """The results of one combination."""

    labels: Mapping[str, str]  # of each axis
    metrics: Mapping[str, float]  # by title; NaN where the run has none, or has failed
    found: Mapping[str, float]  # published values by title
    failed: str = ""  # reason; empty: the run did not fail
    key: str = ""  # digest of the run
    entries: Entries | None = None  # all stored results

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
        return None if found is None else Balance(**found)

    def _kept(self) -> Mapping[str, Any]:
        return (self.entries and self.entries.get(self.key)) or {}


def row_of(study: Study, point: Point, key: str, entries: Entries) -> StudyRow:
    """Make the row of a combination whose run is done."""
    content = entries.get(key)
    if content is None:
        raise InputError(
            f"{study.source}: the results of {dict(point.labels)} are gone; start the study again"
        )
    failed, place = content.get("message", ""), f"{study.source}: metrics"
    metrics = {
        title: math.nan if failed else metric_of(content["summary"], name, place)
        for title, name in study.metrics.items()
    }
    compared = tuple(label for name, label in point.labels.items() if name != study.repetitions)
    return StudyRow(point.labels, metrics, study.reference.get(compared, {}), failed, key, entries)
