"""Execution models of the user's own: the same as the built-in ones, in Python too, and what can be wrong."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from mlsim._jit import INTERPRETED
from mlsim.application import simulate
from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.execution_models.loop_state import Unavailability
from mlsim.experiment import loop_from_mapping, run_loop
from mlsim.scenario import from_mapping
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.section_base import CodeName
from mlsim.scenario.technique_section import ParametersConfig
from mlsim.scenario.words import Technique

CUSTOM = Path(__file__).parents[2] / "scenarios" / "custom"
OWN = f"{CUSTOM}/model.py:window"
PARAMETERS = ParametersConfig(sigma=0.004, mu=0.01, overhead=1e-4)
COSTS = np.concatenate([[0.0], np.cumsum(np.random.default_rng(3).exponential(0.01, 700))])
SPEED = np.array([1.0, 0.5, 2.0, 1.0, 1.0, 1.5, 0.7])
LATENCY = np.array([0.0, 1e-4, 2e-4, 1e-4, 3e-4, 1e-4, 1e-4])
COSTLY: dict[str, Any] = {
    "chunk_calculation": 1e-4,
    "chunk_assignment": 2e-5,
    "atomic_service": 5e-5,
    "injected_delay": 1e-5,
}
BLOCKS = """\
import numpy as np
from mlsim.application.kit import execution_model

@execution_model(levels=1)
class Blocks:
    '''Every PE has an equal part of the loop, and nobody asks.'''
    def __init__(self, wait=0.0):
        self.wait = wait

    def run(self, inputs):
        n, p = len(inputs.prefix) - 1, len(inputs.speed)
        bounds = np.arange(p + 1) * n // p
        size = np.diff(bounds)
        seconds = np.diff(inputs.prefix[bounds]) / inputs.speed
        times, counts = inputs.stats
        times[:] = 0.0
        times[0] = times[1] = self.wait + seconds
        times[2], times[3], times[5] = seconds, self.wait, self.wait
        counts[0], counts[1], counts[2] = 1, bounds[:-1], size
        rows = inputs.rows
        if len(rows.pe):
            rows.pe[:p] = np.arange(p)
            rows.numbers[0, :p], rows.numbers[1, :p], rows.numbers[2, :p] = np.arange(p), bounds[:-1], size
            rows.times[0, :p], rows.times[1, :p], rows.times[2, :p] = 0.0, self.wait, self.wait + seconds
        return p
"""
LOOP: dict[str, Any] = {
    "platform": {"nodes": [{"name": "n", "count": 2, "cores": 2}]},
    "application": {
        "costs": {"profile": "constant", "mean": "1 ms"},
        "iterations": {"count": 40},
        "technique": "GSS",
    },
}


def run(model: str, technique: str = "GSS", **more: Any) -> Any:
    lock = {"lock": more.pop("lock")} if "lock" in more else {}
    execution = ExecutionConfig(model=model, **COSTLY, **lock)
    return simulate(
        COSTS, SPEED, LATENCY, technique, execution, record=True, parameters=PARAMETERS, seed=5, **more
    )


def assert_same(one: Any, other: Any) -> None:
    for name in ("finish", "notified_at", "busy", "overhead", "idle", "last_start", "chunks", "last_first"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name
    for name in ("pe", "step", "first", "size", "requested", "start", "end"):
        assert getattr(one.rows, name).tobytes() == getattr(other.rows, name).tobytes(), name


_OWNED = {Technique.CYCLIC}  # the PE of a chunk is fixed, which a model of the user's own does not ask for


@pytest.mark.parametrize("technique", sorted(_OWNED))
def test_techniques_that_fix_the_pe_of_a_chunk_are_refused(technique: str) -> None:
    with pytest.raises(InputError, match="lets any PE take it"):
        run(OWN, technique)


@pytest.mark.parametrize("technique", [*sorted({*Technique} - _OWNED), "own"])
def test_dca_as_a_plugin_gives_the_same_bytes(technique: str, tmp_path: Path) -> None:
    if technique == "own":
        (tmp_path / "rule.py").write_text(
            "def thirds(n, p, remaining, step, pe):\n    return 1 + remaining // 9\n"
        )
        technique = f"{tmp_path}/rule.py:thirds"
    assert_same(run("dca", technique), run(OWN, technique))


def test_it_follows_locks_ends_time_steps_and_nodes_that_leave() -> None:
    away = Unavailability(np.array([0, 0, 1, 1, 1, 1, 1, 1]), np.array([0.05]), np.array([math.inf]))
    for more in ({"lock": "polling"}, {"until": 0.3}, {"time_steps": 3}, {"pe_unavailability": away}):
        for technique in ("SS", "AF", "AWF"):
            assert_same(run("dca", technique, **more), run(OWN, technique, **more))


def written(here: Path, model: object, name: str) -> Path:
    """Write a scenario in which jobs give nodes up, and simulate it."""
    scenario = {
        "platform": {"nodes": [{"name": "n", "count": 6, "cores": 4}]},
        "workload": {"path": str(CUSTOM.parents[1] / "traces/quickstart.swf"), "mapping": "packed"},
        "batch": {"backfill": "easy", "on_overrun": "extend"},
        "application": {
            "model": "loop",
            "iterations": {"per_pe": 6},
            "costs": {"profile": "job", "variation": 0.4},
            "technique": "GSS",
            "execution": {"model": model, "atomic_service": "1 ms"},
        },
        "coordination": {"rca": True, "requests": "head-of-queue", "reclaim": True, "answer": "always"},
        "output": {"pictures": False},
    }
    (here / f"{name}.yaml").write_text(json.dumps(scenario))
    done = CliRunner().invoke(app, ["run", str(here / f"{name}.yaml"), "--out", str(here / name)])
    assert done.exit_code == 0, (done.output, done.exception)
    return here / name


@pytest.mark.slow
def test_a_run_under_it_gives_the_same_files(tmp_path: Path) -> None:
    shutil.copy(CUSTOM / "model.py", tmp_path / "mine.py")
    ours, own = (written(tmp_path, model, name) for model, name in (("dca", "a"), ("./mine.py:window", "b")))
    for table in ("jobs", "messages", "occupancy"):
        assert (ours / f"{table}.parquet").read_bytes() == (own / f"{table}.parquet").read_bytes()
    assert {"release-request", "release-accepted"} <= set(pl.read_parquet(own / "messages.parquet")["kind"])
    assert "./mine.py:window" in (own / "scenario.yaml").read_text()


@pytest.mark.slow
def test_a_study_and_loops_alone_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(CUSTOM / "model.py", tmp_path / "mine.py")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base.yaml").write_text(json.dumps(LOOP))
    (tmp_path / "study.yaml").write_text(
        "of: loops\nbase: base.yaml\nvary:\n  application.technique: [SS, GSS]\n"
        "  application.execution.model: [dca, './mine.py:window']\n"
    )
    done = CliRunner().invoke(app, ["study", "study.yaml", "--out", "out"])
    assert done.exit_code == 0, (done.output, done.exception)
    table = pl.read_csv(tmp_path / "out" / "loops.csv")
    models = table.partition_by("model", maintain_order=True)
    assert models[0]["t_loop"].to_list() == models[1]["t_loop"].to_list()
    words = ["loop", "base.yaml", "--json", "--technique", "SS,AF", "--model", "dca,./mine.py:window"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (done.output, done.exception)
    loops = json.loads(done.stdout)["loops"]
    assert [loop.pop("model") for loop in loops] == ["dca", "./mine.py:window"] * 2
    assert loops[0] == loops[1]
    assert loops[2] == loops[3]


def test_a_class_in_python_alone_with_parameters(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(BLOCKS)
    own = run(CodeName(f"{tmp_path}/mine.py:Blocks", {"wait": 0.5}))
    assert own.chunks.tolist() == [1] * 7
    assert own.notified_at.tolist() == (0.5 + own.busy).tolist()
    assert own.rows.size.sum() == 700
    assert run(f"{tmp_path}/mine.py:Blocks").overhead.max() == 0.0


@pytest.mark.slow
def test_kernels_take_parameters(tmp_path: Path) -> None:
    from mlsim.application import kit

    source = (kit.__doc__ or "").split("takes no time:\n")[1].split("\n\nFunctions")[0]
    lines = [line[4:] for line in source.splitlines() if line[:4] in (">>> ", "... ")]
    (tmp_path / "mine.py").write_text("from mlsim.application.kit import *\n" + "\n".join(lines) + "\n")
    name = f"{tmp_path}/mine.py:in_blocks"
    assert set(run(name).rows.size.tolist()) == {10}
    assert run(CodeName(name, {"size": 300})).rows.size.tolist() == [300, 300, 100]
    with pytest.raises(
        InputError, match=r"execution.model.parameters.siz: is not known; did you mean 'size'"
    ):
        run(CodeName(name, {"siz": 300}))
    with pytest.raises(
        InputError, match=r"model.parameters.size: \{\} cannot be compiled; allowed: a number"
    ):
        run(CodeName(name, {"size": {}}))


def test_kernels_run_as_python(tmp_path: Path) -> None:
    code = (
        "import sys; from tests.application.test_user_model import *\n"
        "assert INTERPRETED\n"
        "for technique in ('SS', 'AF', 'WF'): assert_same(run('dca', technique), run(OWN, technique))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=CUSTOM.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_installed_models_are_found_and_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    from mlsim.scenario import section_base

    point = EntryPoint("ours", "tests.application.installed_model:blocks", "mlsim.models")
    monkeypatch.setattr(
        section_base, "installed_names", lambda group: ("ours",) if group == point.group else ()
    )
    monkeypatch.setattr("mlsim.plugins.entry_points", lambda group: [point] if group == point.group else [])
    assert run("ours").rows.size.tolist() == [100] * 7


HEAD = "from mlsim.application.kit import *\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def mine(inputs): return 0\n", "is not declared an execution model; write @execution_model"),
        ("@execution_model(levels=1)\ndef mine(): return 0\n", r"takes \(\); allowed: one argument, inputs"),
        (
            "@execution_model(levels=1)\ndef mine(inputs, a, b=1): return 0\n",
            "model.parameters.a: is missing; it takes: a, b = 1",
        ),
        (
            "@execution_model(levels=3)\ndef mine(inputs): return 0\n",
            r"cannot be executed: ValueError: .* levels is 3; allowed: 1, 2 \(mine.py, line 2\)",
        ),
        ("@execution_model()\ndef mine(inputs): return 0\n", r"missing .* 'levels' \(mine.py, line 2\)"),
        (
            "@execution_model(levels=1, reads='locks')\ndef mine(inputs): return 0\n",
            "reads names 'locks'; allowed",
        ),
        ("x = 1\n", r"there is no class or function 'mine'; the file has: none"),
        (
            "@execution_model(levels=1)\nclass mine:\n    def go(self, inputs): return 0\n",
            "has no method run; see docs/reference/loops.md",
        ),
        (
            "@execution_model(levels=1)\nclass mine:\n    def run(self, inputs):\n        return 1 // 0\n",
            r"in a loop of 700 iterations on 7 PEs: ZeroDivisionError: .*\(mine.py, line 5\)$",
        ),
        (
            "@execution_model(levels=1)\nclass mine:\n    def run(self, inputs):\n"
            "        owned = open_state(inputs)\n        return notify(owned, owned.pes[0], 1.0)\n",
            r"TypeError: notify is called from Python; only kernels can call it.*\(mine.py, line 6\)",
        ),
        (
            "@execution_model(levels=1)\ndef mine(inputs): return inputs.walltime\n",
            "cannot be compiled: .*walltime",
        ),
        ("@execution_model(levels=1)\ndef mine(inputs): return 'a'\n", "returns 'a'; allowed: the number"),
        ("@execution_model(levels=1)\ndef mine(inputs): return 3\n", "executes 0 iterations from 0 on"),
        ("@execution_model(levels=1)\ndef mine(inputs): return 0\n", "it executes 0 of them"),
        (
            "@execution_model(levels=1)\ndef mine(inputs):\n    inputs.stats.times[0, 0] = -1.0\n"
            "    return 0\n",
            "gives a PE a time that is negative",
        ),
        (
            "@execution_model(levels=1)\ndef mine(inputs):\n    inputs.rows.numbers[2, :2] = 400\n"
            "    inputs.rows.numbers[1, 1] = 300\n    return 2\n",
            "it executes iteration 300 twice",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, told: str) -> None:
    if INTERPRETED and ("compiled" in told or "only kernels" in told):
        pytest.skip("nothing is compiled")
    (tmp_path / "mine.py").write_text(HEAD + text)
    with pytest.raises(InputError, match=rf"^execution model {tmp_path}/mine.py:mine: (.|\n)*{told}"):
        run(f"{tmp_path}/mine.py:mine")


def test_an_exception_in_a_kernel_names_file_and_line(tmp_path: Path) -> None:
    text = "@execution_model(levels=1)\ndef mine(inputs):\n    raise ValueError('no')\n    return 0\n"
    (tmp_path / "mine.py").write_text(HEAD + text)
    with pytest.raises(InputError, match=r"7 PEs: ValueError: no \(mine.py, line 4\)"):
        run(f"{tmp_path}/mine.py:mine")


def test_what_it_is_not_declared_for_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(BLOCKS)
    name = f"{tmp_path}/mine.py:Blocks"
    with pytest.raises(
        InputError, match=r"AF learns within a loop, and model .*:Blocks is not declared adaptive"
    ):
        run(name, "AF")
    with pytest.raises(InputError, match=r"GSS\+SS names two, and model .*:Blocks has one level"):
        run(name, "GSS+SS")
    with pytest.raises(InputError, match="its nodes cannot leave a loop; allowed: cca, dca"):
        run(name, pe_unavailability=Unavailability(np.zeros(8, np.int64), np.empty(0), np.empty(0)))
    scenario = from_mapping(
        {
            "platform": LOOP["platform"],
            "workload": {"path": str(CUSTOM.parents[1] / "traces/quickstart.swf"), "mapping": "packed"},
            "application": LOOP["application"] | {"model": "loop", "execution": {"model": name}},
            "coordination": {"rca": True, "requests": "head-of-queue"},
        }
    )
    import mlsim

    with pytest.raises(InputError, match=r"coordination.requests: nodes cannot leave .*releases=True"):
        mlsim.run(scenario)


def test_real_runs_refuse_it(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(BLOCKS)
    (tmp_path / "s.yaml").write_text(json.dumps(LOOP))
    words = ["mpi", "run", str(tmp_path / "s.yaml"), "--set", "application.execution.model=./mine.py:Blocks"]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, InputError)
    assert "./mine.py:Blocks cannot be run on MPI; allowed: cca, dca" in str(done.exception)


def test_unknown_words_are_errors() -> None:
    with pytest.raises(
        InputError, match=r"'dcaa' is not known; did you mean 'dca'\?.*entry point of mlsim.models"
    ):
        loop_from_mapping(LOOP, {"application.execution.model": "dcaa"})
    loop = loop_from_mapping(LOOP, {"application.execution.model": "distributed"})
    assert run_loop(loop).facts["model"] == "dca"
