"""Functions of a job that order the queue, found by regression."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np

from mlsim._runtime.arrays import Floats, Ints
from mlsim.batch.clock.replay_many import replay_many
from mlsim.errors import InputError
from mlsim.experiment.weekly_runs import LogWeeks
from mlsim.scenario import BatchConfig
from mlsim.scenario.simulation_demand import Share, check_memory
from mlsim.workload.workload_jobs import JobBlock

# Functions of p, q and r, as NumPy computes and as Python writes them.
_BASES: Final[Mapping[str, tuple[Callable[[Floats], Floats], str]]] = {
    "id": (lambda values: values, "{}"),
    "log10": (np.log10, "np.log10({})"),
    "sqrt": (np.sqrt, "np.sqrt({})"),
    "inverse": (np.reciprocal, "(1 / {})"),
}
_OPERATORS: Final = ("+", "*", "/")
_NAMES: Final = ("p", "q", "r")
_JOB: Final = 32  # Bytes of a job in an order, and of a task whose score is known


@dataclass(frozen=True)
class Trials:
    """Size of the trials."""

    sets: int = 100  # sets of jobs
    tasks: int = 32  # jobs of each set that are put into random orders
    initial: int = 16  # jobs of each set before these, first in every trial, so that the machine is busy
    trials: int = 1024  # random orders of each set; each job is first equally often, or once more
    seed: int = 0


def run_trials(
    weeks: LogWeeks, tried: Trials, progress: Callable[[int, int], None] | None = None
) -> tuple[Floats, Floats, Floats, Floats]:
    """Simulate the trials on sets of consecutive jobs of a week; ``progress`` receives sets done and all.

    Returns estimates (s), processors, submit times since the first job of the set (s), and scores, whose mean
    over the jobs of a set is 1 / tasks, each of shape (sets x tasks,).
    """
    length = tried.initial + tried.tasks
    check_memory(
        "trials",
        [
            Share("--trials", f"{tried.trials:,} orders of {length:,} jobs", tried.trials * length * _JOB),
            Share("--sets", f"{tried.sets:,} sets of {tried.tasks:,} tasks", tried.sets * tried.tasks * _JOB),
        ],
        "they",
    )
    blocks = [
        block.select(np.flatnonzero((block.processors <= weeks.units) & (block.run_time > 0)))
        for _, block in sorted(weeks.blocks.items())
    ]
    blocks = [block for block in blocks if len(block) >= length]
    if not blocks:
        raise InputError(f"no week has {length} jobs, which is what a set needs; allowed: fewer tasks")
    rng = np.random.default_rng(tried.seed)
    places = np.array([len(block) - length + 1 for block in blocks])
    bounds = np.concatenate([[0], np.cumsum(places)])
    columns: list[list[Floats]] = [[], [], [], []]
    for number in range(tried.sets):
        at = int(rng.integers(bounds[-1]))
        week = int(np.searchsorted(bounds, at, side="right")) - 1
        first = at - int(bounds[week])
        block = blocks[week].select(np.arange(first, first + length))
        scores = _scores(block, weeks.units, tried, rng)
        rows = slice(tried.initial, length)
        submit = block.submit_time - block.submit_time[0]
        values = (block.walltime[rows], block.processors[rows].astype(float), submit[rows], scores)
        for column, part in zip(columns, values, strict=True):
            column.append(part)
        if progress is not None:
            progress(number + 1, tried.sets)
    p, q, r, score = (np.concatenate(column) for column in columns)
    return p, q, r, score


def _scores(block: JobBlock, units: int, tried: Trials, rng: np.random.Generator) -> Floats:
    orders = _orders(tried, rng)
    # A job's place in the order serves as its estimate, by which policy SPF serves the queue strictly.
    config = BatchConfig.model_validate({"policy": "SPF", "backfill": "none", "on_overrun": "extend"})
    fixed = np.arange(1.0, tried.initial + 1.0)
    trials = []
    for order in orders:
        place = np.empty(tried.tasks)
        place[order] = np.arange(tried.initial + 1.0, len(block) + 1.0)
        trials.append(replace(block, walltime=np.concatenate([fixed, place])))
    alone = block.select(np.arange(tried.initial))
    busy = replay_many([replace(alone, walltime=fixed)], config, units).bounded_slowdown[0, 0]
    sums = replay_many(trials, config, units).bounded_slowdown[:, 0] - busy
    first = orders[:, 0]
    # Means, not sums: one more trial must not look like harm.
    totals = np.bincount(first, weights=sums, minlength=tried.tasks)
    means = totals / np.bincount(first, minlength=tried.tasks)
    scores: Floats = means / means.sum()
    return scores


def _orders(tried: Trials, rng: np.random.Generator) -> Ints:
    """Return random orders, in which each job is first in turn, shape (trials, tasks)."""
    found = np.empty((tried.trials, tried.tasks), np.int64)
    for trial in range(tried.trials):
        first = trial % tried.tasks
        others = rng.permutation(tried.tasks - 1)
        found[trial] = np.concatenate([[first], others + (others >= first)])
    return found


@dataclass(frozen=True)
class Function:
    """A function of p, q and r; the job with the smallest value goes first."""

    bases: tuple[str, ...]  # of p, q and r
    operators: tuple[str, ...]  # between them; `*` and `/` bind as usual
    weights: tuple[float, ...]  # one per term of the sum
    error: float  # mean distance from the scores, weighted by p q

    @property
    def text(self) -> str:
        """The function as a Python expression of arrays p, q and r."""
        parts = [_BASES[base][1].format(name) for base, name in zip(self.bases, _NAMES, strict=True)]
        terms = [[parts[0]]]
        for operator, part in zip(self.operators, parts[1:], strict=True):
            if operator == "+":
                terms.append([part])
            else:
                terms[-1] += [operator, part]
        return " + ".join(
            f"{weight!r} * {' '.join(term)}" for weight, term in zip(self.weights, terms, strict=True)
        )

    def __call__(self, p: Floats, q: Floats, r: Floats) -> Floats:
        """Return the function's value for each job."""
        terms = _terms(self.bases, self.operators, p, q, r)
        found: Floats = np.column_stack(terms) @ np.array(self.weights)
        return found


def _terms(bases: Sequence[str], operators: Sequence[str], p: Floats, q: Floats, r: Floats) -> list[Floats]:
    """Return the terms of the sum: every function is linear in one weight for each."""
    parts = [_BASES[base][0](np.maximum(values, 1.0)) for base, values in zip(bases, (p, q, r), strict=True)]
    terms = [parts[0]]
    for operator, part in zip(operators, parts[1:], strict=True):
        if operator == "+":
            terms.append(part)
        else:
            terms[-1] = terms[-1] * part if operator == "*" else terms[-1] / part
    return terms


def fit_functions(p: Floats, q: Floats, r: Floats, score: Floats, keep: int = 4) -> list[Function]:
    """Fit 484 functions to the scores of :func:`run_trials` by weighted least squares; return the nearest.

    They are the 576 of the source without those that divide by a logarithm. Values below 1 count as 1. A job
    weighs p q, so that large ones, whose harm lasts, are fitted best.
    """
    weight = np.maximum(p, 1.0) * q
    root = np.sqrt(weight / weight.mean())
    found = []
    for bases in product(_BASES, repeat=3):
        for operators in product(_OPERATORS, repeat=2):
            if ("/", "log10") in zip(operators, bases[1:], strict=True):
                continue  # a logarithm is 0 at 1: one processor, the first second
            terms = np.column_stack(_terms(bases, operators, p, q, r))
            scale = np.abs(terms).max(axis=0)
            scale[scale == 0] = 1.0
            weights, *_ = np.linalg.lstsq(terms / scale * root[:, np.newaxis], score * root, rcond=None)
            fitted = terms @ (weights / scale)
            error = float((weight * np.abs(fitted - score)).sum() / weight.sum())
            found.append(Function(bases, operators, tuple((weights / scale).tolist()), error))
    return sorted(found, key=lambda function: function.error)[:keep]


_POLICY: Final = '''

class Learned{number}:
    """Of estimate p (s), processors q, submit time r (s); error {error:.6g}."""

    live = False

    def key(self, now, jobs):
        p, q = np.maximum(jobs.estimate, 1.0), np.maximum(jobs.processors, 1.0)
        r = np.maximum(jobs.submit_time, 1.0)
        return np.zeros(len(p)) + {text}
'''


def as_policy(functions: Sequence[Function], of: str) -> str:
    """Return a Python file with a policy per function, ``Learned1`` and so on; ``of`` is their source."""
    policies = (
        _POLICY.format(number=number, error=function.error, text=function.text)
        for number, function in enumerate(functions, 1)
    )
    return f'"""Policies that mlsim learned from {of}."""\n\nimport numpy as np\n' + "".join(policies)
