"""What the iterations of a loop cost: from a scenario's profile to prefix sums.

Costs are in seconds on a PE of the reference speed; costs in FLOP are divided by that speed. With the
prefix sums S_0 = 0, S_k = c_0 + ... + c_{k-1}, the cost of any chunk is two look-ups.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mlsim.errors import InputError
from mlsim.scenario import Calibration, CostProfile, CostsConfig, IterationsConfig, Quantity

__all__ = ["CostProfiles", "prefix_sums", "read_costs", "truncated_normal"]

Floats = NDArray[np.float64]


class CostProfiles:
    """The iteration costs of a scenario's jobs.

    Profiles that do not depend on the job (all but ``job``) are computed once a length and shared;
    do not write into the arrays.

    Parameters
    ----------
    costs, iterations
        Sections of the scenario; ``iterations`` is None for costs from a file, whose length decides.
    reference_speed
        FLOP/s that costs in FLOP are divided by.
    seed
        Seed of the scenario.
    path
        Where the file of costs was found (profile ``file``).

    Raises
    ------
    InputError
        If the file of costs cannot be used.
    """

    def __init__(
        self,
        costs: CostsConfig,
        iterations: IterationsConfig | None,
        reference_speed: float,
        seed: int,
        path: Path | None = None,
    ) -> None:
        self._costs = costs
        self._iterations = iterations
        self._seed = seed
        self._mean = _seconds(costs.mean, reference_speed)
        self._std = _seconds(costs.std, reference_speed)
        self._shared: dict[int, Floats] = {}
        self._from_file: Floats | None = None
        if costs.profile is CostProfile.FILE:
            self._from_file = prefix_sums(read_costs(path or Path(costs.path or "")))

    def iterations(self, pes: int) -> int:
        """Give the number of iterations of a job's loop on that many PEs."""
        if self._from_file is not None:
            return len(self._from_file) - 1
        chosen = self._iterations
        if chosen is not None and chosen.count is not None:
            return chosen.count
        per_pe = 1 if chosen is None or chosen.per_pe is None else chosen.per_pe
        return per_pe * pes

    def prefix(self, job_id: int, pes: int, run_time: float) -> Floats:
        """Give the prefix sums of a job's iteration costs, in s at the reference speed.

        Parameters
        ----------
        job_id
            With the seed, the key of the job's random numbers.
        pes
            PEs of the job.
        run_time
            Its run time in the log, in s.

        Returns
        -------
        float64[N+1]

        Raises
        ------
        InputError
            If costs that are all zero should be scaled to a run time.
        """
        n = self.iterations(pes)
        if self._costs.profile is CostProfile.JOB:
            return self._of_job(job_id, n, run_time * pes / n)
        prefix = self._of_length(n)
        if self._costs.calibrate is Calibration.RUN_TIME:
            prefix = _calibrated(prefix, run_time * pes, job_id)
        return prefix

    def _of_job(self, job_id: int, n: int, mean: float) -> Floats:
        """Draw normal costs around the job's own mean (Eleliemy 2021, §3.4)."""
        std = self._costs.variation * mean
        if std == 0.0:
            return _constant(n, mean)
        key = np.random.SeedSequence(self._seed, spawn_key=(job_id & _UNSIGNED,))
        return prefix_sums(truncated_normal(np.random.default_rng(key), mean, std, n))

    def _of_length(self, n: int) -> Floats:
        """Give the profile of that length that all jobs share."""
        if self._from_file is not None:
            return self._from_file
        if n not in self._shared:
            self._shared[n] = self._drawn(n)
        return self._shared[n]

    def _drawn(self, n: int) -> Floats:
        generator = np.random.default_rng(self._seed)
        if self._costs.profile is CostProfile.NORMAL:
            return prefix_sums(truncated_normal(generator, self._mean, self._std, n))
        if self._costs.profile is CostProfile.EXPONENTIAL:
            return prefix_sums(generator.exponential(self._mean, n))
        return _constant(n, self._mean)


_UNSIGNED = (1 << 64) - 1


def _seconds(amount: Quantity | None, reference_speed: float) -> float:
    """Convert a cost to seconds at the reference speed; 0 for none."""
    if amount is None:
        return 0.0
    return amount.value / reference_speed if amount.unit == "FLOP" else amount.value


def _constant(n: int, cost: float) -> Floats:
    # Products instead of a running sum: no rounding piles up.
    return np.arange(n + 1, dtype=np.float64) * cost


def _calibrated(prefix: Floats, work: float, job_id: int) -> Floats:
    """Scale costs to a total of ``work`` PE-seconds."""
    if prefix[-1] == 0.0 and work > 0.0:
        raise InputError(
            f"application.costs.calibrate: run-time: job {job_id} ran for {work} PE-seconds, but all "
            f"{len(prefix) - 1} iterations cost 0; allowed: a profile with costs, or calibrate: none"
        )
    return prefix * (work / prefix[-1]) if prefix[-1] > 0.0 else prefix


def prefix_sums(costs: Floats) -> Floats:
    """Sum up costs: float64[N] to float64[N+1], beginning with 0."""
    prefix = np.zeros(len(costs) + 1)
    np.cumsum(costs, out=prefix[1:])
    return prefix


def truncated_normal(generator: np.random.Generator, mean: float, std: float, n: int) -> Floats:
    """Draw from a normal distribution, drawing again whatever is not above zero.

    Parameters
    ----------
    generator
        Source of the random numbers.
    mean, std
        Of the distribution before it is cut; mean > 0, std >= 0.
    n
        How many.
    """
    values: Floats = generator.normal(mean, std, n)
    again = np.flatnonzero(values <= 0.0)
    while len(again):
        values[again] = generator.normal(mean, std, len(again))
        again = again[values[again] <= 0.0]
    return values


def read_costs(path: Path) -> Floats:
    """Read iteration costs in s from a ``.npy`` file (one column) or a ``.csv`` file.

    A ``.csv`` file holds numbers separated by commas or line ends; a first line of words is skipped.

    Raises
    ------
    InputError
        If the file cannot be read, holds something else, nothing, or a cost that is negative or not
        finite; the message names the place.
    """
    readers = {".npy": _read_npy, ".csv": _read_csv}
    if path.suffix.lower() not in readers:
        raise InputError(f"{path}: costs in a file of type '{path.suffix}'; allowed: {', '.join(readers)}")
    try:
        costs = readers[path.suffix.lower()](path)
    except OSError as error:
        raise InputError(f"{path}: the costs cannot be read: {error.strerror}") from error
    if not len(costs):
        raise InputError(f"{path}: holds no costs; allowed: one cost for every iteration, 1 or more")
    wrong = np.flatnonzero(~(np.isfinite(costs) & (costs >= 0.0)))
    if len(wrong):
        k = int(wrong[0])
        raise InputError(
            f"{path}: the cost of iteration {k} is {costs[k]} ({len(wrong)} of {len(costs)} costs are "
            "negative or not finite); allowed: 0 s or more"
        )
    return costs


def _read_npy(path: Path) -> Floats:
    try:
        values = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path}: not a NumPy file of numbers: {error}") from error
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in "iuf":
        shape = getattr(values, "shape", "several arrays")
        raise InputError(f"{path}: holds {shape}; allowed: one column of real numbers")
    return values.astype(np.float64)


def _read_csv(path: Path) -> Floats:
    costs: list[float] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file: {error}") from error
    for number, line in enumerate(lines, start=1):
        fields = [field.strip() for field in line.split(",")]
        values = [_number(field) for field in fields if field]
        if None not in values:
            costs.extend(value for value in values if value is not None)
        elif number > 1 or any(value is not None for value in values):
            word = next(field for field in fields if field and _number(field) is None)
            raise InputError(f"{path}:{number}: {word!r} is not a number; allowed: costs in s, 0 or more")
    return np.array(costs, dtype=np.float64)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
