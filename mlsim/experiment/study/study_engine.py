"""Run a study and write its results."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from mlsim._files import expanded, read_bytes
from mlsim._runtime.forks import check_fork
from mlsim._runtime.shared_cache import forget
from mlsim.errors import InputError
from mlsim.experiment.study.axes import words_of
from mlsim.experiment.study.study_executors import Executor, Processes, Serial
from mlsim.experiment.study.study_model import Done, Study, Task
from mlsim.experiment.study.study_plan import StudyRow
from mlsim.experiment.study.study_results import check_complete, write_results
from mlsim.experiment.study.study_runner import ProgressListener, StudyRunner
from mlsim.experiment.study.study_store import Memory, Results, Store, disk_error, holder, locked, write_whole


def default_directory(study: Study) -> Path:
    """Return the default directory for the results of a study."""
    return Path("runs") / study.name


def run_study(
    study: Study,
    *,
    out: str | Path | None = None,
    progress: Callable[[StudyRow, int], None] | None = None,
    jobs: int | None = 1,
    executor: Executor | None = None,
    force: bool = False,
    retry_failed: bool = False,
    watch: ProgressListener | None = None,
) -> list[StudyRow]:
    """Run a study: simulate every combination that its store lacks, and write tables and pictures.

    Parameters
    ----------
    study
        From :func:`load_study`.
    out
        Directory for the results and the store of all runs. An existing one is resumed: runs that it has are
        not simulated again. Without it nothing is written.
    progress
        Called with each row when its run is done, and the number of rows (of a search: the largest number).
    jobs
        Number of processes; 1: this one, unless the study has a timeout. None: as many as are worthwhile.
    executor
        Executes the runs instead of processes of this machine.
    force
        Repeat all runs.
    retry_failed
        Repeat runs that have failed.
    watch
        Is notified of the progress of the study.

    Returns
    -------
    list of StudyRow
        One per combination, in order; of a search, one per run of each candidate; with failures.

    Raises
    ------
    InputError
        If a file that a scenario names cannot be used, the directory is no store of this study, another
        process is running the study, or no candidate of a search can be evaluated.
    OutputError
        If results cannot be written. All finished runs are kept.
    """
    check_fork()
    hands = executor or _executor(study, jobs)
    expected = None if study.search is None else study.search.most_runs
    if out is None:
        runner = StudyRunner(study, Memory(), None, hands, progress=progress, watch=watch, expected=expected)
        return _rows(study, runner, hands)
    store = Store.open(Path(out), study.name, study.subject.kind)
    with locked(store):
        store.clear_unfinished()
        runner = StudyRunner(
            study,
            store,
            store,
            hands,
            progress=progress,
            watch=watch,
            force=force,
            retry_failed=retry_failed,
            expected=expected,
        )
        rows = _rows(study, runner, hands)
        with _disk(store):
            results = _written(store, study, rows)
    check_complete(results)
    return rows


def missing_tasks(
    study: Study, out: Path, *, force: bool = False, retry_failed: bool = False
) -> tuple[Sequence[str], list[Task], Store]:
    """Return the keys of a study's runs, the tasks that its store lacks, and the store; nothing is written.

    Of a search these are the first generation that is missing, and the keys up to it.
    """
    from mlsim.experiment.study.study_store import check_store

    check_store(out, study.name, study.subject.kind)
    store = Store(out)
    if study.search is not None:
        from mlsim.experiment.study.search_run import Rehearsal, rehearsed

        runner = StudyRunner(study, store, store, Rehearsal(), force=force, retry_failed=retry_failed)
        tasks = rehearsed(study, runner)
        return runner.keys, tasks, store
    plan, tasks = StudyRunner(study, store, store, Serial(), force=force, retry_failed=retry_failed).plan(
        study
    )
    plan.check_files(tasks)
    return plan.keys, tasks, store


def _executor(study: Study, jobs: int | None) -> Executor:
    return Serial() if jobs == 1 and study.timeout is None else Processes(jobs)


def _rows(study: Study, runner: StudyRunner, executor: Executor) -> list[StudyRow]:
    """Execute all missing runs."""
    try:
        if study.search is None:
            return runner.rows(study)
        from mlsim.experiment.study.search_run import search_rows

        with executor.kept() if isinstance(executor, Processes) else nullcontext():
            rows = search_rows(study, runner)
        runner.all_known()
        return rows
    finally:
        forget()
        runner.end()


def _written(store: Store, study: Study, rows: Sequence[StudyRow]) -> Results:
    if study.search is None:
        return write_results(store, study, rows)
    from mlsim._runtime.late import load_matplotlib

    load_matplotlib()
    from mlsim.experiment.study.search_results import write_search

    return write_search(store, study, rows)


@contextmanager
def _disk(store: Store) -> Iterator[None]:
    """Raise failures to write results as errors that state that no run is lost."""
    try:
        yield
    except OSError as error:
        raise disk_error(store.directory, error) from error


_STATE = "state.json"
_BETWEEN = 1.0
"""Seconds between two states that are kept."""
_RUNS = "runs"
_SHOWN = 8
"""Running runs that are named."""


class ProgressDisplay:
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
            return
        if not self._shown or there == total:
            return
        if sys.stderr.isatty():
            self._bar = _bar()
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
        if self._bar is None:
            return
        state = (
            f"{self._there + self._done}/{self._total}, {self._failed} failed, {len(self._running)} running"
        )
        self._bar.update(self._task, completed=self._there + self._done, total=self._total, state=state)

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


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


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
            "one in runs/NAME, or where --out says, and `mlsim learn` where its --out says"
        ) from error
    ended = there + done
    who = holder(store)
    yield f"{directory}: {ended} of {total} {things} are done; {failed} of them failed since the last start"
    if who:
        left = (at - began) / done * (total - ended) if done else None
        words = "" if left is None else f"; about {time_words(left)} left"
        yield f"{who} is running it{words}"
        for words in running:
            yield f"running: {words}"
    elif ended < total:
        yield "no process is working on it; run the same command to continue"


def seconds_there(keys: Iterable[str], store: Store) -> list[float]:
    """Return the durations of the runs that a study's store has."""
    found = (store.get(key) for key in dict.fromkeys(keys))
    return [content["seconds"] for content in found if content is not None]


def time_words(seconds: float) -> str:
    """Format a duration in its natural unit."""
    for unit, size in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
