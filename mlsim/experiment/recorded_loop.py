"""The loop of a recorded run: its scenario, and the costs that its chunks show and hide."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mlsim._files import is_file
from mlsim._runtime.arrays import Floats, Ints, ranges
from mlsim.application.selection.measured_costs import Waits, charges_of_waits, waits_of
from mlsim.errors import InputError
from mlsim.experiment import loops, manifest, stored_runs
from mlsim.record import Chunks, JobState, Records, derived_times, parquet_tables
from mlsim.scenario import Scenario
from mlsim.scenario.simulation_demand import Share, check_memory

MOST_HIDDEN = 0.25  # of the loop time; a longer chunk of several iterations hides too much for a verdict
LEAST_CHUNKS = 20  # per PE; the chunks of a smaller record do not bound the costs inside each other
_NEIGHBOURS = 3  # chunks on either side whose costs bound those inside a chunk
_OF_THE_RUN = ("costs", "iterations", "time_steps", "selection", "pes_per_node")  # the record replaces them
_TABLES_OF_LOOPS = ("chunks", "pes")
_NETWORK = ("bandwidth", "latency", "intra_node_latency")


@dataclass(frozen=True)
class RecordedLoop:
    """A recorded loop: its scenario without costs, and the costs derived from its chunks."""

    content: dict[str, Any]
    costs: Floats  # float64[N]: of each iteration [s on a PE of the reference speed], even within chunks
    edges: Ints  # int64[K+1]: first iterations of the K chunks between which costs are known, and N
    technique: str
    model: str
    t_loop: float  # mean of its time steps [s]
    chunks: int
    parts: int  # chunks that begin at different iterations
    pes: int
    measured: bool  # real ranks executed the loop
    overhead: float  # median time from a request to the start of the chunk [s]
    longest: float  # of the chunks with several iterations [s], 0 if there are none
    balanced: float  # lower bound of the loop time under any technique [s]; 0 if none is known
    place: str = "application"  # key of its application in the scenario

    @property
    def has_hidden_costs(self) -> bool:
        """Whether a chunk has several iterations, whose costs the record contains as a sum only."""
        return len(self.edges) <= len(self.costs)

    @property
    def hides_too_much(self) -> bool:
        """Whether a chunk of several iterations takes too much of the loop time for a verdict."""
        return self.longest > MOST_HIDDEN * self.t_loop

    @property
    def most_saved(self) -> float:
        """Largest share of the recorded loop time that any technique can save, whatever chunks hide."""
        return 1.0 - self.balanced / self.t_loop if self.t_loop > 0.0 else 0.0


_ITERATION = 96  # Bytes per iteration while costs are computed and rearranged


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
    place = "application"
    if records.jobs.application is not None:
        name = records.names.of["application"].get(int(records.jobs.application[row]), "")
        place = f"applications.{name}"
        scenario = _of_one(directory, scenario, records, summary, row)
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
        step = chunks.first // each
        chunks = replace(chunks, first=chunks.first % each)
        known = np.unique(chunks.first[step == np.bincount(step).argmax()])  # sums of the finest time step
    else:
        known = np.unique(chunks.first)
    costs = _costs(path, chunks, np.repeat(speed, cores))
    several = (chunks.end - chunks.start)[chunks.size > 1]
    is_perturbed = bool(scenario["platform"].get("perturbations"))
    return RecordedLoop(
        content=_content(scenario, records, cores, speed, waits if measured else None),
        costs=costs,
        edges=np.append(known, len(costs)),
        technique=str(scenario["application"]["technique"]),
        model=str(scenario["application"]["execution"]["model"]),
        t_loop=float(records.loops.t_loop[loop]) / time_steps,
        chunks=len(chunks.job),
        parts=len(np.unique(chunks.first)),
        pes=int(cores.sum()),
        measured=measured,
        overhead=waits.typical,
        longest=float(several.max(initial=0.0)),
        balanced=0.0 if is_perturbed else float(costs.sum() / (cores * speed).sum()),
        place=place,
    )


def _of_one(
    directory: Path, scenario: dict[str, Any], records: Records, summary: Mapping[str, Any], row: int
) -> dict[str, Any]:
    """Return the content of a scenario with the application of a job in place of several."""
    assert records.jobs.application is not None
    assert records.jobs.technique is not None
    name = records.names.of["application"].get(int(records.jobs.application[row]), "")
    section = stored_runs.value_at(scenario, f"applications.{name}")
    if not isinstance(section, Mapping):
        raise InputError(f"{directory}: its scenario has no application {name!r}; run the scenario again")
    replaced = set(stored_runs.value_at(summary, "workload.replaced") or ())
    own = records.own.of
    if missing := replaced & {"model", "steps"} - own.keys():
        raise InputError(f"{directory}: an earlier mlsim left out the column {missing.pop()}; run it again")
    changes: dict[str, Any] = {"technique": records.names.of["technique"][int(records.jobs.technique[row])]}
    if "steps" in replaced and own["steps"][row] > 0:  # neither -1 nor nan
        changes["time_steps"] = int(own["steps"][row])
    if "model" in replaced and (model := own["model"][row]) not in (None, "", "loop"):
        changes["execution"] = {**(section.get("execution") or {}), "model": model}
    kept = {key: value for key, value in scenario.items() if key not in ("applications", "assign")}
    return kept | {"application": {**section, **changes}}


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


Maker = Callable[[Mapping[str, object]], Scenario]  # Makes the loop with some keys changed
Loops = tuple[Maker, Mapping[str, Mapping[str, object]]]  # Also the keys of other costs that it may have


@contextmanager
def maker_of(record: RecordedLoop) -> Iterator[Loops]:
    """Yield a function that builds the loop with some keys changed, and keys of other costs by their name.

    Costs are in temporary files.
    """
    with TemporaryDirectory(prefix="mlsim-") as directory:
        hidden: dict[str, Mapping[str, object]] = {}
        for name in HIDDEN if record.has_hidden_costs else ():
            np.save(Path(directory) / f"{name}.npy", rearranged(record, name))
            hidden[name] = {"application.costs.path": str(Path(directory) / f"{name}.npy")}
        path = Path(directory) / "costs.npy"
        np.save(path, record.costs)
        application = {**record.content["application"], "costs": {"profile": "file", "path": str(path)}}
        content = {**record.content, "application": application}
        yield lambda changes: loops.loop_from_mapping(content, changes), hidden


def rearranged(record: RecordedLoop, name: str) -> Floats:
    """Return costs that the record allows as well: each chunk has its sum, but no even costs.

    Every iteration costs at least as little as the cheapest of the neighbouring chunks shows, or nothing in a
    record of few chunks. The rest of a chunk's sum is where ``name`` places it.
    """
    first, size = record.edges[:-1], np.diff(record.edges)
    sums = np.add.reduceat(record.costs, first)
    least = np.zeros(len(size))
    if len(size) >= LEAST_CHUNKS * record.pes:
        around = np.pad(sums / size, _NEIGHBOURS, mode="edge")
        least = np.lib.stride_tricks.sliding_window_view(around, 2 * _NEIGHBOURS + 1).min(axis=1)
    shares: Floats = HIDDEN[name](
        ranges(0, size), np.repeat(size, size), np.repeat(np.arange(len(size)), size)
    )
    return np.repeat(least, size) + np.repeat(sums - least * size, size) * shares


def _front(place: Ints, size: Ints, _chunk: Ints) -> Floats:
    half = (size + 1) // 2
    return np.where(place < half, 1.0 / half, 0.0)


def _back(place: Ints, size: Ints, _chunk: Ints) -> Floats:
    return _front(size - 1 - place, size, _chunk)


def _anywhere(seed: int, place: Ints, size: Ints, chunk: Ints) -> Floats:
    drawn = np.random.default_rng(seed).random((2, chunk[-1] + 1))[:, chunk]
    width = np.ceil((1.0 - drawn[0]) ** 2 * size)
    begin = np.floor(drawn[1] * (size - width + 1))
    return np.where((begin <= place) & (place < begin + width), 1.0 / width, 0.0)


def _first(place: Ints, size: Ints, _chunk: Ints) -> Floats:
    return 0.5 / size + np.where(place == 0, 0.5, 0.0)


def _last(place: Ints, size: Ints, _chunk: Ints) -> Floats:
    return _first(size - 1 - place, size, _chunk)


HIDDEN: Mapping[str, Callable[[Ints, Ints, Ints], Floats]] = {
    "front": _front,
    "back": _back,
    "first": _first,
    "last": _last,
    **{f"anywhere-{seed}": partial(_anywhere, seed) for seed in (1, 2, 3)},
}
"""Share of an iteration in the hidden costs of its chunk, by its place and the chunk's size and number."""


def _row_of(directory: Path, records: Records, job: int | None) -> int:
    with_loops = records.loops.job
    if not len(with_loops):
        raise InputError(f"{directory}: no job of it executed a loop")
    if job is None:
        if len(with_loops) > 1:
            first = records.jobs.job_id[with_loops[:5]].tolist()
            raise InputError(
                f"{directory}: {len(with_loops)} jobs executed loops; choose one with --job, such as {first}"
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
    return np.maximum(np.cumsum(seconds)[:n] / executed, 0.0)


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
