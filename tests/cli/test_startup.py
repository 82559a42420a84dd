"""What a command imports: nothing that it does not use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCENARIO = """
name: small
platform: {nodes: [{name: node, count: 4, cores: 1}]}
workload: {path: small.swf}
batch: {policy: FCFS, backfill: easy}
output: {pictures: off}
"""
LOG = "".join(f"{i} {i} -1 10 {1 + i % 3} -1 -1 {1 + i % 3} 20 -1 1 1 1 -1 1 1 -1 -1\n" for i in range(1, 20))
HEAVY = ("matplotlib", "networkx", "numba", "ortools", "otf2", "pint", "scipy", "sklearn")
PROGRAM = """
import atexit, json, sys
from mlsim.cli.main import main
sys.argv = ["mlsim", *sys.argv[1:]]
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
main()
"""


def imported(directory: Path, *words: str) -> set[str]:
    """Run a command; return the names of the modules that it has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], cwd=directory, capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("startup")
    (place / "small.yaml").write_text(SCENARIO)
    (place / "small.swf").write_text(LOG)
    imported(place, "run", "small.yaml", "--quiet")  # so that its kernels are on disk
    return place


def test_a_run_without_pictures(directory: Path) -> None:
    loaded = imported(directory, "run", "small.yaml", "--quiet")
    assert loaded.isdisjoint(HEAVY)
    assert {"mlsim.cli.run", "numpy"} <= loaded
    assert loaded.isdisjoint({"mlsim.cli.study", "mlsim.cli.mpi"})


def test_pictures_of_a_loop_need_no_compiler(directory: Path) -> None:
    """Whatever kernels are called with, what is on disk is called without Numba."""
    words = ("loop", "--pes", "2x4", "--profile", "constant", "--mean", "1ms", "--iterations", "999", "--out")
    imported(directory, *words, "first")
    assert "numba" not in imported(directory, *words, "second")


def test_tables_alone_need_polars() -> None:
    """It takes a sixth of a short run: it is imported for the first table, and not before."""
    program = (
        "import sys; import mlsim.cosim.simulation, mlsim.analysis.run_summary\n"
        "import mlsim.experiment.run_directory\n"
        "print('polars' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_version(directory: Path) -> None:
    loaded = imported(directory, "--version")
    assert loaded.isdisjoint({*HEAVY, "numpy", "polars", "pydantic", "mlsim.scenario", "mlsim.cli.run"})


@pytest.mark.parametrize("words", [("list", "policies"), ("check", "small.yaml"), ("schema",)])
def test_looking_things_up(directory: Path, words: tuple[str, ...]) -> None:
    assert imported(directory, *words).isdisjoint(HEAVY)
