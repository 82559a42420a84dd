"""Predictors on a log as it happened."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.predictors.offline import predictions, read_history
from tests.reference.predictors import REFERENCES, Past, seen

# Job: submit, wait, run, processors, user, queue, executable, walltime; -1 is "not known" for wait.
lines = st.tuples(
    st.integers(0, 30),
    st.integers(-1, 20),
    st.integers(0, 20),
    st.integers(1, 3),
    st.integers(-1, 1),
    st.integers(0, 1),
    st.sampled_from([-1, 1, 2, 12]),
    st.sampled_from([5, 10, 30]),
)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("logs") / "log.swf"


@settings(deadline=None, max_examples=200)
@given(st.lists(lines, min_size=1, max_size=25), st.sampled_from(sorted(REFERENCES)))
def test_agrees_with_the_reference(log, jobs, predictor):
    log.write_text(
        "".join(
            f"{n} {r} {w} {p} {q} -1 -1 {q} {t} -1 1 {u} -1 {x} {queue} -1 -1 -1\n"
            for n, (r, w, p, q, u, queue, x, t) in enumerate(jobs, start=1)
        )
    )
    history = read_history(log)
    ordered = [jobs[n] for n in np.argsort([job[0] for job in jobs], kind="stable")]
    past = [
        Past(n, r, t, q, u, queue, "" if x < 0 else str(x), r + max(w, 0) + p, p)
        for n, (r, w, p, q, u, queue, x, t) in enumerate(ordered)
    ]
    expected = [seen(REFERENCES[predictor](job, past), job) for job in past]
    assert predictions(history, predictor).tolist() == expected
    assert history.unknown_waits == sum(job[1] < 0 for job in jobs)


def test_dropped_and_disordered_lines_keep_their_waits(log):
    log.write_text(
        "7 50 1 10 1 -1 -1 1 60 -1 1 1 -1 1 1 -1 -1 -1\n"
        "8 0 5 -1 1 -1 -1 1 60 -1 1 1 -1 1 1 -1 -1 -1\n"  # of unknown run time: dropped
        "9 0 3 20 1 -1 -1 1 60 -1 1 1 -1 1 1 -1 -1 -1\n"
    )
    history = read_history(log)
    assert history.jobs.job_id.tolist() == [9, 7]
    assert history.end_time.tolist() == [23.0, 61.0]
    assert predictions(history, "D").tolist() == [60.0, 20.0]
    assert predictions(history, "walltime").tolist() == [60.0, 60.0]
    assert predictions(history, "actual").tolist() == [20.0, 10.0]


@pytest.mark.logs
def test_walltimes_of_gaia_are_as_inaccurate_as_published(logs_dir):
    """Galleguillos 2020, §5.3: mean absolute error 2,913 min, 3.0 % too short, 97.0 % too long."""
    from mlsim.analysis.job_metrics import accuracy

    path = logs_dir / "UniLu-Gaia-2014-1.swf.gz"
    if not path.is_file():
        pytest.skip("no log of Gaia")
    history = read_history(path)
    row = accuracy(predictions(history, "walltime"), history.jobs.run_time)
    assert row["mae"] / 60 == pytest.approx(2913, abs=5)
    assert row["under"]["share"] == pytest.approx(0.030, abs=0.002)
    assert row["over"]["share"] == pytest.approx(0.970, abs=0.002)
    learned = accuracy(predictions(history, "D"), history.jobs.run_time)
    assert learned["mae"] < 423 * 60  # published for D
