"""Does a study: what its store lacks is simulated, by whichever executor, then all results are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from mlsim._forks import check_fork
from mlsim._shared import forget
from mlsim.experiment.study.doing import Doing, Watcher
from mlsim.experiment.study.executors.base import Executor
from mlsim.experiment.study.executors.processes import Processes
from mlsim.experiment.study.executors.serial import Serial
from mlsim.experiment.study.lock import locked
from mlsim.experiment.study.model import Study
from mlsim.experiment.study.results import Results, check_complete, write_results
from mlsim.experiment.study.rows import StudyRow
from mlsim.experiment.study.store import Memory, Store, disk_error
from mlsim.experiment.study.tasks import Task

__all__ = ["Watcher", "default_directory", "missing_tasks", "run_study"]


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
        Called with each row, when its run is done, and how many rows there will be (of a search: at most).
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
        One for each combination, in order; of a search, for each run of each candidate. Those of runs that
        have failed say why.

    Raises
    ------
    InputError
        If a file that a scenario names cannot be used, or the directory is no store of this study, or another
        process is doing the study; or if no candidate of a search can be judged.
    OutputError
        If results cannot be written. All runs that were finished are kept.
    """
    check_fork()
    hands = executor or _executor(study, jobs)
    expected = None if study.search is None else study.search.most_runs
    if out is None:
        doing = Doing(study, Memory(), None, hands, progress=progress, watch=watch, expected=expected)
        return _rows(study, doing, hands)
    store = Store.open(Path(out), study.name, study.subject.kind)
    with locked(store):
        store.clear_unfinished()
        doing = Doing(
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
        rows = _rows(study, doing, hands)
        with _disk(store):
            results = _written(store, study, rows)
    check_complete(results)
    return rows


def missing_tasks(
    study: Study, out: Path, *, force: bool = False, retry_failed: bool = False
) -> tuple[Sequence[str], list[Task], Store]:
    """Return the keys of a study's runs, and what would be done, by what is in its store; nothing is written.

    Of a search these are the runs of the first generation that is not there, and the keys up to it: which
    runs come later depends on what comes out of it.

    Raises
    ------
    InputError
        As for :func:`run_study`.
    """
    from mlsim.experiment.study.store import check_store

    check_store(out, study.name, study.subject.kind)
    store = Store(out)
    if study.search is not None:
        from mlsim.experiment.study.search.searching import Rehearsal, rehearsed

        doing = Doing(study, store, store, Rehearsal(), force=force, retry_failed=retry_failed)
        tasks = rehearsed(study, doing)
        return doing.keys, tasks, store
    plan, tasks = Doing(study, store, store, Serial(), force=force, retry_failed=retry_failed).plan(study)
    plan.check_files(tasks)
    return plan.keys, tasks, store


def _executor(study: Study, jobs: int | None) -> Executor:
    return Serial() if jobs == 1 and study.timeout is None else Processes(jobs)


def _rows(study: Study, doing: Doing, executor: Executor) -> list[StudyRow]:
    """Have all runs done."""
    try:
        if study.search is None:
            return doing.rows(study)
        from mlsim.experiment.study.search.searching import search_rows

        with executor.kept() if isinstance(executor, Processes) else nullcontext():
            rows = search_rows(study, doing)
        doing.all_known()
        return rows
    finally:
        forget()
        doing.end()


def _written(store: Store, study: Study, rows: Sequence[StudyRow]) -> Results:
    if study.search is None:
        return write_results(store, study, rows)
    from mlsim.experiment.study.search.results import write_search

    return write_search(store, study, rows)


@contextmanager
def _disk(store: Store) -> Iterator[None]:
    """Turn failures to write results into errors that say that no run is lost."""
    try:
        yield
    except OSError as error:
        raise disk_error(store.directory, error) from error
