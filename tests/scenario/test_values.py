"""Units, words, switches and numbers: what a value may be, and what is said if it is not."""

import math
import re
from decimal import Decimal

import pint
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.scenario import Policy
from mlsim.scenario.amount_types import Quantity, work
from mlsim.scenario.field_types import (
    BANDWIDTH,
    DIMENSIONS,
    FLOP,
    RATE,
    SIZE,
    SWITCH,
    TIME,
    Dimension,
    format_value,
    nearest,
    number,
    parse_value,
    shown,
    text,
    whole,
    word_of,
)
from mlsim.scenario.words import CleaningRule, Technique

PINT_SPELLINGS = {"B": "byte", "b": "bit", "d": "day", "w": "week", "s": "second"}
"""Of units that pint spells otherwise, or reads as another one."""

finite = st.floats(min_value=0, allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("500 ns", TIME, 5e-7),
        ("100ns", TIME, 1e-7),
        (" 3 us ", TIME, 3e-6),
        ("3 µs", TIME, 3e-6),
        ("3 μs", TIME, 3e-6),
        ("1.5 h", TIME, 5400.0),
        ("2 days", TIME, 172800.0),
        ("1 w", TIME, 604800.0),
        ("90 min", TIME, 5400.0),
        ("1e-3 s", TIME, 1e-3),
        ("7", TIME, 7.0),
        (7, TIME, 7.0),
        ("1_000 s", TIME, 1000.0),
        ("12 GFLOP/s", RATE, 12e9),
        ("3 TFLOPS", RATE, 3e12),
        ("2.5 MFLOP", FLOP, 2.5e6),
        ("50 Gbit/s", BANDWIDTH, 50e9),
        ("50 Gbps", BANDWIDTH, 50e9),
        ("1 GB/s", BANDWIDTH, 8e9),
        ("1 GiB/s", BANDWIDTH, 8.0 * 2**30),
        ("1 KiB", SIZE, 1024.0),
        ("4 bit", SIZE, 0.5),
    ],
)
def test_a_value_is_read_in_si(text: object, dimension: Dimension, value: float) -> None:
    assert parse_value(text, dimension) == (value, dimension.base)


@settings(deadline=None, max_examples=300)
@given(finite, st.sampled_from(DIMENSIONS))
def test_a_written_value_reads_back_as_the_same_value(value: float, dimension: Dimension) -> None:
    assert parse_value(format_value(value, dimension), dimension) == (value, dimension.base)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 10**6), st.data())
def test_every_unit_is_its_prefix_times_the_base(number: int, data: st.DataObject) -> None:
    dimension = data.draw(st.sampled_from(DIMENSIONS))
    unit = data.draw(st.sampled_from(dimension.spellings))
    one = Decimal(repr(parse_value(f"1 {unit}", dimension)[0]))
    assert parse_value(f"{number} {unit}", dimension)[0] == float(number * one)


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=20))
def test_any_text_is_a_value_or_a_clear_error(text: str) -> None:
    said = ""
    try:
        value, _ = parse_value(text, TIME)
    except ValueError as error:
        value, said = 0.0, str(error)
    assert math.isfinite(value)
    assert not said or said.endswith("allowed: ns, us, ms, s, min, h, d, w; e.g. '500 ns'")


@pytest.mark.parametrize(
    ("value", "dimension", "message"),
    [
        (
            "500 parsecs",
            TIME,
            "'500 parsecs' is not a time; allowed: ns, us, ms, s, min, h, d, w; e.g. '500 ns'",
        ),
        ("5 GB", TIME, "'5 GB' is a size, not a time;"),
        ("5 NS", TIME, "did you mean 'ns'?"),
        ("5 GFlop/s", RATE, "did you mean 'GFLOP/s'?"),
        ("5 mb/s", BANDWIDTH, "did you mean 'MB/s' or 'Mb/s'?"),
        (True, TIME, "true is not a time"),
        ([1], TIME, "a list is not a time"),
        (float("inf"), TIME, "inf is not a finite number"),
        (float("nan"), TIME, "nan is not a finite number"),
        ("1e999 s", TIME, "not a finite number"),
        (10**400, TIME, "not a finite number"),
        ("2 ** 9 s", TIME, "is not a time"),
        ("s", TIME, "'s' is not a time"),
        ("1.2.3 s", TIME, "is not a time"),
    ],
)
def test_a_wrong_value_is_told(value: object, dimension: Dimension, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_value(value, dimension)


@pytest.mark.parametrize(
    ("value", "quantity"),
    [
        ("2 ms", Quantity(2e-3, "s")),
        (2, Quantity(2.0, "s")),
        ("3 GFLOP", Quantity(3e9, "FLOP")),
        (Quantity(3e9, "FLOP"), Quantity(3e9, "FLOP")),
    ],
)
def test_work_is_a_time_or_operations(value: object, quantity: Quantity) -> None:
    assert work().parse(value) == quantity
    assert work().parse(work().show(quantity)) == quantity


@pytest.mark.parametrize("word", ["SAF", "saf", "Saf", Policy.SAF])
def test_words_are_read_in_any_case(word: str) -> None:
    assert word_of(Policy).parse(word) is Policy.SAF


def test_older_names_of_policies_are_the_newer_ones() -> None:
    assert Policy("sjf") is Policy.SPF
    assert Policy("LJF") is Policy.LPF
    assert Technique("fac2") is Technique.FAC2


def test_wrong_words_are_told_with_what_was_meant() -> None:
    with pytest.raises(ValueError, match=r"'SFA' is not known; did you mean 'SAF'\? allowed: FCFS, LCFS,"):
        word_of(Policy).parse("SFA")
    only = word_of(CleaningRule, CleaningRule.KEEP, CleaningRule.DROP)
    with pytest.raises(ValueError, match="'clamp' makes no sense here; allowed: keep, drop"):
        only.parse("clamp")


@pytest.mark.parametrize(
    ("text", "value"),
    [("on", True), ("OFF", False), (True, True), ("No", False), ("yes", True), ("false", False)],
)
def test_switches(text: object, value: bool) -> None:
    assert SWITCH.parse(text) is value


@pytest.mark.parametrize("text", ["maybe", 1, 0, None, ""])
def test_other_things_are_no_switch(text: object) -> None:
    with pytest.raises(ValueError, match="neither on nor off; allowed: on, off"):
        SWITCH.parse(text)


def test_whole_numbers() -> None:
    kind = whole(1, 10)
    assert kind.parse(3) == 3
    assert kind.parse(1e1) == 10
    for wrong in (0, 11, -1):
        with pytest.raises(ValueError, match=r"is too (small|large); allowed: a whole number, 1 to 10"):
            kind.parse(wrong)
    for wrong in (1.5, "3", True, math.inf, math.nan, None, [1]):
        with pytest.raises(ValueError, match="is not a whole number; allowed:"):
            kind.parse(wrong)


def test_numbers_between_limits() -> None:
    share = number(0, 1, high_belongs=False)
    assert share.parse(0) == 0.0
    assert number(0, 1, low_belongs=False).parse(1) == 1.0
    for wrong in (-0.1, 1, math.nan, math.inf, 10**400, -(10**400)):
        with pytest.raises(ValueError, match="is out of range; allowed: a number, 0 or more and less than 1"):
            share.parse(wrong)
    with pytest.raises(ValueError, match="is not a number"):
        share.parse("0.5")


def test_texts() -> None:
    assert text().parse("log.swf") == "log.swf"
    assert text(lines=True).parse("") == ""
    with pytest.raises(ValueError, match="12 is not a text; put it in quotes: '12'"):
        text().parse(12)
    for wrong in ("", "  ", "a\nb"):
        with pytest.raises(ValueError, match="a text on one line, not empty"):
            text().parse(wrong)
    for wrong in ("a/b", "..", "a\\b"):
        with pytest.raises(ValueError, match="cannot be used"):
            text(file_name=True).parse(wrong)


def test_values_in_messages_stay_short() -> None:
    assert len(shown("x" * 1000)) <= 60
    assert shown("x" * 1000).endswith("...'")
    assert shown({}) == "a mapping"
    assert shown(None) == "nothing"


def test_near_misses() -> None:
    assert nearest("polcy", ["policy", "backfill"]) == " did you mean 'policy'?"
    assert nearest("POLICY", ["policy"]) == " did you mean 'policy'?"
    assert nearest("xyz", ["policy"]) == ""


def _in_pint(unit: str) -> str:
    """Spell a unit as pint does; operations are counted in a unit of our own."""
    stem, per_second = unit.removesuffix("/s"), unit.endswith("/s")
    for ending, meant in (("bps", "bit/second"), ("FLOPS", "FLOP/second"), ("bit", "bit"), ("FLOP", "FLOP")):
        if stem.endswith(ending):
            return stem.removesuffix(ending) + meant + ("/second" if per_second else "")
    for ending in ("B", "b"):
        if stem.endswith(ending):
            return stem.removesuffix(ending) + PINT_SPELLINGS[ending] + ("/second" if per_second else "")
    return PINT_SPELLINGS.get(unit, unit)


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda dimension: dimension.base)
def test_units_are_those_of_pint(dimension: Dimension) -> None:
    registry = pint.UnitRegistry(non_int_type=Decimal)
    registry.define("FLOP = [operations]")
    one = registry(_in_pint(dimension.base))
    for unit in dimension.spellings:
        value, _ = parse_value(f"1 {unit}", dimension)
        spelt = {"secs": "second", "mins": "minute", "hrs": "hour"}.get(unit, _in_pint(unit))
        assert value == float((registry(spelt) / one).to("").magnitude), unit
