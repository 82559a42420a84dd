"""Run a study and write its results."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from mlsim._runtime.forks import check_fork
from mlsim._runtime.late import load_matplotlib
from mlsim._runtime.shared_cache import forget
from mlsim.experiment.study.study_executors import Executor, Processes, Serial
from mlsim.experiment.study.study_model import Study, Task
from mlsim.experiment.study.study_plan import StudyRow
from mlsim.experiment.study.study_results import check_complete, write_results
from mlsim.experiment.study.study_runner import ProgressListener, StudyRunner
from mlsim.experiment.study.study_store import Memory, Store, check_store, disk_error, locked


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
        If a file cannot be used, the directory is no store of this study, another process is running it, or
        no candidate of a search can be evaluated.
    OutputError
        If results cannot be written. All finished runs are kept.
    """
    check_fork()
    hands = executor or (Serial() if jobs == 1 and study.timeout is None else Processes(jobs))
    if out is None:
        return _rows(study, StudyRunner(study, Memory(), hands, progress=progress, watch=watch), hands)
    store = Store.open(Path(out), study.name, study.subject.kind)
    with locked(store):
        store.clear_unfinished()
        again = {"force": force, "retry_failed": retry_failed}
        rows = _rows(study, StudyRunner(study, store, hands, progress=progress, watch=watch, **again), hands)
        try:
            if study.search is None:
                results = write_results(store, study, rows)
            else:
                load_matplotlib()
                from mlsim.experiment.study.search_results import write_search

                results = write_search(store, study, rows)
        except OSError as error:
            raise disk_error(store.directory, error) from error
    check_complete(results)
    return rows


def missing_tasks(
    study: Study, out: Path, *, force: bool = False, retry_failed: bool = False
) -> tuple[int, list[Task], list[float]]:
    """Return the number of runs (of a search: so far), the tasks to execute, and seconds of stored runs."""
    from mlsim.experiment.study.search_run import Rehearsal, rehearsed

    check_store(out, study.name, study.subject.kind)
    store = Store(out)
    runner = StudyRunner(study, store, Rehearsal(), force=force, retry_failed=retry_failed)
    if study.search is not None:
        tasks = rehearsed(study, runner)
        keys = runner.keys
    else:
        plan, tasks = runner.plan(study)
        plan.check_files(tasks)
        keys = set(plan.keys)
    there = (store.get(key) for key in keys)
    return len(keys), tasks, [content["seconds"] for content in there if content is not None]


def _rows(study: Study, runner: StudyRunner, executor: Executor) -> list[StudyRow]:
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
        runner.watch.end()
