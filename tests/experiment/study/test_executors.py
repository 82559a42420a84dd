"""Runs that fail, hang or are killed; and the same results whoever does the runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import unittest.mock
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mlsim.cli.main import app
from mlsim.experiment import load_study, run_study
from mlsim.experiment.study.study_executors import Processes

SCENARIO = """\
platform: {nodes: [{name: n, count: 4, cores: 1}]}
workload: {path: jobs.csv, mapping: node}
batch: {policy: ./mine.py:Mine, allocator: first-fit}
"""
JOBS = """\
job_id,submit_time,run_time,walltime,processors
1,0,10,10,4
2,0,8,8,2
3,1,5,5,2
4,2,12,12,3
"""
MINE = """\
import os, time

class Mine:
    def __init__(self, does="run", sign=1.0):
        self.does, self.sign = does, sign

    def key(self, now, jobs):
        if self.does == "raise":
            raise ValueError("no key today")
        if self.does == "hang":
            open(os.path.join(os.path.dirname(__file__), "hangs"), "w").close()
            time.sleep(600)
        if self.does == "die":
            with open(os.path.join(os.path.dirname(__file__), "deaths"), "a") as file:
                file.write("x")
            os.kill(os.getpid(), 9)
        if self.does == "exit":
            os._exit(7)
        if self.does == "die once" and not os.path.exists(os.path.join(os.path.dirname(__file__), "died")):
            open(os.path.join(os.path.dirname(__file__), "died"), "w").close()
            os.kill(os.getpid(), 9)
        return self.sign * jobs.estimate
"""
STUDY = """\
of: runs
name: demo
base: run.yaml
vary:
  batch.policy.parameters.does: [run, {does}]
  batch.policy.parameters.sign: [1.0, -1.0]
pictures: [{{kind: utilization, lines: sign}}]
"""
ALL_AXES = """\
of: runs
name: axes
base: run.yaml
vary:
  cases: {first: {batch.allocator: first-fit}, best: {batch.allocator: best-fit, batch.backfill: easy}}
  batch.policy.parameters.sign: {sample: random, count: 2, seed: 5, from: -1, to: 1}
  seeds: 2
  weeks: all
  turn: "{seed}-{week}"
repetitions: turn
keep: tables
pictures: [{kind: utilization, lines: case}]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in (("run.yaml", SCENARIO), ("jobs.csv", JOBS), ("mine.py", MINE)):
        (tmp_path / name).write_text(text)
    (tmp_path / "study.yaml").write_text(STUDY.format(does="walk"))
    (tmp_path / "axes.yaml").write_text(ALL_AXES)
    return tmp_path


def results_of(out: Path) -> dict[str, bytes]:
    """Return all results of a study, and the tables that are kept of its runs."""
    kept = (path for path in out.glob("store/??/*.run/*") if path.suffix in (".parquet", ".csv"))
    files = (*(path for path in out.iterdir() if path.is_file()), *kept)
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def test_a_run_that_raises_is_recorded_and_the_rest_done(place):
    (place / "study.yaml").write_text(STUDY.format(does="raise"))
    rows = run_study(load_study(place), out=place / "out")
    assert ["no key today" in row.failed for row in rows] == [False, False, True, True]
    assert rows[0].metrics["makespan (s)"] > 0
    table = (place / "out/table.md").read_text()
    assert "| raise |  |  |" in table
    assert "ValueError: no key today" in (place / "out/runs.csv").read_text()


@pytest.mark.slow
def test_failed_runs_on_the_command_line(place):
    (place / "study.yaml").write_text(STUDY.format(does="raise"))
    command = ["study", str(place), "--out", str(place / "out")]
    ended = CliRunner().invoke(app, command)
    assert ended.exit_code == 1
    assert "failed: does: raise, sign: 1: policy" in ended.stderr
    assert "2 of 4 runs have failed" in ended.stderr
    assert "demo: 1/4" in ended.stderr
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 1
    assert "1/4" not in again.stderr
    retried = CliRunner().invoke(app, [*command, "--retry-failed"])
    assert "2 of 4 runs done, 2 to do" in retried.stderr
    status = CliRunner().invoke(app, ["study", "status", str(place / "out")])
    assert status.stdout.startswith(f"{place / 'out'}: 4 of 4 runs are done; 2 of them failed")


def test_what_would_be_done_on_the_command_line(place):
    command = ["study", "run", str(place), "--out", str(place / "out"), "--dry-run"]
    ended = CliRunner().invoke(app, command)
    assert "does: run, sign: -1" in ended.stdout
    assert "0 of 4 runs done, 4 to do; no time estimate yet" in ended.stdout
    assert not (place / "out").exists()


def test_options_that_do_not_go_together(place):
    ended = CliRunner().invoke(app, ["study", str(place), "--scheduler", "slurm"])
    assert "needed with --executor dask, and with no other" in str(ended.exception)
    ended = CliRunner().invoke(app, ["study", str(place), "--executor", "dask"])
    assert "--scheduler" in str(ended.exception)


@pytest.mark.slow
def test_a_run_that_hangs_fails_after_the_timeout(place):
    (place / "study.yaml").write_text(STUDY.format(does="hang") + "without: [{sign: -1}, {does: hang}]\n")
    run_study(load_study(place))  # kernels are compiled, which takes longer than the timeout below
    (place / "study.yaml").write_text(STUDY.format(does="hang") + "timeout: 20 s\nwithout: [{sign: -1}]\n")
    rows = run_study(load_study(place), out=place / "out")
    assert [row.failed for row in rows] == ["", "took longer than timeout: 20 s"]


def test_a_run_that_is_killed_is_begun_twice_and_recorded(place):
    (place / "study.yaml").write_text(STUDY.format(does="die") + "without: [{does: die, sign: -1}]\n")
    rows = run_study(load_study(place), out=place / "out", executor=Processes(1))
    assert [bool(row.failed) for row in rows] == [False, False, True]
    assert "was killed by SIGKILL, as the system does where memory is used up, 2 times" in rows[2].failed
    assert (place / "deaths").read_text() == "xx"


def test_a_run_that_ends_its_process_is_told_with_the_exit_code(place):
    (place / "study.yaml").write_text(STUDY.format(does="exit") + "without: [{sign: -1}]\n")
    rows = run_study(load_study(place), out=place / "out", executor=Processes(1))
    assert [row.failed for row in rows] == ["", "its process ended with exit code 7, 2 times"]


@pytest.mark.slow
def test_one_of_many_short_runs_that_are_handed_out_together_is_killed(place, monkeypatch):
    """Which it was is found by doing alone those that were not reported; all others are done."""
    from mlsim.experiment.study import study_executors

    monkeypatch.setattr(study_executors, "_BATCH_SECONDS", 1000.0)  # however slow this machine is
    handed = []
    begin = study_executors._Worker.begin
    monkeypatch.setattr(
        study_executors._Worker,
        "begin",
        lambda self, tasks: (handed.append(len(tasks)), begin(self, tasks))[1],
    )
    signs = ", ".join(f"{{batch.policy.parameters: {{sign: {sign}}}}}" for sign in range(1, 41))
    dies = "{batch.policy.parameters: {sign: 41, does: die}}"
    (place / "study.yaml").write_text(
        "of: runs\nbase: run.yaml\n"
        f"vary: {{cases: [{signs}, {dies}, {signs.replace('sign: ', 'sign: 5')}]}}\n"
    )
    running = set()

    class Watch:
        begin = end = note = staticmethod(lambda *_: None)
        started = staticmethod(lambda task: running.add(task.key))
        done = staticmethod(lambda task, _: running.remove(task.key))

    rows = run_study(load_study(place), out=place / "out", executor=Processes(1), watch=Watch())
    assert [place for place, row in enumerate(rows) if row.failed] == [40]
    assert "2 times" in rows[40].failed
    assert (place / "deaths").read_text() == "xx"
    assert handed[0] == 1
    assert max(handed) == 32
    assert len({row.key for row in rows}) == 81
    assert not running


@pytest.mark.slow
def test_a_run_whose_process_is_killed_once_is_done_again(place):
    (place / "study.yaml").write_text(STUDY.format(does="die once"))
    rows = run_study(load_study(place), out=place / "out", jobs=2)
    assert [row.failed for row in rows] == [""] * 4
    assert (place / "died").exists()


@pytest.mark.slow
def test_two_processes_give_the_same_bytes_as_one(place):
    study = load_study(place / "axes.yaml")
    run_study(study, out=place / "one")
    run_study(study, out=place / "two", jobs=2)
    assert results_of(place / "one") == results_of(place / "two")
    assert sum("jobs.parquet" in name for name in results_of(place / "one")) == len(study.points) == 8
    study = load_study(place)
    in_memory = run_study(study, jobs=2)
    assert [row.metrics for row in in_memory] == [row.metrics for row in run_study(study)]


def test_more_processes_are_started_where_it_is_worth_it(monkeypatch):
    from mlsim.experiment.study import study_executors

    monkeypatch.setattr(study_executors, "cores", lambda: 4)

    def size(tasks, seconds, jobs=None):
        pool = Processes(jobs)
        pool._first_seconds = seconds
        return pool.size(tasks)

    assert size(3, seconds=0.01) == 1
    assert size(1000, seconds=1.0) == 4
    assert size(2, seconds=100.0) == 2
    assert size(20, seconds=0.0, jobs=8) == 8


@pytest.mark.slow
@pytest.mark.mpi
def test_ranks_give_the_same_bytes(place):
    mpiexec = Path(sys.executable).with_name("mpiexec")
    found = str(mpiexec) if mpiexec.exists() else shutil.which("mpiexec")
    if found is None:
        pytest.skip("no mpiexec")
    pytest.importorskip("mpi4py")
    run_study(load_study(place / "axes.yaml"), out=place / "one")
    study = str(place / "axes.yaml")
    words = [sys.executable, "-c", "from mlsim.cli.main import main; main()", "study", study]
    ended = subprocess.run(
        [found, "-n", "3", *words, "--executor", "mpi", "--out", str(place / "ranks"), "-q"],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert results_of(place / "one") == results_of(place / "ranks")


@pytest.mark.mpi
@pytest.mark.parametrize("whom", ["launcher", "rank 0", "rank 1"])
def test_a_signal_ends_a_study_under_mpi(place, whom):
    mpiexec = Path(sys.executable).with_name("mpiexec")
    if not mpiexec.exists():
        pytest.skip("no mpiexec of MPICH in this environment")
    (place / "study.yaml").write_text(STUDY.format(does="hang").replace("[run, hang]", "[hang]"))
    program = (
        "import os; open('pid-' + os.environ['PMI_RANK'], 'w').write(str(os.getpid()))\n"
        "from mlsim.cli.main import main; main()"
    )
    words = [
        sys.executable,
        "-c",
        program,
        "study",
        "study.yaml",
        "--executor",
        "mpi",
        "--out",
        "ranks",
        "-q",
    ]
    study = subprocess.Popen(
        [str(mpiexec), "-n", "2", *words], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        while study.poll() is None and not (place / "hangs").exists():
            time.sleep(0.05)
        pid = study.pid if whom == "launcher" else int((place / f"pid-{whom[-1]}").read_text())
        os.kill(pid, signal.SIGTERM)
        said, _ = study.communicate(timeout=60)
    finally:
        study.kill()
    assert study.returncode != 0, said
    assert b"Traceback" not in said


def test_one_rank_is_not_enough(place):
    pytest.importorskip("mpi4py")
    words = [sys.executable, "-c", "from mlsim.cli.main import main; main()", "study", str(place)]
    ended = subprocess.run(
        [*words, "--executor", "mpi"], capture_output=True, text=True, timeout=120, check=False, cwd=place
    )
    assert ended.returncode == 2
    assert "there is one rank only" in ended.stderr or "mpi4py cannot be used" in ended.stderr


@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_bytes(place):
    distributed = pytest.importorskip("distributed", reason="no Dask; pip install 'mlsim[dask]'")
    from mlsim.experiment.study.cluster_executors import on_cluster

    study = load_study(place / "axes.yaml")
    run_study(study, out=place / "one")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, processes=True
        ) as cluster,
        on_cluster(cluster.scheduler_address, None) as executor,
    ):
        run_study(study, out=place / "dask", executor=executor)
    assert results_of(place / "one") == results_of(place / "dask")


@pytest.mark.parametrize(
    "name", ["FuturesCancelledError", "CommClosedError", "TimeoutError", "CancelledError"]
)
@pytest.mark.parametrize("when", ["size", "submit", "wait"])
def test_the_end_of_a_dask_scheduler_is_an_error(place, monkeypatch, name, when):
    """What its client raises then depends on what it does; the future of a run that is lost is cancelled."""
    distributed = pytest.importorskip("distributed", reason="no Dask; pip install 'mlsim[dask]'")
    import asyncio

    from mlsim.errors import OutputError
    from mlsim.experiment.study import cluster_executors
    from mlsim.experiment.study.study_model import Done

    errors = {
        "FuturesCancelledError": lambda: distributed.client.FuturesCancelledError([]),
        "CommClosedError": lambda: distributed.comm.CommClosedError("closed"),
        "TimeoutError": lambda: TimeoutError("no answer"),
        "CancelledError": asyncio.CancelledError,
    }

    def at(point, value):
        def called(*words, **__):
            if when == point:
                raise errors[name]()
            return value(*words)

        return called

    def future_of(_, tasks):
        return unittest.mock.Mock(result=lambda: [Done(task.key) for task in tasks])

    class Client:
        nthreads = staticmethod(at("size", lambda: {"worker": 1}))
        submit = staticmethod(at("submit", future_of))

    monkeypatch.setattr(distributed, "wait", at("wait", lambda futures: unittest.mock.Mock(done=futures)))
    with pytest.raises(OutputError, match=r"the Dask scheduler has ended.* it goes on where it ended"):
        run_study(load_study(place), out=place / "out", executor=cluster_executors._DaskPool(Client()))


def test_no_dask_scheduler(place, monkeypatch):
    pytest.importorskip("distributed", reason="no Dask; pip install 'mlsim[dask]'")
    from mlsim.errors import InputError
    from mlsim.experiment.study import cluster_executors

    monkeypatch.setattr(cluster_executors, "_SECONDS_TO_CONNECT", 1)
    with (
        pytest.raises(InputError, match="no Dask scheduler answers there"),
        cluster_executors.on_cluster("tcp://127.0.0.1:9", None),
    ):
        pass
