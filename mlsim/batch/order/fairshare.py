"""Usage of the machine per user or group, forgotten by half-lives: what policy fairshare compares.

The usage of an owner at time t is the integral of the processors that the owner's running jobs asked for,
each moment weighted by ``2^(-age / half_life)``. It is kept as (usage, rate, time of both) and advanced by
the closed form, so it is exact however often it is looked at, and no periodic event is needed. A pass looks
at an owner once for each waiting job: what was found for a time is kept until another time is asked for.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from mlsim._arrays import Floats, Ints
from mlsim._jit import kernel
from mlsim.scenario import FairshareConfig, ShareOwner
from mlsim.workload.jobs import JobBlock

__all__ = ["Accounts", "change_rate", "usage_at"]

USAGE, RATE, AS_OF, FOUND, FOUND_AT = range(5)
N_SHARES: Final = 5


@kernel
def usage_at(account: int, now: float, half_life: float, shares: Floats) -> float:
    """Return the decayed usage of an account in processor-seconds.

    Parameters
    ----------
    account
        Column of ``shares``.
    now
        Time in seconds, not before the account's last change.
    half_life
        Seconds after which usage counts half.
    shares
        See :class:`Accounts`; what is found is written down there.
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

    Parameters
    ----------
    config
        Whose usage adds up, and the half-life.

    Attributes
    ----------
    shares : ndarray of float64, shape (5, capacity)
        Usage [processor-seconds], processors in use, time of both [s]; the usage that was last asked for,
        and for which time [s]; one column an account.
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
        """Count that a job of this account has started, or with a negative number ended."""
        change_rate(account, processors, now, self._half_life, self.shares)
