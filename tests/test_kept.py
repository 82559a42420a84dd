"""Kernels kept on disk are called without numba, and give what numba's calls give."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlsim.record.node_sets import _write_sets

KERNELS = """
from typing import NamedTuple

import numpy as np

from mlsim._jit import kernel


class Inner(NamedTuple):
    small: object
    flag: bool


class Outer(NamedTuple):
    matrix: object
    inner: Inner
    scale: float


@kernel
def everything(outer, floats, offset, yes):
    total = offset + floats[1]
    for i in range(outer.matrix.shape[0]):
        for j in range(outer.matrix.shape[1]):
            total += outer.matrix[i, j] * outer.scale * outer.inner.small[j]
    if outer.inner.flag and yes:
        floats[0] = total
    return len(floats), total, yes


@kernel
def reverse(values):
    made = np.empty(len(values), np.int32)
    for i in range(len(values)):
        made[i] = values[len(values) - 1 - i]
    return made, len(values)


@kernel
def fill(values):
    values[:] = 7


@kernel
def refuse(limit):
    if limit > 3:
        raise ValueError("more than three")
    return limit + 1


@kernel
def halve(value):
    return value / 2
"""

CALLS = """
import json, sys
import numpy as np
import given

matrix = np.arange(6.0).reshape(2, 3)
matrix.flags.writeable = False
floats, small = np.array([1.0, 0.5], np.float32), np.array([1, 2, 3], np.uint8)
outer = given.Outer(matrix, given.Inner(small, True), 0.25)
found = [given.everything(outer, floats, -3, np.bool_(True)), floats.tolist()]
made, n = given.reverse(np.array([5, 6, 7]))
found += [made.tolist(), str(made.dtype), n]
made, n = given.reverse(np.empty(0, np.int64))
found += [made.tolist(), n]
values = np.zeros(2)
found += [given.fill(values), values.tolist()]
found += [given.refuse(2), given.halve(3.0), given.halve(np.float64(5.0))]
found.append([type(item).__name__ for item in (*found[0], *found[-3:])])
with_numba = "numba" in sys.modules
try:
    given.refuse(4)
except ValueError as error:
    found.append(str(error))
print(json.dumps([found, with_numba], default=lambda number: number.item()))
"""

OTHERS = """
import json, sys
import numpy as np
import given

values = np.zeros((2, 3)).T
given.fill(values)  # not in order of C
found = [values.tolist(), given.halve(np.float32(3.0)), given.halve(2**63)]
print(json.dumps([found, "numba" in sys.modules]))
"""


def run(program: str, place: Path, **more: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")},
            "PYTHONPATH": f"{place}:{Path(__file__).parents[1]}",
            "NUMBA_CACHE_DIR": str(place / "kept"),
            **more,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("kernels")
    (directory / "given.py").write_text(KERNELS)
    return directory


def test_calls_without_numba_give_the_same(place: Path) -> None:
    compiled, with_numba = run(CALLS, place)
    entries = list((place / "kept").rglob("*.entry"))
    assert with_numba
    assert compiled[-2:] == [["int", "float", "bool", "int", "float", "float"], "more than three"]
    assert len(entries) == 5  # one each
    kept, with_numba = run(CALLS, place)
    assert kept == compiled
    assert not with_numba
    in_python, _ = run(CALLS, place, NUMBA_DISABLE_JIT="1")
    assert in_python[1:5] == kept[1:5]


def test_types_that_entries_do_not_take_are_left_to_numba(place: Path) -> None:
    found, with_numba = run(OTHERS, place)
    assert found == [[[7.0, 7.0]] * 3, 1.5, 2.0**62]
    assert with_numba


def test_what_was_compiled_for_arrays_that_are_read_is_called_with_others(tmp_path: Path) -> None:
    """As numba does, which compiles nothing for them: each process would load it."""
    (tmp_path / "given.py").write_text(KERNELS)
    program = (
        "import json, sys, numpy as np, given\n"
        "values = np.array([5, 6, 7]); values.flags.writeable = WRITEABLE\n"
        "made, n = given.reverse(values)\n"
        "print(json.dumps([made.tolist(), n, 'numba' in sys.modules]))\n"
    )
    assert run(program.replace("WRITEABLE", "False"), tmp_path) == [[7, 6, 5], 3, True]
    assert run(program.replace("WRITEABLE", "True"), tmp_path) == [[7, 6, 5], 3, False]
    assert run(program.replace("WRITEABLE", "False"), tmp_path) == [[7, 6, 5], 3, False]


def test_settings_of_numba_are_left_to_numba(place: Path) -> None:
    run(CALLS, place)
    program = "import sys, json, given; print(json.dumps([given.halve(3.0), 'numba' in sys.modules]))"
    assert run(program, place) == [1.5, False]
    assert run(program, place, NUMBA_OPT="0") == [1.5, True]


def test_damaged_entries_are_not_used(place: Path) -> None:
    run(CALLS, place)
    for entry in (place / "kept").rglob("given.halve*.entry"):
        content = bytearray(entry.read_bytes())
        content[-100] ^= 1
        entry.write_bytes(content)
    program = "import sys, json, given; print(json.dumps([given.halve(3.0), 'numba' in sys.modules]))"
    assert run(program, place) == [1.5, True]


SAME_NAMES = """
import json, sys
from numba import njit
from mlsim._jit import inner_kernel, kernel

def own(number):
    return inner_kernel(lambda value: value * 10 + number)

def users(number):
    function = njit(lambda value: value * 10 + number)
    return inner_kernel(lambda value: function(value))

def applied(*functions):
    first, *others = functions
    if not others:
        return kernel(lambda value: first(value))
    last = others[0]
    return kernel(lambda value: last(first(value)))

make = {"own": own, "users": users}[sys.argv[1]]
"""


@pytest.mark.parametrize("whose", ["own", "users"])
def test_functions_of_one_name_from_two_processes_are_not_taken_for_each_other(
    tmp_path: Path, whose: str
) -> None:
    """Numba numbers what it compiles from 1 in each process, and links by name and number."""

    def answer(numbers: str) -> Any:
        code = f"import sys; sys.argv = ['', {whose!r}]\n{SAME_NAMES}\n"
        code += f"print(json.dumps(applied(*map(make, {numbers}))(0)))"
        return run(code, tmp_path)

    assert answer("[1]") == 1
    assert answer("[2, 1]") == 21
    assert answer("[1, 2]") == 12
    assert answer("[1, 3]") == 13


def test_kernels_are_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(_write_sets)) is _write_sets
