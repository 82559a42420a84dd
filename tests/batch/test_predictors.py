"""Predictors against slow twins, blind to the future, and what the dispatcher makes of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.predictors import JobNames, SubmittedJob, make_predictor
from mlsim.batch.predictors.run_time_predictors import STEPS, Confident, DataDriven, EasyPlusPlus
from mlsim.errors import InputError
from mlsim.record import JobState
from tests.batch.builders import RigidApplications, block, simulate, system
from tests.reference.batch import Job, ReferenceBatchSystem
from tests.reference.predictors import MINUTES, REFERENCES, CorrectedBatchSystem, Past, seen

UNITS = 4
NAMES = ["md1", "md2", "md", "cfd", "7"]

quarters = st.integers(0, 40).map(lambda n: n / 4)
# Submission, run time, walltime, units, user, queue, executable: few values, so that jobs are alike.
rows = st.tuples(
    quarters,
    quarters,
    st.sampled_from([0.5, 2.0, 5.0, 10.0]),
    st.integers(1, UNITS),
    st.integers(-1, 1),
    st.integers(0, 1),
    st.sampled_from([-1, 1, 2, 3, 4, 5, 9]),
)
job_lists = st.lists(rows, min_size=1, max_size=25)


def jobs_of(given_rows):
    """A block in arrival order."""
    submit, run, walltime, units, *rest = (np.array(column) for column in zip(*given_rows, strict=True))
    order = np.argsort(submit, kind="stable")
    user, queue, executable = (column[order].astype(np.int64) for column in rest)
    return replace(block(submit, run, walltime, units), user=user, queue=queue, executable=executable)


def run(jobs, predictor, *, blocks=None, units=UNITS, **options):
    batch = system(units, predictor=predictor, names=NAMES, **options)
    batch.run([jobs] if blocks is None else blocks, RigidApplications(batch))
    return batch.jobs()


def pasts(jobs, done) -> list[Past]:
    names = [
        "" if code < 0 else NAMES[code - 1] if code <= len(NAMES) else str(code) for code in jobs.executable
    ]
    return [
        Past(
            n,
            float(jobs.submit_time[n]),
            float(jobs.estimate[n]),
            int(jobs.processors[n]),
            int(jobs.user[n]),
            int(jobs.queue[n]),
            names[n],
            float(done.end_time[n]),
            float(done.end_time[n] - done.start_time[n]),
        )
        for n in range(len(jobs))
    ]


@settings(deadline=None, max_examples=200)
@given(job_lists, st.sampled_from(sorted(REFERENCES)), st.booleans(), st.sampled_from(["FCFS", "SAF"]))
def test_agrees_with_the_reference(given_rows, predictor, kill, policy):
    jobs = jobs_of(given_rows)
    done = run(jobs, predictor, policy=policy, backfill="easy", on_overrun="kill" if kill else "extend")
    history = pasts(jobs, done)
    expected = [seen(REFERENCES[predictor](job, history), job) for job in history]
    assert done.prediction.tolist() == expected
    assert done.walltime.tolist() == jobs.estimate.tolist()


@settings(deadline=None, max_examples=200)
@given(job_lists, st.sampled_from(sorted(REFERENCES)), st.data())
def test_no_predictor_sees_the_future(given_rows, predictor, data):
    """Garbage as run time of every job that has not ended by then: predictions up to then stay the same."""
    jobs = jobs_of(given_rows)
    done = run(jobs, predictor, backfill="easy", on_overrun="extend")
    then = data.draw(st.sampled_from(sorted(jobs.submit_time.tolist())))
    alive = done.end_time > then
    # What runs then must not end before; what has not started may run for any time.
    least = np.where(done.start_time <= then, then - done.start_time + 0.25, 0.0)
    garbage = np.array([data.draw(st.integers(0, 400)) / 4 for _ in range(len(jobs))])
    poisoned = replace(jobs, run_time=np.where(alive, least + garbage, jobs.run_time))
    again = run(poisoned, predictor, backfill="easy", on_overrun="extend")
    known = jobs.submit_time <= then
    assert again.prediction[known].tolist() == done.prediction[known].tolist()


def test_what_a_predictor_gets_holds_no_run_time(monkeypatch):
    assert "run_time" not in SubmittedJob._fields
    seen_by_user = []

    class Spy:
        def predict(self, job):
            seen_by_user.append(job)
            return 3.0

        def learn(self, job, run_time):
            seen_by_user.append((job, run_time))

    from mlsim.batch.events.estimates import LearnedEstimates

    def spied(_config, transitions, *_):
        return LearnedEstimates(transitions, Spy(), JobNames(NAMES))

    monkeypatch.setattr("mlsim.batch.batch_system.estimates_for", spied)
    batch = system(UNITS)
    jobs = jobs_of([(0.0, 5.0, 10.0, 1, 1, 0, 1), (5.0, 2.0, 2.0, 1, 1, 0, 5)])
    batch.run([jobs], RigidApplications(batch))
    first, (learned, run_time), second, *_ = seen_by_user
    assert first == learned == SubmittedJob(1, 0.0, 10.0, 1, (), 1, -1, 0, -1, "md1", "md")
    assert run_time == 5.0  # learned at 5 s, before the job submitted at 5 s is predicted
    assert (second.job_id, second.name, second.prefix) == (2, "7", "")
    assert batch.jobs().prediction.tolist() == [3.0, 2.0]  # cut to the walltime


@settings(deadline=None, max_examples=150)
@given(job_lists, st.sampled_from(["D", "D2", "L2"]), st.booleans(), st.booleans())
def test_the_dispatcher_sees_predictions_and_kills_at_the_walltime(given_rows, predictor, kill, easy):
    """The slow batch system gives the same schedule from these estimates, run times cut to the walltime."""
    jobs = jobs_of(given_rows)
    done = run(
        jobs,
        predictor,
        policy="SPF",
        backfill="easy" if easy else "none",
        on_overrun="kill" if kill else "extend",
    )
    lengths = np.minimum(jobs.run_time, jobs.estimate) if kill else jobs.run_time
    twins = [
        Job(int(i), float(r), float(p), float(e), int(q))
        for i, r, p, e, q in zip(
            jobs.job_id, jobs.submit_time, lengths, done.prediction, jobs.processors, strict=True
        )
    ]
    ReferenceBatchSystem(UNITS, easy, lambda job, now: job.estimate).run(twins)
    assert done.start_time.tolist() == [twin.start for twin in twins]
    assert done.end_time.tolist() == [twin.end for twin in twins]
    assert (done.state == JobState.KILLED).tolist() == (kill & (jobs.run_time > jobs.estimate)).tolist()


# Minutes, so that jobs outlive several steps.
long_lists = st.lists(
    st.tuples(
        st.integers(0, 300).map(lambda n: n * 30.0),
        st.integers(0, 400).map(lambda n: n * 30.0),
        st.integers(1, 400).map(lambda n: n * 30.0),
        st.integers(1, UNITS),
        st.integers(0, 1),
        st.just(0),
        st.just(1),
    ),
    min_size=1,
    max_size=20,
)


@settings(deadline=None, max_examples=200)
@given(long_lists, st.booleans())
def test_corrections_raise_expected_ends_in_steps(given_rows, kill):
    jobs = jobs_of(given_rows)
    done = run(jobs, "EASY++", backfill="easy", on_overrun="kill" if kill else "extend")
    lengths = np.minimum(jobs.run_time, jobs.estimate) if kill else jobs.run_time
    twins = [
        Job(int(i), float(r), float(p), float(e), int(q))
        for i, r, p, e, q in zip(
            jobs.job_id, jobs.submit_time, lengths, done.prediction, jobs.processors, strict=True
        )
    ]
    walltimes = dict(zip(jobs.job_id.tolist(), jobs.estimate.tolist(), strict=True))
    CorrectedBatchSystem(UNITS, walltimes).run(twins)
    assert done.start_time.tolist() == [twin.start for twin in twins]
    assert done.end_time.tolist() == [twin.end for twin in twins]


def test_a_correction_opens_a_hole_for_backfilling():
    """A job predicted at 60 s runs on: the reservation moves to 120 s, and a job of 50 s fits before it."""
    learn = [(0.0, 60.0, 1000.0, 1, 0, 0, 1), (0.0, 60.0, 1000.0, 1, 0, 0, 1)]
    jobs = jobs_of(
        [
            *learn,
            (100.0, 500.0, 1000.0, 3, 0, 0, 1),  # predicted at 60 s, ends at 600 s
            (101.0, 10.0, 1000.0, 4, 1, 0, 1),  # waits for all units
            (130.0, 40.0, 50.0, 1, 2, 0, 1),  # too long for the hole at 130 s; starts when it grows, at 160 s
        ]
    )
    corrected, plain = run(jobs, "EASY++", backfill="easy"), run(jobs, "L2", backfill="easy")
    assert corrected.prediction.tolist() == [1000.0, 1000.0, 60.0, 1000.0, 50.0]
    assert corrected.start_time.tolist() == [0.0, 0.0, 100.0, 600.0, 160.0]
    assert plain.start_time.tolist()[3:] == [600.0, 610.0]


def test_the_steps_are_those_of_the_source():
    assert [60.0 * step for step in MINUTES] == list(STEPS)


def test_the_oracle():
    jobs = jobs_of([(0.0, 0.0, 5.0, 1, 0, 0, 1), (0.0, 4.0, 5.0, 1, 0, 0, 1), (0.0, 9.0, 5.0, 1, 0, 0, 1)])
    assert run(jobs, "actual", on_overrun="kill").prediction.tolist() == [1.0, 4.0, 5.0]
    assert run(jobs, "R", on_overrun="extend").prediction.tolist() == [1.0, 4.0, 9.0]


@settings(deadline=None, max_examples=50)
@given(job_lists, st.integers(1, 7), st.sampled_from(["D2", "EASY++", "actual"]))
def test_blocks_make_no_difference(given_rows, size, predictor):
    jobs = jobs_of(given_rows)
    pieces = [jobs.select(slice(k, k + size)) for k in range(0, len(jobs), size)]
    once = run(jobs, predictor, backfill="easy")
    again = run(None, predictor, blocks=pieces, backfill="easy")
    for name in ("job_id", "start_time", "end_time", "prediction"):
        np.testing.assert_array_equal(getattr(once, name), getattr(again, name))


def test_a_rejected_job_has_no_prediction_and_the_default_is_the_walltime():
    jobs = jobs_of([(0.0, 1.0, 5.0, 1, 0, 0, 1)])
    wide = replace(jobs, processors=np.array([99]))
    _, done, _ = simulate(jobs, UNITS)
    assert done.prediction.tolist() == done.walltime.tolist() == [5.0]
    for predictor in ("walltime", "D"):
        assert np.isnan(run(wide, predictor).prediction).all()


def test_failed_jobs_are_not_learned_from():
    jobs = jobs_of([(0.0, 10.0, 50.0, 4, 0, 0, 1), (20.0, 10.0, 50.0, 1, 0, 0, 1)])
    done = run(jobs, "D", failures=[{"node": 0, "at": 5.0, "repair": 1.0}])
    assert done.state.tolist() == [JobState.FAILED, JobState.COMPLETED]
    assert done.prediction[1] == 50.0


# Predictors of the user


def own(tmp_path, body: str) -> str:
    file = tmp_path / "mine.py"
    file.write_text(body)
    return f"{file}:Mine"


HALF = """
class Mine:
    def predict(self, job):
        return job.walltime / 2
    def learn(self, job, run_time):
        pass
"""


def test_a_class_in_a_file(tmp_path):
    jobs = jobs_of([(0.0, 1.0, 5.0, 1, 0, 0, 1), (0.0, 1.0, 1.0, 1, 0, 0, 1)])
    assert run(jobs, own(tmp_path, HALF)).prediction.tolist() == [2.5, 1.0]


def test_a_class_in_a_file_that_corrects(tmp_path):
    body = HALF + "    def correct(self, job, expired, corrections):\n        return expired * 2\n"
    jobs = jobs_of([(0.0, 10.0, 10.0, 3, 0, 0, 1), (0.0, 1.0, 9.0, 4, 0, 0, 1), (1.0, 2.0, 8.0, 1, 0, 0, 1)])
    assert run(jobs, own(tmp_path, body), backfill="easy").start_time.tolist() == [0.0, 10.0, 1.0]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("class Other: pass", "no class 'Mine'; the file has: Other"),
        ("import nothing_like_it", "cannot be executed: ModuleNotFoundError"),
        ("class Mine:\n    def predict(self, job): return 1.0", "has no method learn"),
        ("class Mine:\n    def __init__(self, x): pass", "cannot be made: TypeError"),
        (HALF.replace("job.walltime / 2", "'soon'"), "predict gives 'soon' for job 1"),
        (HALF.replace("job.walltime / 2", "job.nothing"), "predict failed for job 1, submitted at 0 s"),
        (
            HALF.replace("pass", "raise OSError('full')"),
            "learn failed for job 1, submitted at 0 s: OSError: full",
        ),
    ],
)
def test_what_is_wrong_with_a_class_is_told(tmp_path, body, words):
    jobs = jobs_of([(0.0, 1.0, 5.0, 1, 0, 0, 1), (4.0, 1.0, 5.0, 1, 0, 0, 1)])
    with pytest.raises(InputError) as caught:
        run(jobs, own(tmp_path, body))
    assert words in str(caught.value)


def test_an_installed_predictor(tmp_path, monkeypatch):
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mlsim.predictors]\nhalf = theirs_half:Mine\n")
    (tmp_path / "theirs_half.py").write_text(HALF)
    monkeypatch.syspath_prepend(str(tmp_path))
    jobs = jobs_of([(0.0, 1.0, 5.0, 1, 0, 0, 1)])
    assert run(jobs, "half").prediction.tolist() == [2.5]
    with pytest.raises(InputError, match="no installed package"):
        make_predictor("quarter")


def a_job(name="md1", processors=4, walltime=10.0):
    return SubmittedJob(1, 0.0, walltime, processors, (), 3, -1, 1, -1, name, name.rstrip("0123456789"))


def test_a_user_at_the_threshold_is_right():
    confident = Confident()
    confident.learn(a_job(), 8.0)
    assert confident.predict(a_job()) == 10.0  # 8 s of 10 s are 0.8, and D would say 8 s
    confident.learn(a_job(), 7.0)
    assert confident.predict(a_job()) == 7.0


def test_the_first_correction_is_the_first_step():
    corrected = [EasyPlusPlus().correct(a_job(walltime=1e6), 100.0, k) for k in (0, 1, 10, 99)]
    assert corrected == [100.0 + STEPS[0], 100.0 + STEPS[1], 100.0 + STEPS[10], 100.0 + STEPS[10]]


def test_amounts_go_before_the_whole_name():
    """Rule 2 before rule 3: a job of the same prefix that asked for as much, before one of the same name."""
    data_driven = DataDriven()
    data_driven.learn(a_job("md1", 4), 5.0)
    data_driven.learn(a_job("md2", 8), 7.0)
    assert data_driven.predict(a_job("md1", 8)) == 7.0
