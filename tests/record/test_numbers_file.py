"""Files of numbers are read back, by another implementation of the format, as what was written."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.record.delta_packing import most_bytes, pack
from mlsim.record.numbers_file import NumbersFile

LEAST, LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
TYPES = {"long": np.dtype(np.int64), "short": np.dtype(np.int32), "real": np.dtype(np.float64)}
reals = st.one_of(st.floats(), st.just(0.0), st.just(-0.0))


def file_of(*groups: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    numbers = NumbersFile(file, TYPES)
    for group in groups:
        numbers.write({name: np.array(values, TYPES[name]) for name, values in group.items()})
    numbers.close()
    return file.getvalue()


def frame_of(*groups: dict[str, Any]) -> pl.DataFrame:
    columns = {
        name: np.array([value for group in groups for value in group[name]], dtype)
        for name, dtype in TYPES.items()
    }
    return pl.DataFrame(columns, nan_to_null=True)


@st.composite
def row_groups(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(st.sampled_from([1, 2, 31, 32, 33, 128, 129, 130, 161, 300]))
    seed = draw(st.integers(0, 1000))
    random = np.random.default_rng(seed)
    high = 1 << draw(st.integers(0, 62))
    return {
        "long": random.integers(-high, high, n, endpoint=True),
        "short": random.integers(0, min(high, 2**31 - 1), n, endpoint=True),
        "real": draw(st.lists(reals, min_size=n, max_size=n)),
    }


@settings(deadline=None)
@given(st.lists(row_groups(), max_size=3))
def test_what_is_written_is_read(groups: list[dict[str, Any]]) -> None:
    read, expected = pl.read_parquet(io.BytesIO(file_of(*groups))), frame_of(*groups)
    assert read.schema == expected.schema
    assert read.equals(expected)
    zeros = [np.signbit(frame["real"].fill_null(1.0).to_numpy()) for frame in (read, expected)]
    assert (zeros[0] == zeros[1]).all()


@pytest.mark.parametrize(
    "longs",
    [
        [LEAST, LARGEST] * 70,
        [LARGEST, LEAST, 0] * 50,
        [7] * 1000,
        list(range(1000)),
        [0] * 128 + [LARGEST],
        [0, *[5] * 127, LEAST, LEAST],
        [2**k for k in range(63)],
    ],
)
def test_whole_numbers_of_any_size(longs: list[int]) -> None:
    group = {"long": longs, "short": [2**31 - 1, 0] * (len(longs) // 2) + [1] * (len(longs) % 2)}
    group["real"] = [float("nan")] * len(longs)
    assert pl.read_parquet(io.BytesIO(file_of(group))).equals(frame_of(group))
    assert pack(np.array(longs), np.empty(most_bytes(len(longs)), np.uint8)) <= most_bytes(len(longs))


def test_numbers_that_hardly_change_take_few_bytes() -> None:
    rows = 10_000
    group = {"long": np.arange(rows), "short": np.arange(rows) % 4, "real": np.zeros(rows)}
    assert len(file_of(group)) < rows * (8 + 0.1 + 0.5)


def test_rows_are_looked_for_in_the_groups_that_may_have_them() -> None:
    """The footer says what is least and largest, of NaN and zeros of either sign, too."""
    nan = float("nan")
    groups = [
        {"long": [3, -4], "short": [1, 2], "real": [nan, nan]},
        {"long": [5, 9], "short": [4, 2], "real": [-0.0, -1.5]},
        {"long": [9, 8], "short": [7, 7], "real": [0.0, nan]},
    ]
    content = io.BytesIO(file_of(*groups))
    rows = pl.concat([frame_of(group) for group in groups])
    for wanted in (
        pl.col("long") == -4,
        pl.col("long") >= 9,
        pl.col("short") == 7,
        pl.col("real") < 0.0,
        pl.col("real") == 0.0,
        pl.col("real").is_null(),
        pl.col("real") > 100.0,
    ):
        assert pl.scan_parquet(content).filter(wanted).collect().equals(rows.filter(wanted))


def test_the_same_rows_are_the_same_bytes() -> None:
    group = {"long": [1, 2], "short": [3, 4], "real": [0.5, 0.25]}
    assert file_of(group, group) == file_of(group, group)
