"""The mean of the middle half, and how sure means are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from mlsim.mpi.real_validation import mean_of_middle, unsureness


def test_mean_of_middle() -> None:
    assert mean_of_middle([5.0]) == 5.0
    assert mean_of_middle([1.0, 9.0]) == 5.0
    assert mean_of_middle([9.0, 1.0, 2.0]) == 2.0  # the median
    assert mean_of_middle([8.0, 1.0, 2.0, 4.0]) == 3.0
    values = np.random.default_rng(0).random(15)
    assert mean_of_middle(values.tolist()) == pytest.approx(stats.trim_mean(values, 4 / 15))


def test_unsureness() -> None:
    assert unsureness([1.0, 1.0, 1.0]) == math.inf
    assert unsureness([2.0] * 4) == 0.0
    values = np.random.default_rng(0).gamma(2.0, size=40)
    assert unsureness(values.tolist()) == pytest.approx(2.0 * stats.sem(values) / values.mean())
    # Two modes: the middle half of these is of one of them and tells nothing of the other.
    assert unsureness([1.0] * 11 + [1.4] * 4) > 0.08
