"""Does a study: what its store lacks is simulated, by whichever executor, then all results are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from mlsim._shared import forget
from mlsim.errors import OutputError
from mlsim.experiment.study.executors.base import Executor
from mlsim.experiment.study.executors.processes import Processes
from mlsim.experiment.study.executors.serial import Serial
from mlsim.experiment.study.lock import locked
from mlsim.experiment.study.model import Study
from mlsim.experiment.study.planning import Plan, plan_of
from mlsim.experiment.study.results import check_complete, write_results
from mlsim.experiment.study.rows import StudyRow, row_of, rows_of
from mlsim.experiment.study.store import Entries, Memory, Store, disk_error
from mlsim.experiment.study.tasks import Done, Task

__all__ = ["Watcher", "default_directory", "missing_tasks", "run_study"]


class Watcher(Protocol):
    """Is told how far a study is."""

    def begin(self, total: int, there: int, store: Store | None) -> None:
        """Note how many runs are to be there in the end, and are there already."""

    def started(self, task: Task) -> None:
        """Note that a run is begun."""

    def done(self, task: Task, done: Done) -> None:
        """Note that a run has ended."""

    def end(self) -> None:
        """Note that no run is going on any more."""


def default_directory(study: Study) -> Path:
    """Return where the results of a study go if nothing else is said."""
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
    watch: Watcher | None = None,
) -> list[StudyRow]:
    """Do a study: simulate every combination that its store lacks, and write tables and pictures.

    Parameters
    ----------
    study
        From :func:`load_study`.
    out
        Directory for the results and the store of all runs. One that is there is taken up again: what it
        has is not simulated once more. Nothing is written without it.
    progress
        Called with each row, when its run is done, and how many rows there will be.
    jobs
        How many processes do runs; 1: this one, unless the study has a timeout, or stays in memory alone.
        None: as many as are worth it.
    executor
        What hands out runs in place of processes of this machine.
    force
        Do runs that are there once more.
    retry_failed
        Do runs that have failed once more.
    watch
        Is told how far the study is.

    Returns
    -------
    list of StudyRow
        One for each combination, in order. Those of runs that have failed say why.

    Raises
    ------
    InputError
        If a file that a scenario names cannot be used, or the directory is no store of this study, or another
        process is doing the study.
    OutputError
        If results cannot be written. All runs that were finished are kept.
    """
    plan = plan_of(study)
    hands = executor or _executor(study, jobs)
    if out is None:
        memory = Memory()
        _do(
            plan,
            memory,
            None,
            plan.missing(memory, None, force=False, retry_failed=False),
            hands,
            progress,
            watch,
        )
        return list(rows_of(plan, memory))
    store = Store.open(Path(out), study.name, study.subject.kind)
    with locked(store):
        store.clear_unfinished()
        tasks = plan.missing(store, store.directory, force=force, retry_failed=retry_failed)
        _do(plan, store, store, tasks, hands, progress, watch)
        rows = list(rows_of(plan, store))
        with _disk(store):
            results = write_results(store, study, rows)
    check_complete(results)
    return rows


def missing_tasks(
    study: Study, out: Path, *, force: bool = False, retry_failed: bool = False
) -> tuple[Plan, list[Task], Store]:
    """Return what of a study would be done, by what is in its store; nothing is written.

    Raises
    ------
    InputError
        As for :func:`run_study`.
    """
    from mlsim.experiment.study.store import check_store

    check_store(out, study.name, study.subject.kind)
    plan, store = plan_of(study), Store(out)
    tasks = plan.missing(store, out, force=force, retry_failed=retry_failed)
    plan.check_files(tasks)
    return plan, tasks, store


def _executor(study: Study, jobs: int | None) -> Executor:
    return Serial() if jobs == 1 and study.timeout is None else Processes(jobs)


def _do(
    plan: Plan,
    entries: Entries,
    store: Store | None,
    tasks: Sequence[Task],
    executor: Executor,
    progress: Callable[[StudyRow, int], None] | None,
    watch: Watcher | None,
) -> None:
    """Do the tasks of a study; what comes back is in the store then."""
    plan.check_files(tasks)
    if not isinstance(executor, Serial):
        forget()  # what this process has read for the check; others do the runs
    by_key = {task.key: task for task in tasks}
    places: dict[str, list[int]] = {}
    for place, key in enumerate(plan.keys):
        if key in by_key:
            places.setdefault(key, []).append(place)
    if watch is not None:
        watch.begin(len(set(plan.keys)), len(set(plan.keys)) - len(by_key), store)
    results = executor.results(tasks, _silent if watch is None else watch.started)
    try:
        for done in results:
            if done.stops:
                raise OutputError(done.stops)
            if done.content is not None:
                entries.put(done.key, done.content)
            if watch is not None:
                watch.done(by_key[done.key], done)
            for place in places[done.key] if progress is not None else ():
                assert progress is not None, "there are no places otherwise"
                progress(row_of(plan.study, plan.study.points[place], done.key, entries), len(plan.keys))
    finally:
        close: Any = getattr(results, "close", None)
        if close is not None:
            close()
        forget()
        if watch is not None:
            watch.end()


def _silent(_: Task) -> None:
    """Tell nobody."""


@contextmanager
def _disk(store: Store) -> Iterator[None]:
    """Turn failures to write results into errors that say that no run is lost."""
    try:
        yield
    except OSError as error:
        raise disk_error(store.directory, error) from error
