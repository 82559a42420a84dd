"""The model of Lublin and Feitelson, one job after the other, as its authors describe it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any, NamedTuple


class Job(NamedTuple):
    """One job: times in seconds."""

    submit: float
    size: int
    run_time: int
    kind: str


def slot_weights(shape: float, scale: float) -> list[float]:
    """Integrate the density over each half hour, and divide by the mean."""
    steps = 400

    def log_density(x: float) -> float:
        return (shape - 1.0) * math.log(x) - x / scale

    largest = max(log_density(slot / 2) for slot in range(21, 118))

    def density(x: float) -> float:
        return math.exp(log_density(x) - largest)

    weights = [0.0] * 48
    for slot in range(11, 59):
        points = [slot - 0.5 + (k + 0.5) / steps for k in range(steps)]
        weights[(slot - 1) % 48] = sum(map(density, points)) / steps
    mean = sum(weights) / 48
    return [weight / mean for weight in weights]


def _arrivals(of: Any, rng: random.Random) -> Iterator[float]:
    weights = slot_weights(of.anum, of.bnum)
    slot, within = 0, 0.0  # points that are used up in this half hour
    while True:
        log = math.inf
        while log > 13.0:
            log = rng.gammavariate(of.aarr * of.arar, of.barr)
        within += math.exp(log) / 1800.0
        while within > weights[slot % 48]:
            within -= weights[slot % 48]
            slot += 1
        yield 1800.0 * (slot + within / weights[slot % 48])


def _size(of: Any, rng: random.Random) -> int:
    sort = rng.random()
    if sort <= of.serial_prob:
        return 1
    low, high = (of.ulow, of.umed) if rng.random() <= of.uprob else (of.umed, of.uhi)
    log2 = rng.uniform(low, high)
    if sort <= of.serial_prob + of.pow2_prob:
        log2 = int(log2 + 0.5)
    return int(2.0**log2 + 0.5)


def _run_time(of: Any, size: int, rng: random.Random) -> int:
    log = math.inf
    while log > 12.0:
        first = rng.random() <= min(1.0, max(0.0, of.pa * size + of.pb))
        log = rng.gammavariate(of.a1, of.b1) if first else rng.gammavariate(of.a2, of.b2)
    return int(math.exp(log))


def jobs(kinds: dict[str, Any], count: int, seed: int) -> list[Job]:
    """Make jobs of some kinds, given the parameters of each."""
    rng = random.Random(seed)
    arrivals = {kind: _arrivals(of, rng) for kind, of in kinds.items()}
    following = {kind: next(times) for kind, times in arrivals.items()}
    made = []
    while len(made) < count:
        kind = min(following, key=following.__getitem__)
        size = _size(kinds[kind], rng)
        made.append(Job(following[kind], size, _run_time(kinds[kind], size, rng), kind))
        following[kind] = next(arrivals[kind])
    return made
