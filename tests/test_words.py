"""Texts that people read keep to plain English: pages, docstrings, messages and help.

The rules are those of CONTRIBUTING.md, "How we write". A hit that is right as it is stands in
``tests/word_exceptions.toml``, by file and rule, with its count: the counts only shrink.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
EXCEPTIONS: dict[str, dict[str, int]] = tomllib.loads((ROOT / "tests/word_exceptions.toml").read_text())

WORDS = {
    "tell or say": r"\b(tells?|told|telling|says?|said|saying)\b",
    "persons": r"\b(some|no|any|every)body\b|\bwhoever\b|\bsomeone\b|\bof one'?s own\b",
    "idioms": r"\b(lets?|letting) go\b|\b(brings?|brought|bringing)\b|\b(stands?|stood) for\b",
    "hand": r"\b(hands|handed|handing)\b(?!-)",
    "per": r"\b([µu]s|ms|s|seconds?|bytes|[kM]B|jobs|nodes|cores|ranks|chunks) an? "
    r"(job|node|chunk|run|pass|week|second|minute|hour|day|message|request|core|rank)\b",
}
"""Words of no field (rules 2 to 4), by rule."""

CLAUSE = re.compile(r"(what|who|whom|whose|where|which|how|that which|those)\b", re.I)
"""A text that begins so names a thing by a clause in place of a noun (rule 1)."""

VERB = re.compile(r"(tell|say|give|let|have|do|take|bring|put|come|go|stand|hand|look)\b", re.I)
"""A docstring that begins so has no verb of the field (rule 2)."""


class Text(NamedTuple):
    kind: str
    line: int
    words: str


def texts(path: Path) -> Iterator[Text]:
    """Yield the texts of a page, or the docstrings and strings with a space of a Python file."""
    yield from _of_python(path) if path.suffix == ".py" else _of_page(path)


def _of_page(path: Path) -> Iterator[Text]:
    fenced = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced:
            words = re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)
            kind = "heading" if line.startswith("#") and not line.endswith("?") else "prose"
            yield Text(kind, number, words.lstrip("# "))


def _of_python(path: Path) -> Iterator[Text]:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    seen = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, documented) and (found := ast.get_docstring(node)):
            first = node.body[0]
            assert isinstance(first, ast.Expr)
            seen.add(first.value)
            yield Text("docstring", first.lineno, found)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node not in seen
            and " " in node.value
        ):
            yield Text("prose", node.lineno, node.value)


def faults(text: Text) -> Iterator[str]:
    """Yield the rules that a text breaks, once for each place."""
    words = re.sub(r"``[^`]*``", "", text.words)
    if text.kind in ("heading", "docstring") and CLAUSE.match(words):
        yield "clause"
    if text.kind == "docstring" and VERB.match(words):
        yield "verb"
    for rule, pattern in WORDS.items():
        yield from (rule for _ in re.finditer(pattern, words, re.I))


def files() -> list[str]:
    """Return the files whose texts people read, relative to the project."""
    found = [*ROOT.glob("mlsim/**/*.py"), *ROOT.glob("mlsim/**/*.md"), *ROOT.glob("docs/**/*.md")]
    found += [*ROOT.glob("scenarios/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return sorted(str(path.relative_to(ROOT)) for path in found)


@pytest.mark.parametrize("name", files())
def test_words(name: str) -> None:
    found = [(rule, text) for text in texts(ROOT / name) for rule in faults(text)]
    counts = Counter(rule for rule, _ in found)
    allowed = EXCEPTIONS.get(name, {})
    listed = "\n".join(
        f"  line {text.line}, {rule}: {text.words.splitlines()[0][:100]}" for rule, text in found
    )
    more = {rule: count for rule, count in counts.items() if count > allowed.get(rule, 0)}
    assert not more, f"{name} breaks rules of CONTRIBUTING.md (How we write):\n{listed}"
    assert counts == allowed, f"{name} has become plainer: lower its counts in tests/word_exceptions.toml"


def test_exceptions_are_of_files_that_exist() -> None:
    assert EXCEPTIONS.keys() <= set(files())


@pytest.mark.parametrize(
    ("kind", "words", "rules"),
    [
        ("docstring", "What is left of the profile.", ["clause"]),
        ("heading", "How policies are written", ["clause"]),
        ("docstring", "Give the time of a job.", ["verb"]),
        ("docstring", "Return the earliest start; ``tell`` is code.", []),
        ("prose", "mlsim tells somebody, who is told.", ["tell or say", "tell or say", "persons"]),
        ("prose", "20 µs a job, 3 jobs per node", ["per"]),
        ("prose", "hand-written, by hand; it hands over", ["hand"]),
    ],
)
def test_rules(kind: str, words: str, rules: list[str]) -> None:
    assert sorted(faults(Text(kind, 1, words))) == sorted(rules)
