"""Tables of any content in any width, against what is in their cells."""

import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from mlsim.analysis.table_layout import NumberTable, broken, legend

NUMBER = re.compile(r"(?:(?<!\w)[-+])?\d+(?:[.,:]\d+)*(?:e[-+]?\d+)?")
DIGITS = re.compile(r"\d+(?:[.,:]\d+)*")
NUMBERS = st.one_of(
    st.integers(-(10**9), 10**9).map("{:,}".format),
    st.floats(0, 1e6, allow_nan=False).map("{:.3g}".format),
    st.floats(0, 100).map("{:.1f} %".format),
    st.just("1 d 02:03"),
    st.just("12,345 ± 678"),
    st.just("-"),
)
NAMES = st.sampled_from(
    (
        "mean wait",
        "bounded slowdown",
        "coordination.released_node_seconds",
        "run-with-long-name-20240131",
        "a",
    )
)


def screen(table, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(table)
    return console.file.getvalue()


@st.composite
def tables(draw):
    """Titles, rows, and the number of columns that are labels."""
    keys, columns = draw(st.integers(1, 2)), draw(st.integers(1, 9))
    titles = [draw(NAMES) for _ in range(keys)] + [f"{draw(NAMES)} c{place}" for place in range(columns)]
    rows = draw(
        st.lists(st.tuples(*[NAMES] * keys, *[NUMBERS] * columns), min_size=1, max_size=5).map(
            lambda rows: [list(row) for row in rows]
        )
    )
    return titles, rows, keys


@settings(deadline=None)
@given(tables(), st.sampled_from((40, 60, 80, 120)))
def test_every_number_is_whole_and_no_line_is_too_long(made, width: int) -> None:
    titles, rows, keys = made
    text = screen(NumberTable(titles, rows, keys=keys, ruled=True), width)
    assert max(map(len, text.splitlines())) <= width
    # Each cell of a number is in a line, as often as the table has it.
    for cell in {cell for row in rows for cell in row[keys:] if cell != "-"}:
        wanted = sum(row[keys:].count(cell) for row in rows)
        assert len(re.findall(rf"(?<!\S){re.escape(cell)}(?!\S)", text)) >= wanted, text
    assert {*NUMBER.findall(text)} <= {*NUMBER.findall(" ".join(map(" ".join, (titles, *rows))))}


@settings(deadline=None)
@given(tables())
def test_every_block_begins_with_the_same_labels(made) -> None:
    titles, rows, keys = made
    blocks = screen(NumberTable(titles, rows, keys=keys, ruled=True), 50).rstrip("\n").split("\n\n")
    # Labels are folded in the same way in each block: their letters are the same.
    first = [" ".join(row[:keys]) for row in rows]
    for block in blocks:
        lines = block.split("─" * 3)[-1].splitlines()[1:]
        assert lines
        for label in first:
            assert all(letter in "".join(lines) for letter in label.replace(" ", ""))


@settings(deadline=None)
@given(tables())
def test_where_there_is_no_width_each_row_is_a_line(made) -> None:
    titles, rows, keys = made
    lines = screen(NumberTable(titles, rows, keys=keys), 10_000).splitlines()
    assert len(lines) == 1 + len(rows)
    for line, row in zip(lines[1:], rows, strict=True):
        assert line.split() == " ".join(row).split()


def test_columns_that_do_not_fit_go_to_a_second_block_under_the_same_labels() -> None:
    titles = ("technique", "T_loop", "steps", "imbalance", "overhead")
    rows = [["STATIC", "12.34 s", "1,234", "12.34 %", "0.1 %"], ["FAC2", "9.87 s", "567", "1.20 %", "0.4 %"]]
    assert screen(NumberTable(titles, rows, ruled=True), 30).splitlines() == [
        "technique   T_loop  steps",
        "─────────────────────────",
        "STATIC     12.34 s  1,234",
        "FAC2        9.87 s    567",
        "",
        "technique  imbalance  overhead",
        "──────────────────────────────",
        "STATIC       12.34 %     0.1 %",
        "FAC2          1.20 %     0.4 %",
    ]


def test_columns_that_belong_together_stay_in_one_block() -> None:
    titles = ("policy", "train", "source", "test", "source")
    rows = [["SAF", "1,234.56", "1,230", "2,345.67", "2,340"]]
    text = screen(NumberTable(titles, rows, beside=("source",)), 32)
    assert [line.split() for line in text.splitlines() if line.startswith("policy")] == [
        ["policy", "train", "source"],
        ["policy", "test", "source"],
    ]


def test_labels_are_folded_before_a_second_block_begins() -> None:
    table = NumberTable(("metric", "a", "b"), [["mean bounded slowdown", "1,234.5", "1,234.6"]])
    assert screen(table, 32).splitlines() == [
        "metric                a        b",
        "mean bounded    1,234.5  1,234.6",
        "slowdown",
    ]


def test_text_is_broken_and_numbers_in_it_are_not() -> None:
    table = NumberTable(("", ""), [["jobs", "5,000 submitted, 4,990 completed, 10 killed"]], left=("",))
    assert screen(table, 30).splitlines() == [
        "jobs  5,000 submitted,",
        "      4,990 completed,",
        "      10 killed",
    ]


@settings(deadline=None)
@given(
    st.lists(st.one_of(NAMES, NUMBERS, st.text(max_size=12)), max_size=8).map(" ".join), st.integers(1, 40)
)
def test_broken_text_has_all_of_its_letters_and_no_broken_number(text: str, width: int) -> None:
    lines = broken(text, width)
    assert re.sub(r"\s", "", "".join(lines)) == re.sub(r"\s", "", text)
    assert {*DIGITS.findall("\n".join(lines))} == {*DIGITS.findall(text)}


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("12,965 s (3 h 36 min)", 12, ["12,965 s", "(3 h 36 min)"]),
        ("  from submission", 12, ["  from", "  submission"]),
        ("coordination.released", 14, ["coordination.", "released"]),
        ("1,234,567,890", 4, ["1,234,567,890"]),
        ("", 4, [""]),
    ],
)
def test_lines_break_at_spaces_then_at_joints(text: str, width: int, lines: list[str]) -> None:
    assert broken(text, width) == lines


def test_a_legend_explains_what_occurs_and_nothing_else() -> None:
    signs = (("▲ better", "by 1 %"), ("▼ worse", "by 1 %"), ("*", "best"), ("pts", "points"))
    assert legend(signs, "12 ▲ better +3.0 pts ▼ worse") == "▲ better, ▼ worse: by 1 %; pts: points"
    assert legend(signs, "12 13") == ""
