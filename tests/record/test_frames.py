"""Columns become frames, and frames become files, without a change of values or types."""

from __future__ import annotations

import io
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim._files.parquet import ROW_GROUP, read_metadata, write_frames
from mlsim.errors import OutputError
from mlsim.record import parquet_tables
from mlsim.record.table_files import Known, Words

LEAST, LARGEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
TYPES = {"long": np.dtype(np.int64), "short": np.dtype(np.int32), "real": np.dtype(np.float64)}
WORDS = ("on", "off", "zwölf", "")
MANY = tuple(f"word {number}" for number in range(300))
reals = st.one_of(st.floats(), st.just(0.0), st.just(-0.0))
texts = st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=5), st.sampled_from(WORDS))


def file_of(*groups: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    write_frames(file, map(frame_of_columns, groups))
    return file.getvalue()


def frame_of_columns(group: dict[str, Any]) -> pl.DataFrame:
    numbers = {name: np.array(group[name], dtype) for name, dtype in TYPES.items() if name in group}
    return parquet_tables.frame_of({**group, **numbers})


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


@settings(deadline=None)
@given(st.lists(row_groups(), min_size=1, max_size=3))
def test_what_is_written_is_read(groups: list[dict[str, Any]]) -> None:
    read = pl.read_parquet(io.BytesIO(file_of(*groups)))
    expected = whole_frame_of(groups)
    assert read.schema == expected.schema
    assert read.equals(expected)
    zeros = [np.signbit(frame["real"].fill_null(1.0).to_numpy()) for frame in (read, expected)]
    assert (zeros[0] == zeros[1]).all()


@pytest.mark.parametrize("rows", [ROW_GROUP, ROW_GROUP // 4])
def test_a_row_group_at_a_time_is_asked_for_and_the_rest_is_not_held(rows: int) -> None:
    """At most a few frames are ahead of what is written."""
    alive: set[int] = set()
    most = 0

    def frames(n: int) -> Iterator[pl.DataFrame]:
        nonlocal most
        for number in range(n):
            frame = pl.DataFrame({"long": np.full(rows, number)})
            weakref.finalize(frame, alive.discard, number)
            alive.add(number)
            most = max(most, len(alive))
            yield frame
            del frame

    file = io.BytesIO()
    write_frames(file, frames(50), rows=rows)
    assert pl.read_parquet(file.getvalue())["long"].unique_counts().to_list() == [rows] * 50
    assert most < 10


def test_errors_of_the_rows_are_raised_as_they_are(tmp_path: Path) -> None:
    def frames() -> Iterator[pl.DataFrame]:
        yield pl.DataFrame({"long": [1]})
        raise OutputError("no room")

    with pytest.raises(OutputError, match=r"^no room$"):
        write_frames(tmp_path / "x.parquet", frames())


def test_texts_of_the_footer(tmp_path: Path) -> None:
    write_frames(tmp_path / "x.parquet", [pl.DataFrame({"long": [1]})], {"key": "value ü"})
    assert read_metadata(tmp_path / "x.parquet", tmp_path)["key"] == "value ü"


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
