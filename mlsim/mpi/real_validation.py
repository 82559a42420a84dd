"""Comparison of loops executed on MPI and simulated."""

import json
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mlsim._files import read_json
from mlsim._runtime.arrays import Floats
from mlsim.application import LoopOutcome, simulate
from mlsim.application.selection.selector import percent_imbalance
from mlsim.errors import InputError
from mlsim.experiment.result_directories import Place
from mlsim.experiment.run_directory import write_json
from mlsim.mpi.chunk_rules import is_ordered
from mlsim.mpi.launch import Launcher, launch
from mlsim.mpi.loop_options import BREAK_EVERY, EXECUTION_KEYS, LoopOptions, chosen, typical_break_after
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.words import ExecutionModel

_NUMBERS = ("atomic", "break", "message", "noticed", "recursive", "straightforward")


class Charges(NamedTuple):
    """Costs of assigning a chunk [s]: one-way latency of a message, and two keys of scenarios."""

    latency: float
    chunk_calculation: float
    atomic_service: float


def charges_of(machine: Mapping[str, Any], options: LoopOptions, ranks: int) -> Charges:
    """Return what a chunk costs on a machine that :func:`mlsim.mpi.calibrate.calibrate` has measured.

    Masters: a request arrives after ``message``, the reply is seen after ``noticed``: one latency, their
    mean. Windows: an atomic with its flush takes ``atomic``, without latency. Where one atomic is enough, as
    the technique sizes chunks by the step alone, each of the simulator's two is charged half of it.
    """
    if options.has_master:
        return Charges((machine["message"] + machine["noticed"]) / 2.0, machine["recursive"], 0.0)
    one_atomic = options.model == ExecutionModel.DCA and is_ordered(chosen(options, ranks)[0])
    return Charges(0.0, machine["straightforward"], machine["atomic"] / (2.0 if one_atomic else 1.0))


def keys_of(machine: Mapping[str, Any], technique: str, model: str, mean: float) -> dict[str, object]:
    """Return the scenario keys that charge a loop of a mean iteration cost [s], if it can be run for real."""
    options = LoopOptions(n=1, technique=technique, model=model).checked()
    charges = charges_of(machine, options, 2)
    keys: dict[str, object] = {
        "application.execution.chunk_calculation": f"{charges.chunk_calculation!r} s",
        "application.execution.chunk_assignment": "0 s",
        "application.execution.atomic_service": f"{charges.atomic_service!r} s",
        "platform.network.latency": f"{charges.latency!r} s",
        "platform.network.intra_node_latency": f"{charges.latency!r} s",
    }
    if options.has_master:
        keys["application.execution.break_after"] = typical_break_after(mean)
        keys["application.execution.break_time"] = f"{machine['break']!r} s"
    return keys


def read_machine(path: Path) -> dict[str, Any]:
    """Read the output of ``mlsim mpi calibrate --json``; InputError for any other file."""
    machine = read_json(path, "calibration")
    if not isinstance(machine, dict):
        raise InputError(f"{path}: not what mlsim mpi calibrate --json prints")
    for name in _NUMBERS:
        value = machine.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0.0 <= value < 1e3:
            raise InputError(
                f"{path}: {name}: {'missing' if value is None else value}; allowed: seconds, 0 or more, as "
                "mlsim mpi calibrate --json prints on two ranks or more"
            )
    return machine


_QUANTILE = 2.0  # of a standard error, for an interval of 95 %


def mean_of_middle(values: Sequence[float]) -> float:
    """Return the mean of the middle half of some values, one or more; of three the median."""
    cut = (len(values) + 1) // 4
    return float(np.mean(sorted(values)[cut : len(values) - cut]))


def unsureness(values: Sequence[float]) -> float:
    """Return half the 95 % interval of the mean of all values, relative to it; infinite below four values.

    Not of their middle half: of times with two modes, all of it may be of one.
    """
    if len(values) < 4:
        return math.inf
    return float(_QUANTILE * np.std(values, ddof=1) / (math.sqrt(len(values)) * np.mean(values)))


_SECONDS_A_LOOP = 120.0
_MOST_TIMES = 16  # repetitions at most, per repetition asked for, where a loop's times differ
_SIMULATIONS = 101
_NOISE_OF_COSTS, _NOISE_OF_MACHINE = 0.02, 0.2
"""By how much simulations differ: a standard deviation of costs, and the most of what was measured."""


@dataclass(frozen=True)
class Pair:
    """A technique under a model, and the delay injected into its chunk calculations, in s."""

    technique: str
    model: str
    delay: float = 0.0


@dataclass(frozen=True)
class Row:
    """One loop, real and simulated."""

    pair: Pair
    times: tuple[float, ...]  # T_loop of every repetition (s); more than asked for where they differ much
    times_simulated: tuple[float, ...]  # T_loop of every simulation (s)
    # Means of the middle halves of these: between two modes, as AF's may have, a median jumps.
    t_loop: float
    t_simulated: float
    # Medians: chunks, and percent imbalance.
    steps: int
    steps_simulated: int
    imbalance: float
    imbalance_simulated: float

    @property
    def error(self) -> float:
        """By how much the simulation is longer, relative to the real loop."""
        return self.t_simulated / self.t_loop - 1.0


def validate(
    launcher: Launcher,
    ranks: int,
    costs: Floats,
    pairs: Sequence[Pair],
    *,
    repetitions: int = 15,
    ranks_per_node: int | None = None,
    spins: bool | None = None,
    options: Callable[[str], dict[str, Any]] | None = None,
) -> tuple[list[Row], dict[str, Any]]:
    """Execute loops and simulate them with the costs of messages and atomics measured in the same run.

    ``costs``, float64[N]: of iterations [s]. A loop is executed ``repetitions`` times, up to 16 times as
    often where its mean is not known within 2 %. ``spins``: iterations compute, and do not sleep (None: if
    each rank has a core). ``options`` returns further options under a model. Returns a row per pair, and what
    was measured.
    """
    all_options = [_options(pair, ranks_per_node, options) for pair in pairs]
    loops = [{key: value for key, value in vars(chosen).items() if key != "n"} for chosen in all_options]
    native = _execute(launcher, loops, costs, repetitions, spins)
    if (found := native["machine"]["ranks"]) != ranks:
        raise InputError(
            f"{' '.join(launcher.words)} started {found} ranks, not {ranks}; say which with --ranks"
        )
    per_node = ranks_per_node or ranks
    drawn = [_disturbed(costs, native["machine"], seed) for seed in range(_SIMULATIONS)]
    rows = []
    for pair, asked, runs in zip(pairs, all_options, native["loops"], strict=True):
        outcomes = [simulated(*each, ranks, per_node, asked) for each in drawn]
        times = tuple(run["t_loop"] for run in runs)
        times_simulated = tuple(outcome.t_loop for outcome in outcomes)
        rows.append(
            Row(
                pair,
                times,
                times_simulated,
                mean_of_middle(times),
                mean_of_middle(times_simulated),
                int(np.median([run["steps"] for run in runs])),
                int(np.median([outcome.steps for outcome in outcomes])),
                float(np.median([run["imbalance"] for run in runs])),
                float(np.median([percent_imbalance(outcome.finish) for outcome in outcomes])),
            )
        )
    return rows, native["machine"]


def _disturbed(costs: Floats, machine: dict[str, Any], seed: int) -> tuple[Floats, dict[str, Any]]:
    """Return costs as prefix sums, and measurements, disturbed as real runs are; seed 0: as given."""
    rng = np.random.default_rng(seed)
    some = float(seed > 0)
    noise = rng.lognormal(0.0, some * _NOISE_OF_COSTS, len(costs))
    prefix = np.concatenate([[0.0], np.cumsum(costs * noise)])
    measured = {name: value for name, value in machine.items() if isinstance(value, float)}
    for name, value in measured.items():
        measured[name] = value * (1.0 + some * _NOISE_OF_MACHINE * rng.uniform(-1.0, 1.0))
    return prefix, machine | measured


def _execute(
    launcher: Launcher, loops: list[dict[str, Any]], costs: Floats, repetitions: int, spins: bool | None
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="mlsim-") as directory:
        place, most = Path(directory), repetitions * _MOST_TIMES
        np.save(place / "costs.npy", costs)
        files = {"costs": str(place / "costs.npy"), "out": str(place / "out.json")}
        plan = {**files, "spins": spins, "repetitions": repetitions, "most": most, "loops": loops}
        (place / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        limit = 120.0 + most * len(loops) * (_SECONDS_A_LOOP + float(costs.sum()))
        launch(launcher, ["-m", "mlsim.mpi.calibrate", str(place / "plan.json")], timeout=limit)
        result: dict[str, Any] = json.loads((place / "out.json").read_text(encoding="utf-8"))
    return result


def _options(
    pair: Pair, ranks_per_node: int | None, options: Callable[[str], dict[str, Any]] | None
) -> LoopOptions:
    """Return all options of a loop, checked."""
    more = {} if options is None else options(pair.model)
    given: dict[str, Any] = {"technique": pair.technique, "model": pair.model, "injected_delay": pair.delay}
    try:
        return LoopOptions(n=0, ranks_per_node=ranks_per_node, **given, **more).checked()
    except TypeError as error:
        raise InputError(f"--option: {error}") from error


def simulated(
    prefix: Floats, machine: dict[str, Any], ranks: int, per_node: int, options: LoopOptions
) -> LoopOutcome:
    """Simulate a loop on a machine that was measured."""
    charges = charges_of({"message": 0.0, "noticed": 0.0, **machine}, options, ranks)
    execution = ExecutionConfig(
        **{key: getattr(options, key) for key in EXECUTION_KEYS},
        chunk_calculation=charges.chunk_calculation,
        atomic_service=charges.atomic_service,
        piece_time=machine["piece"] if machine["spins"] else 0.0,
        **_breaks(prefix, options, machine),
    )
    if machine["spins"] and options.has_master:  # of whom it was measured
        prefix = np.concatenate([prefix[:1], prefix[1:] + machine["first"]])
    distance = np.full(ranks, charges.latency)
    distance[0] = 0.0
    return simulate(
        prefix,
        np.ones(ranks),
        distance,
        options.technique,
        execution,
        min_chunk=options.min_chunk,
        parameters=options.parameters_config(),
        node_of_pe=np.arange(ranks) // per_node,
        intra_latency=charges.latency,
        seed=options.seed,
    )


def _breaks(prefix: Floats, options: LoopOptions, machine: dict[str, Any]) -> dict[str, Any]:
    """Return the polling interval of a master and the time per poll, as keyword arguments.

    A piece that sleeps takes at least ``body``: what the loop's body takes without iterations.
    """
    n = len(prefix) - 1
    if not options.has_master or n == 0:
        return {}
    if machine["spins"] and options.break_after is None:
        return {"break_every": BREAK_EVERY, "break_time": machine["break"]}
    after = options.break_after or typical_break_after(float(prefix[-1]) / n)
    if machine["spins"]:
        return {"break_after": after, "break_time": machine["break"]}
    pieces = np.diff(prefix[np.append(np.arange(0, n, after), n)])
    lost = max(machine["body"] - float(pieces.mean()), 0.0)
    return {"break_after": after, "break_time": machine["break"] + lost}


def write_comparison(place: Place, rows: Sequence[Row], machine: dict[str, object], name: str) -> None:
    """Write ``table.md``, ``loops.json`` and ``loops.png`` into a directory of results."""
    (place.partial / "table.md").write_text(error_table(rows), encoding="utf-8")
    write_json(
        place.partial / "loops.json",
        {"machine": machine, "loops": [asdict(row) | {"error": row.error} for row in rows]},
    )
    with place.extra(place.partial / "loops.png") as path:
        _draw(path, rows, f"{name}: real and simulated")


def error_table(rows: Sequence[Row]) -> str:
    """Lay out the rows as a Markdown table."""
    lines = [
        "| technique | model | delay µs | T_loop real s | simulated s | error % | chunks real | simulated | "
        "imbalance real % | simulated % | real from – to s | simulated from – to s |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        pair = row.pair
        lines.append(
            f"| {pair.technique} | {pair.model} | {pair.delay * 1e6:.0f} | {row.t_loop:.4f} | "
            f"{row.t_simulated:.4f} | {row.error * 100:+.2f} | {row.steps} | {row.steps_simulated} | "
            f"{row.imbalance:.2f} | {row.imbalance_simulated:.2f} | {_range(row.times)} | "
            f"{_range(row.times_simulated)} |"
        )
    return "\n".join(lines) + "\n"


def _range(times: Sequence[float]) -> str:
    return f"{min(times):.4f} – {max(times):.4f}"


def _draw(path: Path, rows: Sequence[Row], title: str) -> None:
    """Draw real against simulated times: a point a repetition, a bar the simulation."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(6.0, 0.42 * len(rows) + 2.0), 4.2), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(rows))
    axes.bar(places, [row.t_simulated for row in rows], color="#b9cfe4", label="simulated", width=0.7)
    for place, row in zip(places.tolist(), rows, strict=True):
        axes.plot([place] * len(row.times), row.times, "o", color="#b5452c", markersize=4)
    axes.plot([], [], "o", color="#b5452c", label="real, each repetition")
    pairs = [row.pair for row in rows]
    delays = [f" {pair.delay * 1e6:.0f} µs" if pair.delay else "" for pair in pairs]
    words = [f"{pair.technique} {pair.model}{delay}" for pair, delay in zip(pairs, delays, strict=True)]
    axes.set_xticks(places, words, rotation=60, ha="right", fontsize=8)
    axes.set_ylabel("T_loop, s")
    axes.set_title(title)
    axes.legend(loc="lower right")
    FigureCanvasAgg(figure).print_figure(str(path), dpi=120)
