"""Recommend a technique and an execution model for a loop, or for one reconstructed from a run's chunks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from mlsim._files import is_file
from mlsim._runtime.arrays import Floats, Ints
from mlsim._runtime.late import load_matplotlib
from mlsim.application.selection.measured_costs import Waits, charges_of_waits, waits_of
from mlsim.cosim.simulation import loop_cost_sums
from mlsim.errors import InputError
from mlsim.experiment import loops, manifest, stored_runs
from mlsim.experiment.result_directories import Place
from mlsim.record import Chunks, JobState, Records, derived_times, parquet_tables
from mlsim.scenario import Scenario
from mlsim.scenario.simulation_demand import Share, check_memory

NEARLY = 0.01  # A choice is as good as the best one if it takes at most this share more
_SPREAD = (1.0, 0.8, 1.2)
_MOST_SIMULATIONS = 1_000_000
_MOST_SHOWN = 16
_COSTS = ("chunk_calculation", "chunk_assignment", "atomic_service", "break_time", "piece_time")
_LATENCIES = ("latency", "intra_node_latency")
LEAST_CHUNKS = 20  # per PE; a record of fewer has too little information on the variation within chunks
_OF_THE_RUN = ("costs", "iterations", "time_steps", "selection", "pes_per_node")  # the record replaces them
_TABLES_OF_LOOPS = ("chunks", "pes")
_NETWORK = ("bandwidth", "latency", "intra_node_latency")


@dataclass(frozen=True)
class RecordedLoop:
    """A recorded loop: its scenario without costs, and the costs derived from its chunks."""

    content: dict[str, Any]
    costs: Floats  # float64[N]: of each iteration [s on a PE of the reference speed]
    technique: str
    model: str
    t_loop: float  # mean of its time steps [s]
    chunks: int
    parts: int  # chunks that begin at different iterations
    pes: int
    measured: bool  # real ranks executed the loop
    overhead: float  # median time from a request to the start of the chunk [s]


_ITERATION = 48  # Bytes per iteration while costs are computed


def recorded_loop(directory: Path, job: int | None = None) -> RecordedLoop:
    """Read the loop of a job (None: the only one) from a run, simulated or real, that has chunks."""
    file = "loop.yaml" if is_file(directory / "loop.yaml") else "scenario.yaml"
    manifest.check_read(directory, scenario=file)
    path = directory / "chunks.parquet"
    records = parquet_tables.read_tables(directory, without=_TABLES_OF_LOOPS)
    row = _row_of(directory, records, job)
    if not is_file(path):
        raise InputError(f"{directory}: has no chunks; run it again with --set output.trace=chunks")
    chunks = parquet_tables.read_rows_of_loops(path, Chunks, records, np.array([row]))
    if not len(chunks.job):
        raise InputError(f"{directory}: job {records.jobs.job_id[row]} has no chunks")
    scenario = stored_runs.read_scenario(directory / file)
    summary = stored_runs.read_summary(directory / "summary.json")
    for key, (allowed, fits) in _READ.items():
        value = stored_runs.value_at(scenario, key)
        if not fits(value):
            said = "missing" if value is None else f"{value!r:.60}"
            raise InputError(
                f"{directory / file}: {key}: {said}; allowed: {allowed}. Run the scenario again."
            )
    cores, speed = _nodes_of(records, row, scenario["application"].get("pes_per_node"))
    if int(chunks.pe.max()) >= cores.sum():
        raise InputError(
            f"{path}: a chunk of PE {chunks.pe.max()}; the nodes of job {records.jobs.job_id[row]} have "
            f"{cores.sum()} PEs by {directory / file} and occupancy.parquet: are they of one run?"
        )
    measured = "mpi" in summary or "slurm" in summary
    waits = waits_of(chunks.pe.astype(np.int64), chunks.requested, chunks.start, chunks.end)
    loop = int(np.flatnonzero(records.loops.job == row)[0])
    time_steps = int(scenario["application"].get("time_steps") or 1)
    if time_steps > 1:
        if records.jobs.state[row] != JobState.COMPLETED:
            raise InputError(f"{directory}: the loop was ended before its last time step")
        # Iterations count on from one time step to the next.
        each = max(int(records.loops.iterations[loop]) // time_steps, 1)
        chunks = replace(chunks, first=chunks.first % each)
    return RecordedLoop(
        content=_content(scenario, records, cores, speed, waits if measured else None),
        costs=_costs(path, chunks, np.repeat(speed, cores)),
        technique=str(scenario["application"]["technique"]),
        model=str(scenario["application"]["execution"]["model"]),
        t_loop=float(records.loops.t_loop[loop]) / time_steps,
        chunks=len(chunks.job),
        parts=len(np.unique(chunks.first)),
        pes=int(cores.sum()),
        measured=measured,
        overhead=waits.typical,
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 1 << 62


_READ: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "name": ("a text", lambda value: isinstance(value, str)),
    "seed": ("a whole number", lambda value: isinstance(value, int)),
    "platform": ("a mapping", lambda value: isinstance(value, Mapping)),
    "application": ("a mapping", lambda value: isinstance(value, Mapping)),
    "application.technique": ("a technique", lambda value: isinstance(value, str | Mapping)),
    "application.execution.model": ("an execution model", lambda value: isinstance(value, str | Mapping)),
    "application.pes_per_node": ("1 or more", lambda value: value is None or _is_count(value)),
    "application.time_steps": ("1 or more", lambda value: value is None or _is_count(value)),
    "platform.network": ("a mapping", lambda value: value is None or isinstance(value, Mapping)),
}


def unknown_of(record: RecordedLoop, source: Path) -> dict[str, str] | None:
    """Return why a record allows no verdict (``reason``), and what to do ``instead``; None if it does.

    The time of a chunk is divided evenly among its iterations. Few chunks per PE thus hide the imbalance that
    another technique would meet, and all techniques but the recorded one look too good.
    """
    if record.parts >= LEAST_CHUNKS * record.pes:
        return None
    iterations = len(record.costs)
    each = record.parts / record.pes
    counted = "" if record.parts == record.chunks else f" at {record.parts:,} different iterations"
    reason = (
        f"{record.chunks:,} chunks{counted} on {record.pes:,} PEs are {each:.3g} per PE, fewer than "
        f"{LEAST_CHUNKS}: what iterations cost within a chunk is not known, and other techniques would be "
        "simulated without that imbalance"
    )
    instead = (
        f"{source.name} was executed with {record.technique}; record the loop with small chunks, such as "
        "--set application.technique=SS, and run mlsim advise on that record"
    )
    if iterations < LEAST_CHUNKS * record.pes:
        instead = (
            f"the loop has {iterations / record.pes:.3g} iterations per PE; measure what each costs, write "
            "the costs into a file, and run mlsim advise on a scenario with application.costs: {profile: "
            "file, path: costs.csv}"
        )
    return {"reason": reason, "instead": instead}


@contextmanager
def maker_of(record: RecordedLoop) -> Iterator[Callable[[Mapping[str, object]], Scenario]]:
    """Yield a function that builds the loop with some keys changed; its costs are in a temporary file."""
    with TemporaryDirectory(prefix="mlsim-") as directory:
        path = Path(directory) / "costs.npy"
        np.save(path, record.costs)
        application = {**record.content["application"], "costs": {"profile": "file", "path": str(path)}}
        content = {**record.content, "application": application}
        yield lambda changes: loops.loop_from_mapping(content, changes)


def _row_of(directory: Path, records: Records, job: int | None) -> int:
    with_loops = records.loops.job
    if not len(with_loops):
        raise InputError(f"{directory}: no job of it executed a loop")
    if job is None:
        if len(with_loops) > 1:
            first = records.jobs.job_id[with_loops[:5]].tolist()
            raise InputError(
                f"{directory}: {len(with_loops)} jobs executed loops; say which with --job, such as {first}"
            )
        return int(with_loops[0])
    found = [row for row in with_loops.tolist() if records.jobs.job_id[row] == job]
    if not found:
        raise InputError(f"{directory}: --job {job}: no job of that number executed a loop")
    return int(found[0])


def _nodes_of(records: Records, row: int, pes_per_node: int | None) -> tuple[Ints, Floats]:
    """Return the PEs and the speed of each node of a job in its last attempt, in the order of its PEs."""
    stays = records.occupancy
    of_job = np.flatnonzero((stays.job == row) & (derived_times.attempt_of_rows(stays, records.attempts) < 0))
    node = np.concatenate([np.arange(stays.node[k], stays.node[k] + stays.count[k]) for k in of_job])
    cores = np.repeat(stays.cores[of_job], stays.count[of_job])
    _, first = np.unique(node, return_index=True)  # one that came back has another row
    first.sort()
    node, cores = node[first], cores[first]
    if pes_per_node is not None:
        cores = np.minimum(cores, int(pes_per_node))
    return cores.astype(np.int64), records.nodes.speed[node]


def _costs(path: Path, chunks: Chunks, speed: Floats) -> Floats:
    """Return the mean cost of every iteration over its executions."""
    n = int((chunks.first + chunks.size).max())
    check_memory(str(path), [Share("size", f"{n:,} iterations", n * _ITERATION)], "the costs of iterations")
    rate = (chunks.end - chunks.start) / chunks.size * speed[chunks.pe]
    seconds, times = np.zeros(n + 1), np.zeros(n + 1)
    for sums, values in ((seconds, rate), (times, np.ones(len(rate)))):
        np.add.at(sums, chunks.first, values)
        np.add.at(sums, chunks.first + chunks.size, -values)
    executed = np.rint(np.cumsum(times)[:n])
    if (executed < 1.0).any():
        missing = int(np.flatnonzero(executed < 1.0)[0])
        raise InputError(f"{path}: iteration {missing} is in no chunk: the loop was not executed whole")
    costs: Floats = np.maximum(np.cumsum(seconds)[:n] / executed, 0.0)
    return costs


def _content(
    scenario: Mapping[str, Any], records: Records, cores: Ints, speed: Floats, waits: Waits | None
) -> dict[str, Any]:
    """Return the scenario of the loop on the nodes of its job; ``waits`` are of requests of real chunks."""
    application = {key: value for key, value in scenario["application"].items() if key not in _OF_THE_RUN}
    nodes = [
        {"name": f"group{k}-", "count": len(list(same)), "cores": pes, "speed": f"{rate!r} GFLOP/s"}
        for k, ((pes, rate), same) in enumerate(groupby(zip(cores.tolist(), speed.tolist(), strict=True)))
    ]
    platform: dict[str, Any] = {"nodes": nodes, "reference_speed": "1 GFLOP/s"}
    network = scenario["platform"].get("network") or {}
    if len(cores) == len(records.nodes.name):
        platform["network"] = network
    else:  # some nodes of a larger network: its topology would have other nodes
        platform["network"] = {key: network[key] for key in _NETWORK if network.get(key) is not None}
    if waits is not None:
        charges = charges_of_waits(application["execution"]["model"], waits)
        charged = {key: f"{seconds!r} s" for key, seconds in charges.items()}
        application["execution"] = {**application["execution"], **charged}
    return {
        "name": scenario["name"],
        "seed": scenario["seed"],
        "platform": platform,
        "application": {**application, "time_steps": 1},
        "output": {"trace": "none", "pictures": False},
    }


@dataclass(frozen=True)
class Variation:
    """Parameters that vary between the simulations of a choice."""

    seed: int
    factor: float  # Of all scheduling overheads and network latencies


@dataclass(frozen=True)
class Candidate:
    """A technique under an execution model, with one loop time per variation."""

    technique: str
    model: str
    t_loop: tuple[float, ...]
    chunks: int
    as_good: float

    @property
    def label(self) -> str:
        """Technique and model."""
        return f"{self.technique} {self.model}"

    @property
    def mean(self) -> float:
        """Mean over the variations [s]."""
        return fmean(self.t_loop)


@dataclass(frozen=True)
class Advice:
    """All candidates, best first, and what they are compared with."""

    choices: list[Candidate]
    now: Candidate
    static: Candidate
    variations: list[Variation]
    left_out: Mapping[str, str]

    @property
    def best(self) -> Candidate:
        """The recommended candidate: the current one if its mean is as good as the best."""
        first = self.choices[0]
        return self.now if self.now.mean <= first.mean * (1.0 + NEARLY) else first


Make = Callable[[Mapping[str, object]], Scenario]  # Makes the loop with some keys changed


def advise(
    make: Make,
    techniques: Sequence[str],
    models: Sequence[str],
    *,
    named: bool,
    seeds: int = 5,
    run_time: float | None = None,
    charge: Callable[[str, str], Mapping[str, object]] = lambda _technique, _model: {},
    tell: Callable[[int, int], None] = lambda _done, _total: None,
) -> Advice:
    """Simulate a loop, made by ``make``, under every technique and model, and rank them.

    With ``named``, a technique that cannot be used is an error, else it is left out. ``charge`` returns more
    keys of a technique and a model. ``tell`` is called with finished and total simulations.
    """
    base = make({})
    today = str(base.application.technique), str(base.application.execution.model)
    pairs = dict.fromkeys([today, ("STATIC", today[1]), *((t, m) for m in models for t in techniques)])
    variations = _variations(make, make(charge(*today)), seeds, run_time, len(pairs))
    times: dict[tuple[str, str], list[float]] = {}
    chunks: dict[tuple[str, str], int] = {}
    left_out: dict[str, str] = {}
    for done, pair in enumerate(pairs):
        tell(done, len(pairs))
        try:
            technique, model = pair
            keys: Mapping[str, object] = {
                **charge(technique, model),
                "application.technique": technique,
                "application.execution.model": model,
            }
            results = []
            for variation in variations:
                changes = {**keys, "seed": variation.seed}
                scenario = make(changes)
                if variation.factor != 1.0:
                    scenario = make(changes | _charges(scenario, variation.factor))
                results.append(loops.run_loop(scenario, run_time=run_time, chunks=False).facts)
        except InputError as error:
            if named or pair == today:
                raise
            left_out[" ".join(pair)] = str(error)
            continue
        times[pair] = [float(facts["t_loop"]) for facts in results]
        chunks[pair] = int(results[0]["steps"])
    tell(len(pairs), len(pairs))
    least = np.array(list(times.values())).min(axis=0)
    choices = [
        Candidate(
            *pair, tuple(values), chunks[pair], float(np.mean(np.array(values) <= least * (1.0 + NEARLY)))
        )
        for pair, values in times.items()
    ]
    by_pair = dict(zip(times, choices, strict=True))
    choices.sort(key=lambda choice: choice.mean)  # stable: of equal ones, that which was named first
    return Advice(choices, by_pair[today], by_pair["STATIC", today[1]], variations, left_out)


def _variations(
    make: Make, base: Scenario, seeds: int, run_time: float | None, pairs: int
) -> list[Variation]:
    """Return seeds, if costs are random, times factors, if overheads are charged; factor 1 first."""
    random = bool(base.platform.perturbations)
    if not random:
        costs, others = (loop_cost_sums(one, run_time).sums for one in (base, make({"seed": base.seed + 1})))
        random = not np.array_equal(costs, others)
    chosen = range(base.seed, base.seed + (seeds if random else 1))
    factors = _SPREAD if _charges(base, 2.0) else _SPREAD[:1]
    simulations = len(chosen) * len(factors) * pairs
    if simulations > _MOST_SIMULATIONS:
        raise InputError(
            f"seeds: {seeds:,}: {simulations:,} simulations, of {pairs} choices with {len(factors)} costs of "
            f"handing out; allowed: {_MOST_SIMULATIONS:,}; try fewer seeds, techniques or models"
        )
    return [Variation(seed, factor) for factor in factors for seed in chosen]


def _charges(base: Scenario, factor: float) -> dict[str, object]:
    """Return the keys that multiply all scheduling costs and latencies by a factor."""
    execution, network = base.application.execution, base.platform.network
    keys: dict[str, object] = {}
    for name in _COSTS:
        if value := getattr(execution, name):
            keys[f"application.execution.{name}"] = f"{value * factor!r} s"
    for name in _LATENCIES:
        if value := getattr(network, name):
            keys[f"platform.network.{name}"] = f"{value * factor!r} s"
    return keys


def facts_of(advice: Advice, record: RecordedLoop | None) -> dict[str, Any]:
    """Return the advice as plain values; times in s."""
    facts: dict[str, Any] = {
        "best": _facts(advice.best, advice),
        "now": _facts(advice.now, advice),
        "static": _facts(advice.static, advice),
        "variations": [{"seed": one.seed, "factor": one.factor} for one in advice.variations],
        "choices": [_facts(choice, advice) for choice in advice.choices],
        "left_out": dict(advice.left_out),
    }
    if record is not None:
        facts["record"] = _facts_of_record(record) | {
            "simulated": advice.now.t_loop[0],
            "error": advice.now.t_loop[0] / record.t_loop - 1.0,
            "saved": record.t_loop - advice.best.mean,
        }
    return facts


def facts_of_unknown(unknown: Mapping[str, str], record: RecordedLoop) -> dict[str, Any]:
    """Return a record that allows no recommendation as plain values; ``best`` is null."""
    return {
        "best": None,
        **unknown,
        "record": _facts_of_record(record) | {"least_chunks_per_pe": LEAST_CHUNKS},
    }


def _facts_of_record(record: RecordedLoop) -> dict[str, Any]:
    return {
        "t_loop": record.t_loop,
        "chunks": record.chunks,
        "chunks_per_pe": record.parts / record.pes,
        "real": record.measured,
        "overhead": record.overhead,
    }


def _facts(choice: Candidate, advice: Advice) -> dict[str, Any]:
    return {
        "technique": choice.technique,
        "model": choice.model,
        "t_loop": choice.mean,
        "least": min(choice.t_loop),
        "largest": max(choice.t_loop),
        "over_static": choice.mean / advice.static.mean,
        "over_now": choice.mean / advice.now.mean,
        "as_good_as_best": choice.as_good,
        "chunks": choice.chunks,
    }


def write_advice(place: Place, advice: Advice, record: RecordedLoop | None, title: str) -> None:
    """Write ``advice.json``, ``advice.csv`` and ``advice.png`` into a reserved directory."""
    facts = facts_of(advice, record)
    manifest.write_summary(place.partial / "advice.json", facts)
    pl.DataFrame(facts["choices"]).write_csv(place.partial / "advice.csv")
    with place.extra(place.partial / "advice.png") as path:
        load_matplotlib()
        from mlsim.analysis.plots import Panel, bars, write_picture

        shown = advice.choices[:_MOST_SHOWN]
        shown += [choice for choice in (advice.now, advice.static) if choice not in shown]
        panel = Panel(
            "mean, least and largest over the variations",
            [choice.label for choice in shown],
            {"T_loop": [choice.mean for choice in shown]},
            ends={"T_loop": [(min(choice.t_loop), max(choice.t_loop)) for choice in shown]},
        )
        write_picture(bars([panel], title, "parallel loop time (s)"), path)
