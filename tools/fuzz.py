"""Run mlsim on damaged and hostile inputs, and see that it says so and nothing else happens.

Usage: python tools/fuzz.py ROOM N [--seed S] [--from K] [--keep DIR]

ROOM is one of scenario, set, swf, csv, json, parquet, accounting, npy, loop, study, runs, sealed, cp, rca,
or `all`.
N inputs are made from valid ones by small changes (flipped bits, words replaced by nasty ones, lines lost
or doubled, deep nesting) and read in a process of its own, which is started again if it dies. A case may
succeed, or be refused with an error that mlsim raises on purpose. Anything else is a failure: another
exception, a text of a traceback or a panic, more than 20 s of processor time, a file that is left over or
changed. Failing cases are kept in DIR, each a directory with its inputs, the command and what went wrong;
room, seed and number make them again.
"""

from __future__ import annotations

import argparse
import queue
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tools.fuzzing.rooms import ROOMS  # noqa: E402  (the project must be on the path first)
from tools.fuzzing.trial import Trial  # noqa: E402

_SILENT_SECONDS = 900.0
"""Of wall-clock time without a word of the process, for compiled code that no signal reaches."""
_QUIET_SECONDS = 30.0
_MEMORY = 8 << 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("room", choices=[*ROOMS, "all"])
    parser.add_argument("n", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="K")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), metavar="DIR")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        _work(given.room, given.first, given.first + given.n, given.seed, given.keep.resolve())
        return
    failures = 0
    for room in ROOMS if given.room == "all" else [given.room]:
        failures += _fuzz(room, given.first, given.first + given.n, given.seed, given.keep.resolve())
    sys.exit(1 if failures else 0)


def _work(room: str, first: int, last: int, seed: int, keep: Path) -> None:
    """Carry out cases, and tell each on a line of the real standard output."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        trial = Trial(room, Path(directory))
        print("ready", flush=True)
        for number in range(first, last):
            verdict = trial(number, seed, keep)
            detail = " ".join(verdict.detail.split()) if verdict.failed else ""
            print(f"{number} {verdict.word} {detail[-300:]!a}", flush=True)


def _fuzz(room: str, first: int, last: int, seed: int, keep: Path) -> int:
    began = time.perf_counter()
    counts: Counter[str] = Counter()
    at, told = first, began
    while at < last:
        for number, word, detail in _told(room, at, last, seed, keep):
            at = number + 1
            counts[word] += 1
            if (now := time.perf_counter()) - told > _QUIET_SECONDS:
                told = now
                print(f"  {room}: {at - first} of {last - first} cases in {now - began:.0f} s", flush=True)
            if word not in ("done", "refused"):
                print(f"  {room} {number} (seed {seed}): {word} {detail}", flush=True)
        if at < last:
            counts["died"] += 1
            print(f"  {room} {at} (seed {seed}): the process died or fell silent", flush=True)
            at += 1
    failures = sum(count for word, count in counts.items() if word not in ("done", "refused"))
    seconds = time.perf_counter() - began
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{room}: {last - first} cases, {counts['done']} done, {counts['refused']} refused, "
        f"{failures} failed (seed {seed}, {seconds:.0f} s; "
        f"{spent.ru_utime + spent.ru_stime:.0f} s of processor time so far)",
        flush=True,
    )
    return failures


def _told(room: str, first: int, last: int, seed: int, keep: Path) -> Iterator[tuple[int, str, str]]:
    """Start a process for some cases, and give what it tells until it ends, dies or falls silent."""
    command = [sys.executable, __file__, room, str(last - first), "--from", str(first), "--seed", str(seed)]
    command += ["--keep", str(keep), "--worker"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=ROOT
    ) as process:
        lines: queue.Queue[str] = queue.Queue()
        reader = threading.Thread(target=_pass_on, args=(process, lines), daemon=True)
        reader.start()
        if _next(lines) != "ready\n":
            process.kill()
            sys.exit(f"{room}: its valid inputs cannot be made")
        while line := _next(lines):
            number, word, detail = (line.strip().split(" ", 2) + ["", ""])[:3]
            yield int(number), word, detail
        process.kill()


def _pass_on(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")


def _next(lines: queue.Queue[str]) -> str:
    try:
        return lines.get(timeout=_SILENT_SECONDS)
    except queue.Empty:
        return ""


if __name__ == "__main__":
    main()
