"""A trial cluster for the tests of this directory, and the means to submit jobs to it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from mlsim.errors import MlsimError
from mlsim.mpi.launch import find_launchers
from mlsim.mpi.rca.wire import Message, NodeIdle, pack
from mlsim.slurm.slurm_programs import build_plugin, find_program
from mlsim.slurm.trial_cluster import Cluster
from mlsim.slurm.trial_cluster import start as start_cluster

PROGRAMS = Path(__file__).parent / "programs"
REPOSITORY = Path(__file__).resolve().parent.parent.parent
LIMIT = 60.0
SECRET = "the secret of the first user's jobs"
collect_ignore_glob = ["programs/*"]  # they are started by jobs


@pytest.fixture(scope="session")
def plugin() -> Path:
    """Build the plugin, or skip with the reason."""
    try:
        for name in ("slurmctld", "slurmd", "srun", "sbatch"):
            find_program(name)
        return build_plugin()
    except MlsimError as error:
        pytest.skip(f"RCA on Slurm cannot be tried here: {error}")


@pytest.fixture(scope="session")
def ranks() -> None:
    """Skip without an MPI that Slurm can start."""
    if find_spec("mpi4py") is None or "mpich" not in find_launchers():
        pytest.skip("MPICH is not installed: pip install 'mlsim[mpich]'")


def until(ready: Callable[[], object], what: str, seconds: float = LIMIT) -> None:
    """Wait for something; fail if it does not come."""
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, f"in vain: {what}"
        time.sleep(0.02)


@dataclass
class Trial:
    """A cluster and its jobs."""

    cluster: Cluster
    place: Path

    def submit(self, script: str, *options: str, secret: str | None = SECRET) -> str:
        """Submit a batch script; return the job's id."""
        environment = {"MLSIM_RCA_ADDRESS": self.cluster.address, "PYTHONPATH": str(REPOSITORY)}
        environment["MLSIM_RCA_SECRET"] = secret or ""
        file = self.place / "job.sh"
        file.write_text(f"#!/bin/sh\n{script}\n")
        out = str(self.place / "%j.out")
        return self.cluster.call(
            "sbatch", "--parsable", "--output", out, *options, str(file), environment=environment
        ).strip()

    def ranks(self, program: str, *words: str) -> str:
        """Return the command of a script that starts a program on all nodes."""
        return " ".join(["srun", "--mpi=pmi2", sys.executable, str(PROGRAMS / program), *words])

    def state(self, job: str) -> dict[str, str]:
        """Return what the controller knows of a job."""
        text = self.cluster.call("scontrol", "--oneliner", "show", "job", job)
        return dict(word.partition("=")[::2] for word in text.split())

    def wait(self, job: str, state: str = "COMPLETED") -> dict[str, str]:
        """Wait until a job is in a state; return what is known of it."""
        until(lambda: self.state(job)["JobState"] == state, f"job {job} {state}: {self.state(job)}")
        return self.state(job)

    def nodes(self, job: str) -> list[str]:
        """Return the nodes that a job holds."""
        return self.cluster.call("scontrol", "show", "hostnames", self.state(job)["NodeList"]).split()

    def out(self, job: str) -> str:
        file = self.place / f"{job}.out"
        return file.read_text() if file.exists() else ""

    def answer(self, line: bytes) -> str:
        """Send a line to the plugin; return its answer."""
        host, port = self.cluster.address.split(":")
        with socket.create_connection((host, int(port)), LIMIT) as connection:
            connection.sendall(line)
            with connection.makefile("rb") as stream:
                return stream.readline().decode().strip()

    def idle(self, job: str, node: str, secret: str = SECRET, **changes: object) -> bytes:
        """Return the line that tells of an idle node."""
        message: Message = NodeIdle(job, node, 0, 1, "loop", time.time())
        return pack(replace(message, **changes), secret.encode())  # type: ignore[arg-type]

    def records(self, event: str, job: str) -> list[dict[str, object]]:
        rows = [json.loads(line) for line in self.cluster.records.read_text().splitlines()]
        return [row for row in rows if row["event"] == event and str(row["job"]) == job]

    def empty(self) -> None:
        """Cancel what is left, and wait until all nodes are idle."""
        self.cluster.call("scancel", "--partition", "main")
        until(lambda: self.cluster.idle_nodes() == self.cluster.nodes, "all nodes idle")

    def controller(self) -> int:
        """Return the controller's process."""
        return next(iter(self.cluster.processes))


def new_trial(nodes: int, ask: bool, munge: Path | None = None) -> Iterator[Trial]:
    place = Path(tempfile.mkdtemp(prefix="mlsim-trial-"))
    cluster = start_cluster(place / "cluster", nodes, ask=ask, munge=munge)
    (place / "jobs").mkdir()
    try:
        yield Trial(cluster, place / "jobs")
        assert len(cluster.running) == nodes + 1, "daemons have ended by themselves"
    finally:
        cluster.down()
        left = [pid for pid in cluster.processes if os.path.exists(f"/proc/{pid}/exe")]
        assert not cluster.running, left
        shutil.rmtree(place)


@pytest.fixture(scope="module")
def module_trial(plugin: Path) -> Iterator[Trial]:
    yield from new_trial(4, ask=True)


@pytest.fixture
def trial(module_trial: Trial) -> Iterator[Trial]:
    """Give the cluster, with all nodes idle before and after."""
    yield module_trial
    module_trial.empty()
