"""Loop times and chunks that LB4OMP writes to the file of KMP_TIME_LOOPS (print_loop_timer of its source)."""

import math
import re
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from mlsim._runtime.arrays import Floats
from mlsim.errors import InputError
from mlsim.scenario.simulation_demand import Share, check_memory
from mlsim.techniques import TECHNIQUES
from mlsim.workload.format_record import record_lines, whole_number
from mlsim.workload.measured_loops import MeasuredLoop

MARKS: Final = (b"LoopOccurrence:", b"Location:", b"chunkLocation:")
"""First words of its lines."""
_WORDS = (
    "LoopOccurrence|chunkLocation|Location|#iterations|threadID|threadTime|LoopTime|Schedule|Chunk|lower|upper|"
    "chunksize|tid"
)
# Releases until 2021 separate by blanks, later ones by commas; some words have no colon.
_FIELD = re.compile(rf"(?:^|[ ,]+)({_WORDS})[: ] ?(.*?)(?=[ ,]+(?:{_WORDS})[: ]|$)")
_ALLOWED = "LoopOccurrence, Location with LoopTime, chunkLocation"
_OTHERS = {"mFAC": "FAC", "mFac2": "FAC2", "static_greedy": "STATIC", "static_balanced": "STATIC"}
"""Other implementations of the same chunks, and static without a chunk size."""


class _Execution(NamedTuple):
    """The lines of one execution: those of threads come before its own, those of chunks after."""

    line: int
    name: str
    iterations: int
    seconds: float
    schedule: str
    chunk: int  # parameter of the schedule
    finish: dict[int, float]  # of each thread, from the start of the loop [s]
    chunks: list[tuple[int, int, int]]  # lower and upper bound, thread


def read_lb4omp(path: Path, notes: Counter[str]) -> list[MeasuredLoop]:
    """Read the executions of loops, one after the other: the file has no times of day."""
    finish, done = dict[int, float](), list[_Execution]()
    for number, line in record_lines(path):
        fields = dict(_FIELD.findall(line.strip()))
        try:
            if "threadTime" in fields:
                finish[whole_number(fields["threadID"], "")] = _seconds(fields["threadTime"])
            elif "LoopTime" in fields:
                facts = int(fields["#iterations"]), _seconds(fields["LoopTime"]), fields.get("Schedule", "")
                place, chunk = _place(fields["Location"]), int(fields.get("Chunk", 0))
                done.append(_Execution(number, place, *facts, chunk, finish, []))
                finish = {}
            elif _place(fields["chunkLocation"]) == done[-1].name:
                lower, upper = int(np.int64(fields["lower"])), int(np.int64(fields["upper"]))
                done[-1].chunks.append((lower, upper, whole_number(fields["tid"], "")))
            else:
                raise ValueError
        except (LookupError, ValueError, OverflowError) as error:
            raise InputError(
                f"{path}:{number}: no line of LB4OMP, or damaged: {line.strip()!r:.90}; allowed: {_ALLOWED}"
            ) from error
    if finish:
        notes["unfinished_executions"] += 1
    if not done:
        raise InputError(f"{path}: has no LoopTime: the program ended before its first loop did")
    starts = np.cumsum([0.0, *(each.seconds for each in done)]).tolist()
    return [_measured(path, each, start, notes) for each, start in zip(done, starts, strict=False)]


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.0 <= seconds < math.inf:
        raise ValueError
    return seconds


def _place(text: str) -> str:
    """Return file and line of a place in the source as compilers write it: ;file;function;line;column;;."""
    parts = text.split(";")
    return f"{parts[1].rpartition('/')[2]}:{parts[3]}" if len(parts) > 4 else text


def _measured(path: Path, run: _Execution, start: float, notes: Counter[str]) -> MeasuredLoop:
    threads = {thread for _, _, thread in run.chunks} | run.finish.keys()
    if not threads:
        raise InputError(
            f"{path}:{run.line}: has no line of a thread of this loop: run the program again with "
            "KMP_PRINT_CHUNKS=1, or with a newer LB4OMP, which writes a line per thread"
        )
    costs = _costs(path, run)
    n = run.iterations if costs is None else len(costs)
    if n < 1:
        raise InputError(f"{path}:{run.line}: a loop of {n} iterations; allowed: 1 or more")
    technique = _OTHERS.get(run.schedule, run.schedule)
    technique = technique if technique in TECHNIQUES else ""
    if run.schedule == "STATIC":  # with a chunk size: block-cyclic
        technique = "CYCLIC" if run.chunk <= 1 else "STATIC" if run.chunk * len(threads) >= n else ""
    elif run.chunk > 1 and technique:
        notes["executions_with_a_least_chunk"] += 1
    if run.schedule and not technique:
        notes[f"executions_of_schedule_{run.schedule.replace(' ', '_')}"] += 1
    return MeasuredLoop(run.name, "", max(threads) + 1, start, run.seconds, n, technique, costs)


def _costs(path: Path, run: _Execution) -> Floats | None:
    """Return a thread's time shared by its iterations; None unless chunks are all iterations, once."""
    lower, upper, thread = np.array(sorted(run.chunks), np.int64).reshape(-1, 3).T
    steps = lower[1:] - upper[:-1]
    step = steps[0] if len(steps) else 1
    if not len(lower) or (steps != step).any() or step < 1 or not set(thread.tolist()) <= run.finish.keys():
        return None
    size = (upper - lower) // step + 1
    memory = Share("#iterations", f"{size.sum():,}", 8.0 * size.sum())
    check_memory(f"{path}:{run.line}", [memory], "the costs of iterations")
    executed = np.bincount(thread, size)
    rate = np.array([run.finish.get(k, 0.0) / max(n, 1.0) for k, n in enumerate(executed)])
    return np.repeat(rate[thread], size)
