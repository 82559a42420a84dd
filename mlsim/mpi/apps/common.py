"""Common parts of the applications: options, repetitions, checks, output."""

import argparse
import hashlib
import json
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from mlsim._runtime.memory import without_colours
from mlsim.errors import InputError, MlsimError
from mlsim.mpi.loop_options import scenario_options
from mlsim.mpi.rank_waiting import Patience, abort_with_words, ending_all
from mlsim.mpi.scheduler import LoopScheduler
from mlsim.scenario import Scenario, parse_overrides, words


class Application(ABC):
    """A loop of ``n`` independent iterations, whose results are a row of ``out`` each, zeros at first."""

    name: str
    n: int
    out: NDArray[Any]

    def begin(self) -> None:
        """Prepare for one more execution of the loop."""
        self.out[:] = 0

    @abstractmethod
    def execute(self, first: int, size: int) -> None:
        """Execute iterations ``first`` to ``first + size - 1``."""

    def result(self, comm: MPI.Intracomm) -> bytes | None:
        """Return the results of all ranks as bytes, on rank 0; all ranks must call this."""
        whole = np.zeros_like(self.out) if comm.rank == 0 else None
        comm.Reduce(self.out, whole)  # each number was computed by one rank
        return None if whole is None else whole.tobytes()

    @abstractmethod
    def alone(self) -> "Application":
        """Return the same application, to be executed on this rank alone."""

    def expected(self) -> bytes:
        """Compute the results alone."""
        serial = self.alone()
        serial.execute(0, serial.n)
        return serial.out.tobytes()


Maker = Callable[[argparse.Namespace, Scenario | None], Application]


def main(description: str, add: Callable[[argparse.ArgumentParser], None], make: Maker) -> NoReturn:
    """Run an application from its command line: ``add`` adds options, ``make`` creates it from them."""
    comm = MPI.COMM_WORLD
    without_colours()
    # People need no line of our source beside a warning.
    warnings.showwarning = lambda message, *_: print(message, file=sys.stderr, flush=True)
    try:
        arguments = _parser(description, add).parse_args()
        with ending_all(comm):
            _run(comm, arguments, make)
    except MlsimError as error:
        # All ranks have the same error, or the one that has it ends the others.
        text = f"mlsim: {error}\n"
        if comm.size > 1:
            abort_with_words(comm, text, error.exit_code)
        sys.stderr.write(text)
        sys.exit(error.exit_code)
    sys.exit(0)


def _parser(description: str, add: Callable[[argparse.ArgumentParser], None]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    add(parser)
    parser.add_argument(
        "--scenario", type=Path, help="take loop, technique, model and options from a scenario"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="change its keys")
    parser.add_argument("--technique", help="technique, or X+Y (default GSS)")
    parser.add_argument("--model", help="cca, dca, hdca or hmw (default dca)")
    parser.add_argument("--delay", help="delay injected into every chunk calculation, such as '100 us'")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other option of LoopScheduler, such as break_after=8, sigma=0.001, master=dedicated",
    )
    parser.add_argument("--repetitions", type=int, default=1, help="number of executions of the loop")
    parser.add_argument("--trace", type=Path, metavar="DIR", help="record, and write a run directory")
    parser.add_argument(
        "--columns", type=Path, metavar="FILE", help="record, and write the records alone, as .npz"
    )
    parser.add_argument("--check", action="store_true", help="compare the result with a serial execution")
    parser.add_argument("--json", action="store_true", help="print JSON, one object a repetition")
    return parser


def _run(comm: MPI.Intracomm, arguments: argparse.Namespace, make: Maker) -> None:
    if arguments.repetitions < 1:
        raise InputError(f"--repetitions {arguments.repetitions}; allowed: 1 or more")
    if arguments.columns is not None and arguments.repetitions > 1:
        raise InputError("--columns: has one loop; allowed: --repetitions 1")
    scenario = _scenario(arguments)
    options = {} if scenario is None else scenario_options(scenario)
    options |= dict(parse_overrides(arguments.option))
    for key in ("technique", "model"):
        if (word := getattr(arguments, key)) is not None:
            options[key] = word
    if arguments.technique is not None:
        options.pop("technique_parameters", None)
    if arguments.delay is not None:
        options["injected_delay"] = _seconds(arguments.delay)
    application = in_turns(comm, lambda: make(arguments, scenario))
    selection = None if scenario is None else scenario.application.selects
    if scenario and selection and selection.parameters.costs is words.KnownCosts.PROFILE:
        from mlsim.cosim.simulation import loop_costs

        options["profile"] = np.diff(loop_costs(scenario))
    before: LoopScheduler | None = None
    for repetition in range(arguments.repetitions):
        trace = arguments.trace
        if trace is not None and arguments.repetitions > 1:
            trace = trace.with_name(f"{trace.name}-{repetition + 1:03d}")
        last = repetition == arguments.repetitions - 1
        record = trace or arguments.columns is not None
        scheduler = LoopScheduler(
            comm, application.n, name=application.name, record=record, after=before, last=last, **options
        )
        before = _repeat(comm, application, scheduler, arguments)


def in_turns(comm: MPI.Intracomm, make: Callable[[], Application]) -> Application:
    """Make an application, first on rank 0: it compiles its kernels, the others find them on disk."""
    made = make() if comm.rank == 0 else None
    Patience("sleep", comm.size).until(comm.Ibarrier().Test)
    return made or make()


def _repeat(
    comm: MPI.Intracomm, application: Application, scheduler: LoopScheduler, arguments: argparse.Namespace
) -> LoopScheduler:
    """Execute the loop once and print its report."""
    application.begin()
    with scheduler as loop:
        for first, size in loop:
            application.execute(first, size)
    result = application.result(comm)
    problem = ""
    if comm.rank == 0:
        if arguments.columns is not None:
            try:
                loop.write_columns(arguments.columns)
            except OSError as error:
                problem = f"--columns {arguments.columns}: cannot be written: {error.strerror}"
        problem = problem or _print_report(loop, application, result or b"", arguments)
    if problem := comm.bcast(problem):
        raise MlsimError(problem)
    return loop


def _print_report(
    loop: LoopScheduler, application: Application, result: bytes, arguments: argparse.Namespace
) -> str:
    """Print the report of a repetition on rank 0; return an error message, empty if there is no error."""
    report = loop.report()
    assert report.loop is not None, "rank 0 knows the whole loop"
    digest = hashlib.sha256(result).hexdigest()
    if arguments.check and result != application.expected():
        return f"{application.name}: the result differs from that of a serial execution"
    if arguments.json:
        chosen = {"selection_time": loop.selection_time} if loop.selected else {}
        print(json.dumps(report.loop.facts() | chosen | {"sha256": digest}), flush=True)
    else:
        checked = ", the same as executed serially" if arguments.check else ""
        print(f"{report}\nresult {digest[:16]}{checked}", flush=True)
    return ""


def _scenario(arguments: argparse.Namespace) -> Scenario | None:
    from mlsim.experiment import load_loop

    if arguments.scenario is None:
        if arguments.set:
            raise InputError(f"--set {arguments.set[0]}: changes a scenario; give --scenario FILE as well")
        return None
    return load_loop(arguments.scenario, parse_overrides(arguments.set))


def _seconds(text: str) -> float:
    from mlsim.scenario.amount_types import amount
    from mlsim.scenario.field_types import TIME

    try:
        return float(amount(TIME).parse(text))
    except ValueError as error:
        raise InputError(f"--delay: {error}") from error
