"""Simulates a loop under many techniques and models, each with several seeds and costs of handing out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from mlsim.errors import InputError
from mlsim.experiment.loops import run_loop
from mlsim.scenario import Scenario

__all__ = ["Advice", "Candidate", "Variation", "advise"]

NEARLY = 0.01
"""A choice is as good as the best one if it takes at most this share more."""
_SPREAD = (1.0, 0.8, 1.2)
_COSTS = ("chunk_calculation", "chunk_assignment", "atomic_service", "break_time", "piece_time")
_LATENCIES = ("latency", "intra_node_latency")


@dataclass(frozen=True)
class Variation:
    """What differs between the simulations of a choice."""

    seed: int
    """Seed of the loop's random numbers."""
    factor: float
    """Of all costs of handing out chunks, and of the network's latencies."""


@dataclass(frozen=True)
class Candidate:
    """A technique under an execution model.

    Attributes
    ----------
    technique, model
        As a scenario names them.
    t_loop
        What the loop takes [s], one a variation.
    chunks
        Chunks, in the first variation.
    as_good
        Share of the variations in which it is as good as the best choice.
    """

    technique: str
    model: str
    t_loop: tuple[float, ...]
    chunks: int
    as_good: float

    @property
    def label(self) -> str:
        """Technique and model, in short."""
        return f"{self.technique} {self.model}"

    @property
    def mean(self) -> float:
        """Mean over the variations [s]."""
        return fmean(self.t_loop)


@dataclass(frozen=True)
class Advice:
    """What is known about the choices.

    Attributes
    ----------
    choices
        All that were simulated, best first.
    now
        Today's.
    static
        STATIC under today's model.
    variations
        What each was simulated with.
    left_out
        Techniques, and why they were not simulated.
    """

    choices: list[Candidate]
    now: Candidate
    static: Candidate
    variations: list[Variation]
    left_out: Mapping[str, str]

    @property
    def best(self) -> Candidate:
        """The one to take: today's, if it is as good as the best in the mean."""
        first = self.choices[0]
        return self.now if self.now.mean <= first.mean * (1.0 + NEARLY) else first


Make = Callable[[Mapping[str, object]], Scenario]
"""Makes the loop with some keys changed."""


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
    """Simulate a loop under every technique and model.

    Parameters
    ----------
    make
        Makes the loop with keys changed; today's choice is what it has without any.
    techniques, models
        What is tried, besides today's choice and STATIC.
    named
        Whether the user has named the techniques: one that cannot be used is an error then, else left out.
    seeds
        How many seeds, where anything is random.
    run_time
        Seconds that costs made from a job's run time are made from.
    charge
        Returns further keys for a technique and a model: what handing out costs, where that was measured.
    tell
        Is told how many simulations of how many are done.

    Raises
    ------
    InputError
        If a choice cannot be simulated.
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
            results = [_simulate(make, pair, charge(*pair), variation, run_time) for variation in variations]
        except InputError as error:
            if named or pair == today:
                raise
            left_out[" ".join(pair)] = str(error)
            continue
        times[pair] = [t_loop for t_loop, _ in results]
        chunks[pair] = results[0][1]
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
    """Return the seeds, if anything is random, with all factors, if anything is charged; 1 first."""
    random = bool(base.platform.perturbations) or _has_random_costs(make, base, run_time)
    chosen = range(base.seed, base.seed + (seeds if random else 1))
    factors = _SPREAD if _charges(base, 2.0) else _SPREAD[:1]
    simulations = len(chosen) * len(factors) * pairs
    if simulations > _MOST_SIMULATIONS:
        raise InputError(
            f"seeds: {seeds:,}: {simulations:,} simulations, of {pairs} choices with {len(factors)} costs of "
            f"handing out; allowed: {_MOST_SIMULATIONS:,}; try fewer seeds, techniques or models"
        )
    return [Variation(seed, factor) for factor in factors for seed in chosen]


_MOST_SIMULATIONS = 1_000_000


def _has_random_costs(make: Make, base: Scenario, run_time: float | None) -> bool:
    from mlsim.cosim import loop_cost_sums

    other = make({"seed": base.seed + 1})
    costs, others = loop_cost_sums(base, run_time), loop_cost_sums(other, run_time)
    return not np.array_equal(costs.sums, others.sums)


def _charges(base: Scenario, factor: float) -> dict[str, object]:
    """Return the keys by which all costs of handing out are multiplied."""
    execution, network = base.application.execution, base.platform.network
    keys: dict[str, object] = {}
    for name in _COSTS:
        if value := getattr(execution, name):
            keys[f"application.execution.{name}"] = f"{value * factor!r} s"
    for name in _LATENCIES:
        if value := getattr(network, name):
            keys[f"platform.network.{name}"] = f"{value * factor!r} s"
    return keys


def _simulate(
    make: Make,
    pair: tuple[str, str],
    charged: Mapping[str, object],
    variation: Variation,
    run_time: float | None,
) -> tuple[float, int]:
    """Return what a loop takes [s], and its chunks."""
    technique, model = pair
    changes: dict[str, object] = {
        **charged,
        "application.technique": technique,
        "application.execution.model": model,
        "seed": variation.seed,
    }
    scenario = make(changes)
    if variation.factor != 1.0:
        scenario = make(changes | _charges(scenario, variation.factor))
    facts: dict[str, Any] = run_loop(scenario, run_time=run_time, chunks=False).facts
    return float(facts["t_loop"]), int(facts["steps"])
