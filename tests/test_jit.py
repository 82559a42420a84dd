"""Kernels that run as Python functions do what compiled ones do."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from mlsim._jit import kernel, last_bit, next_bit, unpacker
from mlsim._runtime import interpreted
from mlsim.application import simulate as simulate_loop
from mlsim.errors import InputError
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.workload import Field, read_swf
from tests.batch.builders import block, simulate


class _Two(NamedTuple):
    """Two arrays."""

    ints: Any
    floats: Any


@kernel
def _bits(word: int, place: int) -> tuple[int, int]:
    return next_bit(word, place), last_bit(word, place)


REPOSITORY = Path(__file__).resolve().parent.parent


def outcomes() -> dict[str, Any]:
    """What kernels of all rooms give, and whether a debugger could stop in them."""
    results: dict[str, Any] = {"in Python": isinstance(kernel(outcomes), FunctionType)}
    rng = np.random.default_rng(5)
    submit, run = np.sort(rng.integers(0, 50, 30)), rng.integers(1, 20, 30)
    jobs = block(submit, run, run + 3, rng.integers(1, 9, 30))
    for options in ({"backfill": "easy"}, {"backfill": "conservative", "allocator": "random"}):
        _, done, held = simulate(jobs, 8, on_overrun="kill", policy="WFP", **options)
        results[str(options)] = [done.start_time.tolist(), held.node.tolist()]
    prefix, speed = np.cumsum(np.append(0.0, rng.random(300))), np.ones(4)
    with tempfile.TemporaryDirectory() as directory:
        technique = Path(directory) / "mine.py"
        technique.write_text("def half(n, p, remaining, step, pe):\n    return remaining // 2 + 1\n")
        for name in ("AF", "GSS", f"{technique}:half"):
            loop = simulate_loop(prefix, speed, np.zeros(4), name, ExecutionConfig(model="dca"))
            results[f"loop {name.split(':')[-1]}"] = loop.finish.tolist()
        log = Path(directory) / "log.swf"
        log.write_text("1 0 -1 9007199254740991e-3 4 -1 -1 4 7200 -1 1 255 1 -1 1 1 -1 -1\n")
        results["swf"] = read_swf(log)[1].column(Field.RUN_TIME).tolist()
    return results


def test_kernels_do_the_same_as_python_functions() -> None:
    program = "import json; from tests.test_jit import outcomes; print(json.dumps(outcomes()))"
    interpreted = subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(interpreted.stdout)
    assert found.pop("in Python")
    expected = outcomes()
    expected.pop("in Python")
    assert found == json.loads(json.dumps(expected))


def test_a_named_tuple_is_read_by_address() -> None:
    names = [("ints", "int64", 1), ("floats", "float64", 2)]
    ints, floats = np.arange(3), np.arange(6.0).reshape(2, 3)
    table = np.array([[ints.ctypes.data, 3, 0, 0], [floats.ctypes.data, 2, 3, 0]])
    in_python = interpreted.unpacker(_Two, names)(table.ctypes.data)
    assert in_python.ints.tolist() == ints.tolist()
    assert in_python.floats.tolist() == floats.tolist()
    pair_at = unpacker(_Two, names)

    @kernel(cache=False)
    def move(address: int) -> float:
        pair = pair_at(address)
        pair.ints[2] = 7
        return pair.floats[1, 0] + pair.floats.shape[0] + len(pair.ints)

    assert move(table.ctypes.data) == 3.0 + 2 + 3
    assert ints.tolist() == [0, 1, 7]


@pytest.mark.slow
def test_kept_inner_kernels_are_used_by_kernels_compiled_later(tmp_path: Path) -> None:
    program = (
        "import sys; from tests.batch.builders import block, simulate\n"
        "from mlsim._jit import compile_seconds\n"
        "jobs = block([0, 1, 2, 3], [9, 9, 2, 1], [9, 9, 2, 1], [2, 4, 3, 1])\n"
        "_, done, _ = simulate(jobs, 4, backfill=sys.argv[1], allocator='best-fit')\n"
        "print(done.start_time.tolist(), compile_seconds() > 0)"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", program, backfill],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for backfill in ("easy", "conservative", "conservative")
    ]
    starts = "[0.0, 9.0, 18.0, 3.0]"
    assert found == [f"{starts} True", f"{starts} True", f"{starts} False"]


def test_a_c_function_is_called_through_its_address() -> None:
    power = ctypes.CDLL(None).strtol
    address = ctypes.cast(power, ctypes.c_void_p).value
    text = np.frombuffer(b"-7f\0", np.uint8)
    call = interpreted.c_function("int64", ["intp", "intp", "int32"])
    assert call(address, text.ctypes.data, 0, np.int64(16)) == -0x7F


def test_memory_that_ranks_share_needs_compiled_kernels() -> None:
    with pytest.raises(InputError, match="unset NUMBA_DISABLE_JIT"):
        interpreted.refuse_atomics(0, 1)


@pytest.mark.parametrize("word", [0, 1, -1, 5 << 40, -(2**63), 2**63 - 1, -(2**63) + 1])
@pytest.mark.parametrize("place", [0, 1, 40, 62, 63])
def test_bits_are_found_in_every_place(word: int, place: int) -> None:
    bits = [bit for bit in range(64) if (word >> bit) & 1]
    expected = (
        next((bit for bit in bits if bit > place), 64),
        max((b for b in bits if b <= place), default=-1),
    )
    assert _bits(word, place) == expected
    assert (interpreted.next_bit(word, place), interpreted.last_bit(word, place)) == expected


def _ends(numbers: Any, table: Any, k: int) -> tuple[int, int]:
    table[-1, k] = numbers[-1]
    return numbers[k - 1], table[k, -2]


@pytest.fixture
def module_of_the_package(monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of mlsim's that is in no file."""
    name = "mlsim.trial"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    return name


def test_kernels_count_from_the_end_by_constants_and_those_of_users_by_variables_too(
    module_of_the_package: str,
) -> None:
    ours = FunctionType(_ends.__code__, globals(), "ours")
    ours.__module__ = module_of_the_package
    for body, k in ((_ends, 0), (_ends, 2), (ours, 2)):
        numbers, table = np.arange(5), np.arange(12).reshape(3, 4).copy()
        expected_table = table.copy()
        expected = _ends(numbers, expected_table, k)
        assert kernel(cache=False)(body)(numbers, table, k) == expected
        assert table.tolist() == expected_table.tolist()


@pytest.mark.parametrize("ours", [True, False])
def test_kernels_of_the_package_look_at_no_sign_of_an_index(ours: bool, module_of_the_package: str) -> None:
    def item(table: Any, k: int) -> int:
        table[k, k] += 1
        return int(table[2, k])

    if ours:
        item.__module__ = module_of_the_package
    compiled: Any = kernel(cache=False)(item)
    compiled(np.ones((3, 3), np.int64), 1)
    (code,) = compiled.inspect_llvm().values()
    of_the_body = code.split("\ndefine ")[1]
    assert ("select" in of_the_body) is not ours
