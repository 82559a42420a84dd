"""Files are read back, by another implementation of the format, as what was written."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.record.parquet.parquet_file import ParquetFile
from mlsim.record.parquet.parquet_pages import most_bytes, pack
from mlsim.record.table_files import Known, Words

LEAST, LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
TYPES = {"long": np.dtype(np.int64), "short": np.dtype(np.int32), "real": np.dtype(np.float64)}
WORDS = ("on", "off", "zwölf", "")
MANY = tuple(f"word {number}" for number in range(300))
reals = st.one_of(st.floats(), st.just(0.0), st.just(-0.0))
texts = st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=5), st.sampled_from(WORDS))
both = pytest.mark.parametrize("compressed", [True, False])


def file_of(*groups: dict[str, Any], compressed: bool = True) -> bytes:
    file = io.BytesIO()
    parquet = ParquetFile(file, compressed)
    for group in groups:
        numbers = {name: np.array(group[name], dtype) for name, dtype in TYPES.items() if name in group}
        parquet.write({**group, **numbers})
    parquet.close()
    return file.getvalue()


def frame_of(*groups: dict[str, Any]) -> pl.DataFrame:
    """Numbers as Polars itself makes a frame of them."""
    columns = {
        name: np.array([value for group in groups for value in group[name]], dtype)
        for name, dtype in TYPES.items()
    }
    return pl.DataFrame(columns, nan_to_null=True)


def words_of(values: Words) -> list[str | None]:
    return [None if code < 0 else values.words[code] for code in values.codes.tolist()]


@st.composite
def row_groups(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(st.sampled_from([1, 2, 31, 32, 33, 128, 129, 130, 161, 300]))
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    high = 1 << draw(st.integers(0, 62))
    share = draw(st.sampled_from([0.0, 0.5, 1.0]))
    return {
        "long": random.integers(-high, high, n, endpoint=True),
        "short": random.integers(0, min(high, 2**31 - 1), n, endpoint=True),
        "real": draw(st.lists(reals, min_size=n, max_size=n)),
        "known": Known(random.integers(-high, high, n), random.random(n) < share),
        "flag": random.random(n) < share,
        "text": draw(st.lists(texts, min_size=n, max_size=n)),
        "word": Words(np.where(random.random(n) < share, random.integers(0, 4, n), -1), WORDS),
        "many": Words(np.where(random.random(n) < share, random.integers(0, 300, n), -1), MANY),
        "free": Words(random.integers(-1, 4, n), WORDS, closed=False),
    }


def whole_frame_of(groups: list[dict[str, Any]]) -> pl.DataFrame:
    """All columns as Polars itself makes a frame of them."""

    def values(name: str, of: Callable[[Any], list[Any]]) -> list[Any]:
        return [value for group in groups for value in of(group[name])]

    def numbers(column: Known) -> list[int | None]:
        pairs = zip(column.numbers.tolist(), column.known.tolist(), strict=True)
        return [number if known else None for number, known in pairs]

    further = [
        pl.Series("known", values("known", numbers), pl.Int64),
        pl.Series("flag", values("flag", np.ndarray.tolist), pl.Boolean),
        pl.Series("text", values("text", list), pl.String),
        pl.Series("word", values("word", words_of), pl.Enum(WORDS)),
        pl.Series("many", values("many", words_of), pl.Enum(MANY)),
        pl.Series("free", values("free", words_of), pl.String),
    ]
    return frame_of(*groups).with_columns(*further)


@both
@settings(deadline=None)
@given(st.lists(row_groups(), min_size=1, max_size=3))
def test_what_is_written_is_read(compressed: bool, groups: list[dict[str, Any]]) -> None:
    read = pl.read_parquet(io.BytesIO(file_of(*groups, compressed=compressed)))
    expected = whole_frame_of(groups)
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
    assert len(file_of(group, compressed=False)) < rows * (8 + 0.1 + 0.5)
    assert len(file_of(group)) < rows / 5


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


def test_columns_without_rows_keep_their_types() -> None:
    group = {
        "long": [],
        "real": [],
        "flag": np.empty(0, np.bool_),
        "text": [],
        "known": Known(np.empty(0, np.int64), np.empty(0, np.bool_)),
        "word": Words(np.empty(0, np.int64), WORDS),
    }
    read = pl.read_parquet(io.BytesIO(file_of(group)))
    assert read.height == 0
    types = [pl.Int64, pl.Float64, pl.Boolean, pl.String, pl.Int64, pl.Enum(WORDS)]
    assert read.schema == dict(zip(["long", "real", "flag", "text", "known", "word"], types, strict=True))


@pytest.mark.parametrize("words", [1, 2, 255, 256, 257, 300, 65_536, 65_537])
def test_sets_of_words_of_any_size(words: int) -> None:
    values = Words(np.arange(words), tuple(map(str, range(words))))
    read = pl.read_parquet(io.BytesIO(file_of({"word": values})))
    assert read["word"].cast(pl.String).to_list() == list(values.words)
    assert read["word"].dtype == pl.Enum(values.words)


def test_texts_are_looked_for_in_the_groups_that_may_have_them() -> None:
    groups = [["a", None], ["é", "zz"], [None, None], ["y" * 100, "b"]]
    content = io.BytesIO(file_of(*({"text": group} for group in groups)))
    rows = pl.DataFrame({"text": [text for group in groups for text in group]})
    for text in ("a", "é", "zz", "y" * 100, "b", "nothing"):
        for wanted in (pl.col("text") == text, pl.col("text") > text, pl.col("text").is_null()):
            assert pl.scan_parquet(content).filter(wanted).collect().equals(rows.filter(wanted))


def test_words_are_looked_for_in_the_groups_that_may_have_them() -> None:
    groups = [Words(np.array(codes), WORDS) for codes in ([0, 1], [-1, -1], [2, 3], [3, -1])]
    content = io.BytesIO(file_of(*({"word": group} for group in groups)))
    rows = pl.concat(
        pl.DataFrame({"word": pl.Series(words_of(group), dtype=pl.Enum(WORDS))}) for group in groups
    )
    for word in WORDS:
        for wanted in (pl.col("word") == word, pl.col("word") > word):
            assert pl.scan_parquet(content).filter(wanted).collect().equals(rows.filter(wanted))
