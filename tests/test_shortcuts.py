"""Kernels compiled with shortcuts through Numba do what Numba's own compiler makes of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba import objmode

from mlsim._jit import INTERPRETED, inlined, kernel

pytestmark = pytest.mark.skipif(INTERPRETED, reason="kernels are not compiled: NUMBA_DISABLE_JIT is set")

REPOSITORY = Path(__file__).resolve().parent.parent


class _Pair(NamedTuple):
    left: Any
    right: Any


def array_expression(a: Any, b: Any) -> Any:
    return a * b + np.sqrt(a) - 2.0 * b


def comprehension(a: Any, b: Any) -> Any:
    return np.array([x * b[0] for x in a])


def closure(a: Any, b: Any) -> Any:
    shift = a[0]

    def moved(x: float) -> float:
        return x + shift

    total = 0.0
    for x in b:
        total += moved(x)
    return total


def slices(a: Any, b: Any) -> Any:
    half = a[: len(a) // 2]
    half[0] = b[-1]
    return half


def sum_over_an_axis(a: Any, b: Any) -> Any:
    """What Numba makes this of writes text, which it counts."""
    return np.outer(a, b).sum(axis=0)


def either(a: Any, b: Any) -> Any:
    kept = a
    for at in range(len(b)):
        if b[at] > a[at]:
            kept = b[at:]
    return kept


def copies(a: Any, b: Any) -> Any:
    first, second = np.zeros(len(a)), a.copy()
    for at in range(len(a)):
        first[at] = max(second[at], b[at])
    return _Pair(first, second).left


def whole_numbers(a: Any, b: Any) -> Any:
    found = 0
    for x in a:
        whole = int(x)
        found += (whole // 3) * (whole % 5) - (whole >> 1) + abs(-whole)
    return found - min(len(a), len(b))


BODIES = [array_expression, comprehension, closure, slices, sum_over_an_axis, either, copies, whole_numbers]


def values() -> tuple[Any, Any]:
    rng = np.random.default_rng(7)
    return rng.random(40) * 100, rng.random(40) * 100


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_kernels_return_what_numba_makes_of_them(body: Any) -> None:
    expected = numba.njit(error_model="numpy")(body)(*values())
    assert np.array_equal(kernel(cache=False)(body)(*values()), expected)


def elements(table: Any, line: Any, small: Any, flags: Any, at: Any) -> Any:
    total = 0.0
    for row in range(len(table)):
        for column in range(table.shape[1]):
            total += table[row, column] * (row + 1) - table[-1, column - table.shape[1]]
        total += table[row][at]
    line[-2], line[at], small[at] = total, line[0] + 1, 300 + line[at]
    table[at, -1] = small[-1]
    flags[at] = not flags[-1]
    return total + line[at] + small[at] + table[1:, 0].sum() + len(line[::2]) + flags[at]


@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("index", [int, np.uint8, np.int32, np.uint64])
def test_elements_are_those_that_numba_finds(order: str, index: Any) -> None:
    def arrays() -> tuple[Any, ...]:
        rng = np.random.default_rng(3)
        table = np.array(rng.random((6, 8)), order="F" if order == "F" else "C")
        line, small, flags = rng.integers(-9, 9, 12), np.arange(12, dtype=np.int8), rng.random(12) < 0.5
        parts = (table[::2, ::2], line[::2], small[::2], flags[::2])
        return parts if order == "strided" else (table, line, small, flags)

    mine, numbas = arrays(), arrays()
    expected = numba.njit(error_model="numpy")(elements)(*numbas, index(2))
    assert kernel(cache=False)(elements)(*mine, index(2)) == expected
    assert all(map(np.array_equal, mine, numbas))


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
def test_arrays_are_given_back_as_often_as_they_are_taken(body: Any) -> None:
    compiled = kernel(cache=False)(body)
    a, b = values()
    compiled(a, b)
    before = sys.getrefcount(a), sys.getrefcount(b)
    for _ in range(50):
        compiled(a, b)
    assert (sys.getrefcount(a), sys.getrefcount(b)) == before


def test_rows_are_set_by_kernels_that_own_no_array(monkeypatch: pytest.MonkeyPatch) -> None:
    def set_parts(a: Any, b: Any, n: int) -> None:
        a[0, :n] = b[1, :n]

    monkeypatch.setitem(sys.modules, "mlsim.trial", ModuleType("mlsim.trial"))
    set_parts.__module__ = "mlsim.trial"
    rows = np.zeros((2, 4))
    kernel(cache=False)(set_parts)(rows, np.ones((2, 4)), 3)
    assert rows.tolist() == [[1, 1, 1, 0], [0, 0, 0, 0]]


def test_python_runs_statements_of_a_kernel() -> None:
    seen = []

    @kernel(cache=False)
    def told(value: int) -> bool:
        with objmode(answer="boolean"):
            seen.append(value)
            answer = value > 3
        return answer or value == 1

    assert [told(2), told(5), told(1)] == [False, True, True]
    assert seen == [2, 5, 1]


PROGRAM = """
import sys
from numba import objmode
from mlsim._jit import compile_seconds, kernel

@kernel(nogil=False)
def told(value):
    with objmode(answer="boolean"):
        answer = len(str(value)) > 1
    return answer

@kernel
def asked(value):
    return 1 if told(value) else 0

@kernel
def asked_first(value):
    return asked(value) + 1

@kernel
def asked_again(value):
    return asked(value) + 2

@kernel
def halved(value):
    return value // 2

@kernel
def twice_halved(value):
    return halved(halved(value))

@kernel
def thrice_halved(value):
    return halved(twice_halved(value))

print([globals()[name](40) for name in sys.argv[1:]], compile_seconds() > 0)
"""


def called(place: Path, *names: str) -> str:
    """Call kernels of a program in a process of its own; return the answers, and whether it compiled."""
    program = place / "program.py"
    program.write_text(PROGRAM)
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(place / "kernels"),
        "NUMBA_DISABLE_JIT": "0",
        "PYTHONPATH": str(REPOSITORY),
    }
    command = [sys.executable, "-W", "ignore", str(program), *names]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.slow
def test_what_python_and_kernels_call_is_kept_for_each(tmp_path: Path) -> None:
    assert called(tmp_path, "twice_halved") == "[10] True"
    assert called(tmp_path, "twice_halved") == "[10] False"
    assert called(tmp_path, "halved", "twice_halved") == "[20, 10] True"
    assert called(tmp_path, "thrice_halved") == "[5] True"  # with parts that were kept
    assert called(tmp_path, "halved", "twice_halved", "thrice_halved") == "[20, 10, 5] False"


@pytest.mark.slow
def test_parts_that_need_python_are_kept_with_what_they_need(tmp_path: Path) -> None:
    assert called(tmp_path, "asked_first") == "[2] True"
    assert called(tmp_path, "asked_again") == "[3] True"  # with a part that calls Python


def test_a_function_that_is_part_of_the_source_compiles_with_its_caller() -> None:
    @inlined
    def twice(value: float) -> float:
        return value + value

    @kernel(cache=False)
    def caller(value: float) -> float:
        return twice(value) + 1.0

    assert caller(4.0) == 9.0
