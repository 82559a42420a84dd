"""The JSON schemas as other programs read them: patterns of ECMA-262, and a validator that is not ours."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mlsim.experiment.study.study_file import schema_of
from mlsim.scenario import Policy, dump, loads, words
from mlsim.scenario.field_types import word_of
from mlsim.scenario.scenario_keys import dotted_keys
from mlsim.scenario.scenario_text import parse_text
from mlsim.scenario.words import Choice, Predictor

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
FILES = sorted(
    # Known schedules are examples of `mlsim verify` and no scenarios.
    file
    for file in SCENARIOS.rglob("*.yaml")
    if file.parent.name != "known-schedules"
)
KINDS = ("scenario", "loop", "study")
VALIDATORS = {kind: Draft202012Validator(schema_of(kind)) for kind in KINDS}


def content(file: Path) -> dict[str, Any]:
    document = parse_text(file.read_text(), str(file))
    assert not document.problems
    return document.value


def kind_of(value: dict[str, Any]) -> str:
    if "base" in value:
        return "study"
    return "scenario" if "workload" in value else "loop"


def patterns(part: object) -> Iterator[str]:
    """Go through every regular expression of a schema."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "pattern" and isinstance(value, str):
                yield value
            if key == "patternProperties":
                yield from value
            yield from patterns(value)
    elif isinstance(part, list):
        for item in part:
            yield from patterns(item)


ALL_PATTERNS = sorted({pattern for kind in KINDS for pattern in patterns(schema_of(kind))})

# One atom of an expression that means the same in Python and in ECMA-262 with the flag u: a character
# that is no syntax, an escaped character of the syntax, \d or \s, or a class of plain characters.
_ATOM = r"(?:[^\\^$.*+?()\[\]{}|]|\\[\^$\\.*+?()\[\]{}|/]|\\[ds]|\.|\[[A-Za-z0-9._µμ :T+-]+\])"
_TIMES = r"(?:[*+?]|\{\d+(?:,\d*)?\})"
_SAFE = re.compile(rf"\^?(?:{_ATOM}{_TIMES}?|\((?=.)|\){_TIMES}?|\|)*\$?")


def test_a_plus_that_is_no_syntax_is_not_safe() -> None:
    """What the check is for: a word with ++ is no expression, \\- and \\Z are not known everywhere."""
    for pattern in ("^(EASY++)$", "a\\-b", "a\\Z", "(?P<x>a)", "[a", "a{2,3}+"):
        assert not _SAFE.fullmatch(pattern), pattern


@pytest.mark.parametrize("pattern", ALL_PATTERNS)
def test_patterns_are_of_ecma_262(pattern: str) -> None:
    assert _SAFE.fullmatch(pattern), pattern
    re.compile(pattern)


def test_node_compiles_every_pattern() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not here; test_patterns_are_of_ecma_262 checks the syntax")
    program = (
        "const all = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
        "for (const p of all) { new RegExp(p, 'u'); new RegExp(p); }"
    )
    done = subprocess.run(
        [node, "-e", program], input=json.dumps(ALL_PATTERNS), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_the_schemas_are_schemas(kind: str) -> None:
    Draft202012Validator.check_schema(schema_of(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_check_jsonschema_accepts_every_file(kind: str, tmp_path: Path) -> None:
    """By a program that reads patterns as ECMA-262 has them."""
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(schema_of(kind)), encoding="utf-8")
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("batch: {policy: [}", encoding="utf-8")
    files = [str(file) for file in FILES if kind_of(content(file)) == kind]
    program = [sys.executable, "-m", "check_jsonschema", "--schemafile", str(schema)]
    done = subprocess.run([*program, *files], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    assert subprocess.run([*program, str(wrong)], capture_output=True, timeout=120).returncode == 1


SETS = [
    member
    for member in (*vars(words).values(), Policy)
    if isinstance(member, type) and issubclass(member, Choice) and member not in (Choice, words.Described)
]


@pytest.mark.parametrize("choice", SETS)
def test_words_in_any_case_fit_and_others_do_not(choice: type[Choice]) -> None:
    validator = Draft202012Validator(word_of(choice).json())
    for word in [*choice, *choice.aliases()]:
        for spelling in (word, word.lower(), word.upper(), word.swapcase()):
            assert validator.is_valid(spelling)
            choice(spelling)
        assert not validator.is_valid(word + word[-1])
        assert not validator.is_valid(word + "x")
    assert not validator.is_valid("")


def test_every_set_of_words_was_tried() -> None:
    assert {Policy, Predictor} <= set(SETS)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SCENARIOS)))
def test_every_file_fits_the_schema_of_its_kind(file: Path) -> None:
    value = content(file)
    own = kind_of(value)
    assert [error.message for error in VALIDATORS[own].iter_errors(value)] == []
    fitting = {kind for kind in KINDS if VALIDATORS[kind].is_valid(value)}
    # The loop of a scenario can be simulated alone.
    assert fitting == ({"scenario", "loop"} if own == "scenario" else {own})
    assert not VALIDATORS[own].is_valid(value | {"nmae": "x"})


SCENARIO = {"platform": {"nodes": [{"name": "n", "count": 2, "cores": 4}]}, "workload": {"path": "l.swf"}}
LOOP = {"platform": SCENARIO["platform"], "application": {"technique": "GSS"}}
STUDY = {"base": "loop.yaml", "vary": {"application.technique": ["SS", "GSS"]}}
RUNS = STUDY | {"of": "runs"}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("scenario", {key: value for key, value in SCENARIO.items() if key != "platform"}),
        ("scenario", LOOP),
        ("scenario", SCENARIO | {"batch": {"predictor": "EASY+"}}),
        ("scenario", SCENARIO | {"application": {"execution": {"model": "mpiopenmp"}}}),
        ("loop", {"application": {"technique": "GSS"}}),
        ("loop", LOOP | {"application": {"technique": "GSSS"}}),
        ("loop", LOOP | {"application": {"execution": {"break_after": 0}}}),
        ("loop", LOOP | {"seed": -1}),
        ("loop", STUDY),
        ("study", {"base": "loop.yaml"}),
        ("study", {"vary": STUDY["vary"]}),
        ("study", STUDY | {"keep": "everything"}),
        ("study", STUDY | {"of": "everything"}),
        ("study", STUDY | {"vary": {}}),
        ("study", STUDY | {"vary": {"application.technqiue": ["SS"]}}),
        ("study", STUDY | {"vary": {"machine": {"slow": {"platform.network.latncy": "1 us"}}}}),
        ("study", STUDY | {"vary": {"machine": {"slow": "platform.network.latency"}}}),
        ("study", RUNS | {"timelines": []}),
        ("study", RUNS | {"set": {"workload.pth": "x"}}),
        ("study", RUNS | {"pictures": [{"kind": "gantt", "lines": "technique"}]}),
        ("study", RUNS | {"pictures": [{"kind": "balance"}]}),
        ("study", RUNS | {"pictures": [{"kind": "gantt", "span": [1]}]}),
    ],
)
def test_what_is_wrong_does_not_fit(kind: str, value: dict[str, Any]) -> None:
    assert not VALIDATORS[kind].is_valid(value)


@pytest.mark.parametrize(
    "keys",
    [
        {"platform.nodes.0.resources.gpu": 2, "platform.nodes": [], "workload": {}},
        {"batch.cp.ewt.1": 3600, "application.costs.parameters.window.x_min": -1},
    ],
)
def test_keys_of_studies_may_be_sections_places_and_names(keys: dict[str, Any]) -> None:
    assert VALIDATORS["study"].is_valid(STUDY | {"vary": {"machine": {"a": keys, "b": {}}}})


def test_dotted_keys_are_sections_and_keys() -> None:
    found = dotted_keys()
    assert len(set(found)) == len(found)
    assert {"batch", "batch.cp", "batch.cp.ewt", "batch.cp.ewt.*", "platform.nodes.N.count"} <= set(found)


def test_the_command_prints_each() -> None:
    from typer.testing import CliRunner

    from mlsim.cli.main import app

    for kind in KINDS:
        done = CliRunner().invoke(app, ["schema", "--for", kind])
        assert json.loads(done.stdout) == json.loads(json.dumps(schema_of(kind)))
    assert (
        CliRunner().invoke(app, ["schema"]).stdout
        == CliRunner().invoke(app, ["schema", "--for", "scenario"]).stdout
    )


def test_usual_names_of_the_field_stand_for_the_words() -> None:
    text = "platform: {nodes: [{name: n, count: 1, cores: 1}]}\nworkload: {path: log.swf}\n"
    usual = loads(text + "batch: {backfill: first-fit, ties: Batched, on_overrun: terminate}\n")
    plain = loads(text + "batch: {backfill: greedy, ties: drained, on_overrun: kill}\n")
    assert usual == plain
    assert dump(usual) == dump(plain)
