"""Predictors that learn run times from features at the end of each week."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.predictors.offline import History, predictions
from mlsim.batch.predictors.weekly_forests import RunTimeForest
from mlsim.errors import InputError
from mlsim.scenario.words import Predictor
from tests.batch.test_classifier import DAY, WEEK, as_block, habits, rows, run
from tests.effort import examples
from tests.reference.predictors import REFERENCES

NAMES = ("forest-mean", "forest-quantile")


def as_history(jobs) -> History:
    block = as_block(jobs)
    return History(block, block.submit_time + block.run_time, [], block.submit_time + jobs[0][0], 0)


def with_room(jobs):
    return [(*job[:2], max(job[1], job[2]), *job[3:]) for job in jobs]


@settings(deadline=None, max_examples=examples(6))
@given(rows, st.sampled_from(NAMES))
def test_where_nobody_waits_predictions_are_those_of_the_log(jobs, name):
    jobs = with_room(jobs)
    found = run(jobs, nodes=300, batch__predictor=name).records.jobs
    np.testing.assert_array_equal(found.prediction, predictions(as_history(jobs), name))
    assert (found.prediction <= found.walltime).all()


@settings(deadline=None, max_examples=examples(4))
@given(st.integers(1, 5), st.sampled_from([1.0, 50.0]), st.sampled_from(NAMES))
def test_no_prediction_knows_the_future(week, poison, name):
    """What has not ended when a week begins may last as long as it will: predictions up to it stay."""
    history = as_history(habits())
    jobs, edge = history.jobs, week * WEEK
    late = history.end_time > edge
    run_time = np.where(late, jobs.run_time + poison * DAY, jobs.run_time)
    other = replace(history, jobs=replace(jobs, run_time=run_time), end_time=jobs.submit_time + run_time)
    before = jobs.submit_time < edge + WEEK
    one, poisoned = (predictions(found, name)[before] for found in (history, other))
    assert one.tobytes() == poisoned.tobytes()


def test_the_first_week_has_walltimes_and_later_ones_know_habits():
    history = as_history(habits())
    jobs = history.jobs
    first = jobs.submit_time < WEEK
    found = predictions(history, "forest-mean")
    assert (found[first] == jobs.walltime[first]).all()
    error = np.abs(found - jobs.run_time)[~first].mean()
    assert error < 0.4 * np.abs(jobs.walltime - jobs.run_time)[~first].mean()


@pytest.mark.parametrize(("quantile", "expected"), [(0.5, 50.0), (0.9, 90.0), (0.01, 1.0), (None, 50.5)])
def test_alike_jobs_are_predicted_by_their_mean_or_quantile(quantile, expected):
    run_time = np.random.default_rng(1).permutation(np.arange(1.0, 101.0))
    forest = RunTimeForest(np.ones((100, 20)), run_time, quantile, seed=0)
    assert forest.run_times(np.ones((3, 20))) == pytest.approx([expected] * 3, rel=1e-12)


def test_a_larger_quantile_predicts_longer():
    predicted = [
        run(habits(), batch__predictor="forest-quantile", batch__quantile=share).records.jobs.prediction
        for share in (0.2, 0.5, 0.9)
    ]
    assert (predicted[0] <= predicted[1]).all()
    assert (predicted[1] <= predicted[2]).all()
    assert predicted[0].sum() < predicted[2].sum()


def test_a_quantile_that_nobody_reads_is_refused():
    with pytest.raises(InputError, match="read by predictor forest-quantile only"):
        run(habits()[:5], batch__predictor="forest-mean", batch__quantile=0.3)


def test_every_predictor_is_held_against_the_future():
    """By a test here or in test_predictors; of the others one is given, and one knows the future by name."""
    assert set(Predictor) == {"walltime", "actual", *REFERENCES, *NAMES}
