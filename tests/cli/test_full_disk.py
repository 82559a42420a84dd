"""A disk that is full: messages name what was to be written, under its name, and nothing is left of it."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlsim.workload.generated_jobs import generate
from tests.cli.conftest import COMMAND, JOBS, REPOSITORY, SMALL, uncounted

_BYTES = 40_000
LOOP = """\
platform: {nodes: [{name: n, count: 1, cores: 8}]}
application: {iterations: {count: 40000}, costs: {profile: constant, mean: 1 ms}, technique: SS}
output: {trace: chunks, pictures: off}
"""
COMMANDS = {
    "generate swf": "workload generate lublin --jobs 20000 -o {}/out.swf",
    "generate csv": "workload generate lublin --jobs 20000 -o {}/out.csv",
    "generate parquet": "workload generate lublin --jobs 20000 -o {}/out.parquet",
    "generate packed": "workload generate lublin --jobs 20000 -o {}/out.csv.xz",
    "convert swf": "workload convert source.swf {}/out.swf",
    "convert csv": "workload convert source.swf {}/out.csv.gz",
    "convert json": "workload convert source.swf {}/out.json",
    "combine": "workload combine source.swf --every 1h --count 3 -o {}/out.csv",
    "resample": "workload resample source.swf --by week --weeks 40 -o {}/out.swf",
    "scale": "workload scale source.swf --load 0.9 -o {}/out.swf",
    "run": "run source.yaml --quiet --out {}/out",
    "loop": "loop source-loop.yaml --out {}/out",
    "trace convert json": "trace convert traced -o {}/out.json",
    "trace convert packed": "trace convert traced -o {}/out.json.gz",
    "trace convert parquet": "trace convert traced -o {}/out.parquet",
    "trace cut": "trace cut traced --to 10s -o {}/out",
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from mlsim.experiment import load_loop, run_loops

    place = tmp_path_factory.mktemp("sources")
    generate("lublin", jobs=20_000, seed=1).write(place / "source.swf")
    (place / "source.yaml").write_text(SMALL)
    more = "".join(f"{number},{number},10,20,4\n" for number in range(5, 2000))
    (place / "small.csv").write_text(JOBS + more)
    (place / "source-loop.yaml").write_text(LOOP)
    run_loops([load_loop(place / "source-loop.yaml")], out=place / "traced")
    return place


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of a few pages."""
    disk = tmp_path / "disk"
    disk.mkdir()
    size = f"size={_BYTES // 4096 * 4096}"
    mount = ["mount", "-t", "tmpfs", "-o", size, "mlsim-test", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root may mount a small file system")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (_BYTES, _BYTES))


def check(sources: Path, target: Path, command: str, *, limited: bool) -> None:
    ended = subprocess.run(
        [*COMMAND, *command.format(target).split()],
        cwd=sources,
        env={**uncounted(), "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=_small_files if limited else None,
    )
    assert ended.returncode == 1, ended.stderr
    last = ended.stderr.strip().splitlines()[-1]
    reason = os.strerror(27 if limited else 28).lower()
    assert reason in last.lower()
    assert f"{target}/out" in last
    assert "source" not in last
    assert "partial" not in last
    assert "Traceback" not in ended.stderr
    assert "internal error" not in ended.stderr
    assert not list(target.iterdir())


@pytest.mark.parametrize("name", COMMANDS)
def test_files_may_only_be_small(sources: Path, tmp_path: Path, name: str) -> None:
    check(sources, tmp_path, COMMANDS[name], limited=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["generate csv", "convert swf", "run", "trace convert parquet", "trace cut"])
def test_a_full_disk(sources: Path, tiny: Path, name: str) -> None:
    check(sources, tiny, COMMANDS[name], limited=False)
