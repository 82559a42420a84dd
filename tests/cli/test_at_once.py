"""Runs at once, killed runs, full disks, copies without an installation, other machines' settings."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlsim.experiment.manifest import verify
from tests.cli.conftest import COMMAND, REPOSITORY
from tests.effort import THOROUGH
from tools import signals

FAST = ["--set", "output.trace=none", "--set", "output.pictures=off"]


def start(directory: Path, *words: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *words],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def contents(directory: Path) -> dict[str, object]:
    """Give every file of a run, without what is about the run itself (``self``)."""
    found: dict[str, object] = {}
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        name = str(path.relative_to(directory))
        found[name] = path.read_bytes()
        if name == "summary.json":
            summary = json.loads(path.read_text())
            assert summary.pop("self")["wall_time"] > 0
            found[name] = summary
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "cold"),
    [
        (4, False),
        pytest.param(20, True, marks=pytest.mark.skipif(not THOROUGH, reason="minutes; MLSIM_THOROUGH")),
    ],
)
def test_runs_at_once_get_a_directory_each(small, tmp_path_factory, n, cold):
    env = {"NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("kernels"))} if cold else {}
    runs = [start(small, "run", "small.yaml", *FAST, **env) for _ in range(n)]
    for run in runs:
        printed, told = run.communicate(timeout=1800)
        assert run.returncode == 0, told
        assert "Results: runs/small-" in printed
    directories = sorted((small / "runs").iterdir())
    assert [path.name for path in directories] == [f"small-{number:03d}" for number in range(1, n + 1)]
    first = contents(directories[0])
    assert "jobs.parquet" in first
    for other in directories[1:]:
        assert contents(other) == first
        assert not verify(other).damaged


@pytest.mark.slow
def test_the_same_bytes_whatever_the_machine_is_set_to(small):
    settings = [
        {"PYTHONHASHSEED": "0", "TZ": "UTC"},
        {
            "PYTHONHASHSEED": "4711",
            "NUMBA_NUM_THREADS": "1",
            "POLARS_MAX_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        },
        {
            "PYTHONHASHSEED": "1",
            "TZ": "Pacific/Apia",
            "LC_ALL": "C",
            "PYTHONUTF8": "0",
            "PYTHONIOENCODING": "ascii",
        },
        {"POLARS_MAX_THREADS": "7", "TZ": "America/St_Johns", "LC_ALL": "de_DE.UTF-8", "COLUMNS": "1"},
    ]
    options = ["--quiet", "--set", "output.passes=off", "--set", "output.csv=on", "--out", "here"]
    runs = []
    for number, env in enumerate(settings):
        directory = small / str(number)
        directory.mkdir()
        for name in ("small.yaml", "small.csv"):
            shutil.copy(small / name, directory)
        runs.append(start(directory, "run", "small.yaml", *options, **env))
    for run in runs:
        _, told = run.communicate(timeout=600)
        assert run.returncode == 0, told
    first = contents(small / "0" / "here")
    assert {"gantt.png", "trace/traces.otf2", "jobs.csv", "manifest.json"} <= first.keys()
    for number in range(1, len(settings)):
        other = contents(small / str(number) / "here")
        assert other.keys() == first.keys()
        assert [name for name in first if first[name] != other[name]] == []


@pytest.mark.slow
def test_signals_at_random_instants(tmp_path):
    signals.prepare(tmp_path, jobs=20)
    tally = signals.try_signals(tmp_path, 6, 1, FAST)
    assert tally.wrong == []
    assert sum(counter.total() for counter in (tally.inside, tally.before, tally.after)) == 6


def test_a_killed_run_is_cleared_up_by_the_next(small):
    run = start(small, "run", "small.yaml", *FAST)
    assert signals.wait_for_place(small, run)
    run.kill()
    run.communicate()
    (left,) = signals.partials(small)
    done = start(small, "run", "small.yaml", *FAST)
    _, told = done.communicate(timeout=120)
    assert f"mlsim: note: runs/{left.name}: left over by process {run.pid}" in told
    assert told.rstrip().endswith("removed")
    assert [path.name for path in (small / "runs").iterdir()] == ["small-001"]


@pytest.fixture
def disk(tmp_path) -> Iterator[Path]:
    """A disk with 200 kB."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "mlsim-test", str(directory)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a disk of 200 kB cannot be mounted here; it takes root")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("free", "missing", "kept"),
    [(0, "", "elsewhere"), (30_000, "", "elsewhere"), (80_000, "trace", "there"), (200_000, "", "there")],
)
def test_a_disk_that_fills_up(small, disk, tmp_path, free, missing, kept):
    (tmp_path / "tmp").mkdir()
    (disk / "others").write_bytes(bytes(204_800 - free))
    options = ["--out", str(disk / "here"), "--set", "output.pictures=off"]
    if free == 200_000:
        options += FAST
    done = start(small, "run", "small.yaml", *options, TMPDIR=str(tmp_path / "tmp"))
    _, told = done.communicate(timeout=120)
    assert "Traceback" not in told
    here = sorted(path.name for path in disk.iterdir() if path.name != "others")
    if free == 0:
        # Nothing was simulated: not even the scenario could be written.
        assert (done.returncode, here, list((tmp_path / "tmp").iterdir())) == (1, [], [])
        assert "No space left on device" in told
        return
    assert done.returncode == (1 if missing or kept == "elsewhere" else 0), told
    assert here == (["here"] if kept == "there" else [])
    place = disk / "here" if kept == "there" else tmp_path / "tmp" / "here-001"
    found = verify(place)
    assert (found.damaged, found.missing, found.foreign) == ((), (), ())
    assert (place / "jobs.parquet").exists()
    assert not (place / missing).exists() or not missing
    if done.returncode:
        assert str(place) in told
        assert "no space left" in told.lower() or "space and quota left" in told


def test_a_copy_of_the_sources_runs_without_an_installation(small):
    """Where nothing knows a version of mlsim but its own source."""
    hide = (
        "import importlib.metadata as m, sys; sys.path.insert(0, sys.argv.pop(1)); real = m.version\n"
        "def version(name):\n"
        "    if name in ('mlsim', 'otf2'): raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version\n"
        "from mlsim.cli.main import main; main()"
    )

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", hide, str(REPOSITORY), *words],
            cwd=small,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    assert run("--version").stdout.startswith("mlsim 0.")
    done = run("run", "small.yaml", "--quiet", *FAST)
    assert done.returncode == 0, done.stderr
    versions = json.loads((small / "runs" / "small-001" / "versions.json").read_text())
    assert versions["otf2"] == "unknown"
    assert versions["mlsim"] == run("--version").stdout.split()[1]


POLICY = "class Mine:\n    def key(self, now, jobs):\n        {}\n"
TECHNIQUE = "{}\ndef mine(n, p, remaining, step, pe):\n    return 1\n"


@pytest.mark.parametrize(
    ("key", "name", "text"), [("batch.policy", "Mine", POLICY), ("application.technique", "mine", TECHNIQUE)]
)
@pytest.mark.parametrize("ending", ["import sys; sys.exit(0)", "raise KeyboardInterrupt"])
def test_a_plugin_that_wants_to_end_the_command(mlsim, small, key, name, text, ending):
    (small / "own.py").write_text(text.format(ending))
    done = mlsim("run", "small.yaml", *FAST, "--set", f"{key}=./own.py:{name}")
    assert done.code == 2
    assert "own.py" in done.err
    assert "SystemExit: 0" in done.err or "KeyboardInterrupt" in done.err
    assert "Traceback" not in done.err
    assert not (small / "runs").exists()


@pytest.mark.slow
def test_check_names_damaged_missing_and_foreign_files(mlsim, small):
    assert mlsim("run", "small.yaml", "--quiet", *FAST).code == 0
    run = small / "runs" / "small-001"
    ok = mlsim("check", "runs/small-001")
    assert (ok.code, ok.err) == (0, "")
    assert ok.out.startswith("runs/small-001: ok; ")
    with (run / "loops.parquet").open("r+b") as file:
        file.write(b"!")
    (run / "nodes.parquet").unlink()
    (run / "notes.txt").write_text("mine")
    for path in ("runs/small-001", "runs"):
        bad = mlsim("check", path)
        assert bad.code == 2
        for line in ("loops.parquet: damaged", "nodes.parquet: missing", "notes.txt: not of the run"):
            assert f"runs/small-001/{line}\n" in bad.out
        assert "2 files are damaged or missing" in bad.err
    read = mlsim("metrics", "runs/small-001")
    assert read.code == 2
    assert "loops.parquet: is damaged" in read.err
