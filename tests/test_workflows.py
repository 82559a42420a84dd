"""Workflows and forms of .github/: they fit their schemas, and their steps name commands that exist."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NOXFILE = ast.parse((ROOT / "noxfile.py").read_text())
OF_RUNNERS = {"cat", "docker", "echo", "gh", "git", "mkdir", "pip", "test", "tee", "tr", "nox", "towncrier"}
"""Commands that a runner has, or that a step before installs."""
UNTRUSTED = re.compile(r"\$\{\{[^}]*\bgithub\.(event\.|head_ref|base_ref|ref_name)")


def load(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text())


ALL = {path.name: load(path) for path in WORKFLOWS}
JOBS = [
    pytest.param(name, key, job, id=f"{name}-{key}")
    for name, workflow in ALL.items()
    for key, job in workflow["jobs"].items()
]


def schema_errors(schema: str, *paths: Path) -> str:
    """Return the messages of check-jsonschema by a schema that it ships."""
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    words = ["--builtin-schema", schema, *map(str, paths)]
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", *words], capture_output=True, text=True, timeout=120
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")


@pytest.mark.parametrize(
    ("schema", "paths"),
    [
        ("vendor.github-workflows", WORKFLOWS),
        ("custom.github-workflows-require-timeout", WORKFLOWS),
        ("vendor.github-issue-forms", FORMS),
        ("vendor.github-issue-config", [GITHUB / "ISSUE_TEMPLATE" / "config.yml"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_fit_the_schemas_of_their_host(schema: str, paths: list[Path]) -> None:
    assert paths
    assert schema_errors(schema, *paths) == ""


def test_a_schema_rejects_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "x.yml"
    path.write_text("name: x\non: push\njobs: {a: {runs-on: ubuntu-latest, step: []}}\n")
    assert "step" in schema_errors("vendor.github-workflows", path)


def steps(job: dict[str, Any]) -> Iterator[str]:
    """Yield the commands of a job, with each value of its matrix."""
    matrix = job.get("strategy", {}).get("matrix", {})
    for step in job["steps"]:
        text = step.get("run", "")
        found = re.search(r"\$\{\{ matrix\.(\w+) \}\}", text)
        for value in matrix[found[1]] if found else [None]:
            yield text if found is None else text.replace(found[0], value)


def commands(text: str) -> Iterator[list[str]]:
    """Yield the words of each command of a step, those in substitutions too."""
    for inner in re.findall(r"\$\((?!\()([^()]*)\)", text):
        yield from commands(inner)
    text = re.sub(r"\$\(\([^)]*\)\)|\$\((?!\()[^()]*\)", "VALUE", text)
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, "|"]:
            if set(word) <= {"|", "&"}:
                while words and re.match(r"\w+=", words[0]):
                    words = words[1:]
                if words:
                    yield words
                words = []
            else:
                words.append(word)


def sessions() -> set[str]:
    """Return the sessions of noxfile.py, with the Pythons of those that have several."""
    names = set()
    for node in NOXFILE.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            if ast.unparse(decorator).startswith("nox.session"):
                settings = {key.arg: ast.unparse(key.value) for key in decorator.keywords}  # type: ignore[attr-defined]
                name = settings.get("name", repr(node.name)).strip("'")
                several = settings.get("python") == "PYTHONS"
                names |= {f"{name}-{python}" for python in pythons()} if several else {name}
    return names


def pythons() -> list[str]:
    """Return the Pythons under which noxfile.py tests."""
    for node in NOXFILE.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PYTHONS":
            return list(ast.literal_eval(node.value))
    raise AssertionError("noxfile.py has no PYTHONS")


def fault(words: list[str]) -> str:
    """Return the reason why a command cannot work; nothing if it can."""
    name, rest = words[0], words[1:]
    if Path(name).name in ("python", "sh") and rest and rest[0].startswith("tools/"):
        script = ROOT / rest[0]
        if not script.is_file():
            return f"there is no {rest[0]}"
        text = script.read_text()
        options = [word.partition("=")[0] for word in rest if word.startswith("--")]
        return ", ".join(f"{rest[0]} has no {option}" for option in options if f'"{option}"' not in text)
    if name == "make":
        makefile = (ROOT / "Makefile").read_text().replace("$(VENV)", ".venv")
        targets = set(re.findall(r"^(\S+)\s*:", makefile, re.M))
        return ", ".join(f"no target {target}" for target in rest if target not in targets)
    if name == "nox":
        return "" if rest[0] == "-s" and set(rest[1:]) <= sessions() else f"no session {rest[1:]}"
    if Path(name).name == "pip":
        extras = set(",".join(re.findall(r"\.\[([\w,-]+)\]", " ".join(rest))).split(",")) - {""}
        wrong = extras - set(PROJECT["optional-dependencies"])
        return f"no extra {wrong}" if wrong else ""
    if name.startswith(".ci/"):
        return "" if os.access(ROOT / name, os.X_OK) else f"{name} cannot be executed"
    if name.startswith((".venv/bin/", "/opt/python/", "/tmp/venv/")):
        return "" if Path(name).name in ("python", "coverage") else f"{name} is not installed by a step"
    return "" if name in OF_RUNNERS else f"{name} is not known here"


@pytest.mark.parametrize(("name", "key", "job"), JOBS)
def test_steps_name_commands_that_exist(name: str, key: str, job: dict[str, Any]) -> None:
    faults = [
        f"{' '.join(words)}: {found}"
        for text in steps(job)
        for words in commands(text)
        if (found := fault(words))
    ]
    assert faults == []


@pytest.mark.parametrize(
    "text",
    [
        "make no-such-target",
        "nox -s tests-3.9",
        "nox -s no-such-session",
        "python tools/no_such.py",
        "python tools/build_dist.py --no-such-option DIR",
        "pip install '.[no-such-extra]'",
        "curlx --version",
        "mkdir x && no-such-command",
        'echo "$(no-such-command)"',
    ],
)
def test_commands_that_do_not_exist_are_found(text: str) -> None:
    assert any(fault(words) for words in commands(text))


@pytest.mark.parametrize(("name", "key", "job"), JOBS)
def test_jobs_refer_to_others_that_exist(name: str, key: str, job: dict[str, Any]) -> None:
    needs = job.get("needs", [])
    assert set([needs] if isinstance(needs, str) else needs) <= ALL[name]["jobs"].keys()
    matrix = job.get("strategy", {}).get("matrix", {})
    used = set(re.findall(r"\bmatrix\.(\w+)", str({**job, "strategy": {}})))
    assert used == {key for key in matrix if key != "include"} | {
        key for row in matrix.get("include", []) for key in row
    }


@pytest.mark.parametrize(("name", "key", "job"), JOBS)
def test_jobs_run_no_text_of_strangers_and_store_no_credentials(
    name: str, key: str, job: dict[str, Any]
) -> None:
    for step in job["steps"]:
        assert not UNTRUSTED.search(step.get("run", "")), "pass it by env"
        uses = step.get("uses", "")
        assert not uses or re.search(r"@(v\d+|release/v\d+|[0-9a-f]{40})$", uses)
        if uses.startswith("actions/checkout"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("name", ALL)
def test_workflows_ask_for_no_more_than_reading(name: str) -> None:
    assert ALL[name]["permissions"] in ({}, {"contents": "read"})


def artifacts(action: str) -> Iterator[tuple[str, str]]:
    for name, workflow in ALL.items():
        for job in workflow["jobs"].values():
            for step in job["steps"]:
                if step.get("uses", "").startswith(f"actions/{action}-artifact"):
                    words = step["with"].get("name") or step["with"]["pattern"]
                    yield name, re.sub(r"\$\{\{.*?\}\}|\*", "*", words)


def test_artifacts_that_are_downloaded_were_uploaded() -> None:
    uploaded = set(artifacts("upload"))
    for name, artifact in artifacts("download"):
        source = "benchmark.yml" if name == "benchmark-comment.yml" else name
        assert (source, artifact) in uploaded
    comment = ALL["benchmark-comment.yml"]["on"]["workflow_run"]["workflows"]
    assert comment == [ALL["benchmark.yml"]["name"]]


def test_every_python_that_is_named_is_tested() -> None:
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert named == pythons()
    assert PROJECT["requires-python"] == f">={named[0]}"
    ci, release = ALL["ci.yml"]["jobs"], ALL["release.yml"]["jobs"]
    assert ci["pythons"]["strategy"]["matrix"]["python"] == named[1:]  # the first has all tests
    assert ci["wheel"]["strategy"]["matrix"]["python"] == named
    assert release["try"]["strategy"]["matrix"]["python"] == named
    for job in (ci["newest-numba"], ALL["nightly.yml"]["jobs"]["newest"]):
        [setup] = [step for step in job["steps"] if step.get("uses", "").startswith("actions/setup-python")]
        assert setup["with"]["python-version"] == named[-1]
