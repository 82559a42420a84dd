"""A loop over iterations that the ranks of a communicator share by a technique."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from mpi4py import MPI

from mlsim._runtime.arrays import Floats
from mlsim.application.selection.selector import Selected
from mlsim.application.techniques import Choice
from mlsim.application.time_steps import StepHistory
from mlsim.errors import InputError, MlsimError
from mlsim.execution_models.cca import next_length
from mlsim.mpi import loop_columns, loop_report
from mlsim.mpi.loop_context import Clock, Context, allgather, library_version
from mlsim.mpi.loop_options import BREAK_EVERY, WARN_AFTER, LoopOptions, checked_options, chosen
from mlsim.mpi.loop_selection import Selecting, check_amid, check_profile, selection_of
from mlsim.mpi.masters import CentralizedModel, HierarchicalMasterModel
from mlsim.mpi.rank_waiting import Alarm, Patience, end_run, serve_while_waiting, stop_serving
from mlsim.mpi.rca.wire import ADDRESS
from mlsim.mpi.real_model import Model, RankTimes, Reporter, Setting
from mlsim.mpi.rma_models import DistributedModel, HierarchicalModel
from mlsim.record import Records
from mlsim.scenario.costs_section import SelectionConfig
from mlsim.scenario.words import ExecutionModel, Technique

_NO_NAME = "loop"
_NOTHING_TO_WRITE = "LoopScheduler: nothing to write; give record=True, and write on rank 0"
_MODELS: dict[str, type[Model]] = {
    ExecutionModel.CCA: CentralizedModel,
    ExecutionModel.HMW: HierarchicalMasterModel,
    ExecutionModel.DCA: DistributedModel,
    ExecutionModel.HDCA: HierarchicalModel,
}

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
        after: Self | None = None,
        last: bool = False,
        selection: Mapping[str, Any] | SelectionConfig | None = None,
        profile: Floats | None = None,
        **options: Any,
    ) -> None:
        if comm.Is_inter():
            raise InputError("LoopScheduler: comm is an intercommunicator; give comm.Merge()")
        self.name, self._record, self._last = name, record, last
        self._selecting: Selecting | None = None
        self._report: loop_report.LoopReport | None = None
        self._records: Records | None = None
        self._requests: loop_report.Requests | None = None
        self._began = 0.0
        self._iterated = self._entered = False
        self._closed = True
        given = {"n": n, "technique": technique, "model": model, **options}
        candidates: list[tuple[LoopOptions, tuple[Choice, ...]]] = []
        config, problem = None, ""
        try:
            _check_launcher()
            config = selection_of(technique, selection)
            if comm.rank == 0:
                check_profile(config, profile, n)
            for each in [technique] if config is None else config.portfolio:
                checked = checked_options({**given, "technique": each})
                candidates.append((checked, chosen(checked, comm.size)))
            if config is not None:
                check_amid(config, *candidates)
        except MlsimError as error:
            problem = str(error)
        reports_idle = self._agree(comm, candidates[-1][0] if candidates else None, problem, config)
        context = Context.of(comm, candidates[0][0].ranks_per_node)
        before = StepHistory(comm.size) if after is None else after._history
        self._history: StepHistory = before.in_order(np.arange(comm.size))
        self._history.selected = config is not None
        if config is not None:
            self._selecting = None if after is None else after._selecting
            if self._selecting is None or not self._selecting.continues(config, n):
                self._selecting = Selecting(config, candidates[-1][0], np.sort(context.layout.nodes), profile)
        self._make_model(context, candidates)
        # No other rank executes the chunks of a static technique.
        static = self._choices[0].name in (Technique("STATIC"), Technique("CYCLIC"))
        yields = self.options.model == ExecutionModel.DCA and not static
        self._rca = Reporter(context, self.name, reports_idle, last, yields)
        self._claim = self._rca.claiming(self._model, n)
        self._closed = False

    def _agree(
        self, comm: MPI.Intracomm, options: LoopOptions | None, problem: str, config: SelectionConfig | None
    ) -> bool:
        """Raise the same error on all ranks if there is a problem; return whether there is an RCA agent."""
        record, last = bool(self._record), self._last
        mine = np.zeros(3, np.int64)
        if options is not None:
            mine[0] = int.from_bytes(options.fingerprint(config), "little", signed=True)
        mine[1:] = bool(problem) + 2 * record + 4 * last, bool(os.environ.get(ADDRESS))
        seconds = WARN_AFTER if options is None else options.warn_after
        alarm = Alarm(comm.rank, comm.size, seconds) if seconds > 0.0 else None
        meeting = f"all must make loop {self.name!r}, in the same order as others"
        everyone = allgather(comm, Patience("auto", comm.size, alarm), mine, meeting)
        differs = (everyone[:, :2] != everyone[0, :2]).any(axis=1)
        if not differs.any() and not problem:
            return bool(everyone[0, 2])
        for rank, text in enumerate(comm.allgather(problem)):
            if text:
                raise InputError(text if comm.size == 1 else f"rank {rank}: {text}")
        raise InputError(
            f"LoopScheduler: rank {int(np.argmax(differs))} asks for another loop than rank 0; all ranks "
            f"must give the same options; rank {comm.rank} gave {options}, record {record}, last {last}"
        )

    def _make_model(
        self, context: Context, candidates: Sequence[tuple[LoopOptions, tuple[Choice, ...]]]
    ) -> None:
        """Choose the technique, and make this rank's part of the model; all ranks must call this."""
        layout = self._layout = context.layout
        options, choices = candidates[self._choose(context)]
        self.options = options
        outer, inner = map(self._history.weigh, choices)
        selecting, watch = self._selecting, None
        self._choices: tuple[Choice, ...] = outer, inner
        if selecting is not None and selecting.config.chooses_within:
            self._choices = tuple(choice for _, (choice, _) in candidates)
            learned = [self._history.weigh(choice) for choice in self._choices]
            watch = selecting.watch(learned, np.argsort(layout.ranks_of_pes))
        self._patience = context.patience(options.wait, options.warn_after)
        tag, record = context.next_tag(), bool(self._record)
        self._model = _MODELS[options.model](
            Setting(options, context, Clock(layout), tag, outer, inner, self._patience, record, watch)
        )
        self._times = RankTimes(_now(), self._keeps_rows)

    @property
    def _keeps_rows(self) -> bool:
        """Whether a row is kept for every chunk."""
        return bool(self._record) or (self._selecting is not None and self._selecting.needs_chunks)

    def _choose(self, context: Context) -> int:
        """Return the number of this loop's technique in the portfolio; rank 0 chooses, others wait for it."""
        if self._selecting is None:
            return 0
        layout, mine = context.layout, np.zeros(1, np.int64)
        if layout.comm.rank == 0:
            mine[0] = self._selecting.choose(self._history.in_order(layout.ranks_of_pes))
        return int(allgather(layout.comm, Patience("auto", layout.comm.size), mine)[0, 0])

    def __enter__(self) -> Self:
        if self._closed:
            raise InputError("LoopScheduler: this loop has ended; make a new one for every loop")
        self._entered = True
        if self._model.answers:
            serve_while_waiting(self._model.serve)
        request = self._layout.comm.Ibarrier()
        self._patience.until(request.Test, f"all must enter loop {self.name!r} (with ... as loop)")
        self._times = RankTimes(_now(), self._keeps_rows)
        return self

    def __iter__(self) -> Iterator[tuple[int, int]]:
        if not self._entered:
            raise InputError(
                "LoopScheduler: enter it before: with LoopScheduler(...) as loop: for ... in loop"
            )
        if self._iterated:
            raise InputError("LoopScheduler: iterated a second time; make a new one for every loop")
        self._iterated = True
        in_pieces = self._model.piece or self._model.ahead or self._times_iterations
        return self._pieces() if in_pieces else self._whole_chunks()

    def _whole_chunks(self) -> Iterator[tuple[int, int]]:
        """Yield first iteration and size of every chunk.

        It adds up in local variables: a call for each chunk would be a tenth of what it costs.
        """
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

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """Yield first iteration and size of pieces of chunks: up to a time, a break, or a request ahead."""
        model, times, claim, now = self._model, self._times, self._claim, _now
        pieces = self.options.pieces if self._times_iterations else 1
        longest, log = model.piece, model.request_log  # 0: the rank serves no others
        requested = ended = times.begin = now()
        while (chunk := claim()) is not None:
            start = begun = end = asked = now()
            position, size, step = chunk
            stop = position + size
            timed = -(-size // pieces) if pieces else 1
            asks = max(stop - model.ahead, position) if model.ahead else stop
            breaks = squares = 0.0
            parts = 0
            while position < stop:
                if position == asks:
                    asked = now()
                    model.ask()
                part = min(timed, (asks if position < asks else stop) - position)
                if longest:
                    part = min(part, longest)
                    if log is not None:
                        log.begun.add(part, begun)
                try:
                    yield position, part
                except GeneratorExit:
                    self._leave_early(chunk, requested, start)
                    raise
                end = now()
                seconds = end - begun
                squares += seconds * seconds / part
                parts += 1
                position += part
                begun = end
                if longest:
                    if model.paces:
                        longest = next_length(longest, part, seconds, BREAK_EVERY)
                    if position < stop:
                        model.serve()
                        begun = now()
                        breaks += begun - end
            times.add(chunk, requested, start, end, end - start - breaks)
            if model.learns:
                took = end - start - (0.0 if model.counts_breaks else breaks)
                model.done = size, took, start - ended, squares, parts, step
            requested, ended = (asked if model.ahead else end), end
        self._end_work(ended)

    @property
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
        # A master that executes nothing works while it serves; the rest of the time it is idle.
        times.close(model.serving if model.only_serves else times.told - requested)
        self._rca.rank_ended()

    def __exit__(self, _kind: object, error: BaseException | None, _where: object) -> None:
        stop_serving(self._model.serve)
        if error is not None:
            end_run(self._layout.comm, error, "the loop" if self.name == _NO_NAME else f"loop {self.name}")
            return
        if not np.isfinite(self._model.told):
            if self._model.answers:
                serve_while_waiting(self._model.serve)
            chunk = self._model.leave()
            left = _now()
            if chunk is not None:
                self._times.add(chunk, left, left, left, 0.0)
            self._end_work(left)
            stop_serving(self._model.serve)
        self._close()

    def _close(self) -> None:
        """Gather the report and the records, and free what the loop holds."""
        layout = self._layout
        holds_counters = layout.comm.rank == 0 and layout.machine.size < layout.comm.size
        self._patience.rest_until(layout.comm.Ibarrier().Test, holds_counters)
        self._model.setting.clock.close()
        self._rca.loop_closed()
        gathered = loop_report.gather(self._model.setting, self._times)
        self._report = gathered.report
        self._history.add(gathered.executed, gathered.busy, self._choices[0].of_lb4mpi)
        self._note_choice(gathered)
        if self._record:
            self._records = loop_report.gather_records(gathered)
            self._requests = loop_report.gather_requests(gathered, self._model.request_log)
            self._began = time.time() - (_now() - gathered.origin)
        self._model.free()
        self._rca.free()
        self._closed = True
        if isinstance(self._record, str | Path):
            problem = ""
            try:
                if self._records is not None:
                    self.write(self._record)
            except MlsimError as error:
                problem = str(error)
            if problem := layout.comm.bcast(problem):
                raise MlsimError(problem)

    def _note_choice(self, gathered: loop_report.Gathered) -> None:
        """Report the result of the chosen technique to the selection."""
        if self._selecting is None:
            return
        rows = None
        if self._selecting.needs_chunks:
            rows = loop_report.gather_rows(gathered)
        totals = gathered.report.loop
        if totals is not None:
            self._selecting.note(gathered.origin, totals.t_loop, totals.imbalance, rows)

    @property
    def selected(self) -> list[Selected]:
        """Choices in this loop and those before it, with ``technique="auto"``; on rank 0."""
        return [] if self._selecting is None else list(self._selecting.selected)

    @property
    def selection_time(self) -> float:
        """Time of choosing the techniques of this loop, in s, with ``technique="auto"``; on rank 0."""
        return 0.0 if self._selecting is None else self._selecting.time_of_last

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

    def report(self) -> loop_report.LoopReport:
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
    def requests(self) -> loop_report.Requests | None:
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
        if self._records is None:
            raise InputError(_NOTHING_TO_WRITE)
        loop_columns.write_loop(Path(path), self._records, self._began)

    def write(self, directory: str | Path) -> None:
        """Write the records as a run directory: tables, summary and, with package otf2, a trace; on rank 0.

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
        if self._records is None:
            raise InputError(_NOTHING_TO_WRITE)
        ranks = self._layout.ranks_of_pes
        where = Path(directory)
        loop_report.write_run(where, self._records, self._requests, ranks, self.options, self.name)


def _check_launcher() -> None:
    """Refuse a launcher of another MPI than the one that mpi4py loaded: every process would be alone."""
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        if MPI.COMM_WORLD.size == 1 and int(os.environ.get(name, "1")) > 1:
            raise InputError(
                f"{os.environ[name]} processes were started ({name}), but mpi4py loaded {library_version()}, "
                "which sees one; set MPI4PY_MPIABI or MPI4PY_LIBMPI to the MPI of the launcher"
            )
