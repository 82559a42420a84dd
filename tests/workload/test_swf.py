from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlsim.errors import InputError
from mlsim.workload import Field, SwfReader, read_swf, swf_log
from tests.reference.swf import parse

ROW = "{} 100 -1 3600 4 -1 -1 4 7200 -1 1 1 1 -1 1 1 -1 -1"
FAST = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def row(job: int, **values: object) -> str:
    words = ROW.format(job).split()
    for name, value in values.items():
        words[Field[name.upper()]] = str(value)
    return " ".join(words)


def write(directory: Path, text: str | bytes) -> Path:
    path = directory / "log.swf"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def job_ids(path: Path, **options: bool) -> list[float]:
    return read_swf(path, **options)[1].column(Field.JOB_ID).tolist()


numbers = st.one_of(
    st.integers(-2, 10**18).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=4).map(str),
    st.from_regex(r"[+-]?[0-9]{0,20}\.?[0-9]{0,20}([eE][+-]?[0-9]{1,4})?", fullmatch=True),
    st.sampled_from(
        ["1e", "--1", "1.2.3", "nan", "inf", "0x10", "1_0", ".", "-", "1e400", "9007199254740993"]
    ),
)
fields = st.lists(st.one_of(st.just("-1"), st.just("7"), st.just("1.5"), numbers), min_size=16, max_size=20)
line_of_words = st.tuples(st.sampled_from([" ", "  ", "\t", " \t "]), fields).map(
    lambda pair: pair[0].join(pair[1])
)
good_line = st.tuples(st.integers(0, 99), st.floats(0, 1e9)).map(
    lambda pair: row(pair[0], submit_time=pair[1])
)
any_line = st.one_of(
    good_line, good_line, line_of_words, st.sampled_from(["", "  ", "; a comment", ";", "\t; x"])
)


@pytest.mark.slow
@FAST
@given(lines=st.lists(any_line, max_size=12), end=st.sampled_from(["\n", "\r\n"]), last=st.booleans())
def test_agrees_with_the_obvious_reader(tmp_path: Path, lines: list[str], end: str, last: bool) -> None:
    text = end.join(lines) + (end if last else "")
    rows, numbers_of_lines, broken = parse(text)
    path = write(tmp_path, text)
    reader = SwfReader(path, lenient=True, block_jobs=3)
    blocks = list(reader.blocks())
    found = [column for block in blocks for column in block.columns.T.tolist()]
    assert found == rows
    assert [line for block in blocks for line in block.lines.tolist()] == numbers_of_lines
    assert reader.broken_lines == len(broken)
    if broken:
        with pytest.raises(InputError, match=f"log.swf:{broken[0]}: broken line"):
            read_swf(path)


@FAST
@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([repr, "{:.3f}".format, "{:.17e}".format]),
)
def test_numbers_are_exact(tmp_path: Path, value: float, write_number: Callable[[float], str]) -> None:
    text = write_number(value)
    block = read_swf(write(tmp_path, row(1) + "\n" + row(1, used_memory=text) + "\n"))[1]
    assert block.column(Field.USED_MEMORY)[1] == float(text)


@pytest.mark.parametrize("digits", ["11", "123456789", "9007199254740991", "5126933103096310", "0.11"])
@pytest.mark.parametrize("exponent", ["e22", "e23", "e24", "e-22", "e-23", "e-24"])
def test_numbers_beyond_the_powers_of_ten_are_exact(tmp_path: Path, digits: str, exponent: str) -> None:
    """10^22 is the last power of ten that float64 holds: beyond it a product with one is rounded twice."""
    text = digits + exponent
    block = read_swf(write(tmp_path, row(1) + "\n" + row(1, used_memory=text) + "\n"))[1]
    assert block.column(Field.USED_MEMORY)[1] == float(text)


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_pieces_of_any_size_give_the_same(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "; Version: 2.2\n" + "".join(row(job, submit_time=job / 3) + "\n\n; x\n" for job in range(40))
    path = write(tmp_path, "\ufeff" + text)
    whole = read_swf(path)[1]
    data = path.read_bytes()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    monkeypatch.setattr(swf_log, "read_chunks", lambda _: iter(pieces))
    header, block = read_swf(path)
    assert header == {"Version": "2.2"}
    np.testing.assert_array_equal(block.columns, whole.columns)
    np.testing.assert_array_equal(block.lines, np.arange(2, 122, 3))


def test_blocks_are_full_except_the_last(tmp_path: Path) -> None:
    path = write(tmp_path, "\n".join(row(job) for job in range(10)))
    blocks = list(SwfReader(path, block_jobs=4).blocks())
    assert [len(block) for block in blocks] == [4, 4, 2]
    assert all(block.columns.flags.c_contiguous for block in blocks)


def test_header_directives(tmp_path: Path) -> None:
    text = (
        """;   --- free text ---
;     MaxProcs: 240
; Information: one place
;              http://another.place/
; UnixStartTime: 1027839845
;TimeZoneString: Europe/Stockholm
; Note:
; Queue: 1  day
; Queue: 2  night: long
"""
        + row(1)
        + "\n; Note: not part of the header\n"
    )
    assert read_swf(write(tmp_path, text))[0] == {
        "MaxProcs": "240",
        "Information": "one place",
        "UnixStartTime": "1027839845",
        "TimeZoneString": "Europe/Stockholm",
        "Note": "",
        "Queue": ["1  day", "2  night: long"],
    }


def test_extra_columns_are_kept_as_text(tmp_path: Path) -> None:
    path = write(
        tmp_path, f"{row(1)} {{4,5}}  q_1d\t1:ppn=2 \r\n{row(2, used_memory=0.30000000000000004)} {{}} é x\n"
    )
    assert read_swf(path)[1].extras == []
    assert read_swf(path, extras=True)[1].extras == [("{4,5}", "q_1d", "1:ppn=2"), ("{}", "é", "x")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2 3", "3 columns; expected at least 18"),
        (row(2) + " 5", "19 columns; expected 18, as on the first line"),
        (row(2, run_time="x1"), r"run_time \(column 4\) is 'x1'; expected seconds"),
        (row(2, run_time="-5"), r"run_time \(column 4\) is '-5'; expected seconds from 0 up, or -1"),
        (row(2, submit_time="-0.5"), r"submit_time \(column 2\) is '-0.5'"),
        (row(2, used_memory="nan"), r"used_memory \(column 7\) is 'nan'; expected a finite decimal number"),
        (row(2, used_memory="1e999"), "'1e999'"),
        (row(2, user="1.5"), r"user \(column 12\) is '1.5'; expected a whole number"),
        (row(-1), r"job_id \(column 1\) is '-1'"),
        (row(2, status="1" * 300), "'1{60}' ..."),
    ],
)
def test_broken_lines(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path, f"; x\n\n{row(1)}\n{line}\n{row(3)}\n")
    with pytest.raises(InputError, match=rf"log\.swf:4: broken line: .*{message}") as caught:
        read_swf(path)
    assert f"found: '{line[:50]}" in str(caught.value)
    assert "lenient" in str(caught.value)
    assert max(map(len, str(caught.value).splitlines())) < 300
    reader = SwfReader(path, lenient=True)
    assert [block.column(Field.JOB_ID).tolist() for block in reader.blocks()] == [[1, 3]]
    assert reader.broken_lines == 1


def test_binary_files_fail_with_a_short_message(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="broken line"):
        read_swf(write(tmp_path, bytes(range(256)) * 10))
    with pytest.raises(InputError, match="has a line of more than"):
        read_swf(write(tmp_path, bytes(3_000_000)))


def test_latin_1_comments(tmp_path: Path) -> None:
    assert read_swf(write(tmp_path, "; Owner: J\xf6rg\n".encode("latin-1")))[0] == {"Owner": "Jörg"}


def test_truncated_logs_are_not_short_logs(tmp_path: Path) -> None:
    path = tmp_path / "log.swf.gz"
    path.write_bytes(gzip.compress("".join(row(job) + "\n" for job in range(9999)).encode())[:-100])
    with pytest.raises(InputError, match="download complete"):
        job_ids(path, lenient=True)


def test_empty_log(tmp_path: Path) -> None:
    assert job_ids(write(tmp_path, "")) == []
