"""Classes of jobs: features that do not look ahead, forests, and the variants of Zrigui 2021, ch. 6."""

from __future__ import annotations

import datetime
import statistics
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.batch.clock.replay_many import replay_classes
from mlsim.batch.predictors.weekly_forests import FEATURE_NAMES, Forest
from mlsim.errors import InputError
from mlsim.experiment.weekly_runs import WholeLog
from mlsim.learning.class_learning import VARIANTS, features_of, predict_week, quality_of, run_variant
from mlsim.learning.feature_importance import FEATURES, TYPES, importance_of, importance_table
from mlsim.scenario import BatchConfig
from mlsim.workload.workload_jobs import JobBlock

DAY = 86_400.0
WEEK = 7 * DAY


def block_of(rows):
    submit, wait, run, walltime, processors, user = (np.array(column) for column in zip(*rows, strict=True))
    ids = np.arange(1, len(rows) + 1)
    floats = [column.astype(float) for column in (submit, run, walltime)]
    return JobBlock(ids, *floats, processors, user=user, log_wait=wait.astype(float))


logs = st.lists(
    st.tuples(
        st.integers(0, 40).map(lambda k: k * DAY),
        st.sampled_from([-1.0, 0.0, 3600.0, DAY, 8 * DAY]),
        st.sampled_from([10.0, 60.0, 600.0, 7200.0, DAY, 5 * DAY]),
        st.sampled_from([600.0, 3600.0, 6 * DAY]),
        st.integers(1, 3),
        st.integers(1, 2),
    ),
    min_size=1,
    max_size=40,
).map(sorted)


def reference(rows):
    """Return features, dividers and classes in plain words, job by job."""
    zero = rows[0][0]
    ends = [submit + max(wait, 0.0) + run for submit, wait, run, *_ in rows]
    week = [int((row[0] - zero) // WEEK) for row in rows]

    def known(by, row):
        return ends[row] <= zero + by * WEEK and week[row] < by

    def divider(number):
        for by in range(number, 0, -1):
            ended = [rows[k][2] for k in range(len(rows)) if known(by, k) and not known(by - 1, k)]
            if ended:
                return statistics.median(ended)
        return None

    def small(k):
        limits = [divider(number) for number in range(week[k], max(week) + 2)]
        limit = next((limit for limit in limits if limit is not None), None)
        return limit is not None and rows[k][2] < limit

    found = []
    for k, (submit, _, _, walltime, processors, user) in enumerate(rows):
        date = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=submit)
        values = [walltime, processors, date.hour, date.weekday(), date.day, date.month]
        values += [date.isocalendar().week, (date.month + 2) // 3]
        shares = []
        for key in (lambda r: r[4], lambda r: r[3], lambda r: int(r[0] // DAY + 3) % 7):
            alike = [
                j
                for j in range(len(rows))
                if rows[j][5] == user and key(rows[j]) == key(rows[k]) and known(week[k], j)
            ]
            lags = [float(small(j)) for j in reversed(alike)][:3]
            values += lags + [-1.0] * (3 - len(lags))
            shares.append(statistics.mean(float(small(j)) for j in alike) if alike else -1.0)
        found.append(values + shares)
    return found, [divider(number) for number in week], [small(k) for k in range(len(rows))]


@settings(deadline=None, max_examples=100)
@given(logs)
def test_features_are_those_of_the_reference(rows):
    jobs = block_of(rows)
    found = features_of(jobs, jobs.submit_time)
    values, dividers, small = reference(rows)
    assert found.values.shape == (len(rows), len(FEATURE_NAMES)) == (len(rows), 20)
    np.testing.assert_allclose(found.values, values, rtol=1e-12)
    np.testing.assert_array_equal(found.divider, np.array(dividers, float))
    assert (found.small == 1).tolist() == small


@settings(deadline=None, max_examples=100)
@given(logs, st.integers(1, 6), st.sampled_from([1.0, 1e5]))
def test_no_feature_knows_the_future(rows, week, poison):
    """What had not ended by the edge of a week may be anything: features and dividers up to it stay."""
    jobs = block_of(rows)
    ends = jobs.submit_time + np.maximum(jobs.log_wait, 0) + jobs.run_time
    edge = jobs.submit_time[0] + week * WEEK
    late = (ends > edge) | (jobs.submit_time >= edge)
    changed = np.where(late, jobs.run_time + 60 * DAY * poison, jobs.run_time)
    one, other = (
        features_of(jobs, jobs.submit_time),
        features_of(replace(jobs, run_time=changed), jobs.submit_time),
    )
    upto = one.week <= week
    assert one.values[upto].tobytes() == other.values[upto].tobytes()
    assert one.divider[upto].tobytes() == other.divider[upto].tobytes()


@pytest.fixture(scope="module")
def habits():
    """A log of users with habits: whether a job is small shows in its user and size, with exceptions."""
    rng = np.random.default_rng(5)
    rows = []
    for _ in range(1500):
        user, processors = int(rng.integers(1, 6)), int(rng.choice([1, 2, 8]))
        usual = (user + processors) % 2 == 0
        small = usual if rng.random() < 0.93 else not usual
        run = float(rng.integers(20, 200) if small else rng.integers(3000, 30_000))
        submit = float(rng.integers(0, 4 * 7 * 86_400))
        rows.append((submit, 0.0, run, float(rng.choice([40_000, 80_000])), processors, user))
    jobs = block_of(sorted(rows))
    return jobs, features_of(jobs, jobs.submit_time)


def predict_classes(features, trees, seed):
    small = np.zeros(len(features.week), bool)
    for week in range(1, int(features.week.max()) + 1):
        small[features.week == week] = predict_week(features, week, trees, seed)[1]
    return small


def test_forests_find_habits_and_depend_on_the_past_alone(habits):
    pytest.importorskip("sklearn", reason="no scikit-learn; pip install 'mlsim[learning]'")
    jobs, features = habits
    small = predict_classes(features, trees=10, seed=1)
    assert not small[features.week == 0].any()
    quality = quality_of(features, small)
    assert quality.weekly[1:, 0].min() > 0.85  # in the first week of forests none has seen a history
    n = np.count_nonzero(features.week > 0)
    wrong = np.count_nonzero((small != (features.small == 1)) & (features.week > 0))
    assert (quality.false_small + quality.false_large) * n == pytest.approx(wrong)
    assert quality.accuracy == pytest.approx(1 - wrong / n)
    truth, said = features.small[features.week > 0] == 0, ~small[features.week > 0]
    assert quality.precision_large == pytest.approx(truth[said].mean())
    assert quality.recall_large == pytest.approx(said[truth].mean())
    assert predict_classes(features, trees=10, seed=1).tobytes() == small.tobytes()
    ends = jobs.submit_time + jobs.run_time
    edge = jobs.submit_time[0] + 2 * WEEK
    poisoned = replace(
        jobs, run_time=np.where((ends > edge) | (jobs.submit_time >= edge), 1e7, jobs.run_time)
    )
    other = predict_classes(features_of(poisoned, jobs.submit_time), trees=10, seed=1)
    upto = features.week <= 2
    assert other[upto].tobytes() == small[upto].tobytes()


def test_importance_is_that_of_a_slow_reference(habits):
    pytest.importorskip("sklearn", reason="no scikit-learn; pip install 'mlsim[learning]'")
    _, features = habits
    learned, tested = features.week <= 1, features.week == 2
    forest = Forest(features.values[learned], features.small[learned], 10, 0)
    values, small = features.values[tested], features.small[tested]
    found = dict(zip(FEATURES, importance_of(forest, values, small, 7).reshape(2, -1).T, strict=True))
    rng, columns = np.random.default_rng(7), [[k] for k in range(20)] + [list(of) for of in TYPES.values()]
    right = np.mean(forest.are_small(values) == (small == 1))
    for feature, of in zip(FEATURES, columns, strict=True):
        order, other = rng.permutation(len(values)), values.copy()
        for row, place in enumerate(order):
            other[row, of] = values[place, of]
        lost = right - np.mean(forest.are_small(other) == (small == 1))
        assert found[feature][1] == pytest.approx(lost), feature
        assert found[feature][0] == pytest.approx(sum(found[FEATURES[k]][0] for k in of))
    assert sum(found[name][0] for name in TYPES) == pytest.approx(1)
    assert sorted(k for of in TYPES.values() for k in of) == list(range(20))
    # Habits are of users and processors, and nothing else tells classes apart.
    assert found["month"][1] == 0
    habit = found["lag features"][1] + found["aggregation features"][1] + found["job features"][1]
    assert habit > 0.3 > 0.05 > abs(found["temporal features"][1])


def test_a_forest_of_one_class_has_no_importance():
    forest = Forest(np.ones((5, 20)), np.ones(5, np.int64), 3, 0)
    found = importance_of(forest, np.ones((2, 20)), np.array([1, 0]), 0).reshape(2, -1)
    assert np.isnan(found[0]).all()
    assert (found[1] == 0).all()


def test_the_table_weighs_weeks_by_their_jobs():
    n = len(FEATURES)
    weekly = np.array([[0.1] * n + [0.02] * n, [np.nan] * 2 * n, [0.3] * n + [0.06] * n])
    first = importance_table({"a": (weekly, np.array([300, 9, 100]))})[0]
    assert first == {"feature": "p", "a: gini %": pytest.approx(20), "a: lost": pytest.approx(3)}


@pytest.mark.slow
def test_variants_complete_each_job_once(habits):
    jobs, features = habits
    rng = np.random.default_rng(2)
    said = np.where(rng.random(len(jobs)) < 0.85, features.small == 1, features.small != 1) & (
        features.week > 0
    )
    config = BatchConfig.model_validate({"policy": "SAF", "backfill": "easy", "threshold": "20 h"})
    log = WholeLog(None, jobs, jobs.submit_time + 20 * DAY, 16)
    found = {name: run_variant(name, log, features, said, config) for name in VARIANTS}
    base, january = found["base"], log.local < 31 * DAY
    sums = np.array(base.monthly) * [january.sum(), (~january).sum()]
    assert sums.sum() == pytest.approx(base.bounded_slowdown)
    slow = replay_classes(jobs, config, 16, np.zeros(len(jobs), bool), features.divider, safeguard=False)
    slowdown = np.maximum((slow.end - jobs.submit_time) / np.maximum(slow.end - slow.start, 10.0), 1.0)
    assert base.monthly[0] == pytest.approx(slowdown[january].mean())
    assert {one.jobs for one in found.values()} == {len(jobs)}
    false = said & (jobs.run_time > features.divider)
    guarded = found["classification-idempotent"]
    assert guarded.killed == np.count_nonzero(false) > 0
    assert guarded.lost_node_seconds == pytest.approx((jobs.processors * features.divider)[false].sum())
    for name in set(VARIANTS) - {"classification-idempotent"}:
        assert found[name].killed == found[name].lost_node_seconds == 0
    assert found["class-clairvoyant"].bounded_slowdown < found["base"].bounded_slowdown


@pytest.fixture
def small_log(tmp_path):
    """A scenario of three weeks, to which words of the command line are added."""
    pytest.importorskip("sklearn", reason="no scikit-learn; pip install 'mlsim[learning]'")
    from mlsim.workload import generate

    log = generate("lublin", days=21, processors=32, load=0.9, seed=4, estimates="tsafrir")
    log.write(tmp_path / "a.swf")
    (tmp_path / "a.yaml").write_text(
        "platform: {nodes: [{name: n, count: 32, cores: 1}]}\n"
        "workload: {path: a.swf, mapping: node}\nbatch: {backfill: easy}\n"
    )

    def learn(*words):
        from typer.testing import CliRunner

        from mlsim.cli.main import app

        given = ["learn", "classes", str(tmp_path / "a.yaml"), "--trees", "3", "--jobs", "1", *words]
        return CliRunner().invoke(app, given)

    return learn


def test_the_command_prints_classes_and_variants(small_log, tmp_path):
    out = tmp_path / "out"
    result = small_log("--policies", "FCFS", "--out", str(out))
    assert result.exit_code == 0, result.output
    rows = (out / "variants.csv").read_text().splitlines()
    assert [row.split(",")[2] for row in rows[1:]] == list(VARIANTS)
    assert rows[1].split(",")[4] == "0.0"
    weeks, whole = pl.read_csv(out / "weeks.csv"), pl.read_csv(out / "classes.csv").row(0, named=True)
    assert weeks["week"].to_list() == [1, 2]
    importance = pl.read_csv(out / "importance.csv")
    assert importance["week"].unique(maintain_order=True).to_list() == [1, 2]
    assert importance.filter(pl.col("feature").is_in(list(TYPES)))["gini %"].sum() == pytest.approx(200)
    months = pl.read_csv(out / "months.csv")
    assert months["month"].unique().to_list() == ["1970-01"]
    variants = pl.read_csv(out / "variants.csv")
    assert months["mean"].to_list() == pytest.approx((variants["cumulative"] / variants["jobs"]).to_list())
    assert variants["months"].unique().to_list() == [1]
    assert weeks["accuracy %"].median() == pytest.approx(whole["weekly accuracy %, median"])
    assert weeks["accuracy %"].min() <= whole["accuracy %"] <= weeks["accuracy %"].max()
    assert (out / "gains.csv").is_file()
    assert small_log("--policies", "SAF", "--out", str(out)).exit_code == 0
    assert "nan" not in (out / "weeks.csv").read_text().lower()
    tables = {path.name for path in out.iterdir() if path.is_file()}
    assert tables == {
        "classes.csv",
        "importance.csv",
        "months.csv",
        "variants.csv",
        "weeks.csv",
    }  # no gains of another command


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policies", "FCFS,fastest"], "--policies: 'fastest'; allowed: FCFS, "),
        (["--policies", "fairshare"], "--policies: 'fairshare'; allowed: FCFS, "),
        (["--policies", "FCFS,linear"], "a.yaml: batch.weights: missing; policy linear needs"),
        (["--known", "all"], "--known: 'all'; allowed: ended, submitted, at-once"),
        (
            ["--set", "batch.backfill=conservative"],
            "batch.backfill: is conservative; classes of jobs need none",
        ),
        (["--set", "batch.ties=per-event"], "batch.ties: is per-event; classes of jobs need drained"),
        (["--set", "batch.easy=accasim"], "batch.easy: is accasim; classes of jobs need standard"),
        (["--set", "batch.reservations=2"], "batch.reservations: is 2; classes of jobs need 1"),
        (["--set", "batch.backfill_order=SPF"], "batch.backfill_order: is SPF; classes of jobs need that of"),
        (["--set", "batch.predictor=EASY++"], "the log is simulated by compiled replay, which needs"),
        (["--policies", "SAF", "--reference", "{gains}"], "--reference: read with FCFS among --policies"),
        (["--set", "batch.backfill=none", "--reference", "{gains}"], "--reference: read with FCFS among"),
        (["--set", "workload.select.first=20"], "all its jobs are submitted within a week"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_done(small_log, words, message, tmp_path):
    gains, out = tmp_path / "gains.csv", tmp_path / "out"
    gains.write_text("log,dispatcher,gain\na,EASY++,12.5\n")
    result = small_log(*(word.format(gains=gains) for word in words), "--out", str(out))
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert not out.exists()


def test_gains_over_easy_are_those_of_easy(small_log, tmp_path):
    out = tmp_path / "out"
    result = small_log("--policies", "FCFS", "--set", "batch.backfill=none", "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "Gains over EASY-FCFS" not in result.output
    assert not (out / "gains.csv").exists()
