"""The end of a trial cluster ends what was started for it, and nothing of the user's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlsim.slurm import trial_cluster as trial_clusters
from mlsim.slurm.trial_cluster import Cluster

PAUSE = [sys.executable, "-c", "import signal; signal.pause()"]


@pytest.fixture
def own() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="mlsim-down-"))  # short: names of sockets are
    yield place
    shutil.rmtree(place)


def paused(**environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(PAUSE, env={**os.environ, **environment})


@pytest.mark.slow
def test_processes_with_the_variable_and_reused_numbers_stay(own: Path) -> None:
    """A process of the user's that talks to the cluster, and one that has got a daemon's number since."""
    users, daemon, reused = paused(SLURM_CONF=str(own / "slurm.conf")), paused(), paused()
    begun = trial_clusters._begun
    try:
        Cluster(own, 1, "", {daemon.pid: begun(daemon.pid), reused.pid: "1"}).down()
        assert [process.poll() is None for process in (users, daemon, reused)] == [True, False, True]
    finally:
        for process in (users, daemon, reused):
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.slurm
def test_a_job_ends_also_without_its_controller_and_the_users_process_stays(own: Path) -> None:
    if shutil.which("slurmd") is None and not Path("/usr/sbin/slurmd").exists():
        pytest.skip("no Slurm; tools/install-slurm installs it")
    cluster = trial_clusters.start(own / "c", 1, plugin=False)
    users = paused(SLURM_CONF=str(cluster.conf))
    try:
        script = f"#!/bin/sh\ntrap '' TERM\necho $$ > {own}/pid.part\nmv {own}/pid.part {own}/pid\n"
        (own / "job.sh").write_text(f"{script}{PAUSE[0]} -c '{PAUSE[2]}'\n")
        cluster.call("sbatch", "-o", "/dev/null", str(own / "job.sh"))
        while not (own / "pid").exists() and cluster.running:
            time.sleep(0.05)
        job = int((own / "pid").read_text())
        os.kill(next(iter(cluster.processes)), 9)
        assert trial_clusters._begun(job)
    finally:
        cluster.down()
        stays = users.poll() is None
        users.kill()
        users.wait()
    assert stays
    assert not trial_clusters._begun(job)
    assert not cluster.running
