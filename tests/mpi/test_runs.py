"""Applications, records and the command line on real ranks."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from mlsim.mpi.launch import Launcher
from mlsim.mpi.loop_columns import read_loop
from mlsim.mpi.rca.agent import Agent
from mlsim.traces import opened, problems_of
from tests.mpi.conftest import REPOSITORY, execute, find

pytestmark = pytest.mark.mpi

_SECRET = "a secret that is long enough"


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 4])
def test_applications_give_the_same_bytes(any_launcher: Launcher, ranks: int) -> None:
    done = execute(any_launcher, ranks, "images.py")
    assert done.code == 0, done.err
    assert done.out.split() == ["ok", str(ranks)]


class _Listening:
    """An agent in a thread of this process."""

    def __init__(self, **options: object) -> None:
        self.agent = Agent(_SECRET.encode(), **options)  # type: ignore[arg-type]
        self._ready, self._end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        self.address = await self.agent.listen("127.0.0.1", 0)
        self._ready.set()
        while not self._end.is_set():
            await asyncio.sleep(0.02)
        await self.agent.close()

    def __enter__(self) -> _Listening:
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(20)


@pytest.mark.slow
def test_a_recorded_run_is_a_run_directory_and_its_idle_nodes_are_reported(
    any_launcher: Launcher, tmp_path: Path
) -> None:
    out, seen = tmp_path / "run", tmp_path / "idle.jsonl"
    with _Listening(records=seen) as listening:
        host, port = listening.address
        done = execute(
            any_launcher,
            4,
            "recorded.py",
            str(out),
            MLSIM_RCA_ADDRESS=f"{host}:{port}",
            MLSIM_RCA_SECRET=_SECRET,
            MLSIM_RCA_JOB="4711",
        )
    assert done.code == 0, done.err
    assert (listening.agent.taken, listening.agent.refused) == (2, 0)
    idle, completed = [json.loads(line) for line in seen.read_text().splitlines()]
    # One of the two nodes, whichever is idle first; the last one stays with the job.
    assert idle["node_number"] in (0, 1)
    assert (idle["type"], idle["job"], idle["ranks"], idle["loop"]) == ("NodeIdle", "4711", 2, "recorded")
    assert (completed["type"], completed["job"]) == ("JobCompleted", "4711")
    _check_tables(out, int(done.out.split()[1]))
    _check_trace(out / "trace")


def test_a_real_run_without_the_package_of_traces_writes_all_else(
    any_launcher: Launcher, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.modules['otf2'] = sys.modules['_otf2'] = None\n"
    )
    path = os.pathsep.join([str(tmp_path), str(REPOSITORY)])
    done = execute(any_launcher, 4, "recorded.py", str(tmp_path / "run"), PYTHONPATH=path)
    assert done.code == 0, done.err
    assert done.err.count("no trace, as there is no package otf2 (pip install 'mlsim[otf2]')") == 1
    _check_tables(tmp_path / "run", int(done.out.split()[1]))
    assert not (tmp_path / "run" / "trace").exists()


def _check_tables(out: Path, steps: int) -> None:
    chunks, pes = pl.read_parquet(out / "chunks.parquet"), pl.read_parquet(out / "pes.parquet")
    jobs, loops = pl.read_parquet(out / "jobs.parquet"), pl.read_parquet(out / "loops.parquet")
    hits = np.zeros(120, np.int64)
    for first, size in chunks.select("first", "size").iter_rows():
        hits[first : first + size] += 1
    assert (hits == 1).all()
    assert len(chunks) == steps == loops["steps"][0]
    assert (chunks["request_time"] <= chunks["start_time"]).all()
    assert (chunks["start_time"] <= chunks["end_time"]).all()
    assert chunks["request_time"].min() == 0.0
    # A PE executes one chunk after the other, and asks for the next one when one has ended.
    for (_,), own in chunks.sort("start_time").group_by("pe"):
        assert (own["request_time"][1:] == own["end_time"][:-1]).all()
    assert loops["t_loop"][0] == chunks["end_time"].max() == pes["finish_time"].max()
    assert jobs["end_time"][0] == pes["told_time"].max()
    assert jobs["nodes"][0] == "0-1"
    summary = json.loads((out / "summary.json").read_text())
    assert summary["loop"]["steps"] == steps
    assert summary["jobs"]["completed"] == 1
    assert {path.name for path in out.iterdir()} >= {
        "scenario.yaml",
        "pes.png",
        "chunk-sizes.png",
        "gantt.png",
    }


def _check_trace(trace: Path) -> None:
    if shutil.which("otf2-print") is None:
        return  # the tables are checked; CI installs the tool
    told = subprocess.run(
        ["otf2-print", str(trace / "traces.otf2")], capture_output=True, text=True, timeout=60, check=True
    )
    assert told.stderr == ""
    assert told.stdout.count("ENTER") == told.stdout.count("LEAVE") > 8
    with opened(trace / "traces.otf2") as reader:
        names = [group.name for group in reader.definitions.location_groups]
        assert list(problems_of(reader)) == []
    assert names == [f"MPI Rank {rank}" for rank in range(4)]


@pytest.mark.slow
def test_an_agent_that_is_not_there_is_a_warning(any_launcher: Launcher) -> None:
    done = execute(any_launcher, 4, "recorded.py", MLSIM_RCA_ADDRESS="127.0.0.1:1", MLSIM_RCA_SECRET=_SECRET)
    assert done.code == 0, done.err
    assert "could not be reported to the RCA agent" in done.err


def _mlsim(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from mlsim.cli.main import main; main()", *words]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=150, check=False, env=environment, cwd=REPOSITORY
    )


def _application(launcher: Launcher, ranks: int, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*launcher.words, "-n", str(ranks), sys.executable, "-m", *words]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(command, capture_output=True, text=True, timeout=150, env=environment, check=False)


@pytest.mark.slow
def test_given_costs_are_slept_and_recorded_as_columns(any_launcher: Launcher, tmp_path: Path) -> None:
    costs, columns = tmp_path / "costs.npy", tmp_path / "loop.npz"
    np.save(costs, np.full(40, 0.002))
    words = ["mlsim.mpi.apps.synthetic", "--costs", str(costs)]
    before = time.time()
    done = _application(any_launcher, 2, *words, "--check", "--columns", str(columns))
    after = time.time()
    assert done.returncode == 0, done.stderr
    loop = read_loop(columns)
    assert before < loop.began < after
    assert loop.chunks.size.sum() == 40
    assert loop.loops.busy[0] >= 0.08
    assert (loop.chunks.end - loop.chunks.start).sum() == pytest.approx(loop.pes.busy.sum())
    for more, reason in (
        (["--size", "4"], "--costs: says all"),
        (["--costs", str(columns)], "not a NumPy file of numbers"),
        (["--repetitions", "2", "--columns", str(columns)], "--columns: has one loop"),
        (["--columns", str(tmp_path / "none" / "x.npz")], "cannot be written: No such file"),
    ):
        done = _application(any_launcher, 2, *words, *more)
        assert done.returncode != 0
        assert reason in done.stderr


@pytest.mark.slow
def test_mpi_run_executes_a_scenario(any_launcher: Launcher, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["--set", "application.costs.parameters.size=40", "--check", "--out", str(out)]
    done = _mlsim("mpi", "run", "scenarios/mpi/mandelbrot.yaml", *words, "--", *any_launcher.words, "-n", "2")
    assert done.returncode == 0, done.stderr
    assert "the same as executed serially" in done.stdout
    assert pl.read_parquet(out / "chunks.parquet")["size"].sum() == 1600


@pytest.mark.slow
def test_validate_compares_real_and_simulated_loops(any_launcher: Launcher, tmp_path: Path) -> None:
    out = tmp_path / "validation"
    words = ["-n", "2", "--technique", "STATIC,GSS", "--model", "dca,cca", "--repetitions", "1"]
    loop = ["--set", "application.iterations.count=60", "--set", "application.costs.mean=1ms"]
    done = _mlsim("mpi", "validate", *words, *loop, "--out", str(out))
    assert done.returncode == 0, done.stderr
    told = json.loads((out / "loops.json").read_text())
    rows = {(row["pair"]["technique"], row["pair"]["model"]): row for row in told["loops"]}
    assert rows["STATIC", "cca"]["steps"] == rows["STATIC", "cca"]["steps_simulated"] == 2
    assert rows["GSS", "dca"]["steps"] == rows["GSS", "dca"]["steps_simulated"]
    assert all(row["t_loop"] > 0.02 and row["t_simulated"] > 0.02 for row in rows.values())
    assert told["machine"]["atomic"] > 0.0
    assert told["machine"]["spins"] == (len(os.sched_getaffinity(0)) >= 2)  # each rank has a core
    assert (out / "table.md").read_text().count("\n") == 2 + 4
    assert (out / "loops.png").stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.parametrize(("sure", "repetitions"), [("inf", "5 5"), ("0", "9 9")])
def test_loops_whose_times_differ_are_repeated(any_launcher: Launcher, sure: str, repetitions: str) -> None:
    done = execute(any_launcher, 2, "repeated.py", sure)
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == f"repetitions {repetitions}"


@pytest.mark.slow
def test_ranks_that_srun_cannot_start_are_an_error(tmp_path: Path) -> None:
    """As in a container that has the variables of a job of Slurm's, and no controller in reach."""
    find("mpich")
    (tmp_path / "srun").write_text("#!/bin/sh\necho 'srun: fatal: no controller' >&2\nexit 1\n")
    (tmp_path / "srun").chmod(0o755)
    (tmp_path / "s.yaml").write_text(
        "platform: {nodes: [{name: n, count: 1, cores: 2}]}\n"
        "application: {model: loop, iterations: {count: 40}, costs: {profile: constant, mean: 200 us}}\n"
    )
    names = ("JOB_ID", "JOBID", "NNODES")
    job = {f"SLURM_{name}": "1" for name in names} | {"SLURM_TASKS_PER_NODE": "2"}
    job |= {"SLURM_NODELIST": "localhost", "SLURM_JOB_NODELIST": "localhost"}
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from mlsim.cli.main import main; main()", "mpi", "run"]
        return subprocess.run(
            [*command, "s.yaml", "--work", "sleep", "-n", "2"],
            env={**os.environ, **job, **path, "PYTHONPATH": str(REPOSITORY), **environment},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )

    failed = run()
    assert failed.returncode == 1
    assert "no rank was started: srun has failed" in failed.stderr
    assert "HYDRA_BOOTSTRAP=fork" in failed.stderr
    assert "`-- mpiexec -launcher fork -n 2`" in failed.stderr
    assert "Traceback" not in failed.stderr
    started = run(HYDRA_BOOTSTRAP="fork")
    assert started.returncode == 0, started.stderr
