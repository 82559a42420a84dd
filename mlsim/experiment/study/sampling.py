"""Axes of values drawn from ranges, the same for a seed: at random, Latin hypercubes, Sobol's sequence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlsim._arrays import Floats
from mlsim.errors import InputError
from mlsim.scenario.values.hints import nearest

__all__ = ["SAMPLES", "SCALES", "drawn", "is_sample"]

SAMPLES = ("random", "latin-hypercube", "sobol")
"""Ways to draw."""
SCALES = ("linear", "log", "integer", "log-integer")
"""How values lie in a range; the last two are whole numbers."""
_MOST = 100_000
_KEYS = ("sample", "count", "seed", "of")
_RANGE_KEYS = ("from", "to", "scale", "unit")
_DIGITS = 6


@dataclass(frozen=True)
class _Range:
    low: float
    high: float
    scale: str
    unit: str

    def at(self, shares: Floats) -> list[object]:
        """Return the values at shares of the range, from 0 to below 1."""
        whole, log = self.scale.endswith("integer"), self.scale.startswith("log")
        low, high = self.low, self.high + 1.0 if whole else self.high
        values = low * (high / low) ** shares if log else low + (high - low) * shares
        if whole:
            numbers: list[Any] = np.clip(np.floor(values), self.low, self.high).astype(int).tolist()
        else:
            numbers = [float(f"{value:.{_DIGITS}g}") for value in values.tolist()]
        return [f"{number:g} {self.unit}" for number in numbers] if self.unit else numbers


def is_sample(points: object) -> bool:
    """Return whether what an axis is given as is drawn from ranges."""
    return isinstance(points, Mapping) and isinstance(points.get("sample"), str)


def drawn(name: str, points: Mapping[str, Any], place: str) -> list[dict[str, object]]:
    """Draw the values of an axis.

    Parameters
    ----------
    name
        Of the axis: the key that is drawn, where ``of`` names none.
    points
        ``sample`` (a word of :data:`SAMPLES`), ``count``, ``seed`` (default 0), and either a range (``from``,
        ``to``, ``scale``, ``unit``) or, for several keys that are drawn together, ``of``: keys with ranges.
    place
        What messages begin with.

    Returns
    -------
    list of dict
        Keys with values, to six significant digits.

    Raises
    ------
    InputError
        If it has another shape, or SciPy is needed and not there.
    """
    joint = "of" in points
    _known(points, _KEYS if joint else (*_KEYS[:3], *_RANGE_KEYS), place)
    _word(points["sample"], SAMPLES, f"{place}: sample")
    count = _whole(points.get("count"), 2, f"{place}: count")
    seed = _whole(points.get("seed", 0), 0, f"{place}: seed")
    given = points["of"] if joint else {name: {key: points[key] for key in points if key in _RANGE_KEYS}}
    if not isinstance(given, Mapping) or not given:
        raise InputError(f"{place}: of: allowed: keys, each with a range such as {{from: 1, to: 100}}")
    ranges = {str(key): _range(one, f"{place}: {key}") for key, one in given.items()}
    shares = _shares(points["sample"], count, seed, len(ranges), place)
    columns = [one.at(shares[:, column]) for column, one in enumerate(ranges.values())]
    return [dict(zip(ranges, values, strict=True)) for values in zip(*columns, strict=True)]


def _shares(sample: str, count: int, seed: int, dimensions: int, place: str) -> Floats:
    """Return points in the unit cube, one a row."""
    if sample == "random":
        return np.random.default_rng(seed).random((count, dimensions))
    try:
        from scipy.stats import qmc
    except ImportError as error:
        raise InputError(
            f"{place}: sample: {sample} needs SciPy: {error}; pip install 'mlsim[study]'"
        ) from error
    random = np.random.default_rng(seed)
    if sample == "latin-hypercube":
        found: Floats = qmc.LatinHypercube(dimensions, seed=random).random(count)
        return found
    power = round(math.log2(count))
    if 2**power != count:
        raise InputError(
            f"{place}: count: {count}; allowed for sobol: powers of 2, for which the sequence is balanced, "
            f"e.g. {2**power}"
        )
    balanced: Floats = qmc.Sobol(dimensions, seed=random).random_base2(power)
    return balanced


def _range(value: object, place: str) -> _Range:
    if not isinstance(value, Mapping):
        raise InputError(f"{place}: {value!r:.80}; allowed: a range such as {{from: 1, to: 100, scale: log}}")
    _known(value, _RANGE_KEYS, place)
    scale = value.get("scale", SCALES[0])
    _word(scale, SCALES, f"{place}: scale")
    low, high = (_number(value.get(key), f"{place}: {key}") for key in ("from", "to"))
    if not low < high:
        raise InputError(f"{place}: from {low:g} to {high:g}; allowed: from below to")
    if scale.startswith("log") and low <= 0.0:
        raise InputError(f"{place}: from: {low:g}; allowed with scale {scale}: above 0")
    if scale.endswith("integer") and (low != int(low) or high != int(high)):
        raise InputError(f"{place}: {low:g} to {high:g}; allowed with scale {scale}: whole numbers")
    return _Range(low, high, scale, str(value.get("unit", "")))


def _known(value: Mapping[str, Any], keys: Sequence[str], place: str) -> None:
    for key in value:
        _word(key, keys, place)


def _word(word: object, allowed: Sequence[str], place: str) -> None:
    if word not in allowed:
        hint = nearest(str(word), list(allowed))
        raise InputError(f"{place}: {word!r:.80} is not known;{hint} allowed: {', '.join(allowed)}")


def _whole(value: object, least: int, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
        raise InputError(f"{place}: {value!r:.80}; allowed: a whole number from {least} to {_MOST:,}")
    return value


def _number(value: object, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{place}: {value!r:.80}; allowed: a number; units go into unit, e.g. unit: s")
    return float(value)
