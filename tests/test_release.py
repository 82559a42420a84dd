"""The release: versions in all places, recipe, container file, citation, bounds, and what is packed."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from ruamel.yaml import YAML

import mlsim

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def load_tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


release, build_dist = load_tool("release"), load_tool("build_dist")

# The version in all places, and the script that changes it


@pytest.mark.parametrize("place", release.PLACES, ids=lambda place: f"{place.file} {place.value}")
def test_places_have_the_version_of_the_package(place: Any) -> None:
    found = release._matched(place)
    if "version" in place.value:
        assert found == mlsim.__version__


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a repository of the files that a release changes, with two fragments."""
    pytest.importorskip("towncrier", reason="towncrier is not installed")
    files = {place.file for place in release.PLACES} | {"CHANGELOG.md", "pyproject.toml", "tools/release.py"}
    for name in [*files, "changes/README.md"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "changes" / "+one.added.md").write_text("A first thing.\n")
    (tmp_path / "changes" / "+two.fixed.md").write_text("A second thing.\n")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(tree: Path, *words: str) -> str:
    name = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    done = subprocess.run(["git", *name, *words], cwd=tree, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(tree: Path) -> None:
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "x")


def run(tree: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "tools/release.py", *words], cwd=tree, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def test_a_release_is_prepared_and_neither_committed_nor_tagged(tree: Path) -> None:
    code, printed = run(tree, "9.9.9", "--date", "2030-01-02")
    assert code == 0, printed
    assert "git tag --annotate v9.9.9" in printed
    assert git(tree, "tag") == ""
    assert git(tree, "log", "--format=%s") == "x"
    assert "9.9.9" in (tree / "mlsim/__init__.py").read_text()
    assert "version: 9.9.9\ndate-released: 2030-01-02\n" in (tree / "CITATION.cff").read_text()
    assert "  version = {9.9.9},\n  year    = {2030},\n" in (tree / "docs/support.md").read_text()
    assert "\n  version: 9.9.9\n" in (tree / "recipe/recipe.yaml").read_text()
    assert [path.name for path in (tree / "changes").iterdir()] == ["README.md"]
    assert run(tree, "--notes", "9.9.9") == (
        0,
        "### Added\n\n- A first thing.\n\n### Fixed\n\n- A second thing.\n",
    )
    assert run(tree, "--check", "9.9.9") == (0, "")
    assert git(tree, "diff") == "", "everything is staged"


def test_fragments_that_come_later_are_added_to_the_section(tree: Path) -> None:
    run(tree, "9.9.9", "--date", "2030-01-02")
    before = (tree / "CHANGELOG.md").read_text()
    commit(tree)
    (tree / "changes" / "+three.fixed.md").write_text("A third thing.\n")
    (tree / "changes" / "+four.highlight.md").write_text("The main thing.\n")
    commit(tree)
    assert run(tree, "--check", "9.9.9")[0] == 1
    code, printed = run(tree, "9.9.9", "--date", "2030-01-03")
    assert code == 0, printed
    assert run(tree, "--notes", "9.9.9")[1] == (
        "### Highlights\n\n- The main thing.\n\n"
        "### Added\n\n- A first thing.\n\n### Fixed\n\n- A second thing.\n- A third thing.\n"
    )
    after = (tree / "CHANGELOG.md").read_text()
    assert after.count("## 9.9.9 (2030-01-03)") == 1
    assert "2030-01-02" not in after
    older = before.partition("## 0.2.0")
    assert after.partition("## 0.2.0")[1:] == older[1:]


def test_a_release_is_not_prepared_from_a_wrong_state(tree: Path) -> None:
    assert run(tree, "0.0.1")[1].startswith("0.0.1 is before ")
    assert "no version such as 1.2.3" in run(tree, "v1.2")[1]
    git(tree, "tag", "v9.9.9")
    assert "v9.9.9 is tagged already" in run(tree, "9.9.9")[1]
    with (tree / "CITATION.cff").open("a") as file:
        file.write("# a change\n")
    assert "commit or drop these changes first" in run(tree, "9.9.8")[1]
    git(tree, "checkout", "--quiet", "CITATION.cff")
    (tree / "CITATION.cff").write_text("version: none\n")
    commit(tree)
    assert "CITATION.cff has 0 lines" in run(tree, "9.9.8")[1]
    assert git(tree, "status", "--porcelain") == ""


def test_a_check_names_each_place_with_another_version(tree: Path) -> None:
    code, printed = run(tree, "--check", "9.9.9")
    assert code == 1
    for name in ("mlsim/__init__.py", "CITATION.cff", "docs/support.md", "recipe/recipe.yaml"):
        assert f"{name} has version {mlsim.__version__}, not 9.9.9" in printed
    assert "the first section of CHANGELOG.md is" in printed
    assert "+one.added.md, +two.fixed.md" in printed
    assert run(tree, "--notes", "9.9.9") == (1, "CHANGELOG.md has no section of 9.9.9\n")


def test_the_citation_is_valid() -> None:
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.citation-file-format"]
        + ["--default-filetype", "yaml", "--force-filetype", "yaml", str(ROOT / "CITATION.cff")],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


# Requirements


def requirements(*extras: str) -> list[Requirement]:
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
    return [Requirement(line) for line in lines]


OF_CONDA = {"matplotlib": "matplotlib-base", "ortools": "ortools-python"}
"""Names of packages that differ there."""


def of_recipe(lines: list[Any]) -> dict[str, str]:
    """Return the bounds of a list of a recipe, by package; those under a condition too."""
    flat = [line["then"] if isinstance(line, dict) else line for line in lines]
    pairs = [line.partition(" ") for line in flat if line not in ("python", "pip")]
    return {name: bounds for name, _, bounds in pairs}


def expected(found: list[Requirement]) -> dict[str, str]:
    return {
        OF_CONDA.get(each.name, each.name): ",".join(
            sorted(map(str, each.specifier), key=lambda s: s[0] != ">")
        )
        for each in found
    }


def test_the_recipe_requires_what_the_package_requires() -> None:
    recipe = YAML(typ="safe").load((ROOT / "recipe" / "recipe.yaml").read_text())
    needs = recipe["requirements"]
    assert of_recipe(needs["run"]) == expected(requirements())
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert of_recipe(needs["host"]) == expected([*requirements("jit"), *map(Requirement, build)])
    optional = of_recipe(needs["run_constraints"])
    extras = [Requirement(line) for extra, lines in EXTRAS.items() if extra != "dev" for line in lines]
    known = expected([each for each in extras if OF_CONDA.get(each.name, each.name) in optional])
    assert optional == known
    least = PROJECT["requires-python"].removeprefix(">=")
    assert f'match(python, "<{least}")' in recipe["build"]["skip"]
    [conditional] = [line for line in needs["run"] if isinstance(line, dict)]
    [marked] = [each for each in requirements() if each.marker]
    assert conditional["then"].startswith(marked.name)
    assert re.findall(r'"(.*?)"', str(marked.marker))[-1] == re.findall(r'"<(.*?)"', conditional["if"])[0]
    assert recipe["about"]["summary"] == PROJECT["description"].rstrip(".")
    assert recipe["about"]["license"] == PROJECT["license"]


def test_exact_versions_are_within_the_bounds() -> None:
    exact = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())
    pinned = {canonicalize_name(name): Version(number) for name, number in exact.items()}
    wrong = [
        str(each)
        for each in requirements(*EXTRAS)
        if (found := pinned.get(canonicalize_name(each.name))) and found not in each.specifier
    ]
    assert wrong == []
    missing = {canonicalize_name(each.name) for each in requirements("dev")} - pinned.keys()
    assert missing == set()


UNSTABLE = {"numba.core": "numba", "polars.io.plugins": "polars", "pydantic_core": "pydantic"}
"""Public by name, but not by the words of their authors, with the package that requires each."""
OF_MODULES = {"_otf2": "otf2", "llvmlite": "numba"}


def private_parts() -> Iterator[tuple[str, str]]:
    """Yield the package, and the place, of each import of a part that may change in any release."""
    own = {"mlsim", *sys.stdlib_module_names}
    for path in sorted((ROOT / "mlsim").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [f"{node.module}.{each.name}" for each in node.names]
            for name in names:
                root = name.partition(".")[0]
                unstable = next(
                    (of for part, of in UNSTABLE.items() if f"{name}.".startswith(f"{part}.")), ""
                )
                hidden = re.search(r"(^|\.)_[a-z]", name) and root not in own
                if unstable or hidden or root in OF_MODULES:
                    yield unstable or OF_MODULES.get(root, root), f"{path.relative_to(ROOT)}:{node.lineno}"


def test_packages_have_an_upper_bound_where_private_parts_are_used() -> None:
    used = dict(private_parts())
    assert {"numba", "otf2", "polars", "pydantic"} <= used.keys()
    for package, place in used.items():
        found = [each for each in requirements(*EXTRAS) if canonicalize_name(each.name) == package]
        assert found, place
        unbounded = [str(each) for each in found if not any(s.operator == "<" for s in each.specifier)]
        assert unbounded == [], f"{place} uses a private part"


# Container file


def instructions(text: str) -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    return [(line.split()[0], line.partition(" ")[2]) for line in text.splitlines() if line.strip()]


def container_faults(text: str) -> Iterator[str]:
    """Yield what is against the rules: tags, no root, nothing cached, exact versions, words as lists."""
    found = instructions(text)
    stages: set[str] = set()
    for word, rest in found:
        if word == "FROM":
            image, _, stage = rest.partition(" AS ")
            if image not in stages and not re.search(r":\d[\w.]*-|@sha256:[0-9a-f]{64}$", image):
                yield f"{image} has neither a version nor a digest"
            stages.add(stage)
        if word == "RUN":
            for command in re.split(r"&&", rest):
                if re.search(r"\bpip (install|wheel)\b", command) and "--no-cache-dir" not in command:
                    yield f"cached: {command.strip()}"
                if "pip install" in command and "--constraint" not in command:
                    yield f"any version: {command.strip()}"
            if "apt-get install" in rest and not re.search(r"rm -rf /var/lib/apt/lists", rest):
                yield "lists of packages stay in the image"
        if word in ("ENTRYPOINT", "CMD") and not rest.startswith("["):
            yield f"{word} is run by a shell, which signals do not pass"
        if word == "ADD":
            yield "ADD unpacks and downloads; use COPY"
    last = [rest for word, rest in found if word == "USER"][-1:]
    if last in ([], ["root"], ["0"]):
        yield "the user is root"


def test_the_container_file_keeps_to_the_rules() -> None:
    text = (ROOT / "Containerfile").read_text()
    assert list(container_faults(text)) == []
    assert ("ENTRYPOINT", '["mlsim"]') in instructions(text)
    for word, rest in instructions(text):
        if word == "COPY" and not rest.startswith("--from="):
            assert all((ROOT / name).exists() for name in rest.split()[:-1])


@pytest.mark.parametrize(
    "line",
    [
        "FROM python",
        "FROM python:latest",
        "RUN pip install mlsim",
        "RUN pip install --no-cache-dir mlsim",
        "RUN apt-get install gcc",
        "CMD mlsim",
        "ADD x y",
        "USER root",
    ],
)
def test_container_files_against_the_rules_are_found(line: str) -> None:
    rest = "FROM python:3.11-slim\nUSER 1000\n"
    assert list(container_faults(rest)) == []
    assert len(list(container_faults(f"{rest}{line}\n"))) >= 1


# Packed files


@pytest.mark.slow
def test_the_sdist_has_what_is_committed_and_builds_again(tmp_path: Path) -> None:
    if Version(version("setuptools")) < Version("77"):
        pytest.skip("an older setuptools than the build requires")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a checkout")
    tracked = [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]
    tree = tmp_path / "tree"
    for name in tracked:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    (tree / "mlsim/_jit/built").mkdir()
    (tree / "mlsim/_jit/built/kernels.so").write_bytes(b"of one machine")
    sdist = packed(tree, tmp_path, "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    [source] = (tmp_path / "unpacked").iterdir()
    names = {str(path.relative_to(source)) for path in build_dist.files(source)}
    assert build_dist.missing_in_sdist(tracked, names) == set()
    assert not [name for name in names if "built" in name.split("/")]
    wheel = packed(source, tmp_path, "wheel")
    assert wheel.name == f"mlsim-{mlsim.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as whole:
        inside = whole.namelist()
    assert build_dist.missing_in_wheel(tracked, inside) == set()
    assert build_dist.missing_in_wheel(tracked, inside, build_dist.LIBRARY) == set(build_dist.LIBRARY)
    assert {name.partition("/")[0] for name in inside} == {"mlsim", f"mlsim-{mlsim.__version__}.dist-info"}
    with_library(source)
    wheel = packed(source, tmp_path, "wheel")
    assert wheel.name.startswith(f"mlsim-{mlsim.__version__}-py3-none-manylinux_2_28_")
    with zipfile.ZipFile(wheel) as whole:
        assert build_dist.missing_in_wheel(tracked, whole.namelist(), build_dist.LIBRARY) == set()
    with (source / "mlsim/errors.py").open("a") as file:
        file.write("# changed since the library was built\n")
    with pytest.raises(AssertionError, match="not of these sources"):
        packed(source, tmp_path, "wheel")


def with_library(source: Path) -> None:
    """Put a file in the place of a library that was built of these sources."""
    modules = {}
    for path in (source / "mlsim").rglob("*.py"):
        name = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        modules[name] = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    index, library = (source / name for name in build_dist.LIBRARY)
    index.parent.mkdir()
    index.write_text(json.dumps({"modules": modules, "glibc": "2.28"}))
    library.write_bytes(b"kernels")


def packed(source: Path, out: Path, kind: str) -> Path:
    code = f"import sys, setuptools.build_meta as b; print(b.build_{kind}(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(out)], cwd=source, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out / done.stdout.splitlines()[-1]
