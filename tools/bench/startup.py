"""What short commands take, and what for: CPU seconds and peak memory of whole processes, kernels compiled.

Usage: python tools/bench/startup.py [--repeats 5] [--only WORD] [--apart]

The log of the first two rows is ``lublin_256.swf`` of MLSIM_TRACES, or as many jobs drawn in its manner
where it is not there. A figure is the least of the repeats; the first run, which compiles, does not count.
``--apart`` takes each run of a scenario apart: what the imports of each package take, and the CPU seconds of
each step without the imports and the steps inside it. Python's byte code is used, and written if need be,
whatever PYTHONDONTWRITEBYTECODE says: without it each process compiles all of mlsim's sources again.
"""

from __future__ import annotations

import argparse
import atexit
import builtins
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import children

ROOT = Path(__file__).resolve().parents[2]
LOG = "lublin_256.swf"

STEPS = {
    ("mlsim.scenario.scenario_loading", "load"): "reading the scenario",
    ("mlsim.cosim.scenario_inputs", "open_jobs"): "opening the workload",
    ("mlsim.cosim.simulation", "simulate"): "simulating",
    ("mlsim.analysis.run_summary", "summarize"): "summing up",
    ("mlsim.experiment.run_directory", "write_start"): "scenario and versions",
    ("mlsim.record.parquet_tables", "write_tables"): "tables",
    ("mlsim.experiment.run_directory", "_draw"): "pictures",
    ("mlsim.experiment.run_directory", "write_trace"): "trace",
    ("mlsim.experiment.manifest", "write_manifest"): "checksums",
    ("mlsim.cli.run", "_print_summary"): "printing",
}
"""Functions, by what they do for a run."""
IMPORTS, BEGIN, END, REST = "imports", "python itself", "exit", "the rest"


class Apart:
    """Adds up CPU seconds by step; a step inside another counts by itself.

    Attributes
    ----------
    seconds
        By step.
    """

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter({BEGIN: time.process_time()})
        self._inside: list[float] = [0.0]
        self._imports = False

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Count the block."""
        began = time.process_time()
        self._inside.append(0.0)
        try:
            yield
        finally:
            took = time.process_time() - began
            self.seconds[name] += took - self._inside.pop()
            self._inside[-1] += took

    def watch_imports(self) -> None:
        """Count imports, and wrap the functions of :data:`STEPS` as their modules are imported."""
        plain = builtins.__import__

        def importing(name: str, *rest: Any, **named: Any) -> Any:
            if self._imports:
                return plain(name, *rest, **named)
            self._imports = True
            try:
                with self.step(IMPORTS):
                    return plain(name, *rest, **named)
            finally:
                self._imports = False

        builtins.__import__ = importing
        sys.meta_path.insert(0, _Watch(self))

    def counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function; imports inside it count as such."""

        @wraps(function)
        def wrapped(*given: Any, **named: Any) -> Any:
            with self.step(name):
                return function(*given, **named)

        return wrapped


class _Watch:
    """Finds modules as all others do, and wraps functions of those that are watched."""

    def __init__(self, apart: Apart) -> None:
        self._apart = apart

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> Any:
        watched = {function: step for (module, function), step in STEPS.items() if module == name}
        if not watched:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        sys.meta_path.insert(0, self)
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def executed(module: Any) -> None:
            execute(module)
            for function, step in watched.items():
                setattr(module, function, self._apart.counted(step, getattr(module, function)))

        loader.exec_module = executed
        return spec


def run_apart(report: Path, words: Sequence[str]) -> None:
    """Run a command of mlsim in this process, and write down what its steps took."""
    apart = Apart()
    began = time.process_time()

    def finish() -> None:
        now = time.process_time()
        counted = sum(apart.seconds.values()) - apart.seconds[BEGIN]
        apart.seconds[REST] = now - began - counted
        report.write_text(json.dumps([now, apart.seconds]))

    atexit.register(finish)
    apart.watch_imports()
    from mlsim.cli.main import main

    sys.argv = ["mlsim", *words]
    main()


def packages(told: str) -> Counter[str]:
    """Add up the seconds of ``-X importtime`` by package, own modules by room."""
    seconds: Counter[str] = Counter()
    for own, name in re.findall(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)$", told, re.MULTILINE):
        parts = name.split(".")
        seconds[".".join(parts[: 2 if parts[0] == "mlsim" else 1])] += int(own) / 1e6
    return seconds


def commands(scratch: Path) -> dict[str, list[str]]:
    """Write what the commands read; return them by name."""
    pool = scratch / "pool.yaml"
    pool.write_text(
        "platform: {nodes: [{name: n, count: 256, cores: 1}]}\n"
        f"workload: {{path: {_log(scratch)}, mapping: node}}\nbatch: {{backfill: none}}\n"
    )
    quickstart = str(ROOT / "scenarios" / "quickstart.yaml")
    return {
        "FCFS, no pictures": ["run", str(pool), "--set", "output.pictures=off"],
        "FCFS, pictures": ["run", str(pool)],
        "quickstart": ["run", quickstart],
        "--help": ["--help"],
        "list": ["list"],
        "check": ["check", quickstart],
    }


def _log(scratch: Path) -> Path:
    for place in filter(None, os.environ.get("MLSIM_TRACES", "").split(os.pathsep)):
        if (found := Path(place, LOG).resolve()).exists():
            return found
    import synthetic

    synthetic.write(synthetic.workload(10_000, 256, 0.8), 256, scratch / LOG)
    return scratch / LOG


def environment() -> dict[str, str]:
    """Return the environment of the commands: this tree's mlsim, and byte code."""
    without = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return without | {"PYTHONPATH": str(ROOT)}


def arguments_of(words: Sequence[str], directory: str) -> list[str]:
    """Return a command's words; results go into a directory."""
    return [*words, *(["--out", f"{directory}/out"] if words[0] == "run" else [])]


def measure(words: Sequence[str], scratch: Path) -> children.Cost:
    """Run a command once."""
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        code = "from mlsim.cli.main import main; main()"
        command = [sys.executable, "-P", "-c", code, *arguments_of(words, directory)]
        return children.measure(command, environment(), scratch)


def least_of(repeats: int, once: Callable[[], Mapping[str, float]]) -> dict[str, float]:
    """Measure several times; return the least of each."""
    least: dict[str, float] = {}
    for _ in range(repeats):
        for name, seconds in once().items():
            least[name] = min(seconds, least.get(name, seconds))
    return least


def steps_of(words: Sequence[str], scratch: Path) -> dict[str, float]:
    """Run a command once, taken apart: CPU seconds by step."""
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        report = Path(directory, "report")
        command = [sys.executable, __file__, "--in-process", str(report)]
        cost = children.measure([*command, *arguments_of(words, directory)], environment(), scratch)
        at_exit, seconds = json.loads(report.read_text())
        return {**seconds, END: cost.cpu - at_exit}


def packages_of(words: Sequence[str], scratch: Path) -> Counter[str]:
    """Run a command once; seconds of its imports by package."""
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        code = "from mlsim.cli.main import main; main()"
        command = [sys.executable, "-X", "importtime", "-P", "-c", code, *arguments_of(words, directory)]
        done = subprocess.run(
            command, env=environment(), cwd=scratch, capture_output=True, text=True, check=True
        )
        return packages(done.stderr)


def table(title: str, seconds: Mapping[str, float], least: float = 0.0) -> None:
    """Print seconds in milliseconds, the largest first."""
    print(f"  {title:28} {sum(seconds.values()) * 1e3:7.0f} ms")
    for name, took in sorted(seconds.items(), key=lambda item: -item[1]):
        if took >= least:
            print(f"    {name:26} {took * 1e3:7.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", metavar="WORD", help="of a row's name")
    parser.add_argument("--apart", action="store_true", help="also steps and packages")
    given = parser.parse_args()
    print(f"least of {given.repeats}")
    print(f"{'':24} {'CPU s':>7} {'peak MB':>8}", flush=True)
    with tempfile.TemporaryDirectory(prefix="mlsim-bench-") as directory:
        scratch = Path(directory)
        for name, words in commands(scratch).items():
            if given.only not in name:
                continue
            measure(words, scratch)  # once for the compiler
            cost = children.least([measure(words, scratch) for _ in range(given.repeats)])
            print(f"{name:24} {cost.cpu:7.2f} {cost.peak:8.0f}", flush=True)
            if given.apart and words[0] == "run":
                table("steps", least_of(given.repeats, lambda words=words: steps_of(words, scratch)))
                of_packages = least_of(given.repeats, lambda words=words: packages_of(words, scratch))
                table("imports", of_packages, 0.004)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in-process"]:
        run_apart(Path(sys.argv[2]), sys.argv[3:])
    else:
        main()
