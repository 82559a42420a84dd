"""Single loops, for one or many techniques and models, on a machine described in a few words."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, groupby, pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsim._files import expanded, read_text
from mlsim._runtime.late import importing, load_matplotlib
from mlsim.cosim import simulation
from mlsim.errors import InputError
from mlsim.experiment import manifest, run_directory
from mlsim.experiment.result import html_of, table_property, technique_of
from mlsim.experiment.result_directories import Place, complete_or_gone
from mlsim.record import Chunks, Records, empty
from mlsim.scenario import Scenario, costs_section, dump, from_mapping, load, loads, scenario_loading, words
from mlsim.scenario.simulation_demand import MOST_PES, check_pes

if TYPE_CHECKING:
    from mlsim.analysis.plots import Curve


_SECTIONS = ("name", "description", "seed", "platform", "application", "output")
# What a scenario needs and a loop alone does not read; mapping core fits every platform.
_STAND_IN: dict[str, object] = {
    "workload": {"path": "none", "mapping": "core"},
    "batch": None,
    "coordination": None,
}

_REFUSED = {
    "platform.failures": "a job's loop ends when its node fails, and there is no queue to go back to",
    "platform.random_failures": "a job's loop ends when its node fails, and there is no queue to go back to",
    "platform.drains": "no job starts but the one",
    "output.trace_jobs": "there is no job but the one",
    "output.passes": "there is no dispatcher",
    "output.batsim": "there is no job but the one",
    "output.writers": "they get a run of jobs",
}
_UNREAD = {
    "platform.nodes.N.memory": "it has the whole machine to itself",
    "platform.nodes.N.resources": "it has the whole machine to itself",
    "platform.shared": "it has the whole machine to itself",
    "platform.nodes.N.power": "energy is computed for runs",
}
LEFT_ASIDE = tuple(_STAND_IN)  # Sections of a scenario that a loop alone does not read

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class LoopResult:
    """One loop, simulated alone."""

    scenario: Scenario
    """The simulated scenario, with every default filled in."""
    facts: dict[str, Any]
    """Its metrics; see :func:`mlsim.analysis.loop_facts`."""
    records: Records
    """Everything that happened, as a run with one job."""
    directory: Path | None = None
    """Directory of the written result; None if it was not written."""

    @property
    def label(self) -> str:
        """Technique and execution model, in short."""
        return f"{self.facts['technique']} {self.facts['model']}"

    chunks = table_property("chunks")
    """One row per chunk, as in ``chunks.parquet``; empty unless chunks were kept."""
    pes = table_property("pes")
    """One row per PE, as in ``pes.parquet``."""

    def _without_chunks(self, directory: Path | None = None) -> LoopResult:
        return replace(self, records=replace(self.records, chunks=empty(Chunks)), directory=directory)

    def __repr__(self) -> str:
        return f"LoopResult({self.label!r}, t_loop={self.facts['t_loop']})"

    def _repr_html_(self) -> str:
        from mlsim.analysis.terminal_tables import loop_table

        return html_of(loop_table([self.facts]))


def load_loop(path: str | Path, overrides: Mapping[str, object] | None = None) -> Scenario:
    """Read a loop from a scenario file, which may lack sections that a loop does not use.

    ``overrides`` and errors are those of :func:`mlsim.load`; an override of an ignored section is an error.
    Of several applications the override ``application`` chooses one, by its name.
    """
    named: Any = {}
    with suppress(InputError):  # load() reports what is wrong
        text = read_text(expanded(path), "scenario file", _LARGEST_SCENARIO)
        named = _named_in(text, str(path)) if "applications" in text else {}
    return _loop_of(partial(load, path), named, str(path), overrides)


def loop_from_mapping(value: Mapping[str, Any], overrides: Mapping[str, object] | None = None) -> Scenario:
    """Build a loop from plain mappings shaped like a scenario file; see :func:`load_loop`."""
    return _loop_of(partial(from_mapping, value, "loop"), value.get("applications"), "loop", overrides)


def loop_from_text(text: str, name: str, overrides: Mapping[str, object], directory: str | Path) -> Scenario:
    """Build a loop from the text of a scenario file; see :func:`load_loop`, :func:`mlsim.scenario.loads`."""
    named = _named_in(text, name) if "applications" in text else {}
    return _loop_of(lambda given: loads(text, name, given, directory), named, name, overrides)


def _named_in(text: str, name: str) -> Any:
    """Return the applications of a scenario's text, unchecked."""
    return scenario_loading.overridden(text, name, {}).get("applications")


def _loop_of(
    make: Callable[[Mapping[str, object]], Scenario],
    named: Any,
    place: str,
    overrides: Mapping[str, object] | None,
) -> Scenario:
    """Return the loop of a scenario: of its application, or of the one of several that is chosen."""
    given = dict(overrides or {})
    if not isinstance(named, Mapping) or not named:
        return _checked(make(_as_loop(given)))
    words = {
        name: section.get("model") if isinstance(section, Mapping) else "" for name, section in named.items()
    }
    loops = [str(name) for name, word in words.items() if word == "loop"]
    chosen = given.pop("application", loops[0] if len(loops) == 1 else None)
    if chosen not in named:
        problem = f"there is no application {chosen!r}" if chosen else "has several applications"
        raise InputError(
            f"{place}: {problem}; a loop alone is of one: --set application=NAME, with a name of: "
            f"{', '.join(loops or map(str, named))}"
        )
    own = f"applications.{chosen}"
    keys = _as_loop({_OF_ONE.sub(own, key): value for key, value in given.items()})
    keys[f"{own}.model"] = keys.pop("application.model")
    return _checked(make(keys).by_application[str(chosen)])


_OF_ONE = re.compile(r"^application(?=\.)")
_LARGEST_SCENARIO = 4_000_000


def _as_loop(overrides: Mapping[str, object] | None) -> dict[str, object]:
    given = dict(overrides or {})
    for key in given:
        section = key.split(".")[0]
        if section in _STAND_IN:
            raise InputError(
                f"--set {key}: a loop alone has no {section}; its sections: {', '.join(_SECTIONS)}"
            )
        name = ".".join("N" if part.isdecimal() else part for part in key.split("."))
        for unread, reason in (_REFUSED | _UNREAD).items():
            if given[key] is not None and (name == unread or name.startswith(f"{unread}.")):
                raise InputError(f"--set {key}: a loop alone does not read it: {reason}")
    return {**_STAND_IN, "application.model": "loop", **given}


def _checked(scenario: Scenario) -> Scenario:
    """Refuse keys of a file that a single loop would silently ignore."""
    for key, reason in _REFUSED.items():
        section, name = key.split(".")
        if getattr(getattr(scenario, section), name):
            raise InputError(
                f"{scenario.source}: {key}: a loop alone does not have it: {reason}; take it out, e.g. by "
                f"--set {key}="
            )
    return scenario


def with_file_of_costs(overrides: Mapping[str, object]) -> dict[str, object]:
    """Make a file that is named the costs, in place of a scenario's, unless another profile is chosen."""
    place = "application.costs."
    own = {key: value for key, value in overrides.items() if key.startswith(place) and key.count(".") == 2}
    profile = str(overrides.get(f"{place}profile", "file")).casefold()
    if "application.costs" in overrides or profile != "file":
        return dict(overrides)
    rest = {key: value for key, value in overrides.items() if key not in own}
    costs = {key.removeprefix(place): value for key, value in own.items()}
    return {**rest, "application.costs": {"profile": "file", **costs}}


def with_typical_mean(overrides: Mapping[str, object]) -> dict[str, object]:
    """Add the mean cost of a chosen application without scale: mandelbrot and psia (Eleliemy 2021, §4.4)."""
    costs = {key.removeprefix("application.costs."): value for key, value in overrides.items()}
    if {"application.costs", "mean", "unit_cost", "calibrate"} & costs.keys():
        return dict(overrides)
    profile = str(costs.get("profile", "")).casefold()
    typical = {name.value: mean for name, mean in costs_section.TYPICAL.items()}
    mean = {"application.costs.mean": typical[profile]} if profile in typical else {}
    return {**overrides, **mean}


def choices(techniques: Sequence[str], models: Sequence[str]) -> list[dict[str, object]]:
    """Return the overrides of all combinations of techniques and models; an empty list changes nothing."""
    keys = {"application.technique": techniques, "application.execution.model": models}
    named = {key: words for key, words in keys.items() if words}
    return [dict(zip(named, words, strict=True)) for words in product(*named.values())]


def run_loop(scenario: Scenario, *, run_time: float | None = None, chunks: bool = True) -> LoopResult:
    """Simulate one loop alone on its whole machine.

    Parameters
    ----------
    scenario
        From :func:`load_loop` or :func:`loop_from_mapping`; one with a workload will do.
    run_time
        Seconds that costs made from a job's run time (profile ``job``, or calibrated) are made from.
    chunks
        Whether to keep a row for every chunk.

    Examples
    --------
    >>> from mlsim.experiment import loop_from_mapping, run_loop
    >>> loop = loop_from_mapping(
    ...     {
    ...         "platform": {"nodes": [{"name": "n", "count": 2, "cores": 2}]},
    ...         "application": {
    ...             "costs": {"profile": "constant", "mean": "1 ms"},
    ...             "iterations": {"count": 1000},
    ...             "technique": "GSS",
    ...         },
    ...     }
    ... )
    >>> result = run_loop(loop)
    >>> result.facts["steps"], result.chunks["size"].sum()
    (17, 1000)
    """
    from mlsim.analysis import loop_facts

    records = simulation.simulate_loop(scenario, run_time, chunks)
    technique = technique_of(scenario) or ""
    return LoopResult(
        scenario, loop_facts(records, technique, str(scenario.application.execution.model)), records
    )


def run_loops(
    scenarios: Sequence[Scenario],
    *,
    run_time: float | None = None,
    chunks: bool = True,
    out: str | Path | None = None,
    progress: Callable[[LoopResult], None] | None = None,
) -> list[LoopResult]:
    """Simulate loops one after the other, and write them into one directory.

    Parameters
    ----------
    scenarios
        Loops; a single one is written into ``out`` itself, several into a subdirectory each.
    run_time
        As for :func:`run_loop`.
    chunks
        Whether chunks are written, and drawn; without ``out`` they are not kept.
    out
        Directory to write, which must not exist. Nothing is written without it.
    progress
        Called with each result.

    Returns
    -------
    list of LoopResult
        Without chunks, so that many loops fit into memory.
    """
    for scenario in scenarios:
        simulation.check_loop(scenario, run_time, held=len(scenarios) - 1)
    report = progress or (lambda _result: None)
    results: list[LoopResult] = []
    if out is None:
        for scenario in scenarios:
            results.append(run_loop(scenario, run_time=run_time, chunks=False))
            report(results[-1])
        return results
    for scenario in scenarios:
        run_directory.check_needs(scenario)
    with complete_or_gone(out) as place:
        curves: list[Curve] = []
        names = _names(scenarios)
        for scenario, name in zip(scenarios, names, strict=True):
            needed = chunks or scenario.output.trace.shows_chunks
            result = run_loop(scenario, run_time=run_time, chunks=needed)
            curves += write_loop(place, place.partial / name, result, chunks)
            results.append(result._without_chunks(place.directory / name))
            report(result)
        if len(results) > 1:
            import polars as pl

            manifest.write_summary(place.partial / "summary.json", summary(results))
            pl.DataFrame([result.facts for result in results]).write_csv(place.partial / "loops.csv")
        if len(results) > 1 and curves and scenarios[0].output.pictures:
            from mlsim.analysis.plots import chunk_sizes, write_picture

            with place.extra(place.partial / "chunk-sizes.png") as path:
                write_picture(chunk_sizes(curves, scenarios[0].name), path)
    return results


def _names(scenarios: Sequence[Scenario]) -> list[str]:
    """Name each loop's directory after technique and model; one loop alone needs none."""
    if len(scenarios) == 1:
        return ["."]
    names: list[str] = []
    for scenario in scenarios:
        pair = f"{technique_of(scenario)}-{scenario.application.execution.model}"
        name = re.sub(r"[^\w+.-]+", "_", pair).strip("._")
        names.append(name if name not in names else f"{name}-{len(names) + 1}")
    return names


def write_loop(place: Place, directory: Path, result: LoopResult, chunks: bool) -> list[Curve]:
    """Write the directory of a loop, as ``mlsim loop`` does; return its curve of chunk sizes."""
    load_matplotlib()
    with importing():
        from mlsim.analysis.plots import chunk_curve, chunk_sizes, pe_timeline, write_picture
        from mlsim.record.parquet_tables import write_tables

    directory.mkdir(exist_ok=True)
    scenario = result.scenario
    (directory / "loop.yaml").write_text(dump(scenario, _SECTIONS), encoding="utf-8")
    known = run_directory.versions() | scenario_loading.read_in(scenario, directory)
    run_directory.write_json(directory / "versions.json", known)
    kept = result if chunks else result._without_chunks()
    write_tables(directory, kept.records, technique_of(scenario), scenario.output.csv)
    curves = [chunk_curve(result.records.chunks, result.label)] if chunks else []
    if scenario.output.pictures and curves:
        title = f"{scenario.name}: {result.label}"
        with place.extra(directory / "pes.png") as path:
            write_picture(pe_timeline(result.records, title), path)
        with place.extra(directory / "chunk-sizes.png") as path:
            write_picture(chunk_sizes(curves, title), path)
    if scenario.output.trace is not words.TraceLevel.NONE:
        with place.extra(directory / "trace") as path:
            run_directory.write_trace(path, result.records, scenario, "", exclusive_nodes=True)
    manifest.write_summary(directory / "summary.json", summary([result]))
    manifest.write_manifest(directory)
    return curves


def summary(loops: Sequence[LoopResult]) -> dict[str, Any]:
    """Return the content of ``summary.json``: its version, and the metrics of each loop."""
    return {
        "schema_version": SCHEMA_VERSION,
        "scenario": loops[0].scenario.name,
        "seed": loops[0].scenario.seed,
        "loops": [loop.facts for loop in loops],
    }


REFERENCE_SPEED = 1e9  # FLOP/s of a PE of speed 1

_PES = re.compile(r"(?:(\d{1,9})\s*[x×]\s*)?(\d{1,9})")
_SPEEDS = re.compile(r"(\d+\.?\d*|\.\d+)(?:\s*[x×]\s*(\d{1,9}))?")


def node_groups(pes: str, speeds: str | None = None) -> list[dict[str, Any]]:
    """Return the ``platform.nodes`` of a scenario, by NODESxPES, and SPEEDxNODES relative to 1.

    Both are one or more with commas between, in order of the nodes; a number alone is of one node.

    Examples
    --------
    >>> groups = node_groups("4x48,6x16", "1.3x4,2.4x6")
    >>> [(group["count"], group["cores"], group["speed"]) for group in groups]
    [(4, 48, 1300000000.0), (6, 16, 2400000000.0)]
    """
    sizes = _pairs(pes)
    nodes = sum(number for number, _ in sizes)
    relative = [(nodes, 1.0)] if speeds is None else _speeds(speeds, nodes)
    ends = [list(accumulate(number for number, _ in runs)) for runs in (sizes, relative)]
    edges = [0, *sorted({*ends[0], *ends[1]})]
    runs = (  # nodes in a row, their PEs and their speed
        (end - at, sizes[bisect_right(ends[0], at)][1], relative[bisect_right(ends[1], at)][1])
        for at, end in pairwise(edges)
    )
    found = groupby(runs, key=lambda run: run[1:])
    return [
        {
            "name": f"group{row}-",
            "count": sum(number for number, *_ in same),
            "cores": size,
            "speed": speed * REFERENCE_SPEED,
        }
        for row, ((size, speed), same) in enumerate(found)
    ]


def _pairs(pes: str) -> list[tuple[int, int]]:
    pairs = []
    for part in pes.split(","):
        match = _PES.fullmatch(part.strip())
        number, each = (int(match[1] or 1), int(match[2])) if match else (0, 0)
        if not number * each:
            raise InputError(
                f"--pes {pes:.60}: {part.strip()!r:.60} is not NODESxPES; allowed: such as 16x16 (16 nodes "
                f"of 16 PEs), 8 (one node) or 4x48,6x16, 1 to {MOST_PES:,} PEs"
            )
        check_pes(f"--pes {pes:.60}", number * each)
        pairs.append((number, each))
    return pairs


def _speeds(speeds: str, nodes: int) -> list[tuple[int, float]]:
    relative: list[tuple[int, float]] = []
    for part in speeds.split(","):
        match = _SPEEDS.fullmatch(part.strip())
        speed = float(match[1]) if match else 0.0
        number = int(match[2] or 1) if match else 0
        if not (speed > 0.0 and number >= 1):
            raise InputError(
                f"--speeds {speeds:.60}: {part.strip()!r:.60} is not SPEEDxNODES; allowed: such as 1x8,0.5x8 "
                "(8 nodes of speed 1, then 8 of half the speed), speeds more than 0"
            )
        relative.append((number, speed))
    found = sum(number for number, _ in relative)
    if found != nodes:
        raise InputError(f"--speeds {speeds:.60}: for {found} nodes, and --pes has {nodes}; one a node")
    return relative
