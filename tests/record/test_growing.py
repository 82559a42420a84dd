"""Arrays that grow from memory into files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

from mlsim.errors import OutputError
from mlsim.record import column_types
from mlsim.record.column_types import GrowingArray, GrowingTimes, let_go


@pytest.mark.parametrize("columns", [None, 3])
def test_content_stays_while_the_array_grows_into_files(monkeypatch, columns):
    monkeypatch.setattr(column_types, "HELD_ROWS", 50)
    monkeypatch.setattr(column_types, "_COPIED_AT_ONCE", 7)
    values = GrowingArray(np.int64, columns, 2)
    for row in range(300):
        values.reserve(row + 1, row)
        values.array[..., row] = row * row
        let_go(values.array)
    assert (column_types._mapping_of(values.array) is not None) == (values.capacity > 50)
    assert (values.array[..., :300] == np.arange(300) ** 2).all()
    part = values.array[..., 100:200]
    let_go(part)  # of a view too
    assert (part == np.arange(100, 200) ** 2).all()


def test_nothing_is_left_in_the_directory_of_temporary_files(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(column_types, "HELD_ROWS", 10)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    values = GrowingArray(np.float64)
    values.reserve(5000, 0)
    assert list(tmp_path.iterdir()) == []


def test_no_room_is_told(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(column_types, "HELD_ROWS", 10)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    values = GrowingArray(np.float64)
    with pytest.raises(OutputError, match=r"no room for .* MB of intermediate results(.|\n)*TMPDIR"):
        values.reserve(5000, 0)


def test_times_one_by_one(monkeypatch):
    monkeypatch.setattr(column_types, "HELD_ROWS", 10)
    times = GrowingTimes()
    for number in range(5000):
        times.append(number / 2)
        if number % 700 == 0:
            times.settle()
        assert len(times) == number + 1
    assert times.values().tolist() == [number / 2 for number in range(5000)]
