"""Compare with the last release: CPU seconds and peak memory of whole commands, side by side.

Usage: python tools/bench/against_release.py [--against REV|DIRECTORY] [--only WORD] [--limit 10]
                                          [--markdown FILE]

The other tree is that of the newest tag of this repository, of a revision, or a directory. A revision is
taken out into a temporary directory. Both run with the packages of this Python, each with its own
kernels. Both run each command once for the compiler, then three times in turn; a figure is the least of
three. What is slower by more than the limit, in percent, is measured again, twice at most, before it is
believed: machines are noisy. The exit code is 1 if something still is, 2 if nothing could be compared.
Where there is no tag, this says so and ends with 0. Logs of MLSIM_TRACES take part if they are there.
``--markdown`` writes the table for a comment on a change as well.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import synthetic
from children import Cost, FailedError, least, measure

ROOT = Path(__file__).resolve().parents[2]
REPEATS, ROUNDS = 3, 3

_POOL = "platform: {nodes: [{name: n, count: 256, cores: 1}]}\nworkload: {path: log.swf, mapping: node}\n"
_NODES = "platform: {nodes: [{name: n, count: 16, cores: 16}]}\nworkload: {path: log.swf, mapping: core}\n"
_SHORT = "workload.select.first=20000"


@dataclass(frozen=True)
class Tree:
    """One of the two that are compared."""

    name: str
    root: Path
    cache: Path | None
    """Where its kernels are kept; None for where they are usually kept, beside them."""

    def environment(self) -> dict[str, str]:
        """Return the environment in which Python takes this tree's mlsim and kernels."""
        own = {"PYTHONPATH": str(self.root)} | ({"NUMBA_CACHE_DIR": str(self.cache)} if self.cache else {})
        return {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"} | own

    def run(self, arguments: Sequence[str], scratch: Path) -> Cost:
        """Run the command line of this tree; results go into a new directory."""
        with tempfile.TemporaryDirectory(dir=scratch) as directory:
            code = "from mlsim.cli.main import main; main()"
            command = [sys.executable, "-P", "-c", code, *arguments, "--out", f"{directory}/out"]
            return measure(command, self.environment(), scratch)

    def check(self) -> None:
        """Make sure that Python takes this tree's mlsim."""
        code = "import mlsim; print(mlsim.__file__)"
        command = [sys.executable, "-P", "-c", code]
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True)
        if done.returncode or not Path(done.stdout.strip()).is_relative_to(self.root):
            sys.exit(f"{self.root} has no mlsim that this Python can import\n{done.stderr or done.stdout}")


@dataclass
class Row:
    """Costs of one command under both."""

    name: str
    ours: list[Cost] = field(default_factory=list)
    theirs: list[Cost] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """CPU seconds over those of the other."""
        return least(self.ours).cpu / least(self.theirs).cpu

    def slower(self, limit: float) -> bool:
        """Whether this is slower than the other by more than so many percent."""
        return self.ratio > 1.0 + limit / 100.0

    def __str__(self) -> str:
        ours, theirs = least(self.ours), least(self.theirs)
        change, memory = (self.ratio - 1.0) * 100.0, (ours.peak / theirs.peak - 1.0) * 100.0
        cpu = f"{theirs.cpu:9.2f} {ours.cpu:9.2f} {change:+7.1f}"
        return f"{self.name:24} {cpu}   {theirs.peak:8.0f} {ours.peak:8.0f} {memory:+7.1f}"


def markdown(other: str, rows: Sequence[Row], failed: Sequence[str], limit: float) -> str:
    """Return the table as a comment on a change: slower commands in bold."""
    slower = sum(row.slower(limit) for row in rows)
    verdict = (
        f"**{slower} slower by more than {limit:g} %**" if slower else f"none slower by more than {limit:g} %"
    )
    lines = [f"CPU time and peak memory of {len(rows)} commands, before ({other}) and after: {verdict}.", ""]
    lines += ["| command | CPU s before | after | % | MB before | after | % |", "| --- |" + " ---: |" * 6]
    for row in rows:
        ours, theirs, mark = least(row.ours), least(row.theirs), "**" * row.slower(limit)
        memory = (ours.peak / theirs.peak - 1.0) * 100.0
        cells = [f"{theirs.cpu:.2f}", f"{ours.cpu:.2f}", f"{mark}{(row.ratio - 1.0) * 100.0:+.1f}{mark}"]
        cells += [f"{theirs.peak:.0f}", f"{ours.peak:.0f}", f"{memory:+.1f}"]
        lines.append(f"| {' | '.join([row.name, *cells])} |")
    lines += [
        "",
        f"Least of {REPEATS} runs on one machine; slower ones were measured up to {ROUNDS} times as often.",
    ]
    if failed:
        lines.append(f"Not compared, as {other} cannot run them: {', '.join(failed)}.")
    return "\n".join(lines) + "\n"


def compare(name: str, ours: Callable[[], Cost], theirs: Callable[[], Cost], limit: float) -> Row:
    """Measure both in turn, compiled before; again while this seems slower."""
    row = Row(name)
    for _ in range(ROUNDS):
        for repeat in range(REPEATS):
            if repeat % 2:
                row.ours.append(ours())
                row.theirs.append(theirs())
            else:
                row.theirs.append(theirs())
                row.ours.append(ours())
        if not row.slower(limit):
            break
    return row


def commands(scratch: Path) -> dict[str, list[str]]:
    """Write what the commands read; return them by name."""
    units = 256
    synthetic.write(synthetic.workload(100_000, units, 0.8), units, scratch / "log.swf")
    pool, nodes = scratch / "pool.yaml", scratch / "nodes.yaml"
    pool.write_text(_POOL)
    nodes.write_text(_NODES)
    loop = "--profile exponential --mean 1ms --iterations 1000000 --pes 16x16 --technique SS --model dca"
    found = {
        "quickstart": ["run", str(ROOT / "scenarios" / "quickstart.yaml")],
        "FCFS": ["run", str(pool), "--set", "batch.backfill=none"],
        "EASY": ["run", str(pool), "--set", "batch.backfill=easy"],
        "conservative": ["run", str(pool), "--set", "batch.backfill=conservative", "--set", _SHORT],
        "nodes, EASY, best-fit": ["run", str(nodes), "--set", "batch.allocator=best-fit", "--set", _SHORT],
        "a loop and its chunks": ["loop", *loop.split()],
    }
    for name in ("kth", "hpc2n"):
        scenario = ROOT / "scenarios" / f"{name}.yaml"
        if _log_is_there(scenario):
            found[f"{name}, EASY"] = ["run", str(scenario)]
    return found


def _log_is_there(scenario: Path) -> bool:
    [log] = [line.split()[1] for line in scenario.read_text().splitlines() if line.startswith("  path:")]
    places = os.environ.get("MLSIM_TRACES", "").split(os.pathsep)
    return any(place and Path(place, log).exists() for place in places)


@contextmanager
def other_tree(against: str | None) -> Iterator[Tree | None]:
    """Give the tree to compare with; None if nothing was said and there is no release."""
    with tempfile.TemporaryDirectory(prefix="mlsim-release-") as scratch:
        if against and Path(against).is_dir():
            yield Tree(against, Path(against).resolve(), None)
            return
        name = against or _git("describe", "--tags", "--abbrev=0").decode().strip()
        if not name:
            yield None
            return
        tree = Path(scratch, "tree")
        archive = _git("archive", "--format=tar", name)
        if not archive:
            sys.exit(f"{name} is neither a directory nor a revision of {ROOT}")
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(tree, filter="data")
        yield Tree(name, tree, Path(scratch, "kernels"))


def _git(*arguments: str) -> bytes:
    """Return what git says; nothing if it fails."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True)
    return b"" if done.returncode else done.stdout


def compare_all(other: Tree, only: str, limit: float, file: Path | None = None) -> int:
    """Print the table, and write it into a file as Markdown; return the exit code."""
    this = Tree("this", ROOT, None)
    this.check()
    other.check()
    print(f"least of {REPEATS}; {other.name} and this, and the difference in percent")
    print(f"{'':24} {'CPU s':>9} {'this':>9} {'%':>7}   {'peak MB':>8} {'this':>8} {'%':>7}", flush=True)
    rows, failed = [], []
    with tempfile.TemporaryDirectory(prefix="mlsim-bench-") as directory:
        scratch = Path(directory)
        for name, arguments in commands(scratch).items():
            if only not in name:
                continue
            # once each for the compiler
            try:
                this.run(arguments, scratch)
            except FailedError as error:
                sys.exit(f"{name} fails here:\n{error}")
            try:
                other.run(arguments, scratch)
            except FailedError as error:
                print(f"{name:24} {other.name} cannot run this: {str(error).splitlines()[-1]}", flush=True)
                failed.append(name)
                continue
            ours, theirs = (partial(tree.run, arguments, scratch) for tree in (this, other))
            rows.append(compare(name, ours, theirs, limit))
            print(f"{rows[-1]}{'   SLOWER' * rows[-1].slower(limit)}", flush=True)
    if file:
        file.write_text(markdown(other.name, rows, failed, limit), encoding="utf-8")
    if not rows:
        print("nothing could be compared")
        return 2
    return 1 if any(row.slower(limit) for row in rows) else 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", metavar="REV|DIRECTORY", help="default: the newest tag")
    parser.add_argument("--only", default="", metavar="WORD", help="of a row's name")
    parser.add_argument("--limit", type=float, default=10.0, metavar="PERCENT")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table for a comment, too")
    given = parser.parse_args()
    with other_tree(given.against) as other:
        if other is None:
            print("there is no release yet (no tag of git): nothing to compare with; see --against")
            return
        code = compare_all(other, given.only, given.limit, given.markdown)
    sys.exit(code)


if __name__ == "__main__":
    main()
