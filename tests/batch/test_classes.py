"""Small and large jobs: queue of small jobs first and safeguard, against a slow reference."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim._jit import kernel
from mlsim.batch.clock.replay_many import replay_classes, replay_many
from mlsim.batch.order.policies import class_key
from mlsim.scenario import BatchConfig
from tests.batch.builders import block
from tests.effort import examples
from tests.reference.classes import Job, simulate

UNITS = 6
KEYS = {
    "FCFS": lambda job, _: job.submit,
    "SPF": lambda job, _: job.walltime,
    "SAF": lambda job, _: job.walltime * job.units,
    "LPF": lambda job, _: -job.walltime,
    "WFP": lambda job, now: -(((now - job.submit) / max(job.walltime, 1.0)) ** 3) * job.units,
}
jobs = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.integers(1, 30),
        st.integers(1, 40),
        st.integers(1, UNITS + 1),
        st.booleans(),
        st.sampled_from([1, 4, 8, 15]),
    ),
    min_size=1,
    max_size=25,
).map(sorted)


@settings(deadline=None, max_examples=examples(200))
@given(jobs, st.sampled_from(sorted(KEYS)), st.sampled_from([math.inf, 20.0]), st.booleans(), st.booleans())
def test_starts_and_ends_are_those_of_the_reference(rows, policy, threshold, safeguard, kills):
    found = [Job(*map(float, row[:3]), row[3], row[4], float(row[5])) for row in rows]
    small, divider = (np.array([row[k] for row in rows]) for k in (4, 5))
    submit, run, walltime, processors = (np.array([row[k] for row in rows]) for k in range(4))
    config = BatchConfig.model_validate(
        {
            "policy": policy,
            "backfill": "easy",
            "threshold": None if threshold == math.inf else threshold,
            "on_overrun": "kill" if kills else "extend",
        }
    )
    result = replay_classes(
        block(submit, run, walltime, processors),
        config,
        UNITS,
        small,
        divider.astype(float),
        safeguard=safeguard,
    )
    simulate(found, UNITS, KEYS[policy], threshold, safeguard, kills)
    for name in ("start", "end", "killed", "lost"):
        np.testing.assert_array_equal(getattr(result, name), [getattr(job, name) for job in found], name)
    fits = processors <= UNITS
    assert np.array_equal(~np.isnan(result.end), fits)  # no job is lost, and each completes once
    again = ~np.isnan(result.killed)
    assert [job.attempts for job in found] == (fits.astype(int) + again).tolist()
    if not safeguard:
        assert not again.any()


@settings(deadline=None, max_examples=examples(60))
@given(jobs, st.sampled_from(sorted(KEYS)), st.booleans())
def test_one_class_is_no_class(rows, policy, small):
    submit, run, walltime, processors = (np.array([row[k] for row in rows]) for k in range(4))
    config = BatchConfig.model_validate({"policy": policy, "backfill": "easy"})
    whole = block(submit, run, walltime, processors)
    mask, divider = np.full(len(rows), small), np.full(len(rows), 1.0)
    found = replay_classes(whole, config, UNITS, mask, divider, safeguard=False)
    plain = replay_many([whole], config, UNITS, starts=True)
    np.testing.assert_array_equal(found.start, plain.starts[0][0])
    np.testing.assert_array_equal(found.backfilled, plain.backfilled[0][0])


@kernel
def key_in_class(key: float, large: bool) -> float:
    return class_key(key, large)


sizes = st.floats(2.0**-190, 2.0**190)
keys = sizes | sizes.map(lambda key: -key) | st.just(0.0)


@settings(deadline=None, max_examples=500)
@given(keys, keys, st.booleans(), st.booleans())
def test_keys_of_classes_are_in_order_without_rounding(a, b, first, second):
    one, other = key_in_class(a, first), key_in_class(b, second)
    assert math.isfinite(one)
    assert (one < other) == ((first, a) < (second, b))
    assert (one == other) == ((first, a) == (second, b))


@pytest.mark.parametrize(
    "options",
    [
        {"policy": "fairshare"},
        {"backfill": "conservative"},
        {"ties": "per-event"},
        {"backfill": "easy", "reservations": 2},
        {"backfill": "easy", "backfill_order": "SPF"},
        {"backfill": "easy", "easy": "accasim"},
    ],
)
def test_what_does_not_go_with_classes_is_refused(options):
    with pytest.raises(ValueError, match=f"classes of jobs need {list(options)[-1]}: "):
        replay_classes(
            block([0], [1], [1], [1]),
            BatchConfig.model_validate(options),
            2,
            np.ones(1, bool),
            np.ones(1),
            safeguard=True,
        )
