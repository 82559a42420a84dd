"""Recommend a technique and an execution model for a loop, or for one reconstructed from a run's chunks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from mlsim._runtime.late import load_matplotlib
from mlsim.cosim.simulation import loop_cost_sums
from mlsim.errors import InputError
from mlsim.experiment import loops, manifest
from mlsim.experiment.recorded_loop import LEAST_CHUNKS, MOST_HIDDEN, Maker, RecordedLoop
from mlsim.experiment.result_directories import Place
from mlsim.scenario import Scenario
from mlsim.scenario.measured_costs import charged

NEARLY = 0.01  # A choice is as good as the best one if it takes at most this share more
FEW = 0.05  # A verdict may cost at most this share more than the best choice; a smaller saving is none
EVEN = "even"
_TINY = 1e-300  # s; a loop of no time is not divided by
_SPREAD = (1.0, 0.8, 1.2)
_MOST_SIMULATIONS = 1_000_000
_MOST_SHOWN = 16
_CHUNKS_TO_RECORD = 100  # per PE; a record of so many hides little, and costs few requests
_COSTS = ("chunk_calculation", "chunk_assignment", "atomic_service", "break_time", "piece_time")
_LATENCIES = ("latency", "intra_node_latency")


@dataclass(frozen=True)
class Variation:
    """Parameters that vary between the simulations of a choice."""

    seed: int
    factor: float  # Of all scheduling overheads and network latencies
    within_chunks: str = EVEN  # Costs of the iterations of a recorded chunk; see recorded_loop.HIDDEN


@dataclass(frozen=True)
class Candidate:
    """A technique under an execution model, with one loop time per variation."""

    technique: str
    model: str
    t_loop: tuple[float, ...]
    chunks: int
    mean: float  # over the variations with even costs within chunks [s]
    as_good: float  # share of the variations in which it is as good as the best
    regret: float  # most that it takes longer than the best, over the costs within chunks, as a share

    @property
    def label(self) -> str:
        """Technique and model."""
        return f"{self.technique} {self.model}"


@dataclass(frozen=True)
class Advice:
    """All candidates, that of the least regret first, and what they are compared with."""

    choices: list[Candidate]
    now: Candidate
    static: Candidate
    variations: list[Variation]
    left_out: Mapping[str, str]
    most_saved: float  # largest share of the current loop time that any choice can save
    hides_too_much: bool = False  # the record

    @property
    def best(self) -> Candidate:
        """The recommended candidate: the current one unless another is better, and by more than a little."""
        first, now = self.choices[0], self.now
        is_near = now.regret <= first.regret + NEARLY
        is_better = all(a <= b * (1.0 - NEARLY) for a, b in zip(first.t_loop, now.t_loop, strict=True))
        return (
            now if is_near or (self.most_saved <= FEW and (self.hides_too_much or not is_better)) else first
        )

    @property
    def verdict(self) -> str | None:
        """Return change, keep, leave (hardly anything can be saved), or None if the record hides too much."""
        best = self.best
        if best is self.now and self.most_saved <= FEW:
            return "leave"
        if self.hides_too_much or best.regret > FEW:
            return None
        return "keep" if best is self.now else "change"

    @property
    def is_sure(self) -> bool:
        """Whether the recommended candidate is as good as the best one under all variations."""
        return self.verdict is not None and self.best.as_good == 1.0

    @property
    def saved(self) -> tuple[float, float]:
        """Least and largest share of the current loop time that the recommended candidate saves."""
        shares = [1.0 - a / b for a, b in zip(self.best.t_loop, self.now.t_loop, strict=True)]
        return min(shares), max(shares)


def advise(
    make: Maker,
    techniques: Sequence[str],
    models: Sequence[str],
    *,
    named: bool,
    seeds: int = 5,
    record: RecordedLoop | None = None,
    hidden: Mapping[str, Mapping[str, object]] | None = None,
    run_time: float | None = None,
    charge: Callable[[str, str], Mapping[str, object]] = lambda _technique, _model: {},
    tell: Callable[[int, int], None] = lambda _done, _total: None,
) -> Advice:
    """Simulate a loop, made by ``make``, under every technique and model, and rank them.

    With ``named``, a technique that cannot be used is an error, else it is left out. ``hidden`` has the keys
    of other costs that a ``record`` allows (:func:`recorded_loop.maker_of`). ``charge`` returns more keys of
    a technique and a model. ``tell`` is called with finished and total simulations.
    """
    hidden = hidden or {}
    base = make({})
    today = str(base.application.technique), str(base.application.execution.model)
    pairs = dict.fromkeys([today, ("STATIC", today[1]), *((t, m) for m in models for t in techniques)])
    variations = _variations(make, make(charge(*today)), seeds, run_time, len(pairs), list(hidden))
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
                changes = {**keys, "seed": variation.seed, **hidden.get(variation.within_chunks, {})}
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
    choices = _candidates(times, chunks, variations)
    by_pair = dict(zip(times, choices, strict=True))
    now = by_pair[today]
    least = np.array(list(times.values())).min(axis=0)
    most_saved = float((1.0 - least / np.maximum(now.t_loop, _TINY)).max())
    if record is not None:
        most_saved = record.most_saved if record.hides_too_much else min(most_saved, record.most_saved)
    choices.sort(key=lambda choice: choice.regret)  # stable: of equal ones, that which was named first
    return Advice(
        choices,
        now,
        by_pair["STATIC", today[1]],
        variations,
        left_out,
        most_saved,
        record is not None and record.hides_too_much,
    )


def _candidates(
    times: Mapping[tuple[str, str], list[float]],
    chunks: Mapping[tuple[str, str], int],
    variations: Sequence[Variation],
) -> list[Candidate]:
    """Compare loop times of each pair, one per variation, with the best of all pairs."""
    table = np.array(list(times.values()))
    as_good = (table <= table.min(axis=0) * (1.0 + NEARLY)).mean(axis=1)
    within = np.array([one.within_chunks for one in variations])
    means = {name: table[:, within == name].mean(axis=1) for name in dict.fromkeys(within.tolist())}
    regret = np.max([mean / max(mean.min(), _TINY) - 1.0 for mean in means.values()], axis=0)
    rows = zip(times, means[EVEN].tolist(), as_good.tolist(), regret.tolist(), strict=True)
    return [Candidate(*pair, tuple(times[pair]), chunks[pair], *values) for pair, *values in rows]


def _variations(
    make: Maker, base: Scenario, seeds: int, run_time: float | None, pairs: int, hidden: list[str]
) -> list[Variation]:
    """Return seeds, if costs are random, times factors, if overheads are charged, and times hidden costs.

    Factor 1 is first; hidden costs are not varied together with factors.
    """
    random = bool(base.platform.perturbations)
    if not random:
        costs, others = (loop_cost_sums(one, run_time).sums for one in (base, make({"seed": base.seed + 1})))
        random = not np.array_equal(costs, others)
    chosen = range(base.seed, base.seed + (seeds if random else 1))
    factors = _SPREAD if _charges(base, 2.0) else _SPREAD[:1]
    simulations = len(chosen) * (len(factors) + len(hidden)) * pairs
    if simulations > _MOST_SIMULATIONS:
        raise InputError(
            f"seeds: {seeds:,}: {simulations:,} simulations, of {pairs} choices with {len(factors)} costs of "
            f"scheduling; allowed: {_MOST_SIMULATIONS:,}; try fewer seeds, techniques or models"
        )
    return [
        *(Variation(seed, factor) for factor in factors for seed in chosen),
        *(Variation(seed, 1.0, name) for name in hidden for seed in chosen),
    ]


def _charges(base: Scenario, factor: float) -> dict[str, object]:
    """Return the keys that multiply all scheduling costs and latencies by a factor."""
    execution, network = charged(base.application.execution), base.platform.network
    keys: dict[str, object] = {}
    for name in _COSTS:
        if value := getattr(execution, name):
            keys[f"application.execution.{name}"] = f"{value * factor!r} s"
    if value := execution.parameters.request_cost:
        keys["application.execution.parameters.request_cost"] = f"{value * factor!r} s"
    for name in _LATENCIES:
        if value := getattr(network, name):
            keys[f"platform.network.{name}"] = f"{value * factor!r} s"
    return keys


def facts_of_unknown(
    record: RecordedLoop, source: Path, advice: Advice | None = None
) -> dict[str, Any] | None:
    """Return a record that allows no verdict as plain values: a ``reason``, and what to do ``instead``.

    None if it allows one by ``advice``, or may allow one by simulations.
    """
    most_saved = record.most_saved if advice is None else advice.most_saved
    if most_saved <= FEW or (advice is None and not record.hides_too_much):
        return None
    if advice is not None and advice.verdict is not None:
        return None
    counted = "" if record.parts == record.chunks else f" at {record.parts:,} different iterations"
    reason = (
        f"{record.chunks:,} chunks{counted} on {record.pes:,} PEs ({record.parts / record.pes:.3g} per PE) "
        "hide how costs differ within chunks. "
    )
    if advice is None or record.hides_too_much:
        share = record.longest / record.t_loop
        reason += f"The longest took {share:.0%} of the loop time (allowed: {MOST_HIDDEN:.0%})"
    else:
        reason += (
            f"Depending on that, {advice.best.label}, the most robust choice, takes up to "
            f"{advice.best.regret:.0%} longer than the best one (allowed: {FEW:.0%})"
        )
    reason += f"; another technique can save at most {most_saved:.0%}"
    size = len(record.costs) // (_CHUNKS_TO_RECORD * record.pes)
    place = record.place
    fewer = f" --set {place}.min_chunk={size} (about {_CHUNKS_TO_RECORD} chunks per PE)"
    instead = (
        f"{source.name} was executed with {record.technique}; record the loop with small chunks, e.g. "
        f"--set {place}.technique=SS{fewer if size > 1 else ''}, and run mlsim advise on that record"
    )
    facts = _facts_of_record(record) | {"least_chunks_per_pe": LEAST_CHUNKS}
    return {"best": None, "verdict": None, "reason": reason, "instead": instead, "record": facts}


def facts_of(advice: Advice, record: RecordedLoop | None, source: Path) -> dict[str, Any]:
    """Return the advice as plain values, times in s; without a verdict, ``best`` is null and has a reason."""
    if record is not None and (unknown := facts_of_unknown(record, source, advice)):
        return unknown
    facts: dict[str, Any] = {
        "best": _facts(advice.best, advice),
        "verdict": advice.verdict,
        "sure": advice.is_sure,
        "saved": dict(zip(("least", "largest"), advice.saved, strict=True)),
        "most_saved": advice.most_saved,
        "now": _facts(advice.now, advice),
        "static": _facts(advice.static, advice),
        "variations": [asdict(one) for one in advice.variations],
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
        "regret": choice.regret,
        "chunks": choice.chunks,
    }


def write_advice(place: Place, advice: Advice, record: RecordedLoop | None, source: Path) -> None:
    """Write ``advice.json`` into a reserved directory; with a verdict also ``advice.csv``, ``advice.png``."""
    facts = facts_of(advice, record, source)
    manifest.write_summary(place.partial / "advice.json", facts)
    if advice.verdict is None:
        return
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
        write_picture(bars([panel], f"{source.name}: choices of a technique", "parallel loop time (s)"), path)
