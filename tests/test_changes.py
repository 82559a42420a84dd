"""Fragments of the changelog: whatever is in ``changes/`` can be put into it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("towncrier", reason="towncrier is not installed")

ROOT = Path(__file__).resolve().parents[1]
CHANGES = ROOT / "changes"
KINDS = ("highlight", "added", "changed", "fixed", "removed")
FRAGMENTS = sorted(path for path in CHANGES.glob("*") if path.name != "README.md")


def test_towncrier_puts_every_fragment_into_the_changelog() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9"],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    whole = " ".join(done.stdout.split())
    for path in FRAGMENTS:
        assert " ".join(path.read_text(encoding="utf-8").split()) in whole, path.name


def test_names_of_fragments_say_what_kind_of_change_they_tell_of() -> None:
    wrong = [
        path.name for path in FRAGMENTS if not re.fullmatch(rf"\+[\w-]+\.({'|'.join(KINDS)})\.md", path.name)
    ]
    assert wrong == []


def test_the_changelog_has_the_line_below_which_releases_are_put() -> None:
    assert (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").count("<!-- towncrier puts the next") == 1
