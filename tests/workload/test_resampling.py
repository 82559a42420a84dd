"""Workloads resampled from the weeks of a log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import mlsim
from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.scenario import dump, from_mapping
from mlsim.workload import JobBlock, generate, resample
from mlsim.workload.derived_logs import WEEK

DAY = 86400
POISSON = {"model": "poisson", "jobs": 3}


def write_log(path: Path, rows: list[tuple[float, int]]) -> Path:
    """Write jobs of (submit time, user); run time and size tell which job each is."""
    lines = [
        f"{i + 1} {int(submit)} -1 {100 + i} {i + 1} -1 -1 {i + 1} {200 + i} -1 1 {user} 1 -1 1 -1 -1 -1"
        for i, (submit, user) in enumerate(rows)
    ]
    path.write_text("; MaxProcs: 64\n; UnixStartTime: 1000\n" + "\n".join(lines) + "\n")
    return path


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), weeks=st.integers(1, 9), by=st.sampled_from(["user", "week"]))
def test_weeks_of_users_are_kept_whole(tmp_path_factory, seed: int, weeks: int, by: str) -> None:
    rng = np.random.default_rng(seed)
    n, n_weeks = int(rng.integers(2, 60)), int(rng.integers(1, 6))
    submit = np.sort(np.concatenate([[0, n_weeks * WEEK - 5], rng.integers(0, n_weeks * WEEK, n)]))
    users = rng.integers(1, 5, len(submit))
    rows = list(zip(submit.tolist(), users.tolist(), strict=True))
    log = write_log(tmp_path_factory.mktemp("log") / "log.swf", rows)
    made = resample(log, weeks=weeks, by=by, seed=seed)
    assert made.source_weeks == n_weeks
    jobs = made.jobs()
    assert jobs.job_id.tolist() == list(range(1, len(jobs) + 1))
    assert np.all(np.diff(jobs.submit_time) >= 0)
    assert not len(jobs) or jobs.submit_time[-1] < weeks * WEEK
    source = jobs.processors - 1  # the row of the log that each is
    assert jobs.user.tolist() == users[source].tolist()
    assert jobs.run_time.tolist() == (100 + source).tolist()
    assert jobs.walltime.tolist() == (200 + source).tolist()
    assert np.all((jobs.submit_time - submit[source]) % WEEK == 0)
    from_week, to_week = submit[source] // WEEK, jobs.submit_time // WEEK
    drawn: dict[tuple[int, int], int] = {}
    for user, old, new in zip(jobs.user.tolist(), from_week.tolist(), to_week.tolist(), strict=True):
        whose = user if by == "user" else 0
        assert drawn.setdefault((whose, new), old) == old
    for (whose, new), old in drawn.items():
        of = (submit // WEEK == old) & ((users == whose) | (by == "week"))
        got = (to_week == new) & ((jobs.user == whose) | (by == "week"))
        assert sorted(source[got].tolist()) == np.flatnonzero(of).tolist()


def test_every_week_of_a_user_is_drawn_alike(tmp_path: Path) -> None:
    """Also those without jobs: a user who came once in four weeks comes in a quarter of the new ones."""
    rows = [(week * WEEK + 60.0, 1) for week in range(4)] + [(2 * WEEK + 90.0, 2), (4 * WEEK - 9.0, 3)]
    made = resample(write_log(tmp_path / "log.swf", sorted(rows)), weeks=4000, seed=3)
    jobs = made.jobs()
    assert int((jobs.user == 1).sum()) == 4000
    for user in (2, 3):
        assert abs(int((jobs.user == user).sum()) - 1000) < 4 * np.sqrt(4000 * 0.25 * 0.75)
    both = np.intersect1d(jobs.submit_time[jobs.user == 2] // WEEK, jobs.submit_time[jobs.user == 3] // WEEK)
    assert abs(len(both) - 250) < 4 * np.sqrt(4000 / 16)  # by user they come independently


def test_the_mean_load_is_that_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "lublin.swf"
    generate("lublin", days=70, processors=64, seed=5).write(log)
    jobs = resample_whole(log)
    work = float((jobs.run_time * jobs.processors).sum()) / 10
    new = resample(log, weeks=1000, by="week", seed=1).jobs()
    assert float((new.run_time * new.processors).sum()) / 1000 == pytest.approx(work, rel=0.05)


def resample_whole(log: Path) -> JobBlock:
    """Return the jobs of the ten weeks of a log."""
    from mlsim.workload.derived_logs import SourceLog

    jobs = SourceLog(log).jobs()
    return jobs.select(jobs.submit_time < 10 * WEEK)


def test_the_same_seed_gives_the_same_bytes_and_a_log_says_how_it_was_made(tmp_path: Path) -> None:
    rows = [(day * DAY + 60.0 * user, user) for day in range(28) for user in (1, 2, 3)]
    log = write_log(tmp_path / "log.swf", rows)
    words = ["workload", "resample", str(log), "--weeks", "3", "--seed", "7", "-o"]
    for name in ("a.swf", "b.swf"):
        done = CliRunner().invoke(app, [*words, str(tmp_path / name)])
        assert done.exit_code == 0, (done.output, done.exception)
    assert "weeks, drawn from 4 whole weeks by user" in done.output
    text = (tmp_path / "a.swf").read_text()
    assert text == (tmp_path / "b.swf").read_text()
    assert "; Note: 3 weeks resampled by user, seed 7, of log.swf, by mlsim" in text
    assert "; UnixStartTime: 1060" in text  # the first job's time: weekdays and hours are the log's
    assert "; MaxProcs: 64" in text
    other = [word if word != "7" else "8" for word in words]
    assert CliRunner().invoke(app, [*other, str(tmp_path / "c.swf")]).exit_code == 0
    assert text != (tmp_path / "c.swf").read_text()


@pytest.mark.parametrize(
    ("rows", "options", "says"),
    [
        ([(0.0, 1), (3 * DAY, 1)], {"weeks": 2}, "shorter than a week"),
        ([(0.0, -1), (8 * DAY, -1)], {"weeks": 2}, "says nothing of users; try --by week"),
        ([(0.0, 1), (8 * DAY, 1)], {"weeks": 0}, "weeks: 0; allowed: 1 to"),
        ([(0.0, 1), (8 * DAY, 1)], {"weeks": 1, "by": "group"}, "by: 'group'; allowed: user, week"),
    ],
)
def test_what_cannot_be_resampled_is_told(tmp_path: Path, rows, options, says: str) -> None:
    with pytest.raises(InputError, match=says.replace("(", r"\(")):
        resample(write_log(tmp_path / "log.swf", rows), **options).jobs()
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    out = tmp_path / "out.swf"
    done = CliRunner().invoke(
        app, ["workload", "resample", str(tmp_path / "log.swf"), *words, "-o", str(out)]
    )
    assert done.exit_code != 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.swf"]


def test_without_users_whole_weeks_are_drawn(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.swf", [(0.0, -1), (8 * DAY, -1), (13.5 * DAY, -1)])
    assert len(resample(log, weeks=100, by="week").jobs()) in range(100, 201)


def test_dependencies_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    text = "".join(
        f"{i + 1} {i * DAY} -1 5 1 -1 -1 1 9 -1 1 1 1 -1 1 -1 {i or -1} {10 if i else -1}\n"
        for i in range(15)
    )
    path.write_text(text)
    assert resample(path, weeks=2).jobs().after is None


def scenario(path: Path, **resample: object) -> dict[str, object]:
    return {
        "name": "resampled",
        "platform": {"nodes": [{"name": "n", "count": 64, "cores": 1}]},
        "workload": {"path": str(path), "mapping": "core", "resample": resample},
    }


@pytest.mark.parametrize("by", ["user", "week"])
def test_a_run_of_resampled_weeks_is_that_of_the_written_log(tmp_path: Path, by: str) -> None:
    rng = np.random.default_rng(3)
    rows = [(float(submit), int(rng.integers(1, 4))) for submit in np.sort(rng.integers(0, 4 * WEEK, 60))]
    log = write_log(tmp_path / "log.swf", [(0.0, 1), *rows, (4 * WEEK - 5, 1)])
    written = tmp_path / "made.swf"
    resample(log, weeks=5, by=by, seed=9).write(written)
    found = mlsim.run(scenario(log, weeks=5, by=by), {"seed": 9})
    plain = mlsim.run(scenario(written) | {"workload": {"path": str(written), "mapping": "core"}})
    for column in ("submit_time", "start_time", "end_time", "processors", "user"):
        assert found.jobs[column].to_list() == plain.jobs[column].to_list()
    own = mlsim.run(scenario(log, weeks=5, by=by, seed=9), {"seed": 4})
    assert own.jobs["submit_time"].to_list() == found.jobs["submit_time"].to_list()
    other = mlsim.run(scenario(log, weeks=5, by=by), {"seed": 4})
    assert other.jobs["submit_time"].to_list() != found.jobs["submit_time"].to_list()


def test_seeds_of_a_study_are_samples(tmp_path: Path) -> None:
    """Each run of the study is the run of its seed alone; policies of a seed have the same jobs."""
    rng = np.random.default_rng(3)
    rows = [(float(submit), int(rng.integers(1, 4))) for submit in np.sort(rng.integers(0, 3 * WEEK, 200))]
    log = write_log(tmp_path / "log.swf", [(0.0, 1), *rows, (3 * WEEK - 5, 1)])
    base = tmp_path / "base.yaml"
    base.write_text(dump(from_mapping(scenario(log, weeks=2), "base")))
    (tmp_path / "study.yaml").write_text(
        "of: runs\nbase: base.yaml\nvary:\n  batch.policy: [FCFS, SPF]\n  seeds: 3\nrepetitions: seed\n"
        "metrics: {last: makespan, jobs: jobs.submitted}\n"
    )
    result = CliRunner().invoke(app, ["study", str(tmp_path), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    runs = pl.read_csv(tmp_path / "out" / "runs.csv")
    for row in runs.iter_rows(named=True):
        alone = mlsim.run(base, {"seed": row["seed"], "batch.policy": row["policy"]}).summary
        assert row["jobs"] == alone["jobs"]["submitted"]
        assert row["last"] == pytest.approx(alone["makespan"], rel=1e-12)
    assert runs["jobs"].n_unique() > 1


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        ({"resample": {"weeks": 2}, "dependencies": True}, "gets lost when weeks are resampled"),
        ({"resample": {"weeks": 2}, "columns": ["deadline"]}, "gets lost when weeks are resampled"),
        ({"resample": {}}, "workload.resample.weeks"),
        (
            {"resample": {"weeks": 2}, "path": None, "generate": {"model": "poisson", "jobs": 3}},
            "is for logs",
        ),
    ],
)
def test_what_is_not_resampled_in_a_run_is_told(tmp_path: Path, workload, says: str) -> None:
    given = scenario(tmp_path / "log.swf", weeks=1)
    given["workload"] = {"path": "log.swf", **workload}
    with pytest.raises(InputError, match=says):
        from_mapping(given, "scenario")


@pytest.mark.parametrize(
    ("last", "weeks"),
    [(6 * DAY - 1, 0), (6 * DAY, 1), (7 * DAY, 1), (13 * DAY - 1, 1), (13 * DAY, 2), (14 * DAY - 1, 2)],
)
def test_a_last_week_that_lacks_a_day_at_most_is_whole(tmp_path: Path, last: int, weeks: int) -> None:
    log = write_log(tmp_path / "log.swf", [(0, 1), (last, 1)])
    if weeks == 0:
        with pytest.raises(InputError, match="is shorter than a week"):
            resample(log, weeks=1).jobs()
        return
    made = resample(log, weeks=40, by="week", seed=1)
    assert made.source_weeks == weeks
    drawn = set(made.jobs().processors.tolist())
    # The last job is in a whole week, or in one that is left out.
    assert drawn == ({1, 2} if last < weeks * WEEK else {1})
