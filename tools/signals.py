#!/usr/bin/env python3
"""Send signals to `mlsim run` at random instants, and check what is left after each.

    tools/signals.py 200 --seed 1

Checks that the exit code is that of the signal, that every directory of results is complete and as its
manifest says, that nothing half-written is left (after SIGKILL: that the next run removes it), and that
nobody sees a traceback. Prints how many signals arrived within a run, and ends with 1 if a check fails.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from mlsim.errors import MlsimError
from mlsim.experiment.manifest import verify

COMMAND = [sys.executable, "-c", "from mlsim.cli.main import main; main()", "run", "signals.yaml", "--quiet"]
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGHUP)
LONGEST = 300.0
SCENARIO = """\
name: signals
platform: {nodes: [{name: n, count: 16, cores: 4}]}
workload: {path: signals.csv, mapping: packed}
batch: {backfill: easy, on_overrun: extend}
application: {model: loop, iterations: {per_pe: 500}, costs: {profile: job, variation: 0.3}, technique: SS}
coordination: {rca: on}
"""


@dataclass
class Tally:
    """What signals met: how many of each arrived within a run, before it, and after it; what was wrong."""

    inside: Counter[str] = field(default_factory=Counter)
    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return a table, and what was wrong."""
        names = [number.name for number in SIGNALS]
        table = [f"{'':8}{'inside':>8}{'before':>8}{'after':>8}"]
        table += [f"{n:8}{self.inside[n]:8}{self.before[n]:8}{self.after[n]:8}" for n in names]
        counters = (self.inside, self.before, self.after)
        table.append(f"{'sum':8}" + "".join(f"{counter.total():8}" for counter in counters))
        return table + [f"WRONG: {text}" for text in self.wrong]


def prepare(directory: Path, jobs: int = 200) -> None:
    """Write the scenario and its workload."""
    rows = [f"{k},{7 * k},{50 + k % 90},{300},{1 + 13 * k % 40}" for k in range(1, jobs + 1)]
    text = "job_id,submit_time,run_time,estimate,processors\n" + "\n".join(rows) + "\n"
    (directory / "signals.csv").write_text(text, encoding="utf-8")
    (directory / "signals.yaml").write_text(SCENARIO, encoding="utf-8")


def start(directory: Path, options: list[str]) -> subprocess.Popen[str]:
    """Start a run in a session of its own, which a closed terminal ends."""
    return subprocess.Popen(
        [*COMMAND, *options],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )


def partials(directory: Path) -> list[Path]:
    return sorted((directory / "runs").glob(".*.partial"))


def wait_for_place(directory: Path, process: subprocess.Popen[str]) -> bool:
    """Wait until a run has reserved its directory; False if it has ended before."""
    while process.poll() is None:
        if any(f"-{process.pid}-" in path.name for path in partials(directory)):
            return True
        time.sleep(0.002)
    return False


def measure(directory: Path, options: list[str]) -> tuple[float, float]:
    """Complete two runs, the second with all kernels on disk; return its seconds before and in the place."""
    for _ in range(2):
        began = time.monotonic()
        process = start(directory, options)
        wait_for_place(directory, process)
        reserved = time.monotonic()
        _, told = process.communicate(timeout=10 * LONGEST)
        if process.returncode:
            raise SystemExit(f"a run without signals ends with {process.returncode}: {told}")
    return reserved - began, time.monotonic() - reserved


def try_one(
    directory: Path, options: list[str], number: signal.Signals, delay: float, early: bool, tally: Tally
) -> None:
    """Send one signal: so long after the start, or after the place was reserved."""
    process = start(directory, options)
    placed = not early and wait_for_place(directory, process)
    if placed and (old := [path.name for path in partials(directory) if f"-{process.pid}-" not in path.name]):
        tally.wrong.append(f"left-overs that the next run has not removed: {old}")
    time.sleep(delay)
    placed = placed or any(f"-{process.pid}-" in path.name for path in partials(directory))
    if process.poll() is None:
        process.send_signal(number)
    out, told = process.communicate(timeout=LONGEST)
    handled = process.returncode == 128 + number
    killed = process.returncode == -number
    if process.returncode == 0:
        tally.after[number.name] += 1
    elif handled or (killed and number is signal.SIGKILL and placed):
        tally.inside[number.name] += 1
    elif killed and not placed:
        tally.before[number.name] += 1
    else:
        tally.wrong.append(
            f"{number.name} after {delay:.3f} s: exit code {process.returncode}: {told[-300:]}"
        )
    if (placed or handled) and ("Traceback" in told or "Exception ignored" in told):
        tally.wrong.append(f"{number.name} after {delay:.3f} s: {told[-600:]}")
    mine = [path.name for path in partials(directory) if f"-{process.pid}-" in path.name]
    if mine and number is not signal.SIGKILL:
        tally.wrong.append(f"{number.name} after {delay:.3f} s: left over: {mine}")
    if out:
        tally.wrong.append(f"printed {out[:100]!r}")


def check_results(directory: Path, tally: Tally) -> int:
    """Check that every directory of results is complete; give how many there are."""
    found = sorted((directory / "runs").glob("signals-*"))
    for run in found:
        try:
            findings = verify(run)
        except MlsimError as error:
            tally.wrong.append(str(error))
            continue
        if findings.damaged or findings.missing or findings.foreign or not (run / "summary.json").exists():
            tally.wrong.append(f"{run}: {findings}")
    return len(found)


def try_signals(directory: Path, n: int, seed: int, options: list[str]) -> Tally:
    """Send signals to runs in a directory with the scenario, one a run; give what they met."""
    generator = random.Random(seed)
    before, inside = measure(directory, options)
    tally = Tally()
    for place in range(n):
        early = generator.random() < 1 / 8
        delay = generator.uniform(0.0, before + inside if early else inside)
        try_one(directory, options, SIGNALS[place % len(SIGNALS)], delay, early, tally)
        if sys.stderr.isatty():
            print(f"\r{place + 1} of {n}, {len(tally.wrong)} wrong", end="", file=sys.stderr, flush=True)
    measure(directory, options)
    if left := partials(directory):
        tally.wrong.append(f"left over in the end: {left}")
    check_results(directory, tally)
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("n", type=int, nargs="?", default=200, help="signals")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of mlsim run")
    arguments = parser.parse_args()
    options = [word for text in arguments.set for word in ("--set", text)]
    with tempfile.TemporaryDirectory(prefix="mlsim-signals-") as name:
        prepare(Path(name))
        tally = try_signals(Path(name), arguments.n, arguments.seed, options)
        print("\n".join(tally.lines()))
        print(f"complete directories: {len(list(Path(name).glob('runs/signals-*')))}")
    return int(bool(tally.wrong))


if __name__ == "__main__":
    sys.exit(main())
