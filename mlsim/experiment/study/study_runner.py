"""Run a study: execute the runs that its store lacks, show and keep the progress, write the results."""

import json
import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mlsim._files import expanded, read_bytes
from mlsim._runtime.forks import check_fork
from mlsim._runtime.shared_cache import forget
from mlsim.errors import InputError, OutputError
from mlsim.experiment.run_status import terminal_bar
from mlsim.experiment.study import search_file, study_store
from mlsim.experiment.study.axes import words_of
from mlsim.experiment.study.search_methods import PACKAGES, Search, method_of
from mlsim.experiment.study.study_executors import Executor, Processes, Serial, Started
from mlsim.experiment.study.study_model import Done, Study, Task
from mlsim.experiment.study.study_plan import Digests, Plan, StudyRow, plan_of, row_of
from mlsim.experiment.study.study_store import Entries, Store

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
        return _rows(
            study, StudyRunner(study, study_store.Memory(), hands, progress=progress, watch=watch), hands
        )
    store = Store.open(Path(out), study.name, study.subject.kind)
    with study_store.locked(store):
        store.clear_unfinished()
        again = {"force": force, "retry_failed": retry_failed}
        rows = _rows(study, StudyRunner(study, store, hands, progress=progress, watch=watch, **again), hands)
        from mlsim.experiment.study import study_results  # now, as it takes memory and time to load

        try:
            results = study_results.write_results(store, study, rows)
        except OSError as error:
            raise study_store.disk_error(store.directory, error) from error
    study_results.check_complete(results)
    return rows


def missing_tasks(
    study: Study, out: Path, *, force: bool = False, retry_failed: bool = False
) -> tuple[int, list[Task], list[float]]:
    """Return the number of runs (of a search: so far), the tasks to execute, and seconds of stored runs."""
    study_store.check_store(out, study.name, study.subject.kind)
    store = Store(out)
    runner = StudyRunner(study, store, _Rehearsal(), force=force, retry_failed=retry_failed)
    if study.search is not None:
        tasks = _rehearsed(study, runner)
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
        with executor.kept() if isinstance(executor, Processes) else nullcontext():
            rows = _search_rows(study, runner)
        runner.all_known()
        return rows
    finally:
        forget()
        runner.watch.end()


def _search_rows(study: Study, runner: StudyRunner) -> list[StudyRow]:
    """Search; return a row per run, in the order of the candidates."""
    search = study.search
    assert search is not None, "called for searches only"
    package, extra = PACKAGES.get(search.method, ("", ""))
    if package and find_spec(package) is None:
        raise InputError(
            f"{study.source}: search: method: {search.method}: needs the package {package}, which is not "
            f"installed; pip install 'mlsim[{extra}]', or use random"
        )
    plan, tasks = runner.plan(study)
    plan.check_files(tasks)

    def baselines(part: str) -> list[StudyRow]:
        points = search_file.baseline_points(search, part)
        return runner.rows(study.part(points)) if points else []

    rows = baselines(search_file.FITTED)
    divisors = search_file.tried_of(
        search, [row for row in rows if row.labels["candidate"] == search.relative]
    )
    below = divisors[0].values if divisors else None
    for name, value in (below or {}).items():
        if not value > 0.0:
            why = f"; {divisors[0].failed[0]}" if divisors[0].failed else ""
            raise InputError(
                f"{study.source}: search: relative: {search.relative} has {search.title} {value:g} "
                f"({name or 'its one run'}), by which nothing can be divided{why}"
            )
    candidates = _candidates(study, search, runner, rows, below)
    best = search_file.best_of(search, candidates)
    assert best is not None, "otherwise the first generation has ended the search"
    if search.held_out:
        points = search_file.candidate_points(
            search, best.values_of(search), int(best.name), int(best.generation), search_file.HELD_OUT
        )
        rows += runner.rows(study.part(points), check=False)
        rows += baselines(search_file.HELD_OUT)
    return rows


def _candidates(
    study: Study, search: Search, runner: StudyRunner, rows: list[StudyRow], below: Mapping[str, float] | None
) -> list[search_file.Tried]:
    """Evaluate candidates until the method or the budget ends; add their rows to ``rows``."""
    method = method_of(search)
    candidates: list[search_file.Tried] = []
    worst = -math.inf
    generation = 0
    while len(candidates) < search.options.evaluations:
        asked = method.ask()
        if not asked:
            break
        generation += 1
        tried = asked[: search.options.evaluations - len(candidates)]
        points = [
            point
            for number, values in enumerate(tried, start=len(candidates) + 1)
            for point in search_file.candidate_points(search, values, number, generation)
        ]
        found = runner.rows(study.part(points), check=False)
        rows += found
        new = search_file.tried_of(search, found, below)
        candidates += new
        worst = max([worst, *(search.loss(one.objective) for one in new if one.works)])
        best = search_file.best_of(search, candidates)
        if best is None:
            failed = (one.failed[0] for one in candidates if one.failed)
            raise InputError(
                f"{study.source}: search: none of the {len(candidates)} candidates of the first generation "
                f"can be judged: {next(failed, f'none has a value of {search.metric}')}"
            )
        runner.watch.note(
            f"generation {generation}, {len(candidates)} of {search.options.evaluations} candidates: best "
            f"{search.objective} {best.objective:.6g}, of candidate {best.name} ({words_of(best.labels)})"
        )
        if len(tried) == len(asked):
            method.tell([search.loss(one.objective) if one.works else worst for one in new])
    return candidates


class _Rehearsal:
    """An executor that stops at the first tasks: which come later depends on their results."""

    def results(self, tasks: Sequence[Task], _started: Started, /) -> Iterator[Done]:
        """Stop if there are tasks."""
        if tasks:
            raise _StopError(list(tasks))
        return iter(())


class _StopError(Exception):
    """The next tasks are known: its argument."""


def _rehearsed(study: Study, runner: StudyRunner) -> list[Task]:
    """Return the tasks that a search would execute next; the runner must have a :class:`_Rehearsal`."""
    try:
        _search_rows(study, runner)
    except _StopError as stop:
        return list(stop.args[0])
    return []


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
                self._bar = terminal_bar()
                self._bar.start()
                self._task = self._bar.add_task(self._name, total=total, completed=there, state="")
            else:
                self._say(f"{there} of {total} {self._things} done, {total - there} to do")

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
            study_store.write_whole(self._store.inner(_STATE), json.dumps(state).encode())


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
    if who := study_store.holder(store):
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
