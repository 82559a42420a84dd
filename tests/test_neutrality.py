"""Importing and running mlsim leaves the process as it was, the Numba code of its user above all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlsim._jit import INTERPRETED

REPOSITORY = Path(__file__).resolve().parent.parent

CATALOGUE = '''
"""Numba code as users write it: each function returns what a call gives, compiled anew each time."""
import numba
import numpy as np
from numba import njit, objmode, prange
from numba.experimental import jitclass
from numba.extending import overload


def overload_that_prints():
    def said(x): ...
    @overload(said)
    def _(x):
        def implementation(x):
            print("said", x)
            return x + 1
        return implementation
    @njit
    def call(x):
        return said(x)
    return call(3)


def overload_that_asks_python():
    def asked(x): ...
    @overload(asked)
    def _(x):
        def implementation(x):
            with objmode(length="int64"):
                length = len(str(x))
            return length
        return implementation
    @njit
    def call(x):
        return asked(x)
    return call(1234)


def overload_that_raises_a_value():
    def refused(x): ...
    @overload(refused)
    def _(x):
        def implementation(x):
            if x > 2:
                raise ValueError("too large", x)
            return x
        return implementation
    @njit
    def call(x):
        return refused(x)
    return call(7)


def overload_of_a_shape():
    def measured(a): ...
    @overload(measured)
    def _(a):
        return lambda a: len(a) + a[-1]
    @njit
    def call(a):
        return measured(a)
    return call(np.arange(5))


def negative_indices():
    @njit
    def call(a, table, k):
        table[-1, k] = a[k]
        return a[k] + a[-2] + table[k, -1] + a[len(a) + k]
    return call(np.arange(6), np.arange(12).reshape(3, 4), -2)


def bounds():
    @njit(boundscheck=True)
    def call(a, k):
        return a[k]
    return call(np.arange(3), 3)


def division():
    @njit
    def call(x, y):
        return x // y
    return call(1, 0)


def in_parallel():
    @njit(parallel=True)
    def call(a):
        total = 0.0
        for k in prange(len(a)):
            total += a[k]
        return total
    return call(np.ones(1000))


def generators():
    @njit
    def count(n):
        for k in range(n):
            yield k * k
    @njit
    def call(n):
        total = 0
        for square in count(n):
            total += square
        return total
    return call(10), list(count(4))


def classes():
    @jitclass([("total", numba.int64), ("kept", numba.float64[:])])
    class Sum:
        def __init__(self, n):
            self.total, self.kept = 0, np.zeros(n)
        def add(self, x):
            self.total += x
            self.kept[-1] = x
            return self.total
    @njit
    def call():
        counted = Sum(3)
        counted.add(2)
        return counted.add(5)
    made = Sum(2)
    made.add(4)
    return call(), made.kept.tolist()


def closures_and_expressions():
    @njit
    def call(a):
        shift = a[0] + 1
        def moved(x):
            return x * shift
        return [moved(x) for x in a], (a * 2.0 + np.sqrt(a)).sum(), np.zeros(3).sum() + np.empty(2).size
    return call(np.arange(4.0))


def texts_and_containers():
    @njit
    def call(n):
        names = {str(k): k for k in range(n)}
        return len(names), sorted([-k for k in range(n)])[0], "a" in names
    return call(3)


FRESH = [call for call in list(globals().values()) if getattr(call, "__module__", "") == __name__]


@njit(cache=True)
def kept_on_disk(a, k):
    return a[k] - a[0]


def caches():
    kept_on_disk(np.arange(5), -1)
    return kept_on_disk.stats.cache_path
'''

PROGRAM = '''
import contextlib, io, json, locale, os, signal, sys, warnings
import numba, numpy, matplotlib, matplotlib.figure, polars
from numba.core import event
from numba.core.registry import cpu_target
from llvmlite import binding
import user_code

LIBRARIES = ("numba", "llvmlite", "matplotlib", "polars", "numpy")

def outcomes():
    found = {}
    for call in (*user_code.FRESH, user_code.caches):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            try:
                answer = repr(call())
            except Exception as error:
                answer = f"{type(error).__name__}{error.args}"
        found[call.__name__] = [answer, said.getvalue()]
    return found

def names():
    """Every attribute of the libraries' modules and classes, by what it is bound to."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in LIBRARIES or module is None:
            continue
        for attribute, value in list(vars(module).items()):
            found[name, attribute] = value
            if isinstance(value, type) and value.__module__ == name:
                for own, method in list(vars(value).items()):
                    if callable(method) or isinstance(method, (classmethod, staticmethod, property)):
                        found[name, attribute, own] = method
    return found

def settings():
    contexts = [cpu_target.typing_context, cpu_target.target_context, cpu_target.target_context.codegen()]
    implementations = contexts[1]._defns
    return {
        "environment": dict(os.environ),
        "filters": list(map(str, warnings.filters)),
        "signals": {str(number): str(signal.getsignal(number)) for number in signal.valid_signals()},
        "locale": locale.setlocale(locale.LC_ALL),
        "numpy": numpy.geterr(),
        "matplotlib": dict(matplotlib.rcParams),
        "numba": {name: repr(value) for name, value in vars(numba.config).items() if name.isupper()},
        "listeners": {kind: list(map(repr, known)) for kind, known in event._registered.items() if known},
        "locks": [list(map(repr, pair)) for pair in getattr(binding.ffi.lib._lock, "_cblist", ())],
        "contexts": [sorted(vars(context)) for context in contexts],
        "builtins": {str(key): len(known.versions) for key, known in implementations.items()
                     if getattr(key, "__module__", "") in ("_operator", "builtins", "numpy")},
        "hooks": [repr(sys.excepthook), repr(sys.displayhook), sys.getrecursionlimit(), len(sys.path)],
    }

before = outcomes()
outcomes()  # once more, so that all is loaded that Numba loads late
polars.DataFrame({"column": numpy.arange(2)})  # as Polars fills a table of types late
known, held = names(), settings()

import mlsim
from mlsim._jit import inner_kernel, kernel, zeros, borrowed

@inner_kernel
def inner(values, k):
    return values[k] + len(values)

@kernel(cache=False)
def outer(values, n):
    table = zeros((n, 2), numpy.int64)
    table[n - 1, 1] = inner(borrowed(values), n)
    return table.sum() + numpy.empty(3).size

assert outer(numpy.arange(9), 4) == 4 + 9 + 3
mlsim.run(sys.argv[1], out=sys.argv[2])

now = names()
changed = ["/".join(name) for name, value in known.items() if name in now and now[name] is not value]
after = settings()
print(json.dumps({
    "code": [before, outcomes()],
    "names": changed,
    "settings": {key: [held[key], after[key]] for key in held if held[key] != after[key]},
}, default=str))
'''

IMPORT = """
import json, locale, os, signal, sys, warnings

def settings():
    handlers = [str(signal.getsignal(number)) for number in signal.valid_signals()]
    return dict(os.environ), list(map(str, warnings.filters)), handlers, locale.setlocale(locale.LC_ALL)

before = settings()
import mlsim
imported = settings() == before
import numba, numpy, polars  # which set filters and variables of their own
before = settings()
mlsim.run(sys.argv[1], out=sys.argv[2])
after = settings()
print(json.dumps([imported, *([one, other] for one, other in zip(before, after) if one != other)]))
"""

SCENARIO = """
platform: {nodes: [{name: n, count: 4, cores: 2}]}
workload: {path: jobs.swf}
batch: {policy: FCFS, backfill: easy}
application:
  model: loop
  technique: GSS
  iterations: {count: 40}
  costs: {profile: constant, mean: 10 ms}
output: {trace: none}
"""
_JOB = "{} {} 0 60 2 -1 -1 2 90 -1 1 1 1 -1 1 1 -1 -1\n"


def _reported(program: str, place: Path, **settings: str) -> Any:
    """Return what a program prints that is given a scenario and a directory for results."""
    (place / "user_code.py").write_text(CATALOGUE)
    (place / "scenario.yaml").write_text(SCENARIO)
    (place / "jobs.swf").write_text("".join(_JOB.format(job, job) for job in range(1, 6)))
    (place / "program.py").write_text(program)
    unset = ("NUMBA_", "_RJEM", "OPENBLAS")
    done = subprocess.run(
        [sys.executable, str(place / "program.py"), str(place / "scenario.yaml"), str(place / "run")],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith(unset)},
            "PYTHONPATH": f"{place}:{REPOSITORY}",
            **settings,
        },
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process finds changed after mlsim has compiled and run."""
    answer: dict[str, Any] = _reported(PROGRAM, tmp_path_factory.mktemp("neutral"), NUMBA_NUM_THREADS="2")
    return answer


needs_numba = pytest.mark.skipif(INTERPRETED, reason="kernels are not compiled: NUMBA_DISABLE_JIT is set")


@pytest.mark.slow
@needs_numba
def test_numba_code_of_users_does_the_same_after_mlsim_has_compiled(found: dict[str, Any]) -> None:
    before, after = found["code"]
    assert before == after
    assert before["overload_that_prints"] == ["4", "said 3\n"]
    assert before["overload_that_asks_python"][0] == "4"
    assert before["overload_that_raises_a_value"][0] == "ValueError('too large', 7)"
    assert before["bounds"][0].startswith("IndexError")
    assert before["division"][0].startswith("ZeroDivisionError")


@pytest.mark.slow
@needs_numba
def test_nothing_of_the_libraries_is_replaced(found: dict[str, Any]) -> None:
    assert found["names"] == []


@pytest.mark.slow
@needs_numba
def test_the_process_is_left_as_it_was(found: dict[str, Any]) -> None:
    assert found["settings"] == {}


def test_importing_and_running_set_no_variable_no_filter_and_no_handler(tmp_path: Path) -> None:
    assert _reported(IMPORT, tmp_path) == [True]
