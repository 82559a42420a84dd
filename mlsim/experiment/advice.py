"""Recommend a technique and an execution model for a loop; its files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from mlsim._runtime.late import load_matplotlib
from mlsim.errors import InputError
from mlsim.experiment.loops import run_loop
from mlsim.experiment.manifest import write_summary
from mlsim.experiment.recorded_loop import LEAST_CHUNKS, RecordedLoop
from mlsim.experiment.result_directories import Place
from mlsim.scenario import Scenario

NEARLY = 0.01  # A choice is as good as the best one if it takes at most this share more
_SPREAD = (1.0, 0.8, 1.2)
_MOST_SIMULATIONS = 1_000_000
_MOST_SHOWN = 16
_COSTS = ("chunk_calculation", "chunk_assignment", "atomic_service", "break_time", "piece_time")
_LATENCIES = ("latency", "intra_node_latency")


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
                results.append(run_loop(scenario, run_time=run_time, chunks=False).facts)
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
    from mlsim.cosim.simulation import loop_cost_sums

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
    import polars as pl

    facts = facts_of(advice, record)
    write_summary(place.partial / "advice.json", facts)
    pl.DataFrame(facts["choices"]).write_csv(place.partial / "advice.csv")
    with place.extra(place.partial / "advice.png") as path:
        load_matplotlib()
        from mlsim.analysis.plots.chart_style import write_picture
        from mlsim.analysis.plots.panel_plots import Panel, bars

        shown = advice.choices[:_MOST_SHOWN]
        shown += [choice for choice in (advice.now, advice.static) if choice not in shown]
        panel = Panel(
            "mean, least and largest over the variations",
            [choice.label for choice in shown],
            {"T_loop": [choice.mean for choice in shown]},
            ends={"T_loop": [(min(choice.t_loop), max(choice.t_loop)) for choice in shown]},
        )
        write_picture(bars([panel], title, "parallel loop time (s)"), path)
