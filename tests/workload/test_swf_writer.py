from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlsim.errors import OutputError
from mlsim.workload import Field, read_swf, write_swf
from mlsim.workload.log_fields import SCHEDULED

numbers = st.floats(allow_nan=False, allow_infinity=False)
times = st.one_of(st.just(-1.0), st.floats(0, 2**53, exclude_max=True))
whole = st.integers(-(2**53), 2**53).map(float)


def values_of(field: Field) -> st.SearchStrategy[float]:
    if field is Field.JOB_ID:
        return whole.map(abs)
    if field in (Field.SUBMIT_TIME, Field.RUN_TIME):
        return times
    if field in SCHEDULED:
        return st.one_of(times, st.floats(max_value=0, allow_infinity=False))
    return whole if field.is_whole else numbers


jobs = st.lists(st.tuples(*map(values_of, Field)), max_size=8)
texts = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=9)
values = texts.filter(lambda text: not text.startswith("//"))
keys = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,9}", fullmatch=True)
headers = st.dictionaries(keys, st.one_of(values, st.lists(values, min_size=2, max_size=3)), max_size=4)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(header=headers, rows=jobs, suffix=st.sampled_from(["", ".gz", ".bz2", ".xz", ".zst"]))
def test_round_trip(
    tmp_path: Path, header: dict[str, str], rows: list[tuple[float, ...]], suffix: str
) -> None:
    path = tmp_path / f"log.swf{suffix}"
    table = np.array(rows, dtype=float).reshape(-1, len(Field)).T
    write_swf(path, header, {field: table[field] for field in Field})
    read_header, block = read_swf(path)
    assert read_header == header
    np.testing.assert_array_equal(block.columns, table)


def test_columns_not_given_are_unknown_and_extras_read_back(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    write_swf(
        path, {}, {Field.JOB_ID: [1, 2], Field.SUBMIT_TIME: [0, 1.5]}, extras=[("a", "b"), ("c", "{1,2}")]
    )
    assert path.read_text().splitlines()[1] == "2 1.5 " + "-1 " * 16 + "c {1,2}"
    block = read_swf(path, extras=True)[1]
    assert block.column(Field.RUN_TIME).tolist() == [-1, -1]
    assert block.extras == [("a", "b"), ("c", "{1,2}")]


@pytest.mark.parametrize(
    ("header", "columns", "extras"),
    [
        ({}, {}, None),
        ({}, {Field.JOB_ID: [1, 2], Field.USER: [1]}, None),
        ({}, {Field.JOB_ID: [1.5]}, None),
        ({}, {Field.JOB_ID: [1], Field.USED_MEMORY: [np.nan]}, None),
        ({}, {Field.JOB_ID: [1]}, [("two words",)]),
        ({}, {Field.JOB_ID: [1]}, []),
        ({"two words": "x"}, {Field.JOB_ID: [1]}, None),
        ({"Note": "two\nlines"}, {Field.JOB_ID: [1]}, None),
    ],
)
def test_what_would_not_read_back_is_refused(
    tmp_path: Path, header: dict[str, str], columns: dict[Field, list[float]], extras: list[tuple[str]] | None
) -> None:
    path = tmp_path / "log.swf"
    path.write_text("before")
    with pytest.raises(ValueError, match=r"."):
        write_swf(path, header, columns, extras)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_failing_to_write_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"log\.swf: cannot be written"):
        write_swf(tmp_path / "none" / "log.swf", {}, {Field.JOB_ID: [1]})
    (tmp_path / "log.swf").mkdir()
    with pytest.raises(OutputError, match="cannot be written"):
        write_swf(tmp_path / "log.swf", {}, {Field.JOB_ID: [1]})
    assert [path.name for path in tmp_path.iterdir()] == ["log.swf"]
