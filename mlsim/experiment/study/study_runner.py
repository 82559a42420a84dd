"""Execute the runs that the store of a study lacks; progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from mlsim._runtime.shared_cache import forget
from mlsim.errors import OutputError
from mlsim.experiment.study.study_executors import Executor, Serial
from mlsim.experiment.study.study_model import Done, Study, Task
from mlsim.experiment.study.study_plan import Digests, Plan, StudyRow, plan_of, row_of, rows_of
from mlsim.experiment.study.study_store import Entries, Store


class ProgressListener(Protocol):
    """Is notified of the progress of a study."""

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


class StudyRunner:
    """Executes the runs of one study, which may come in parts: a search knows one generation at a time.

    ``entries`` are the stored results, the same as ``store`` if that is a directory. ``expected`` is the
    largest number of runs; None: those of the one part.
    """

    def __init__(
        self,
        study: Study,
        entries: Entries,
        store: Store | None,
        executor: Executor,
        *,
        progress: Callable[[StudyRow, int], None] | None = None,
        watch: ProgressListener | None = None,
        force: bool = False,
        retry_failed: bool = False,
        expected: int | None = None,
    ) -> None:
        self._entries, self._store, self._executor = entries, store, executor
        self._progress, self._watch = progress, watch
        self._force, self._retry_failed = force, retry_failed
        self._expected = expected
        self._digests = Digests(study.subject.kind, study.cases.base.directory)
        self._known: set[str] = set()
        self._there = 0
        """Number of runs that were stored already."""

    @property
    def keys(self) -> Sequence[str]:
        """Keys of all runs so far."""
        return list(self._known)

    def plan(self, study: Study) -> tuple[Plan, list[Task]]:
        """Return the runs of a study, or of a part of one, and the tasks that are missing."""
        plan = plan_of(study, self._digests)
        directory = None if self._store is None else self._store.directory
        tasks = plan.missing(
            self._entries, directory, force=self._force, retry_failed=self._retry_failed, but=self._known
        )
        return plan, tasks

    def rows(self, study: Study, *, check: bool = True) -> list[StudyRow]:
        """Execute the missing runs of a study, or of a part of one, and return its rows.

        With ``check``, a combination that cannot be simulated is an error before the first run; otherwise its
        run fails.
        """
        plan, tasks = self.plan(study)
        if check:
            plan.check_files(tasks)
        new = set(plan.keys) - self._known
        self._known |= new
        self._there += len(new) - len(tasks)
        shown = self._do(plan, tasks)
        return rows_of(plan, self._entries, shown)

    def note(self, words: str) -> None:
        """Report an intermediate result."""
        if self._watch is not None:
            self._watch.note(words)

    def all_known(self) -> None:
        """Report that no further runs follow."""
        if self._watch is not None:
            self._watch.begin(len(self._known), self._there, self._store)

    def end(self) -> None:
        """Report that no run is in progress any more."""
        if self._watch is not None:
            self._watch.end()

    def _do(self, plan: Plan, tasks: Sequence[Task]) -> dict[int, StudyRow]:
        """Execute tasks, whose results are stored; return the rows that were reported, by position."""
        if not isinstance(self._executor, Serial):
            forget()  # what this process has read for the check; others do the runs
        by_key = {task.key: task for task in tasks}
        places: dict[str, list[int]] = {}
        for place, key in enumerate(plan.keys):
            if key in by_key:
                places.setdefault(key, []).append(place)
        watch = self._watch
        if watch is not None:
            watch.begin(max(self._expected or 0, len(self._known)), self._there, self._store)
        results = self._executor.results(tasks, _silent if watch is None else watch.started)
        total = self._expected or len(plan.keys)
        shown: dict[int, StudyRow] = {}
        try:
            for done in results:
                if done.stops:
                    raise OutputError(done.stops)
                if done.content is not None:
                    self._entries.put(done.key, done.content)
                if watch is not None:
                    watch.done(by_key[done.key], done)
                for place in places[done.key] if self._progress is not None else ():
                    assert self._progress is not None, "there are no places otherwise"
                    point = plan.study.points[place]
                    shown[place] = row_of(plan.study, point, done.key, self._entries)
                    self._progress(shown[place], total)
        finally:
            close: Any = getattr(results, "close", None)
            if close is not None:
                close()
        return shown


def _silent(_: Task) -> None:
    """Report no progress."""
