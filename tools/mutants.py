"""Plants one-line faults in a copy of the tree, one at a time, and says which of them the tests notice.

    python tools/mutants.py [--only TEXT] [--room ROOM] [--jobs N] [--limit SECONDS] [--list]
    python tools/mutants.py --generate N [--seed S] [--only TEXT] [--room ROOM] [--tests TESTS] [...]

The faults are in ``tools/mutants.toml``: each names a file, a text that stands there once, the text that
takes its place, and the few tests that should fail then. Kernels run as Python functions meanwhile
(``NUMBA_DISABLE_JIT=1``), so that a fault in one costs no compilation; ``compiled = true`` has them
compiled all the same. A fault is *killed* by a test that fails, or that does not come to an end; it
*survives* where all of its tests pass. One with a reason why nobody could notice it is *equivalent*, and
is tried all the same.

With ``--generate`` the faults are made by rule, in the files that the list names for a room: a comparison,
an arithmetic operator or ``and`` becomes another one, a number becomes one more. A sample of N is drawn by
the seed. Their tests are all that the list has for their file, or ``--tests``. Those that survive need
a look: a test is missing, or nobody could notice.

Exit code 0: every fault is killed or equivalent. 1: some survive, or are equivalent no longer. 2: the
list does not fit the tree, or the tests fail without any fault.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

REPOSITORY = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_suffix(".toml")

_LIMIT = 120.0
_WALL_TIMES = 10  # a test that waits uses no CPU time; so much longer it may take by the wall clock
_PASSED, _FAILED, _INTERRUPTED = 0, 1, 2  # exit codes of pytest; 2 is an error on import, too
_LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "kernels-*", ".*_cache", ".hypothesis", "build", "dist", "*.egg-info", "results", "runs"
)


class ListError(Exception):
    """The list of faults does not fit the tree."""


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes
    ----------
    name
        What is wrong with it, in words; unique.
    room
        Which part of the tree it is in.
    file
        From the root of the tree.
    old, new
        What stands there, in one place, and what takes its place.
    tests
        Files, or ``file::test``, of which one should fail.
    equivalent
        Why no test could notice; empty where one should.
    compiled
        Whether the kernels have to be compiled for the tests to notice.
    """

    name: str
    room: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str = ""
    compiled: bool = False

    def applied(self, source: str) -> str:
        """Return the source with the fault; ListError where that is not possible or makes no sense."""
        found = source.count(self.old)
        if found != 1:
            raise ListError(f"{self.name}: {self.file} has {found} places with {self.old!r}; needed: one")
        faulty = source.replace(self.old, self.new)
        try:
            trees = [ast.dump(ast.parse(text)) for text in (source, faulty)]
        except SyntaxError as error:
            raise ListError(f"{self.name}: {self.new!r} is no Python: {error}") from error
        if trees[0] == trees[1]:
            raise ListError(f"{self.name}: {self.new!r} says the same as {self.old!r}")
        return faulty


@dataclass(frozen=True)
class Outcome:
    """What became of a fault."""

    mutant: Mutant
    word: str
    seconds: float
    by: str

    @property
    def is_fine(self) -> bool:
        """Whether the fault was killed, or rightly was not."""
        return self.word != "survived" and not (self.mutant.equivalent and self.word == "killed")


def read_list(path: Path = LIST) -> list[Mutant]:
    """Read the faults of a list.

    Raises
    ------
    ListError
        Where an entry lacks something, has a key nobody knows, or has the name of another.
    """
    mutants: list[Mutant] = []
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
        try:
            mutants.append(Mutant(**{**entry, "tests": tuple(entry["tests"])}))
        except (TypeError, KeyError) as error:
            raise ListError(f"{path.name}: {entry.get('name', entry)}: {error}") from error
    names = [mutant.name for mutant in mutants]
    for name in {name for name in names if names.count(name) > 1}:
        raise ListError(f"{path.name}: two faults are called {name!r}")
    return mutants


def check(mutants: Sequence[Mutant], root: Path = REPOSITORY) -> None:
    """Raise ListError unless each fault can be planted, and its tests are there."""
    for mutant in mutants:
        mutant.applied((root / mutant.file).read_text(encoding="utf-8"))
        for test in mutant.tests:
            file, *names = test.split("::")
            path = root / file
            functions = path.read_text(encoding="utf-8") if path.is_file() else ""
            # What stands in brackets is one case of a test.
            wanted = [f"def {name.split('[')[0]}(" for name in names] or ["def test_"]
            if not all(definition in functions for definition in wanted):
                raise ListError(f"{mutant.name}: there is no test {test}")


_OTHERS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "*"),
    ast.And: (" and ", " or "),
    ast.Or: (" or ", " and "),
}
"""How an operator is written, and what takes its place."""


def _changes(tree: ast.AST) -> Iterator[tuple[int, int, int, str, str]]:
    """Yield what may be changed: line, first and last byte, the text there, the text instead."""
    for node in ast.walk(tree):
        pairs: list[tuple[ast.expr, object, ast.expr]] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            pairs = list(zip(sides, node.ops, node.comparators, strict=False))
        elif isinstance(node, ast.BinOp):
            pairs = [(node.left, node.op, node.right)]
        elif isinstance(node, ast.BoolOp):
            pairs = [(a, node.op, b) for a, b in zip(node.values, node.values[1:], strict=False)]
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield node.lineno, node.col_offset, node.end_col_offset or 0, "", f"{node.value + 1}"
        for left, operator, right in pairs:
            if type(operator) in _OTHERS and left.end_lineno == right.lineno:
                yield left.end_lineno, left.end_col_offset or 0, right.col_offset, *_OTHERS[type(operator)]


def generated(file: str, source: str, tests: tuple[str, ...]) -> list[Mutant]:
    """Return all faults that rules make in a file, in the order of its lines."""
    lines, found = source.splitlines(keepends=True), []
    for line, begin, end, old, new in sorted(set(_changes(ast.parse(source)))):
        text = lines[line - 1].encode()
        part = text[begin:end].decode()
        if (old and part.count(old) != 1) or not part:
            continue
        faulty = (text[:begin] + (part.replace(old, new) if old else new).encode() + text[end:]).decode()
        # With as many lines around it as make the place unique.
        before, after = line - 1, line
        while source.count("".join(lines[before:after])) > 1 and (before > 0 or after < len(lines)):
            before, after = max(before - 1, 0), min(after + 1, len(lines))
        around = "".join(lines[before : line - 1]), "".join(lines[line:after])
        name = f"line {line}, byte {begin}: {(old or part).strip()} becomes {new.strip()}"
        whole = lines[line - 1].join(around), faulty.join(around)
        found.append(
            Mutant(f"{file}, {name}", (file.split("/") * 2)[1].removesuffix(".py"), file, *whole, tests)
        )
    return found


def sample(mutants: Sequence[Mutant], n: int, seed: int, tests: Sequence[str], root: Path) -> list[Mutant]:
    """Draw n faults that rules make in the files of some listed ones; their tests are those of their file."""
    of_file: dict[str, list[str]] = {}
    for mutant in mutants:
        of_file.setdefault(mutant.file, []).extend(tests or mutant.tests)
    made = [
        fault
        for file, names in sorted(of_file.items())
        for fault in generated(file, (root / file).read_text(encoding="utf-8"), tuple(dict.fromkeys(names)))
    ]
    return random.Random(seed).sample(made, min(n, len(made)))


@contextmanager
def _copies(root: Path, n: int) -> Iterator[SimpleQueue[Path]]:
    """Lend out copies of the tree."""
    free: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="mlsim-mutants-") as directory:
        for k in range(n):
            copy = Path(directory) / f"tree{k}" / root.name
            shutil.copytree(root, copy, ignore=_LEFT_OUT, symlinks=True)
            # Tests look for logs beside the tree.
            (copy.parent / "shared").symlink_to(root.parent / "shared")
            free.put(copy)
        yield free


def _run(tests: Sequence[str], tree: Path, limit: float, compiled: bool = False) -> tuple[int | None, str]:
    """Run tests in a tree up to the first that fails; give pytest's exit code, None for no end, and which."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", "-rfE"]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-profile=first failure", *tests]
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_DISABLE_JIT": "0" if compiled else "1",
        "NUMBA_CACHE_DIR": str(tree.parent / "kernels"),
    }

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))

    process = subprocess.Popen(
        command,
        cwd=tree,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=bound,
    )
    try:
        output, _ = process.communicate(timeout=_WALL_TIMES * limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None, ""
    if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return None, ""
    lines = output.splitlines()
    failed = [line.split(" - ")[0] for line in lines if line.startswith(("FAILED ", "ERROR "))]
    return process.returncode, failed[0].split(maxsplit=1)[1] if failed else "\n".join(lines[-15:])


def _try(mutant: Mutant, free: SimpleQueue[Path], limit: float) -> Outcome:
    """Plant one fault in a copy, run its tests there, and mend the copy."""
    tree = free.get()
    path = tree / mutant.file
    source = path.read_text(encoding="utf-8")
    began = time.perf_counter()
    try:
        # Python would take the compiled file for that of a source of the same size and second.
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
        path.write_text(mutant.applied(source), encoding="utf-8")
        code, by = _run(mutant.tests, tree, limit, mutant.compiled)
    finally:
        path.write_text(source, encoding="utf-8")
        free.put(tree)
    seconds = time.perf_counter() - began
    if code is None:
        return Outcome(mutant, "killed", seconds, f"no end in {limit:g} s of CPU time")
    if code == _PASSED:
        return Outcome(mutant, "equivalent" if mutant.equivalent else "survived", seconds, mutant.equivalent)
    if code in (_FAILED, _INTERRUPTED):
        return Outcome(mutant, "killed", seconds, by)
    raise ListError(f"{mutant.name}: pytest could not run {' '.join(mutant.tests)}:\n{by}")


def _check_tests(mutants: Sequence[Mutant], free: SimpleQueue[Path], limit: float) -> None:
    """Raise ListError unless the tests run in a copy, on the copy's sources, and pass there."""
    tree = free.get()
    # A package that is installed would be tested in place of the copy.
    told = subprocess.run(
        [sys.executable, "-c", "import mlsim; print(mlsim.__file__)"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )
    if (tree / "mlsim").is_dir() and not told.stdout.startswith(str(tree)):
        raise ListError(f"the copy is not what is tested, but {told.stdout}{told.stderr}")
    for compiled in (False, True):
        tests = sorted({test for each in mutants if each.compiled is compiled for test in each.tests})
        code, by = _run(tests, tree, limit * max(len(tests), 1), compiled) if tests else (_PASSED, "")
        if code != _PASSED:
            raise ListError(f"without any fault the tests do not pass: {by}")
    free.put(tree)


def try_all(
    mutants: Sequence[Mutant], *, jobs: int = 1, limit: float = _LIMIT, root: Path = REPOSITORY
) -> Iterator[Outcome]:
    """Try faults one after the other, some at a time; their outcomes come in the list's order.

    Parameters
    ----------
    mutants
        The faults.
    jobs
        How many at a time; each has a copy of the tree of its own.
    limit
        CPU seconds that the tests of one fault may take.
    root
        The tree, which is not changed.

    Raises
    ------
    ListError
        Where a fault cannot be planted, or the tests fail without one.
    """
    check(mutants, root)
    with _copies(root, jobs) as free, ThreadPoolExecutor(jobs) as pool:
        _check_tests(mutants, free, limit)
        yield from pool.map(lambda mutant: _try(mutant, free, limit), mutants)


def chosen(mutants: Sequence[Mutant], room: str | None, only: str | None) -> list[Mutant]:
    """Return the faults of a room, and those with a text in their name or file."""
    return [
        mutant
        for mutant in mutants
        if room in (None, mutant.room)
        and (only is None or only.lower() in f"{mutant.name} {mutant.file}".lower())
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Plant faults, one at a time, and run the tests on each.")
    parser.add_argument("--only", metavar="TEXT", help="faults with this text in their name or file")
    parser.add_argument("--room", help="faults of this room, for instance batch")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many at a time (1)")
    parser.add_argument(
        "--limit", type=float, default=_LIMIT, metavar="SECONDS", help="CPU time of each (120)"
    )
    parser.add_argument("--generate", type=int, metavar="N", help="try N faults that rules make")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="which of them (0)")
    parser.add_argument(
        "--tests", nargs="+", default=(), help="their tests; default: the list's for the file"
    )
    parser.add_argument("--list", action="store_true", help="only list them, having checked that they apply")
    parser.add_argument("--root", type=Path, default=REPOSITORY, help=argparse.SUPPRESS)
    parser.add_argument("--faults", type=Path, default=LIST, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.jobs < 1 or not 1 <= options.limit < 1e6:
        parser.error("--jobs must be 1 or more, --limit from 1 to 999999 s")
    try:
        mutants = chosen(read_list(options.faults), options.room, options.only)
        if not mutants:
            raise ListError("no fault of the list is meant")
        if options.generate is not None:
            mutants = sample(mutants, options.generate, options.seed, options.tests, options.root)
        if options.list:
            check(mutants, options.root)
            for mutant in mutants:
                print(f"{mutant.room:13} {mutant.name:60} {mutant.file}")
            return 0
        return _report(try_all(mutants, jobs=options.jobs, limit=options.limit, root=options.root))
    except ListError as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2


def _report(outcomes: Iterator[Outcome]) -> int:
    counts = {"killed": 0, "survived": 0, "equivalent": 0}
    bad, began = [], time.perf_counter()
    for outcome in outcomes:
        counts[outcome.word] += 1
        if not outcome.is_fine:
            bad.append(outcome)
        row = f"{outcome.word:10} {outcome.seconds:6.1f} s  {outcome.mutant.room:13} {outcome.mutant.name:60}"
        print(f"{row} {outcome.by}".rstrip(), flush=True)
    told = ", ".join(f"{count} {word}" for word, count in counts.items())
    print(f"{sum(counts.values())} faults: {told}; {time.perf_counter() - began:.0f} s")
    for outcome in bad:
        what = "survived" if outcome.word == "survived" else "is killed, so it is not equivalent"
        print(f"{outcome.mutant.name} {what}: {outcome.mutant.file}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
