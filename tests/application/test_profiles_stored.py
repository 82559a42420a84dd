"""Counts kept on disk: found again, never trusted blindly, never in the way."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from mlsim.application.profiles.counted_costs import cache_directory, recalled


class Computer:
    """Counts how often it is asked."""

    def __init__(self, values: list[int]) -> None:
        self.values = np.array(values, np.int64)
        self.asked = 0

    def __call__(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        self.asked += 1
        return self.values


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MLSIM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "profiles"


def test_counts_are_computed_once(cache: Path) -> None:
    computer = Computer([3, 1 << 40, 0])
    for _ in range(3):
        values = recalled("some", 1, {"a": 1, "b": 0.5}, computer)
        assert values.tolist() == computer.values.tolist()
        assert values.dtype == np.int64
    assert computer.asked == 1
    assert [path.suffix for path in cache.iterdir()] == [".counts"]


def test_everything_that_counts_depend_on_tells_them_apart(cache: Path) -> None:
    computers = [Computer([k]) for k in range(4)]
    keys = [("some", 1, {"a": 1}), ("some", 2, {"a": 1}), ("some", 1, {"a": 2}), ("other", 1, {"a": 1})]
    for _ in range(2):
        for key, computer in zip(keys, computers, strict=True):
            assert recalled(*key, computer).tolist() == computer.values.tolist()
    assert [computer.asked for computer in computers] == [1] * 4


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "of another key", "other words"])
def test_a_damaged_file_is_computed_again(cache: Path, damage: str) -> None:
    computer = Computer(list(range(1000)))
    recalled("some", 1, {"a": 1}, computer)
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    if damage == "of another key":
        recalled("some", 1, {"a": 2}, Computer([7]))
        (other,) = set(cache.iterdir()) - {path}
        other.replace(path)
    else:
        flipped = whole[:500] + bytes([whole[500] ^ 1]) + whole[501:]
        path.write_bytes({"empty": b"", "cut": whole[:-1], "flipped": flipped}.get(damage, b"words " * 50))
    assert recalled("some", 1, {"a": 1}, computer).tolist() == list(range(1000))
    assert computer.asked == 2
    assert path.read_bytes() == whole


def test_where_nothing_can_be_kept_counts_are_computed_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MLSIM_CACHE", str(tmp_path / "file"))
    computer = Computer([5])
    for _ in range(2):
        assert recalled("some", 1, {}, computer).tolist() == [5]
    assert computer.asked == 2
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission(cache: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o500)
    assert recalled("some", 1, {}, Computer([5])).tolist() == [5]
    assert list(cache.iterdir()) == []


def test_a_failed_computation_leaves_nothing(cache: Path) -> None:
    def fail() -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recalled("some", 1, {}, fail)
    assert not cache.exists()


def test_a_write_that_breaks_off_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert recalled("some", 1, {}, Computer([5])).tolist() == [5]
    assert list(cache.iterdir()) == []


def test_runs_side_by_side_do_not_disturb_each_other(cache: Path) -> None:
    def run(_: int) -> bool:
        values = recalled("some", 1, {}, Computer(list(range(50_000))))
        return bool(np.array_equal(values, np.arange(50_000)))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(64)))
    assert len(list(cache.iterdir())) == 1


def test_the_place_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLSIM_CACHE", "/some/where")
    monkeypatch.setenv("XDG_CACHE_HOME", "/users/own")
    assert cache_directory() == Path("/some/where/profiles")
    monkeypatch.setenv("MLSIM_CACHE", "")
    assert cache_directory() == Path("/users/own/mlsim/profiles")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_directory() == Path("/home/somebody/.cache/mlsim/profiles")
