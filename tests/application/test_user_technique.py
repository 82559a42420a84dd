"""Techniques of the user: Python functions in a file, in every model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.application import LoopOutcome, simulate
from mlsim.application.techniques import sequence
from mlsim.errors import InputError
from mlsim.scenario.application_section import ExecutionConfig
from tests.application.test_reference import REFERENCES, coarse_cases
from tests.reference.loops import Case
from tests.reference.techniques import Parameters

MODELS = ["cca", "dca"]
SOURCE = """
import numba

def halves(n, p, remaining, step, pe):
    return max(remaining // (2 * p), 1)

def by_step(n, p, remaining, step, pe):
    return 1 + (step + pe) % 5

def fails_late(n, p, remaining, step, pe):
    return 3 - step

def negative(n, p, remaining, step, pe):
    return -7 if remaining < n else 2

def gives_float(n, p, remaining, step, pe):
    return remaining / p

def gives_nothing(n, p, remaining, step, pe):
    pass

def sometimes_nothing(n, p, remaining, step, pe):
    if step > 3:
        return 1

def divides(n, p, remaining, step, pe):
    return n // step

def raises(n, p, remaining, step, pe):
    if step == 0:
        raise ValueError("no")
    return 1

SHARE = 3

@numba.njit
def part(remaining):
    return remaining // SHARE

def by_others(n, p, remaining, step, pe):
    return max(part(remaining), 1)

def python_only(n, p, remaining, step, pe):
    return sorted({n: p}, key=open)[0]

def other_parameters(n, p):
    return 1

number = 5
"""


def halves(n: int, p: int, remaining: int, _step: int, _pe: int) -> int:
    del n
    return max(remaining // (2 * p), 1)


def by_step(n: int, p: int, remaining: int, step: int, pe: int) -> int:
    del n, p, remaining
    return 1 + (step + pe) % 5


PYTHON = {"halves": Parameters(user=halves), "by_step": Parameters(user=by_step, user_reads_remaining=False)}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rules") / "mine.py"
    path.write_text(SOURCE)
    return path


def run(technique: str, model: str, n: int = 100, p: int = 4) -> LoopOutcome:
    latency = np.zeros(p)
    return simulate(
        np.arange(n + 1.0), np.ones(p), latency, technique, ExecutionConfig(model=model), record=True
    )


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("function", PYTHON)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_same_as_reference(file: Path, model: str, function: str, data: st.DataObject) -> None:
    case: Case = data.draw(coarse_cases("USER"))
    case = Case(**{**vars(case), "parameters": PYTHON[function]})
    expected = REFERENCES[model](case).chunks()
    execution = ExecutionConfig(
        model=model,
        chunk_calculation=case.calculation,
        chunk_assignment=case.assignment,
        atomic_service=case.atomic,
        injected_delay=case.delay,
        break_after=case.break_after,
        break_time=case.break_time,
        break_every=case.break_every,
        piece_time=case.piece_time,
        service_order=case.service_order,
    )
    prefix, speed, latency = (np.array(column) for column in (case.prefix, case.speed, case.latency))
    rows = simulate(prefix, speed, latency, f"{file}:{function}", execution, case.min_chunk, record=True).rows
    assert rows is not None
    found = list(zip(rows.pe, rows.step, rows.first, rows.size, rows.start, strict=True))
    assert found == [(*row[:4], float(row[5])) for row in expected]


def test_sequence_of_a_technique_of_the_user(file: Path) -> None:
    assert sequence(f"{file}:halves", 20, 2) == [5, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1]
    assert sequence(f"{file}:by_step", 10, 2, "straightforward") == [1, 3, 3, 3]
    assert sequence(f"{file}:by_others", 20, 2) == [6, 4, 3, 2, 1, 1, 1, 1, 1]
    with pytest.raises(InputError, match="reads the remaining iterations and has no straightforward form"):
        sequence(f"{file}:halves", 20, 2, "straightforward")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            "fails_late",
            r"a loop of 100 iterations on 4 PEs it returned a chunk of 0 iterations at step 3 for PE 3",
        ),
        (
            "negative",
            "returned a chunk of -7 iterations at step 1 for PE 1; allowed: a whole number, 1 or more",
        ),
        ("gives_float", "gives_float: returns values of type float64; allowed: a whole number"),
        ("gives_nothing", "returns nothing; allowed: a whole number on every path"),
        ("sometimes_nothing", "returns nothing on some path"),
        ("python_only", "cannot be compiled: "),
        ("other_parameters", r"takes \(n, p\); allowed: other_parameters\(n, p, remaining, step, pe\)"),
        ("missing", "there is no function 'missing'; the file has: by_others, by_step, divides"),
        ("number", "there is no function 'number'"),
    ],
)
def test_what_is_wrong_is_named(file: Path, model: str, function: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        run(f"{file}:{function}", model)
    assert f"mine.py:{function}" in str(error.value)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("function", ["divides", "raises"])
def test_exception_in_the_function(file: Path, model: str, function: str) -> None:
    with pytest.raises(InputError, match="it raised an exception at step 0 for PE 0"):
        run(f"{file}:{function}", model)


def test_file_that_is_not_there_or_broken(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.py: there is no such file"):
        run(f"{tmp_path}/none.py:rule", "dca")
    broken = tmp_path / "broken.py"
    broken.write_text("def rule(:")
    with pytest.raises(InputError, match="cannot be executed: SyntaxError"):
        run(f"{broken}:rule", "dca")


def test_edited_file_is_compiled_again(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    sizes = []
    for number, size in enumerate((10, 30)):
        file.write_text(f"def rule(n, p, remaining, step, pe):\n    return {size}\n")
        import os

        os.utime(file, ns=(number, number))
        sizes.append(run(f"{file}:rule", "cca").steps)
    assert sizes == [10, 4]


def test_scenario_looks_the_file_up_beside_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlsim.scenario import loads
    from mlsim.scenario.scenario_paths import located_technique

    (tmp_path / "mine.py").write_text(SOURCE)
    text: Any = """
    platform: {nodes: [{name: n, count: 2, cores: 2}]}
    workload: {path: log.swf}
    application: {model: loop, technique: gss+./mine.py:halves, execution: {model: hdca}}
    """
    scenario = loads(text, directory=tmp_path)
    assert scenario.application.technique == "GSS+./mine.py:halves"
    monkeypatch.chdir("/")
    assert located_technique(scenario) == f"GSS+{tmp_path / 'mine.py'}:halves"
    lost = loads(text.replace("./mine.py", "./mien.py"), directory=tmp_path)
    with pytest.raises(InputError, match="technique: there is no file"):
        located_technique(lost)
