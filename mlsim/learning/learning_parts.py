"""Learning in parts that executors compute and a store keeps."""

import base64
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from mlsim._files import expanded
from mlsim._runtime.arrays import Floats
from mlsim._runtime.shared_cache import bytes_of, forget, shared
from mlsim.errors import MlsimError
from mlsim.experiment.study import axes, study_plan, study_store
from mlsim.experiment.study.study_executors import Executor, Processes, Serial
from mlsim.experiment.study.study_model import Base, Simulated, Subject, Task
from mlsim.experiment.study.study_runner import ProgressDisplay, ProgressListener, executed
from mlsim.experiment.weekly_runs import NO_RECORDS, LogWeeks, weeks_of
from mlsim.scenario import Scenario, dump


@dataclass(frozen=True)
class Part:
    """One part of a command: a function of a module, which takes the scenario of a log and options."""

    labels: Mapping[str, str]  # for messages
    scenario: Scenario
    function: Callable[..., Floats]
    options: Sequence[Any] = ()


@dataclass(frozen=True)
class _Work(Subject):
    """The work of one part as a task of a study; its result is one row of numbers."""

    kind = "learning"
    function: Callable[..., Floats]
    options: Sequence[Any]

    def check(self, scenario: Scenario) -> None:
        """Check nothing: the parts' caller has read all they need."""

    def empty(self) -> Mapping[str, Any]:
        return {"found": ""}

    def simulate(self, scenario: Scenario, _chunks: bool, /) -> Simulated:
        found = np.ascontiguousarray(self.function(scenario, *self.options), np.float64)
        data = base64.b64encode(zlib.compress(found.tobytes(), 1)).decode("ascii")
        return Simulated(scenario, {"found": data}, NO_RECORDS)

    def words(self) -> list[str]:
        """Return all that the result depends on besides the scenario."""
        return [self.function.__qualname__, *map(_words, self.options)]

    def __reduce__(self) -> str | tuple[Any, ...]:
        return _Work, (self.function, self.options)


def _words(value: Any) -> str:
    """Return an option as text that is unique to its value: repr truncates the numbers of an array."""
    if isinstance(value, np.ndarray):
        return repr(value.tolist())
    if hasattr(value, "__dataclass_fields__"):
        return repr([_words(getattr(value, field.name)) for field in fields(value)])
    return repr(value)


class Parts:
    """Runs parts that the store does not have yet; by default in this process, with results in memory."""

    def __init__(
        self,
        entries: study_store.Entries | None = None,
        executor: Executor | None = None,
        watch: ProgressListener | None = None,
    ) -> None:
        self._entries: study_store.Entries = study_store.Memory() if entries is None else entries
        self._store = entries if isinstance(entries, study_store.Store) else None
        self._executor = executor or Serial()
        self._watch = watch or ProgressListener()
        self._digests: dict[Path, study_plan.Digests] = {}
        self._known: set[str] = set()
        self._there = self._planned = 0

    def plan(self, count: int) -> None:
        """Set how many parts there will be in all, where the caller knows it before it asks for them."""
        self._planned = len(self._known) + count

    def results(self, parts: Sequence[Part]) -> Iterator[Floats]:
        """Run parts, and yield their results in order; raises MlsimError if one fails, after it is kept."""
        tasks = [self._task(part) for part in parts]
        self._execute({task.key: task for task in tasks})
        for task in tasks:
            content = self._entries.get(task.key)
            assert content is not None, "it was done or there"
            data = zlib.decompress(base64.b64decode(content["summary"]["found"]))
            yield np.frombuffer(data, np.float64)

    def _task(self, part: Part) -> Task:
        work = _Work(part.function, part.options)
        source = part.scenario.source
        base = Base(dump(part.scenario), source, expanded(Path(source)).parent)
        digests = self._digests.setdefault(base.directory, study_plan.Digests(work.kind, base.directory))
        key = digests.of({**work.given(base, {}), "learning": work.words()})
        store = None if self._store is None else self._store.directory
        return Task(key, part.labels, work, base, {}, keep="summary", output="", store=store)

    def _execute(self, tasks: Mapping[str, Task]) -> None:
        """Run the tasks without results; those that failed before run once more."""
        there = {key for key in tasks if (self._entries.get(key) or {}).get("status") == "done"}
        missing = {key: task for key, task in tasks.items() if key not in there}
        new = set(tasks) - self._known
        self._there += len(new) - len(missing)
        self._known |= new
        self._watch.begin(max(len(self._known), self._planned), self._there, self._store)
        try:
            with closing(executed(missing, self._executor, self._entries, self._watch)) as results:
                for done in results:
                    if done.failed:
                        raise MlsimError(f"{axes.words_of(tasks[done.key].labels)}: {done.failed}")
        finally:
            forget()


@contextmanager
def parts_in(out: Path | None, command: str, name: str, jobs: int | None) -> Iterator[Parts]:
    """Run the parts of one command while the block runs, in processes (1: this one, None: automatic).

    ``out`` is resumed if it is the store of this ``command`` and logs (``name``); None: nothing is kept.
    """
    executor = Serial() if jobs == 1 else Processes(jobs)
    watch = ProgressDisplay(command, shown=True, things="parts")
    store = None if out is None else study_store.Store.open(out, name, command)
    with nullcontext() if store is None else study_store.locked(store):
        if store is not None:
            store.clear_unfinished()
        try:
            yield Parts(store, executor, watch)
        finally:
            watch.end()


def write_tables(directory: Path, tables: Mapping[str, pl.DataFrame | str | None]) -> None:
    """Write tables (as CSV) and texts into a directory; None removes the file of an earlier command."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            if table is None:
                (directory / name).unlink(missing_ok=True)
            else:
                text = table if isinstance(table, str) else table.write_csv()
                study_store.write_whole(directory / name, text.encode())
    except OSError as error:
        raise study_store.disk_error(directory, error) from error


def shared_weeks(scenario: Scenario) -> LogWeeks:
    """Return the weeks of a scenario's log, cut once for all parts in one process."""

    def make() -> tuple[LogWeeks, int]:
        weeks = weeks_of(scenario)
        return weeks, sum(map(bytes_of, weeks.blocks.values()))

    return shared(("weeks", dump(scenario)), make)
