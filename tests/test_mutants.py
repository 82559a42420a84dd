"""The list of faults that the tests must notice fits the tree, and so does the tool that plants them."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.effort import THOROUGH

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def mutants() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", REPOSITORY / "tools" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def test_every_fault_can_be_planted_and_its_tests_are_there(mutants: ModuleType) -> None:
    faults = mutants.read_list()
    mutants.check(faults)
    rooms = Counter(fault.room for fault in faults)
    assert rooms.total() >= 60
    assert {"analysis", "application", "batch", "coordination", "platform", "record", "scenario"} < set(rooms)
    for fault in faults:
        assert fault.file.split("/")[1].removesuffix(".py") == fault.room, fault.name


LIST = """
[[mutant]]
name = 'a sum'
room = 'a'
file = 'mine.py'
old = 'a + b'
new = 'a - b'
tests = ['test_code.py::test_sum']

[[mutant]]
name = 'nobody looks'
room = 'a'
file = 'mine.py'
old = 'a * b'
new = 'a / b'
tests = ['test_code.py']

[[mutant]]
name = 'the same'
room = 'b'
file = 'mine.py'
old = 'a == b'
new = 'b == a'
tests = ['test_code.py']
equivalent = 'equality is symmetric'

[[mutant]]
name = 'no end'
room = 'b'
file = 'mine.py'
old = 'n -= 1'
new = 'n -= 0'
tests = ['test_code.py']

[[mutant]]
name = 'not equivalent'
room = 'c'
file = 'mine.py'
old = 'while n > 0'
new = 'while n > 1'
tests = ['test_code.py']
equivalent = 'somebody was wrong'
"""
CODE = """
def add(a, b):
    return a + b

def times(a, b):
    return a * b

def same(a, b):
    return a == b

def down(n):
    while n > 0:
        n -= 1
    return n
"""
TESTS = """
from mine import add, down, same

def test_sum():
    assert add(1, 2) == 3

def test_others():
    assert same(1, 1)
    assert down(3) == 0
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "mine.py").write_text(CODE)
    (root / "test_code.py").write_text(TESTS)
    (root / "conftest.py").write_text(
        "from hypothesis import settings\nsettings.register_profile('first failure')\n"
    )
    (root / "list.toml").write_text(LIST)
    return root


def test_what_becomes_of_faults(
    mutants: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(tests: Sequence[str], copy: Path, limit: float, compiled: bool = False) -> tuple[int | None, str]:
        """Execute the tests here; what has no end would have none."""
        source = (copy / "mine.py").read_text()
        if "n -= 0" in source:
            return None, ""
        names: dict[str, Any] = {}
        exec(source, names)
        exec(TESTS.split("mine import")[1].split("\n", 1)[1], names)
        try:
            names["test_sum"]()
            names["test_others"]()
        except AssertionError:
            return 1, "somewhere"
        return 0, ""

    monkeypatch.setattr(mutants, "_run", run)
    options = ["--root", str(tree), "--faults", str(tree / "list.toml"), "--limit", "2"]
    assert mutants.main(options) == 1
    out, err = capsys.readouterr()
    words = [line.split()[0] for line in out.splitlines()[:-1]]
    assert words == ["killed", "survived", "equivalent", "killed", "killed"]
    assert "no end in 2 s" in out
    assert "5 faults: 3 killed, 1 survived, 1 equivalent" in out
    assert "nobody looks survived" in err
    assert "not equivalent is killed, so it is not equivalent" in err
    assert (tree / "mine.py").read_text() == CODE
    assert mutants.main([*options, "--room", "nowhere"]) == 2


def test_the_tests_of_a_fault_run_in_a_copy(
    mutants: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--root", str(tree), "--faults", str(tree / "list.toml")]
    assert mutants.main([*options, "--only", "A SUM"]) == 0
    assert "test_code.py::test_sum" in capsys.readouterr().out
    assert (tree / "mine.py").read_text() == CODE
    if THOROUGH:  # it takes the time it is given
        assert mutants.main([*options, "--only", "no end", "--limit", "5"]) == 0
        assert "no end in 5 s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("old = 'a + b'", "old = 'a +  b'", "a sum: mine.py has 0 places"),
        ("old = 'a + b'", "old = 'return'", "a sum: mine.py has 4 places"),
        ("new = 'a - b'", "new = 'a - '", "is no Python"),
        ("new = 'a - b'", "new = '(a + b)'", "says the same"),
        ("::test_sum", "::test_product", "there is no test"),
        ("name = 'the same'", "name = 'a sum'", "two faults are called 'a sum'"),
        ("room = 'c'", "rooms = 'c'", "not equivalent: .*rooms"),
    ],
)
def test_a_list_that_does_not_fit_is_told(
    mutants: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, words: str
) -> None:
    faults = tree / "list.toml"
    faults.write_text(faults.read_text().replace(old, new, 1))
    assert mutants.main(["--root", str(tree), "--faults", str(faults), "--list"]) == 2
    assert re.search(words, capsys.readouterr().err)


def test_rules_make_faults_of_operators_and_numbers(mutants: ModuleType, tree: Path) -> None:
    made = mutants.generated("mine.py", CODE.replace("n > 0", "n > 0 and n < 2 and n < 2"), ("test_code.py",))
    changes = [(old, new) for fault in made for old, new in [(fault.old, fault.new)]]
    assert ("    return a + b\n", "    return a - b\n") in changes
    assert ("    return a == b\n", "    return a != b\n") in changes
    while_lines = {new for old, new in changes if "while" in old}
    assert "    while n >= 0 and n < 2 and n < 2:\n" in while_lines
    assert "    while n > 1 and n < 2 and n < 2:\n" in while_lines
    assert "    while n > 0 or n < 2 and n < 2:\n" in while_lines
    assert "    while n > 0 and n < 2 and n <= 2:\n" in while_lines
    assert len({fault.name for fault in made}) == len(made)


def test_a_sample_of_them_is_drawn_by_a_seed(
    mutants: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--root", str(tree), "--faults", str(tree / "list.toml"), "--list", "--generate", "3"]

    def listed(*more: str) -> str:
        assert mutants.main([*options, *more]) == 0
        out: str = capsys.readouterr().out
        return out

    assert listed().count("mine.py, line") == 3
    assert listed("--seed", "1") == listed("--seed", "1")
    assert len({listed("--seed", str(seed)) for seed in range(5)}) > 1


def test_tests_that_fail_without_a_fault_are_told(
    mutants: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "test_code.py").write_text("def test_sum():\n    assert False\n")
    assert mutants.main(["--root", str(tree), "--faults", str(tree / "list.toml"), "--only", "a sum"]) == 2
    assert "without any fault the tests do not pass: test_code.py::test_sum" in capsys.readouterr().err
