"""Keys of policies compiled, the order of the queue, keys of classes, fairshare."""

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from mlsim._jit import apart_kernel, kernel, leaf_kernel
from mlsim._runtime.arrays import Floats, Ints
from mlsim.scenario import BatchConfig, Policy
from mlsim.scenario.batch_section import FairshareConfig
from mlsim.scenario.policy_words import DEADLINE_FACTOR, HALF_LIFE, THRESHOLD, WEIGHTS, WaitingJob
from mlsim.scenario.words import ShareOwner
from mlsim.workload.workload_jobs import JobBlock

CODES = {policy.value: code for code, policy in enumerate(Policy)}
"""The number by which kernels know each policy: its place among the words."""
FCFS, FAIRSHARE = CODES["FCFS"], CODES["fairshare"]
_LIVE = tuple(CODES[policy.value] for policy in Policy if policy.is_live)
N_PARAMETERS: Final = WEIGHTS + 6


def parameters_of(config: BatchConfig) -> Floats:
    """Return the parameters of the policies' keys: EDF's factor, threshold, half-life, six weights.

    The threshold is infinite, and the weights are 0, where there are none.
    """
    parameters = np.zeros(N_PARAMETERS)
    parameters[DEADLINE_FACTOR] = config.deadline_factor
    parameters[THRESHOLD] = np.inf if config.threshold is None else config.threshold
    parameters[HALF_LIFE] = config.fairshare.half_life
    if config.weights is not None:
        parameters[WEIGHTS:] = config.weights.normalised
    return parameters


@apart_kernel
def is_live(policy: int) -> bool:
    """Return whether a policy's keys depend on the current time."""
    return policy in _LIVE


def _choice_from(code: int) -> Callable[[int, WaitingJob], float]:
    """Make the kernel that chooses among the keys of the policies from a code on."""
    own = leaf_kernel(list(Policy)[code].key)
    if code == len(Policy) - 1:
        return leaf_kernel(lambda _policy, job: own(job))
    others = _choice_from(code + 1)
    return leaf_kernel(lambda policy, job: own(job) if policy == code else others(policy, job))


_key = _choice_from(0)


@apart_kernel
def policy_key(
    policy: int, now: float, r: float, p: float, q: float, used: float, parameters: Floats
) -> float:
    """Return the key of a job: r, p and now in seconds, q processors; see :class:`WaitingJob`."""
    return float(_key(policy, WaitingJob(r, now - r, p, q, used, parameters)))


@apart_kernel
def is_starved(policy: int, classes: bool, now: float, r: float, parameters: Floats) -> bool:
    """Return whether a job has waited longer than the threshold; FCFS needs none, but with classes."""
    return (policy != FCFS or classes) and now - r > parameters[THRESHOLD]


_WIDEST: Final = 200  # sizes of keys are from 2^-200 to 2^200, or 0; beyond, they are equal
_UP: Final = 600
_ZERO: Final = 2.0**300


@apart_kernel
def _above_zero(key: float) -> float:
    """Return a number above 0 in the order of the keys, equal for equal keys, without rounding.

    With |key| = m 2^e and m in [0.5, 1): above 0 the exponent is raised beyond the number for 0; below, the
    larger |key| is the smaller is (1.5 - m) 2^-e, which is exact.
    """
    if key == 0.0:
        return _ZERO
    mantissa, exponent = math.frexp(abs(key))
    exponent = min(max(exponent, -_WIDEST), _WIDEST)
    if key > 0.0:
        return math.ldexp(mantissa, exponent + _UP)
    return math.ldexp(1.5 - mantissa, -exponent)


@apart_kernel
def class_key(key: float, large: bool) -> float:
    """Return the key of a job among those of both classes (Zrigui 2021, Algorithm 3).

    Every small job's is below 0 and every large one's above; within a class they are in the order of the
    policy's keys, and equal where these are.
    """
    return _above_zero(key) if large else -_above_zero(-key)


USAGE, RATE, AS_OF, FOUND, FOUND_AT = range(5)
N_SHARES: Final = 5


@kernel
def usage_at(account: int, now: float, half_life: float, shares: Floats) -> float:
    """Return the decayed usage of an account in processor-seconds; it is cached in ``shares``.

    ``now`` is not before the account's last change.
    """
    if shares[FOUND_AT, account] != now:
        rate = math.log(2.0) / half_life
        decayed = rate * (now - shares[AS_OF, account])
        shares[FOUND, account] = (
            shares[USAGE, account] * math.exp(-decayed) - shares[RATE, account] * math.expm1(-decayed) / rate
        )
        shares[FOUND_AT, account] = now
    return float(shares[FOUND, account])


@kernel
def change_rate(account: int, processors: int, now: float, half_life: float, shares: Floats) -> None:
    """Raise the processors in use by an account from ``now`` on (lower them, if negative)."""
    # A new rate changes nothing at the time of the change itself, so what was found for it stays right.
    shares[USAGE, account] = usage_at(account, now, half_life, shares)
    shares[AS_OF, account] = now
    shares[RATE, account] += processors


class Accounts:
    """The accounts of all owners seen so far.

    ``shares`` (5, capacity) has a column per account: usage (processor-seconds), processors in use, time of
    both (s); the cached usage, and its time (s).
    """

    def __init__(self, config: FairshareConfig) -> None:
        self._by = config.by
        self._half_life = config.half_life
        self._account_of: dict[int, int] = {}
        self.shares: Floats = np.zeros((N_SHARES, 64))

    def of(self, block: JobBlock) -> Ints:
        """Return the account of each job's owner, opened for new owners. Unknown owners (-1) share one."""
        owners = block.user if self._by is ShareOwner.USER else block.group
        distinct, place = np.unique(owners, return_inverse=True)
        known = [self._account_of.setdefault(owner, len(self._account_of)) for owner in distinct.tolist()]
        if len(self._account_of) > self.shares.shape[1]:
            grown = np.zeros((N_SHARES, 2 * len(self._account_of)))
            grown[:, : self.shares.shape[1]] = self.shares
            self.shares = grown
        return np.array(known, np.int64)[place]

    def change(self, account: int, processors: int, now: float) -> None:
        """Add the processors of a job that has started, or subtract those of one that has ended."""
        change_rate(account, processors, now, self._half_life, self.shares)
