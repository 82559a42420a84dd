"""Execute the runs that the store of a study lacks; show and keep the progress."""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from mlsim._files import expanded, read_bytes
from mlsim._runtime.shared_cache import forget
from mlsim.errors import InputError, OutputError
from mlsim.experiment.study.axes import words_of
from mlsim.experiment.study.study_executors import Executor, Serial
from mlsim.experiment.study.study_model import Done, Study, Task
from mlsim.experiment.study.study_plan import Digests, Plan, StudyRow, plan_of, row_of
from mlsim.experiment.study.study_store import Entries, Store, holder, write_whole

_STATE = "state.json"
_BETWEEN = 1.0  # seconds between two states that are kept
_RUNS = "runs"
_SHOWN = 8  # running runs that are named


class ProgressListener:
    """Is notified of the progress of a study; this one ignores it."""

    def begin(self, total: int, there: int, store: Store | None) -> None:
        """Receive the total number of runs, and how many exist; for a search, again at each generation."""

    def started(self, task: Task) -> None:
        """Receive a run that has started."""

    def done(self, task: Task, done: Done) -> None:
        """Receive a run that has ended."""

    def note(self, words: str) -> None:
        """Receive an intermediate result in words."""

    def end(self) -> None:
        """Receive that no run is in progress any more."""


def executed(
    tasks: Mapping[str, Task], executor: Executor, entries: Entries, watch: ProgressListener
) -> Generator[Done, None, None]:
    """Execute tasks, and keep and yield each result when it is available; close this to cancel the rest."""
    if not isinstance(executor, Serial):
        forget()  # this process has read inputs for the check; others execute the runs
    results = executor.results(list(tasks.values()), watch.started)
    try:
        for done in results:
            if done.stops:
                raise OutputError(done.stops)
            if done.content is not None:
                entries.put(done.key, done.content)
            watch.done(tasks[done.key], done)
            yield done
    finally:
        close: Callable[[], None] = getattr(results, "close", lambda: None)
        close()


class StudyRunner:
    """Executes the runs of one study, which may come in parts: a search knows one generation at a time."""

    def __init__(
        self,
        study: Study,
        entries: Entries,
        executor: Executor,
        *,
        progress: Callable[[StudyRow, int], None] | None = None,
        watch: ProgressListener | None = None,
        force: bool = False,
        retry_failed: bool = False,
    ) -> None:
        self._entries, self._executor = entries, executor
        self._store = entries if isinstance(entries, Store) else None
        self._progress, self.watch = progress, watch or ProgressListener()
        self._force, self._retry_failed = force, retry_failed
        self._most_runs = 0 if study.search is None else study.search.most_runs
        self._digests = Digests(study.subject.kind, study.cases.base.directory)
        self.keys: set[str] = set()  # of all runs so far
        self._there = 0  # runs that were stored already

    def plan(self, study: Study) -> tuple[Plan, list[Task]]:
        """Return the runs of a study, or of a part of one, and the tasks that are missing."""
        plan = plan_of(study, self._digests)
        directory = None if self._store is None else self._store.directory
        again = {"force": self._force, "retry_failed": self._retry_failed}
        return plan, plan.missing(self._entries, directory, self.keys, **again)

    def rows(self, study: Study, *, check: bool = True) -> list[StudyRow]:
        """Execute the missing runs of a study or a part, maybe after a check; return all its rows."""
        plan, tasks = self.plan(study)
        if check:
            plan.check_files(tasks)
        new = set(plan.keys) - self.keys
        self.keys |= new
        self._there += len(new) - len(tasks)
        self.watch.begin(max(self._most_runs, len(self.keys)), self._there, self._store)
        made = self._execute(plan, {task.key: task for task in tasks})
        return [
            made.get(place) or row_of(study, point, key, self._entries)
            for place, (point, key) in enumerate(zip(study.points, plan.keys, strict=True))
        ]

    def _execute(self, plan: Plan, tasks: Mapping[str, Task]) -> dict[int, StudyRow]:
        """Execute tasks; return the rows that were reported, by position."""
        places: dict[str, list[int]] = defaultdict(list)
        for place, key in enumerate(plan.keys):
            places[key].append(place)
        made: dict[int, StudyRow] = {}
        with closing(executed(tasks, self._executor, self._entries, self.watch)) as results:
            for done in results:
                if self._progress is None:
                    continue
                for place in places[done.key]:
                    made[place] = row_of(plan.study, plan.study.points[place], done.key, self._entries)
                    self._progress(made[place], self._most_runs or len(plan.keys))
        return made

    def all_known(self) -> None:
        """Report that no further runs follow."""
        self.watch.begin(len(self.keys), self._there, self._store)


class ProgressDisplay(ProgressListener):
    """Shows the progress of a study on standard error: a bar on a terminal, otherwise a line per event."""

    def __init__(self, name: str, *, shown: bool, things: str = _RUNS) -> None:
        self._name, self._shown, self._things = name, shown, things
        self._total = self._there = self._done = self._failed = 0
        self._running: dict[str, str] = {}
        self._store: Store | None = None
        self._began = self._kept = 0.0
        self._bar: Any = None
        self._task: Any = None

    def begin(self, total: int, there: int, store: Store | None) -> None:
        """Show how many runs there are in total, and how many exist already."""
        again = self._began > 0.0
        self._total, self._there, self._store = total, there, store
        self._began = self._began or time.time()
        self._keep(now=True)
        if again:
            self._update()
        elif self._shown and there < total:
            if sys.stderr.isatty():
                from rich import progress
                from rich.console import Console

                self._bar = progress.Progress(
                    progress.TextColumn("{task.description}"),
                    progress.BarColumn(),
                    progress.TextColumn("{task.fields[state]}"),
                    progress.TimeRemainingColumn(),
                    console=Console(stderr=True),
                    transient=True,
                )
                self._bar.start()
                self._task = self._bar.add_task(self._name, total=total, completed=there, state="")
            else:
                self._say(f"{total} {self._things}, {there} are there, {total - there} to be done")

    def started(self, task: Task) -> None:
        """Show that a run has started."""
        self._running[task.key] = words_of(task.labels)
        self._keep()
        self._update()

    def done(self, task: Task, done: Done) -> None:
        """Show that a run has ended."""
        self._running.pop(task.key, None)
        self._done += 1
        self._failed += bool(done.failed)
        self._keep()
        self._update()
        if self._shown and self._bar is None:
            ended = f"failed: {done.failed}" if done.failed else f"done in {done.seconds:.3g} s"
            place = self._there + self._done
            self._say(f"{place}/{self._total} {words_of(task.labels)}: {ended}")

    def note(self, words: str) -> None:
        """Show an intermediate result."""
        if self._bar is not None:
            self._bar.console.print(f"{self._name}: {words}", highlight=False)
        elif self._shown:
            self._say(words)

    def end(self) -> None:
        """Show that no run is in progress any more."""
        self._running.clear()
        self._keep(now=True)
        if self._bar is not None:
            self._bar.stop()

    def _say(self, words: str) -> None:
        print(f"{self._name}: {words}", file=sys.stderr, flush=True)

    def _update(self) -> None:
        if self._bar is not None:
            ended = self._there + self._done
            state = f"{ended}/{self._total}, {self._failed} failed, {len(self._running)} running"
            self._bar.update(self._task, completed=ended, total=self._total, state=state)

    def _keep(self, *, now: bool = False) -> None:
        """Write the state for other processes; failures do not matter."""
        at = time.time()
        if self._store is None or (not now and at - self._kept < _BETWEEN):
            return
        self._kept = at
        state = {
            "things": self._things,
            "total": self._total,
            "there": self._there,
            "done": self._done,
            "failed": self._failed,
            "running": list(self._running.values())[:_SHOWN],
            "began": self._began,
            "at": at,
        }
        with suppress(OSError):
            write_whole(self._store.inner(_STATE), json.dumps(state).encode())


def status_of(directory: str | Path) -> Iterator[str]:
    """Describe the progress of a study, line by line; raise InputError if there is no store of one."""
    store = Store(expanded(directory))
    try:
        state = json.loads(read_bytes(store.inner(_STATE)))
        total, there, done, failed = (int(state[key]) for key in ("total", "there", "done", "failed"))
        running, began, at = list(state["running"]), float(state["began"]), float(state["at"])
        things = str(state.get("things", _RUNS))
    except (InputError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{directory}: no store of a study, or one that nothing has been done of; `mlsim study` makes "
            "one in runs/NAME or at --out, and `mlsim learn` at its --out"
        ) from error
    ended = there + done
    yield f"{directory}: {ended} of {total} {things} are done; {failed} of them failed since the last start"
    if who := holder(store):
        left = f"; about {time_words((at - began) / done * (total - ended))} left" if done else ""
        yield f"{who} is running it{left}"
        for words in running:
            yield f"running: {words}"
    elif ended < total:
        yield "no process is working on it; run the same command to continue"


def time_words(seconds: float) -> str:
    """Format a duration in its natural unit."""
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
