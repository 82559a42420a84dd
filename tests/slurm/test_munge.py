"""The plugin where the site has munge: the credential's user must be the job's owner."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlsim.errors import InputError
from mlsim.mpi.rca.wire import NodeIdle, pack, signed_by_munge
from tests.slurm.conftest import REPOSITORY, Trial, new_trial, until

pytestmark = pytest.mark.slurm

_NOBODY = 65534


@pytest.fixture
def munge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Run a munge daemon of one's own, which other users reach too."""
    program = shutil.which("munged", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("munged is not installed (Debian: munge)")
    place = Path(tempfile.mkdtemp(prefix="mlsim-munge-"))
    place.chmod(0o755)
    (place / "key").write_bytes(secrets.token_bytes(64))
    (place / "key").chmod(0o600)
    files = {"socket": "socket", "key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    options = [f"--{option}={place / name}" for option, name in files.items()]
    daemon = subprocess.Popen([program, "--foreground", "--force", *options], stderr=subprocess.PIPE)
    try:
        until(lambda: (place / "socket").exists() or daemon.poll() is not None, "munged is up", 10.0)
        if daemon.poll() is not None:
            assert daemon.stderr is not None
            pytest.skip(f"munged does not start here: {daemon.stderr.read().decode().strip()}")
        monkeypatch.setenv("MLSIM_RCA_MUNGE_SOCKET", str(place / "socket"))
        yield place / "socket"
    finally:
        daemon.terminate()
        daemon.wait(20)
        if daemon.stderr is not None:
            daemon.stderr.close()
        shutil.rmtree(place)


def idle(job: str, node: str) -> NodeIdle:
    return NodeIdle(job, node, 0, 1, "loop", time.time())


def by_another_user(job: str, node: str) -> bytes:
    """Let another user sign."""
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); import os; "
        "from mlsim.mpi.rca.wire import NodeIdle, pack, signed_by_munge; "
        f"os.setuid({_NOBODY}); "
        "line = pack(NodeIdle(sys.argv[2], sys.argv[3], 0, 1, 'loop', time.time()), signed_by_munge); "
        "sys.stdout.buffer.write(line)"
    )
    command = [sys.executable, "-c", program, str(REPOSITORY), job, node]
    return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout


@pytest.mark.slow
def test_users_release_nodes_of_their_own_jobs_alone(plugin: Path, munge: Path) -> None:
    for trial in new_trial(3, ask=False, munge=munge):
        _check(trial)


def _check(trial: Trial) -> None:
    owner = trial.submit("sleep 300", "-N3", secret=None)
    trial.wait(owner, "RUNNING")
    line = pack(idle(owner, "node2"), signed_by_munge)
    assert "another message" in trial.answer(line.replace(b"node2", b"node3"))
    assert "second time" in trial.answer(line), "the credential is used up, whatever it was used for"
    assert "takes munge credentials alone" in trial.answer(trial.idle(owner, "node2"))
    line = pack(idle(owner, "node2"), signed_by_munge)
    assert trial.answer(line) == f"ok: node node2 is free for other jobs, job {owner} keeps 2"
    assert "second time" in trial.answer(line)
    assert "no such job" in trial.answer(pack(idle("4711", "node2"), signed_by_munge))
    assert trial.answer(b"rca2 munge MUNGE:junk: " + line.split(b" ", 3)[3]).startswith("refused")
    if os.getuid() == 0:
        assert "another user's" in trial.answer(by_another_user(owner, "node3"))
    assert trial.state(owner)["NumNodes"] == "2"
    trial.empty()


def test_without_a_daemon_there_is_no_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLSIM_RCA_MUNGE_SOCKET", str(tmp_path / "nothing"))
    with pytest.raises(InputError, match="munge"):
        signed_by_munge(b"{}")
