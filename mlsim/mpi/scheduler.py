"""A loop over iterations that the ranks of a communicator share by a technique."""

from __future__ import annotations

import math
import os
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from mpi4py import MPI

from mlsim._runtime.arrays import Floats
from mlsim.application.selection.selector import Progress, Selected
from mlsim.application.techniques import Choice
from mlsim.application.time_steps import StepHistory
from mlsim.errors import InputError, MlsimError
from mlsim.execution_models.cca import next_length
from mlsim.mpi.loop_context import Context, RankTimes, Requests, allgather
from mlsim.mpi.loop_options import BREAK_EVERY, WARN_AFTER, LoopOptions, chosen
from mlsim.mpi.loop_report import Gathered, LoopReport, gather
from mlsim.mpi.loop_selection import Selecting, check_amid, is_auto, selection_of
from mlsim.mpi.rank_layout import Clock, Layout
from mlsim.mpi.rank_waiting import Alarm, Patience, abort_with_words, serve_while_waiting, stop_serving
from mlsim.mpi.rca.idle_reports import Reporter
from mlsim.mpi.rca.wire import ADDRESS
from mlsim.mpi.real_model import Amid, Model, Setting
from mlsim.record import Records
from mlsim.scenario import KnownCosts, SelectionConfig
from mlsim.scenario.words import ExecutionModel

_INTERRUPTED = 130
_NO_NAME = "loop"
_NOTHING_TO_WRITE = "LoopScheduler: nothing to write; give record=True, and write on rank 0"

_now = time.perf_counter


class LoopScheduler:
    """Self-schedules the iterations of a loop over the ranks of a communicator.

    All ranks make it with the same arguments, enter it with ``with``, iterate over it once, and leave it
    together. An exception in the body of one rank ends the whole run with that error.

    Parameters
    ----------
    comm
        Ranks that take part; it is duplicated.
    n
        Iterations.
    technique, model
        Chunk sizes, and who computes them; see :class:`LoopOptions`, also for all other options.
    record
        Whether to keep a row for every chunk; a path: also write them, as a run directory, on leaving.
    name
        Of the loop, in what is recorded.
    after
        The loop of the time step before, on the same ranks: AWF takes the weights from there.
    last
        Whether no loop follows on these ranks: nodes without work are then reported to the RCA agent, if
        there is one. See also :meth:`release`.
    selection
        For ``technique="auto"``: method, portfolio and their options, as the scenario's section
        ``application.selection``; loops that are a chain by ``after`` are the time steps.
    profile
        float64[N]: what each iteration costs, in s up to a factor, as an earlier run has stored it; with
        ``selection={"costs": "profile"}``, on rank 0.
    **options
        Other fields of :class:`LoopOptions`.

    Raises
    ------
    InputError
        On all ranks, if an option cannot be used or differs between ranks.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> from mlsim.mpi import LoopScheduler
    >>> squares = []
    >>> with LoopScheduler(MPI.COMM_SELF, n=10, technique="GSS", model="dca") as loop:
    ...     for start, size in loop:
    ...         squares += [i * i for i in range(start, start + size)]
    >>> sum(squares), loop.report().chunks
    (285, 1)
    """

    def __init__(
        self,
        comm: MPI.Intracomm,
        n: int,
        technique: str = "GSS",
        model: str = "dca",
        *,
        record: bool | str | Path = False,
        name: str = _NO_NAME,
        after: LoopScheduler | None = None,
        last: bool = False,
        selection: Mapping[str, Any] | SelectionConfig | None = None,
        profile: Floats | None = None,
        **options: Any,
    ) -> None:
        self.name = name
        self._selecting: Selecting | None = None
        self._selection, self._profile = selection, profile
        self._record = record
        self._report: LoopReport | None = None
        self._records: Records | None = None
        self._requests: Requests | None = None
        self._began = 0.0
        self._iterated = self._entered = False
        self._closed = True
        self._last = last
        self._set_up(comm, {"n": n, "technique": technique, "model": model, **options}, after)

    def _set_up(self, comm: MPI.Intracomm, given: dict[str, Any], after: LoopScheduler | None) -> None:
        if comm.Is_inter():
            raise InputError("LoopScheduler: comm is an intercommunicator; give comm.Merge()")
        options, config, problem = None, None, ""
        candidates: list[tuple[LoopOptions, tuple[Choice, ...]]] = []
        try:
            _check_launcher()
            config = _selection(given, self._selection)
            if comm.rank == 0:
                _check_profile(config, self._profile, given["n"])
            names = [given["technique"]] if config is None else config.portfolio
            for name in names:
                options = _options({**given, "technique": name})
                candidates.append((options, chosen(options, comm.size)))
            if config is not None and options is not None:
                check_amid(config, options, [choices for _, choices in candidates])
        except MlsimError as error:
            problem = str(error)
        reports_idle = _agree(comm, options, problem, bool(self._record), self._last, self.name, config)
        assert options is not None, "all ranks agreed that there is no problem"
        context = self._context = Context.of(comm, options.ranks_per_node)
        if config is not None:
            self._selecting = _selecting(config, options, context.layout, after, self._profile)
        before = StepHistory(comm.size) if after is None else after._history
        self._history: StepHistory = before.in_order(np.arange(comm.size))
        self._history.selected = config is not None
        options, choices = candidates[self._choose(context)]
        self.options = options
        choices = tuple(map(self._history.weigh, choices))
        self._layout = context.layout
        self._patience = context.patience(options.wait, options.warn_after)
        outer, inner = choices
        amid = self._amid([choice for _, (choice, _) in candidates])
        self._choices = choices if amid is None else tuple(choice for _, (choice, _) in candidates)
        self._clock = Clock(self._layout)
        tag, record = context.next_tag(), bool(self._record)
        self._model = _make(
            Setting(options, context, self._clock, tag, outer, inner, self._patience, record, amid)
        )
        yields = options.model == ExecutionModel.DCA
        self._rca = Reporter(context, self.name, reports_idle, self._last, yields)
        self._claim = self._rca.claiming(self._model, options.n)
        self._times = RankTimes(_now(), self._keeps_rows)
        self._closed = False

    def _amid(self, portfolio: Sequence[Choice]) -> Amid | None:
        """Return how techniques are chosen amid the loop; None: they are not."""
        selecting = self._selecting
        if selecting is None or not selecting.config.chooses_within:
            return None
        from mlsim.mpi.real_run import ranks_of_pes

        learned = [self._history.weigh(choice) for choice in portfolio]
        every = math.ceil((selecting.config.parameters.every or 1.0) * self.options.n)

        pe_of_rank = np.argsort(ranks_of_pes(self._layout))

        def choose(progress: Progress, wait: float) -> Choice:
            return learned[selecting.choose_within(progress.with_pes(pe_of_rank), wait)]

        return Amid(every, choose)

    @property
    def _keeps_rows(self) -> bool:
        """Whether a row is kept for every chunk."""
        return bool(self._record) or (self._selecting is not None and self._selecting.needs_chunks)

    def _choose(self, context: Context) -> int:
        """Return the number of this loop's technique in the portfolio; rank 0 chooses, others wait for it."""
        if self._selecting is None:
            return 0
        comm = context.layout.comm
        mine = np.zeros(1, np.int64)
        if comm.rank == 0:
            from mlsim.mpi.real_run import ranks_of_pes

            mine[0] = self._selecting.choose(self._history.in_order(ranks_of_pes(context.layout)))
        return int(allgather(comm, Patience("auto", comm.size), mine)[0, 0])

    def __enter__(self) -> LoopScheduler:
        if self._closed:
            raise InputError("LoopScheduler: this loop has ended; make a new one for every loop")
        self._entered = True
        self._serve_while_waiting()
        self._wait_for_all()
        self._times = RankTimes(_now(), self._keeps_rows)
        return self

    def _serve_while_waiting(self) -> None:
        if self._model.answers:
            serve_while_waiting(self._model.serve)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        if not self._entered:
            raise InputError(
                "LoopScheduler: enter it before: with LoopScheduler(...) as loop: for ... in loop"
            )
        if self._iterated:
            raise InputError("LoopScheduler: iterated a second time; make a new one for every loop")
        self._iterated = True
        if self._model.piece > 0:
            return self._chunks_with_breaks()
        if self._model.ahead > 0:
            return self._chunks_asked_ahead()
        return self._timed_pieces() if self._times_iterations() else self._whole_chunks()

    # The next two add up in local variables: a call for each chunk would be a tenth of what it costs.

    def _whole_chunks(self) -> Iterator[tuple[int, int]]:
        """Yield first iteration and size of every chunk."""
        model, times, claim, now = self._model, self._times, self._claim, _now
        measures, keeps_rows = model.learns, times.keeps_rows
        chunks = executed = 0
        busy = 0.0
        requested = end = times.begin = now()
        try:
            while (chunk := claim()) is not None:
                start = now()
                first, size, step = chunk
                try:
                    yield first, size
                except GeneratorExit:
                    self._leave_early(chunk, requested, start)
                    raise
                end = now()
                chunks += 1
                executed += size
                busy += end - start
                if measures:
                    model.done = size, end - start, start - requested, 0.0, 1, step
                if keeps_rows:
                    times.keep(chunk, requested, start, end)
                requested = end
        finally:
            times.add_up(chunks, executed, busy, end)
        self._end_work(requested)

    def _timed_pieces(self) -> Iterator[tuple[int, int]]:
        """Yield first iteration and size of the pieces of every chunk, for a technique that times them."""
        model, times, claim, now = self._model, self._times, self._claim, _now
        pieces, keeps_rows = self.options.pieces, times.keeps_rows
        chunks = executed = 0
        busy = 0.0
        requested = end = times.begin = now()
        try:
            while (chunk := claim()) is not None:
                start = begun = now()
                position, size, step = chunk
                length = part = -(-size // pieces) if pieces else 1
                stop = position + size
                squares, parts = 0.0, 0
                try:
                    while position < stop:
                        if position + length > stop:
                            part = stop - position
                        yield position, part
                        end = now()
                        squares += (end - begun) * (end - begun) / part
                        parts += 1
                        position += part
                        begun = end
                except GeneratorExit:
                    self._leave_early(chunk, requested, start)
                    raise
                chunks += 1
                executed += size
                busy += end - start
                model.done = size, end - start, start - requested, squares, parts, step
                if keeps_rows:
                    times.keep(chunk, requested, start, end)
                requested = end
        finally:
            times.add_up(chunks, executed, busy, end)
        self._end_work(requested)

    def _chunks_with_breaks(self) -> Iterator[tuple[int, int]]:
        """Yield the pieces of every chunk, for a rank that serves others between them."""
        model, times, claim, now = self._model, self._times, self._claim, _now
        pieces = self.options.pieces if self._times_iterations() else 1
        longest = model.piece
        begins = None if model.request_log is None else model.request_log.begins
        requested = times.begin = now()
        while (chunk := claim()) is not None:
            start = begun = end = now()
            position, size, step = chunk
            timed = -(-size // pieces) if pieces else 1
            stop = position + size
            busy = squares = 0.0
            parts = 0
            while position < stop:
                part = min(timed, longest, stop - position)
                if begins is not None:
                    begins(begun, part)
                try:
                    yield position, part
                except GeneratorExit:
                    self._leave_early(chunk, requested, start)
                    raise
                end = now()
                seconds = end - begun
                busy += seconds
                squares += seconds * seconds / part
                parts += 1
                position += part
                if model.paces:
                    longest = next_length(longest, part, seconds, BREAK_EVERY)
                if position < stop:
                    model.serve()
                    begun = now()
            times.add(chunk, requested, start, end, busy)
            if model.learns:
                took = end - start if model.counts_breaks else busy
                model.done = size, took, start - requested, squares, parts, step
            requested = end
        self._end_work(requested)

    def _chunks_asked_ahead(self) -> Iterator[tuple[int, int]]:
        """Yield the pieces of every chunk, for a rank that asks for the next one before the last of them."""
        model, times, claim, now = self._model, self._times, self._claim, _now
        pieces = self.options.pieces if self._times_iterations() else 1
        requested = ended = times.begin = now()
        while (chunk := claim()) is not None:
            start = begun = end = now()
            position, size, step = chunk
            timed = -(-size // pieces) if pieces else 1
            stop = position + size
            asks, asked = max(stop - model.ahead, position), start
            squares, parts = 0.0, 0
            while position < stop:
                if position == asks:
                    asked = now()
                    model.ask()
                part = min(timed, (asks if position < asks else stop) - position)
                try:
                    yield position, part
                except GeneratorExit:
                    self._leave_early(chunk, requested, start)
                    raise
                end = now()
                squares += (end - begun) * (end - begun) / part
                parts += 1
                position += part
                begun = end
            times.add(chunk, requested, start, end, end - start)
            if model.learns:
                model.done = size, end - start, start - ended, squares, parts, step
            requested, ended = asked, end
        self._end_work(ended)

    def _times_iterations(self) -> bool:
        return self._model.learns and any(choice.times_iterations for choice in self._choices)

    def _leave_early(self, chunk: tuple[int, int, int], requested: float, start: float) -> None:
        """Record a chunk that the body left with ``break``; it counts as executed."""
        end = _now()
        self._times.add(chunk, requested, start, end, end - start)

    def _end_work(self, requested: float) -> None:
        """Record that no chunk is left for this rank."""
        times, model = self._times, self._model
        times.told = model.told
        waited = times.told - requested
        # A master that executes nothing works while it serves; the rest of the time it is idle.
        times.close(model.serving if model.only_serves else waited)
        self._rca.rank_ended()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        stop_serving(self._model.serve)
        if error is not None:
            self._end_run(kind, error, where)
            return
        if not np.isfinite(self._model.told):
            self._serve_while_waiting()
            chunk = self._model.leave()
            left = _now()
            if chunk is not None:
                self._times.add(chunk, left, left, left, 0.0)
            self._end_work(left)
            stop_serving(self._model.serve)
        self._close()

    @property
    def _title(self) -> str:
        """Name of the loop in errors."""
        return "the loop" if self.name == _NO_NAME else f"loop {self.name}"

    def _end_run(
        self, kind: type[BaseException] | None, error: BaseException, where: TracebackType | None
    ) -> None:
        """End all ranks: others wait for this one, and would for ever."""
        comm = self._layout.comm
        if comm.size == 1:
            return
        if isinstance(error, KeyboardInterrupt):
            sys.stdout.flush()
            comm.Abort(_INTERRUPTED)
        words = ""
        if not isinstance(error, SystemExit):
            text = "".join(traceback.format_exception(kind, error, where))
            place = f"rank {comm.rank} of {comm.size} on {MPI.Get_processor_name()}"
            words = f"mlsim: {place}: an exception in {self._title} ends the run\n{text}"
        code = error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1
        abort_with_words(comm, words, code or 1)

    def _close(self) -> None:
        """Gather the report and the records, and free what the loop holds."""
        self._rest_until_all_have_ended()
        self._clock.close()
        self._rca.loop_closed()
        layout = self._layout
        gathered = gather(self._context, self._patience, self._clock, self._times, self.options)
        self._report = gathered.report
        self._history.add(gathered.executed, gathered.busy, self._choices[0].of_lb4mpi)
        self._note_choice(gathered)
        if self._record:
            from mlsim.mpi.real_run import gather_records, gather_requests

            self._records = gather_records(layout, self._clock, self._times, gathered)
            self._requests = gather_requests(layout, self._clock, self._model.request_log, gathered)
            self._began = time.time() - (_now() - gathered.origin)
        self._model.free()
        self._rca.free()
        self._closed = True
        if isinstance(self._record, str | Path):
            failed = layout.comm.bcast(self._write_on_rank_0())
            if failed:
                raise MlsimError(failed)

    def _note_choice(self, gathered: Gathered) -> None:
        """Report the result of the chosen technique to the selection."""
        if self._selecting is None:
            return
        rows = None
        if self._selecting.needs_chunks:
            from mlsim.mpi.real_run import gather_rows

            rows = gather_rows(self._layout, self._clock, self._times, gathered)
        totals = gathered.report.loop
        if totals is not None:
            self._selecting.note(totals.t_loop, totals.imbalance, rows)

    @property
    def selected(self) -> list[Selected]:
        """Choices in this loop and those before it, with ``technique="auto"``; on rank 0."""
        return [] if self._selecting is None else list(self._selecting.selected)

    @property
    def selection_time(self) -> float:
        """Time of choosing the techniques of this loop, in s, with ``technique="auto"``; on rank 0."""
        return 0.0 if self._selecting is None else self._selecting.time_of_last

    def _write_on_rank_0(self) -> str:
        if self._records is None:
            return ""
        try:
            self.write(Path(str(self._record)))
        except MlsimError as error:
            return str(error)
        return ""

    def _wait_for_all(self) -> None:
        """Wait at a barrier; waiting ranks yield their cores."""
        request = self._layout.comm.Ibarrier()
        self._patience.until(request.Test, f"all must enter loop {self.name!r} (with ... as loop)")

    def _rest_until_all_have_ended(self) -> None:
        """Wait at a barrier, asleep most of the time; rank 0 holds the counters of the loop."""
        layout = self._layout
        holds = layout.comm.rank == 0 and layout.machine.size < layout.comm.size
        self._patience.rest_until(layout.comm.Ibarrier().Test, holds)

    def release(self) -> None:
        """Declare that no loop follows on these ranks, as ``last`` does, where that is known only now.

        All ranks must call this, inside the ``with`` block. From now on nodes whose ranks have no more
        iterations are reported to the RCA agent.

        Raises
        ------
        InputError
            If the loop has ended.
        """
        if self._closed:
            raise InputError("LoopScheduler: release() inside the with block; the loop has ended")
        if not self._last:
            self._last = True
            self._rca.release()

    def report(self) -> LoopReport:
        """Return the report of this rank, on rank 0 with totals of the loop; after the ``with`` block.

        Raises
        ------
        InputError
            If the loop has not ended.
        """
        if self._report is None:
            raise InputError("LoopScheduler: report() after the with block; the loop has not ended")
        return self._report

    @property
    def records(self) -> Records | None:
        """The loop as a run with one job, as the simulator records it; on rank 0, if it was recorded."""
        return self._records

    @property
    def requests(self) -> Requests | None:
        """Every request to the master and what it did until its answer; on rank 0, if recorded, under CCA."""
        return self._requests

    def write_columns(self, path: str | Path) -> None:
        """Write the records alone, as one file of columns, with the time of day of their origin; on rank 0.

        There is no trace, and no picture. ``mlsim slurm esp`` puts such files together.

        Raises
        ------
        InputError
            If nothing was recorded.
        OSError
            If the file cannot be written.
        """
        from mlsim.mpi.loop_columns import write_loop

        if self._records is None:
            raise InputError(_NOTHING_TO_WRITE)
        write_loop(Path(path), self._records, self._began)

    def write(self, directory: str | Path) -> None:
        """Write the records as a run directory, with tables, summary and OTF2 trace; on rank 0.

        Parameters
        ----------
        directory
            Should not exist: if it does, it is left as it is, and the results get a name beside it.

        Raises
        ------
        InputError
            If nothing was recorded.
        OutputError
            If the directory exists, or not all can be written; the message lists what was kept, and where.
        """
        from mlsim.mpi.real_run import ranks_of_pes, write_run

        if self._records is None:
            raise InputError(_NOTHING_TO_WRITE)
        ranks = ranks_of_pes(self._layout)
        write_run(Path(directory), self._records, self._requests, ranks, self.options, self.name)


def _check_launcher() -> None:
    """Refuse a launcher of another MPI than the one that mpi4py loaded: every process would be alone."""
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        if MPI.COMM_WORLD.size == 1 and int(os.environ.get(name, "1")) > 1:
            library = MPI.Get_library_version().split("\n")[0].strip("\0 ")
            raise InputError(
                f"{os.environ[name]} processes were started ({name}), but mpi4py loaded {library}, which "
                "sees one; set MPI4PY_MPIABI or MPI4PY_LIBMPI to the MPI of the launcher"
            )


def _selection(
    given: Mapping[str, Any], selection: Mapping[str, Any] | SelectionConfig | None
) -> SelectionConfig | None:
    """Return how techniques are chosen; None where the technique is given."""
    if not is_auto(given["technique"]):
        if selection is not None:
            raise InputError(
                f"LoopScheduler: selection: goes with technique='auto', not {given['technique']}"
            )
        return None
    return selection_of(selection)


def _check_profile(config: SelectionConfig | None, profile: Floats | None, n: int) -> None:
    """Check that a profile is given where techniques are chosen by one, and fits the loop."""
    wanted = config is not None and config.parameters.costs is KnownCosts.PROFILE
    if wanted and profile is None:
        raise InputError(
            "LoopScheduler: selection.parameters.costs: profile, and there is none; give profile=, or "
            "measured"
        )
    if profile is None:
        return
    if not wanted:
        raise InputError(
            "LoopScheduler: profile= goes with technique='auto' and selection.parameters.costs: profile"
        )
    column = np.asarray(profile)
    if column.shape != (n,) or not np.isfinite(column).all() or (column < 0.0).any():
        raise InputError(f"LoopScheduler: profile: allowed: {n} finite numbers, 0 or more, one an iteration")


def _selecting(
    config: SelectionConfig,
    options: LoopOptions,
    layout: Layout,
    after: LoopScheduler | None,
    profile: Floats | None,
) -> Selecting:
    """Return what chooses: that of the loop before, if it is the same loop and the choice the same."""
    before = None if after is None else after._selecting
    if before is not None and before.config == config and before.n == options.n:
        return before
    return Selecting(config, options, np.sort(layout.nodes), profile)


def _options(given: dict[str, Any]) -> LoopOptions:
    known = set(LoopOptions.__dataclass_fields__)
    for name in given:
        if name not in known:
            from mlsim.scenario.unit_types import nearest

            raise InputError(
                f"LoopScheduler: {name!r} is no option;{nearest(name, sorted(known))} allowed: "
                f"{', '.join(sorted(known))}"
            )
    return LoopOptions(**given).checked()


def _agree(
    comm: MPI.Intracomm,
    options: LoopOptions | None,
    problem: str,
    record: bool,
    last: bool,
    name: str,
    config: SelectionConfig | None,
) -> bool:
    """Raise the same error on all ranks if one has a problem, or they were asked for different loops.

    Returns whether nodes without work are to be reported: whether rank 0's environment names an agent.
    """
    mine = np.zeros(3, np.int64)
    if options is not None:
        mine[0] = int.from_bytes(options.fingerprint(config), "little", signed=True)
    mine[1:] = bool(problem) + 2 * record + 4 * last, bool(os.environ.get(ADDRESS))
    seconds = WARN_AFTER if options is None else options.warn_after
    patience = Patience("auto", comm.size, Alarm(comm.rank, comm.size, seconds) if seconds > 0.0 else None)
    everyone = allgather(comm, patience, mine, f"all must make loop {name!r}, in the same order as others")
    if (everyone[:, :2] == everyone[0, :2]).all() and not problem:
        return bool(everyone[0, 2])
    problems = comm.allgather(problem)
    for rank, text in enumerate(problems):
        if text:
            raise InputError(text if comm.size == 1 else f"rank {rank}: {text}")
    rank = int(np.flatnonzero((everyone[:, :2] != everyone[0, :2]).any(axis=1))[0])
    raise InputError(
        f"LoopScheduler: rank {rank} asks for another loop than rank 0; all ranks must give the same "
        f"options; rank {comm.rank} gave {options}, record {record}, last {last}"
    )


def _make(setting: Setting) -> Model:
    """Return this rank's part of an execution model."""
    model = setting.options.model
    if model == ExecutionModel.CCA:
        from mlsim.mpi.masters import CentralizedModel

        return CentralizedModel(setting)
    if model == ExecutionModel.HMW:
        from mlsim.mpi.hierarchical_masters import HierarchicalMasterModel

        return HierarchicalMasterModel(setting)
    if model == ExecutionModel.HDCA:
        from mlsim.mpi.rma_models import HierarchicalModel

        return HierarchicalModel(setting)
    from mlsim.mpi.rma_models import DistributedModel

    return DistributedModel(setting)
