"""Kernels that are kept on disk are compiled anew when what they are made of changes, and only then."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import mlsim
from mlsim._jit import cache
from mlsim._jit.elsewhere import is_compiled

SOURCES = {
    "_jit/kernels.py": "",
    "room/kernels.py": "from mlsim._jit import kernel\nfrom mlsim.room.columns import (\n    START,\n)\n",
    "room/inner/kernels.py": "from mlsim._jit import kernel\nfrom mlsim.other import STEP, codes\n",
    "room/columns.py": "from mlsim.room.base import WIDTH\nSTART, END = 0, WIDTH\n",
    "room/base.py": "from mlsim.far import NOTHING\nWIDTH = 3\n",
    "room/page.py": "TEXT = 'nothing that kernels read'\n",
    "other/__init__.py": "from mlsim.other.page import TEXT\nfrom mlsim.other.steps import STEP\n",
    "other/codes.py": "STATIC = 1\n",
    "other/steps.py": "STEP = 1\n",
    "other/page.py": "TEXT = ''\n",
    "far.py": "NOTHING = 0\n",
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    for name, source in SOURCES.items():
        path = tmp_path / "mlsim" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return tmp_path / "mlsim"


@pytest.mark.parametrize(
    "name",
    [
        "_jit/kernels.py",
        "room/kernels.py",
        "room/inner/kernels.py",
        "room/columns.py",
        "room/base.py",
        "other/codes.py",
        "other/steps.py",
        "far.py",
    ],
)
def test_whatever_is_compiled_into_kernels_counts(package: Path, name: str) -> None:
    before = cache.fingerprint(package, "room")
    (package / name).write_text(SOURCES[name] + "MORE = 1\n")
    assert cache.fingerprint(package, "room") != before


@pytest.mark.parametrize("name", ["room/page.py", "other/page.py"])
def test_what_no_kernel_reads_does_not(package: Path, name: str) -> None:
    before = cache.fingerprint(package, "room")
    (package / name).write_text(SOURCES[name] + "MORE = 1\n")
    assert cache.fingerprint(package, "room") == before


def test_columns_of_the_batch_level_count() -> None:
    """Places of columns are constants in kernels; the module that names them has no kernel itself."""
    columns = Path(mlsim.__file__).parent / "batch" / "columns" / "table.py"
    found = set(cache.made_of(Path(mlsim.__file__).parent, "batch"))
    assert b"mlsim._jit" not in columns.read_bytes()
    assert columns in found


def _long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let changes be as old as those of an installation."""
    monkeypatch.setattr(cache, "_RECENT_SECONDS", -1.0)


def test_sources_are_read_once_a_state_of_the_package(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _long_ago(monkeypatch)
    place = tmp_path / "kernels"
    expected = cache.fingerprint(package, "room")
    assert cache.Fingerprints(package, place).of("room") == expected
    with monkeypatch.context() as patch:
        patch.setattr(cache, "fingerprint", lambda *_: pytest.fail("read again"))
        assert cache.Fingerprints(package, place).of("room") == expected
    for name in ("room/kernels.py", "room/inner/more.py"):
        (package / name).write_text("from mlsim._jit import kernel\nMORE = 1\n")
        changed = cache.fingerprint(package, "room")
        assert changed != expected
        assert cache.Fingerprints(package, place).of("room") == changed
        expected = changed


def test_a_file_of_the_same_size_and_time_is_seen_to_be_another(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _long_ago(monkeypatch)
    path = package / "other" / "steps.py"
    before = cache.Fingerprints(package, tmp_path / "kernels").of("room")
    times = path.stat()
    (other := tmp_path / "other.py").write_text("STEP = 2\n")
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    os.replace(other, path)
    assert cache.Fingerprints(package, tmp_path / "kernels").of("room") != before


def test_a_state_within_the_last_seconds_is_not_kept(package: Path, tmp_path: Path) -> None:
    cache.Fingerprints(package, tmp_path / "kernels").of("room")
    assert not (tmp_path / "kernels").exists()


@pytest.mark.parametrize("damage", [b"", b"\xff\n\n", b"x\ny\nroom 00\n"])
def test_damaged_fingerprints_are_not_believed(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes
) -> None:
    _long_ago(monkeypatch)
    expected = cache.Fingerprints(package, tmp_path).of("room")
    kept = tmp_path / "kernels.sources"
    swapped = kept.read_bytes().replace(expected.encode(), expected[::-1].encode())
    for content in (damage, swapped):
        kept.write_bytes(content)
        assert cache.Fingerprints(package, tmp_path).of("room") == expected


def test_where_nothing_can_be_kept_sources_are_read(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _long_ago(monkeypatch)
    (tmp_path / "file").write_text("no directory")
    assert cache.Fingerprints(package, tmp_path / "file").of("room") == cache.fingerprint(package, "room")


@pytest.fixture
def elsewhere(package: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Look for a package's kernels as a process does that has not looked yet."""
    found = (cache._fingerprints, cache._own_directory, cache.cache_directory)
    monkeypatch.setattr(cache, "_PACKAGE", package)
    for each in found:
        each.cache_clear()
    yield monkeypatch
    for each in found:
        each.cache_clear()


def test_the_first_place_that_can_be_made_is_taken_and_sources_stay_as_they_are(
    package: Path, tmp_path: Path, elsewhere: pytest.MonkeyPatch
) -> None:
    """On a machine where nothing was ever kept, so that no place is there yet."""
    _long_ago(elsewhere)
    sources = sorted(package.rglob("*"))
    elsewhere.setenv("NUMBA_CACHE_DIR", str(tmp_path / "not" / "there"))
    directory = Path(cache.cache_directory("room"))
    assert directory.parent == tmp_path / "not" / "there"
    assert (directory.parent / "kernels.sources").is_file()
    assert cache.is_shared("room")
    assert sorted(package.rglob("*")) == sources


def test_where_no_place_is_writable_a_directory_of_ones_own_goes_with_the_process(
    tmp_path: Path, elsewhere: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no directory")
    at_exit: list[Callable[[], object]] = []
    elsewhere.setattr(cache, "_places", lambda: [tmp_path / "file"])
    elsewhere.setattr(
        cache.atexit, "register", lambda call, *words, **named: at_exit.append(partial(call, *words, **named))
    )
    directory = Path(cache.cache_directory("room"))
    assert directory.is_dir()
    assert not cache.is_shared("room")
    assert is_compiled("room", "kernels.advance"), "nobody is asked to compile what this process cannot see"
    (remove,) = at_exit
    remove()
    assert not directory.exists()
