"""Prepare a release: its version in all places, and the fragments of changes/ as a section of CHANGELOG.md.

Usage: python tools/release.py VERSION [--date YYYY-MM-DD]
       python tools/release.py --check VERSION
       python tools/release.py --notes VERSION

The first form edits files, and prints the commands that commit, tag and push, which it leaves to you.
Repeated for a version without a tag, it adds new fragments to its section. ``--check`` ends with 1 if a place
has another version, the section is missing, or fragments are left; the release workflow starts with it.
``--notes`` prints the section.
"""

from __future__ import annotations

import argparse
import datetime
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
CHANGELOG = ROOT / "CHANGELOG.md"
_VERSION = r"\d+\.\d+\.\d+"


class Place(NamedTuple):
    """A line of a file that has the version or the date of the release."""

    file: str
    line: str
    """A regular expression of the line, with what is replaced as its only group."""
    value: str
    """The replacement, with fields of :func:`values`."""


PLACES = (
    Place("mlsim/__init__.py", rf'^__version__ = "({_VERSION})"$', "{version}"),
    Place("CITATION.cff", rf"^version: ({_VERSION})$", "{version}"),
    Place("CITATION.cff", r"^date-released: (\S+)$", "{date}"),
    Place("docs/support.md", rf"^  version = {{({_VERSION})}},$", "{version}"),
    Place("docs/support.md", r"^  year    = {(\d+)},$", "{date:%Y}"),
    Place("recipe/recipe.yaml", rf"^  version: ({_VERSION})$", "{version}"),
)


def main() -> int:
    """Read the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("version", metavar="VERSION")
    parser.add_argument("--date", type=datetime.date.fromisoformat, default=datetime.date.today())
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true")
    mode.add_argument("--notes", action="store_true")
    given = parser.parse_args()
    if not re.fullmatch(_VERSION, given.version):
        parser.error(f"{given.version} is no version such as 1.2.3")
    if given.notes:
        print(section_of(given.version)[1])
        return 0
    if not given.check:
        prepare(given.version, given.date)
    problems = list(inconsistencies(given.version))
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems and not given.check:
        print(_NEXT.format(version=given.version))
    return 1 if problems else 0


_NEXT = """The files have version {version}. Read `git diff --cached`, and run the tests. Then:

  git commit -m "Version {version}"
  git tag --annotate v{version} -m "mlsim {version}"
  git push origin HEAD v{version}

The tag starts .github/workflows/release.yml, which builds, tries and publishes."""


def prepare(version: str, date: datetime.date) -> None:
    """Write the version and the section of the changelog into the files."""
    current = _matched(PLACES[0])
    if _numbers(version) < _numbers(current):
        sys.exit(f"{version} is before {current}, the version of mlsim/__init__.py")
    if _git("tag", "--list", f"v{version}"):
        sys.exit(f"v{version} is tagged already; what comes next needs another version")
    if changed := _git("status", "--porcelain", "--untracked-files=no"):
        sys.exit(f"commit or drop these changes first: a release is a commit of its own\n{changed}")
    for place in PLACES:
        _matched(place)  # all are there before the first is written
    _assemble(version, date)
    for place in PLACES:
        path = ROOT / place.file
        text = path.read_text(encoding="utf-8")
        start, end = next(re.finditer(place.line, text, re.M)).span(1)
        path.write_text(
            text[:start] + place.value.format(version=version, date=date) + text[end:], encoding="utf-8"
        )
    _git("add", "CHANGELOG.md", *{place.file for place in PLACES})


def _assemble(version: str, date: datetime.date) -> None:
    """Move the fragments into the section of the version, which may be there already."""
    if not fragments():
        return
    kept = CHANGELOG.read_text(encoding="utf-8")
    older = section_of(version) if f"\n## {version} (" in kept else None
    if older:  # towncrier adds no second section of a version
        CHANGELOG.write_text(kept.replace(older[0], ""), encoding="utf-8")
    command = [sys.executable, "-m", "towncrier", "build", "--yes", "--version", version, "--date", str(date)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        CHANGELOG.write_text(kept, encoding="utf-8")
        sys.exit(f"{' '.join(command[2:])} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    if older:
        heading, newer = section_of(version)
        text = CHANGELOG.read_text(encoding="utf-8")
        merged = heading.partition("\n")[0] + "\n\n" + merge(older[1], newer) + "\n\n"
        CHANGELOG.write_text(text.replace(heading, merged), encoding="utf-8")


def merge(older: str, newer: str) -> str:
    """Return the entries of two sections by kind, with the kinds in the order of pyproject.toml."""
    kinds: dict[str, list[str]] = {}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    order = [kind["name"] for kind in settings["type"]]
    for text in (older, newer):
        for part in re.split(r"^### ", text, flags=re.M)[1:]:
            kind, _, entries = part.partition("\n")
            kinds.setdefault(kind.strip(), []).append(entries.strip())
    return "\n\n".join(f"### {kind}\n\n" + "\n".join(kinds[kind]) for kind in order if kind in kinds)


def inconsistencies(version: str) -> Iterator[str]:
    """Yield what hinders the release of a version."""
    for place in PLACES:
        if "version" in place.value and (found := _matched(place)) != version:
            yield f"{place.file} has version {found}, not {version}"
    text = CHANGELOG.read_text(encoding="utf-8")
    heading = re.search(r"^## (.+?)$", text, re.M)
    title = heading[1] if heading else "none"
    if title != f"{version} ({_matched(PLACES[2])})":
        yield f"the first section of CHANGELOG.md is {title}, not {version} ({_matched(PLACES[2])})"
    if left := fragments():
        yield f"changes/ has fragments that are in no section: {', '.join(left)}"


def section_of(version: str) -> tuple[str, str]:
    """Return the section of a version in CHANGELOG.md, whole and without heading; end if there is none."""
    text = CHANGELOG.read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(version)}( .*)?\n((?:(?!## ).*\n?)*)", text, re.M)
    if found is None:
        sys.exit(f"CHANGELOG.md has no section of {version}")
    return found[0], found[2].strip()


def fragments() -> list[str]:
    """Return the names of the fragments of the next release."""
    return sorted(path.name for path in (ROOT / "changes").iterdir() if path.name != "README.md")


def _matched(place: Place) -> str:
    found = re.findall(place.line, (ROOT / place.file).read_text(encoding="utf-8"), re.M)
    if len(found) != 1:
        sys.exit(f"{place.file} has {len(found)} lines like {place.line}, not 1")
    return str(found[0])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"git {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
