"""Learning in parts that executors compute and a store keeps."""

from __future__ import annotations

import base64
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mlsim._files import expanded
from mlsim._runtime.arrays import Floats
from mlsim._runtime.shared_cache import bytes_of, forget, shared
from mlsim.errors import MlsimError, OutputError
from mlsim.experiment.study.axes import words_of
from mlsim.experiment.study.study_engine import ProgressDisplay
from mlsim.experiment.study.study_executors import Executor, Processes, Serial
from mlsim.experiment.study.study_model import Task
from mlsim.experiment.study.study_plan import Digests
from mlsim.experiment.study.study_store import Entries, Memory, Store, disk_error, locked, write_whole
from mlsim.experiment.study.subjects import Base, Simulated, Subject
from mlsim.experiment.weekly_runs import LogWeeks, weeks_of
from mlsim.scenario import Scenario, dump, loads

if TYPE_CHECKING:
    from mlsim.experiment.result_directories import Place


class Work(Subject):
    """The work of one part; subclasses are frozen dataclasses, whose fields are all its options."""

    kind = "learning"
    metrics: ClassVar[Mapping[str, str]] = {}
    reads = ()

    @abstractmethod
    def found(self, scenario: Scenario) -> Floats:
        """Return the result on the log of a scenario, as one row of numbers."""

    def scenario(self, base: Base, overrides: Mapping[str, object]) -> Scenario:
        """Read the scenario of a part."""
        return loads(base.text, base.source, overrides, base.directory)

    def check(self, scenario: Scenario) -> None:
        """Check nothing: the parts' caller has read all they need."""

    def empty(self) -> Mapping[str, Any]:
        """Return an empty summary."""
        return {"found": ""}

    def simulate(self, scenario: Scenario, _chunks: bool, /) -> Simulated:
        """Run the part."""
        return _simulated(scenario, self.found(scenario))

    def options(self) -> list[str]:
        """Return all that the result depends on besides the scenario."""
        return [type(self).__name__, *(_words(getattr(self, field.name)) for field in _fields(self))]

    def __reduce__(self) -> str | tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in _fields(self))


def _fields(value: Any) -> Sequence[Any]:
    return fields(value)


def _words(value: Any) -> str:
    """Return an option as text that is unique to its value: repr truncates the numbers of an array."""
    if isinstance(value, np.ndarray):
        return repr(value.tolist())
    if hasattr(value, "__dataclass_fields__"):
        return repr([_words(getattr(value, field.name)) for field in fields(value)])
    return repr(value)


def _simulated(scenario: Scenario, found: Floats) -> Simulated:
    from mlsim.experiment.weekly_runs import NO_RECORDS

    def write(_place: Place, _shown: Scenario) -> None:
        raise AssertionError("of parts no directories are kept")

    data = zlib.compress(np.ascontiguousarray(found, np.float64).tobytes(), 1)
    return Simulated(scenario, {"found": base64.b64encode(data).decode("ascii")}, NO_RECORDS, write)


@dataclass(frozen=True)
class Part:
    """One part of a command."""

    labels: Mapping[str, str]
    """For messages."""
    scenario: Scenario
    """The scenario of its log."""
    work: Work


class Parts:
    """Runs parts that the store does not have yet.

    Without ``entries`` results are kept only as long as this object; without ``executor`` this process runs
    them.
    """

    def __init__(
        self,
        entries: Entries | None = None,
        executor: Executor | None = None,
        watch: ProgressDisplay | None = None,
    ) -> None:
        self._entries: Entries = entries or Memory()
        self._store = entries if isinstance(entries, Store) else None
        self._executor = executor or Serial()
        self._watch = watch
        self._digests: dict[Path, Digests] = {}
        self._known: set[str] = set()
        self._there = 0

    def results(self, parts: Sequence[Part]) -> Iterator[Floats]:
        """Run parts, and yield their results in order.

        Raises MlsimError if one fails (those that were done are kept), and OutputError if results cannot be
        kept.
        """
        tasks = [self._task(part) for part in parts]
        self._do({task.key: task for task in tasks})
        for task in tasks:
            content = self._entries.get(task.key)
            assert content is not None, "it was done or there"
            data = zlib.decompress(base64.b64decode(content["summary"]["found"]))
            yield np.frombuffer(data, np.float64)

    def _task(self, part: Part) -> Task:
        source = part.scenario.source
        base = Base(dump(part.scenario), source, expanded(Path(source)).parent)
        digests = self._digests.setdefault(base.directory, Digests(part.work.kind, base.directory))
        given = part.work.given(base, {})
        key = digests.of({**given, "learning": part.work.options()})
        store = None if self._store is None else self._store.directory
        return Task(key, part.labels, part.work, base, {}, keep="summary", output="", store=store)

    def _do(self, tasks: Mapping[str, Task]) -> None:
        """Run the tasks without results; those that failed before run once more."""
        missing = [task for key, task in tasks.items() if not self._is_there(key)]
        new = set(tasks) - self._known
        self._there += len(new) - len(missing)
        self._known |= new
        if self._watch is not None:
            self._watch.begin(len(self._known), self._there, self._store)
        if not isinstance(self._executor, Serial):
            forget()  # others do them
        results = self._executor.results(missing, self._started)
        try:
            for done in results:
                if done.stops:
                    raise OutputError(done.stops)
                if self._watch is not None:
                    self._watch.done(tasks[done.key], done)
                if done.failed:
                    raise MlsimError(f"{words_of(tasks[done.key].labels)}: {done.failed}")
                if done.content is not None:
                    self._entries.put(done.key, done.content)
        finally:
            close: Any = getattr(results, "close", None)
            if close is not None:
                close()
            forget()

    def _is_there(self, key: str) -> bool:
        content = self._entries.get(key)
        return content is not None and content["status"] == "done"

    def _started(self, task: Task) -> None:
        if self._watch is not None:
            self._watch.started(task)


@contextmanager
def parts_in(out: Path | None, command: str, name: str, jobs: int | None) -> Iterator[Parts]:
    """Run the parts of one command while the block runs, in processes of this machine.

    ``out`` is the directory for results and store (an existing one is resumed; None: nothing is kept); the
    store of another ``command``, or of other logs (``name``), is refused. ``jobs`` is the number of
    processes; 1: this one, None: automatic. Raises InputError if the directory is something else, or in use,
    and OutputError if it cannot be written.
    """
    executor = Serial() if jobs == 1 else Processes(jobs)
    watch = ProgressDisplay(command, shown=True, things="parts known so far")
    if out is None:
        try:
            yield Parts(None, executor, watch)
        finally:
            watch.end()
        return
    store = Store.open(out, name, command)
    with locked(store):
        store.clear_unfinished()
        try:
            yield Parts(store, executor, watch)
        finally:
            watch.end()


def write_tables(directory: Path, texts: Mapping[str, str | None]) -> None:
    """Write files into a directory, each atomically.

    ``texts`` maps names to texts; None removes the file of an earlier command. Raises OutputError on failure.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            if text is None:
                (directory / name).unlink(missing_ok=True)
            else:
                write_whole(directory / name, text.encode())
    except OSError as error:
        raise disk_error(directory, error) from error


def shared_weeks(scenario: Scenario) -> LogWeeks:
    """Return the weeks of a scenario's log, cut once for all parts in one process."""

    def make() -> tuple[LogWeeks, int]:
        weeks = weeks_of(scenario)
        return weeks, sum(map(bytes_of, weeks.blocks.values()))

    return shared(("weeks", dump(scenario)), make)
