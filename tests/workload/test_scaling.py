"""Logs scaled to another load, or to a larger machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.workload import JobBlock, generate, scale
from mlsim.workload.derived_logs import WEEK, SourceLog

PROCESSORS = 64


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten weeks of drawn jobs of 40 users."""
    path = tmp_path_factory.mktemp("log") / "log.swf"
    generate("lublin", days=70, processors=PROCESSORS, seed=5, estimates=2.0).write(path)
    lines = path.read_text().splitlines()
    rng = np.random.default_rng(1)
    for row, line in enumerate(lines):
        if not line.startswith(";"):
            fields = line.split()
            fields[11] = str(rng.integers(1, 41))
            lines[row] = " ".join(fields)
    path.write_text("\n".join(lines) + "\n")
    return path


def load_of(jobs: JobBlock, processors: int = PROCESSORS) -> float:
    return float((jobs.run_time * jobs.processors).sum() / (processors * jobs.submit_time[-1]))


@pytest.fixture(scope="module")
def jobs(log: Path) -> JobBlock:
    return SourceLog(log).jobs()


@pytest.mark.parametrize("wanted", [0.2, 0.5, 1.3])
@pytest.mark.parametrize(("by", "within"), [("arrivals", 1e-4), ("run-times", 1e-2), ("users", 0.1)])
def test_a_load_is_reached(log: Path, by: str, within: float, wanted: float) -> None:
    made = scale(log, by=by, load=wanted, seed=2)
    assert load_of(made.jobs()) == pytest.approx(wanted, rel=within)


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.7])
def test_arrivals_keep_jobs_and_order(log: Path, jobs: JobBlock, factor: float) -> None:
    made = scale(log, by="arrivals", factor=factor).jobs()
    for name in ("job_id", "run_time", "walltime", "processors", "user"):
        assert np.array_equal(getattr(made, name), getattr(jobs, name))
    assert np.array_equal(made.submit_time, np.floor(jobs.submit_time / factor))


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.7])
def test_run_times_keep_arrivals_sizes_and_accuracy(log: Path, jobs: JobBlock, factor: float) -> None:
    made = scale(log, by="run-times", factor=factor).jobs()
    for name in ("job_id", "submit_time", "processors", "user"):
        assert np.array_equal(getattr(made, name), getattr(jobs, name))
    assert np.all(np.abs(made.run_time - factor * jobs.run_time) <= np.where(jobs.run_time > 1, 0.5, 1))
    assert np.all(made.run_time >= 1)
    assert np.all(made.run_time <= made.walltime)


def test_more_users_keep_every_job_and_add_weeks_of_others(log: Path, jobs: JobBlock) -> None:
    made = scale(log, by="users", factor=1.5, seed=4).jobs()
    old = made.user <= jobs.user.max()
    kept = made.select(old)
    for name in ("submit_time", "run_time", "walltime", "processors", "user"):
        assert np.array_equal(getattr(kept, name), getattr(jobs, name))
    new = made.select(~old)
    assert len(new) > 0
    for user in np.unique(new.user):
        own = new.select(new.user == user)
        signature = sorted(zip(own.run_time, own.processors, own.submit_time % WEEK, strict=True))
        of = [u for u in np.unique(jobs.user) if signature == _week_free(jobs.select(jobs.user == u))]
        assert of
    assert np.all(np.diff(made.submit_time) >= 0)
    assert made.submit_time[-1] < 11 * WEEK


def _week_free(jobs: JobBlock) -> list[tuple[float, int, float]]:
    return sorted(zip(jobs.run_time, jobs.processors, jobs.submit_time % WEEK, strict=True))


def test_fewer_users_leave_all_jobs_of_some(log: Path, jobs: JobBlock) -> None:
    made = scale(log, by="users", factor=0.4, seed=4).jobs()
    for user in np.unique(made.user):
        assert int((made.user == user).sum()) == int((jobs.user == user).sum())


def test_a_machine_grows_with_its_jobs(log: Path, jobs: JobBlock) -> None:
    made = scale(log, by="machine", factor=3)
    assert made.header["MaxProcs"] == str(3 * PROCESSORS)
    assert np.array_equal(made.jobs().processors, 3 * jobs.processors)
    assert load_of(made.jobs(), 3 * PROCESSORS) == pytest.approx(load_of(jobs))


def test_the_command_says_what_it_did(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "busy.parquet"
    done = CliRunner().invoke(app, ["workload", "scale", str(log), "--load", "0.9", "-o", str(out)])
    assert done.exit_code == 0, (done.output, done.exception)
    assert "-> 0.900 of 64" in done.output
    assert load_of(SourceLog(out).jobs()) == pytest.approx(0.9, rel=1e-3)
    again = CliRunner().invoke(app, ["workload", "scale", str(log), "--load", "0.9", "-o", str(out)])
    assert again.exit_code != 0  # it is there


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "give one of them"),
        ({"factor": 2.0, "load": 0.5}, "give one of them"),
        ({"factor": -1.0}, "factor: -1; allowed"),
        ({"load": 0.0}, "load: 0; allowed"),
        ({"load": 0.5, "by": "machine"}, "stays as it is by machine"),
        ({"factor": 2.0, "by": "size"}, "by: 'size'; allowed: arrivals, run-times, users, machine"),
        ({"load": 0.5, "processors": 0}, "processors: 0"),
    ],
)
def test_what_makes_no_sense_is_told(log: Path, options, says: str) -> None:
    with pytest.raises(InputError, match=says):
        scale(log, **options).jobs()


def test_a_log_that_knows_no_machine_or_users_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(
        "".join(f"{i + 1} {60 * i} -1 50 1 -1 -1 1 90 -1 1 -1 1 -1 1 -1 -1 -1\n" for i in range(9))
    )
    with pytest.raises(InputError, match="does not say how many processors"):
        scale(path, load=0.5).jobs()
    with pytest.raises(InputError, match="says nothing of users"):
        scale(path, by="users", factor=2).jobs()
    assert load_of(scale(path, load=0.5, processors=2).jobs(), 2) == pytest.approx(0.5, rel=0.01)
