"""DCA with technique SS as a plain C program simulates it: what ``loops.py`` compares mlsim with."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mlsim.application import LoopOutcome

ROUNDS = 7
SOURCE = Path(__file__).with_suffix(".c")


def compiled(directory: Path) -> Callable[..., int] | None:
    """Compile the program with ``cc -O2``; None where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = directory / "dca_heap.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
    simulate: Any = ctypes.CDLL(str(library)).simulate
    simulate.restype = ctypes.c_int64
    return simulate


def rival(
    simulate: Callable[..., int],
    prefix: np.ndarray[Any, Any],
    latency: np.ndarray[Any, Any],
    costs: dict[str, float],
) -> Callable[[], np.ndarray[Any, Any]]:
    """Prepare the same loop; what is given simulates it and returns when each PE finishes, in s."""
    p, n = len(latency), len(prefix) - 1
    speed = np.ones(p)
    thinking = 2.0 * latency + costs.get("chunk_calculation", 0.0) / speed + costs.get("injected_delay", 0.0)
    events = np.zeros(p, [("time", np.float64), ("pe", np.int64)])
    events["pe"] = np.argsort(latency, kind="stable")
    events["time"] = latency[events["pe"]]
    atomic, assignment = costs.get("atomic_service", 0.0), costs.get("chunk_assignment", 0.0)

    def run() -> np.ndarray[Any, Any]:
        heap, claims, finish = events.copy(), np.zeros(p, np.int8), np.zeros(p)
        arrays = [ctypes.c_void_p(array.ctypes.data) for array in (speed, latency, thinking)]
        simulate(
            ctypes.c_void_p(prefix.ctypes.data),
            ctypes.c_int64(n),
            ctypes.c_int64(p),
            *arrays,
            ctypes.c_double(atomic),
            ctypes.c_double(assignment),
            *(ctypes.c_void_p(array.ctypes.data) for array in (heap, claims, finish)),
        )
        return finish

    return run


def compare(
    ours: Callable[[bool], LoopOutcome], heap: Callable[[], np.ndarray[Any, Any]]
) -> tuple[float, float]:
    """Return the CPU seconds of both, each the least of some runs in turn, whose results must be the same."""
    ours(False)
    least = [np.inf, np.inf]
    for _ in range(ROUNDS):
        began = time.thread_time()
        finish = heap()
        between = time.thread_time()
        outcome = ours(False)
        least = [min(least[0], between - began), min(least[1], time.thread_time() - between)]
        assert np.array_equal(finish, outcome.finish), "not the same loop"
    return least[1], least[0]
