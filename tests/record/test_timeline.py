import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.record.derived_times import step_function, time_average

INTERVALS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(1, 4)), max_size=20)


def columns(intervals):
    return tuple(np.array([row[place] for row in intervals], float) for place in range(3))


def test_overlapping_intervals_add_up():
    times, values = step_function([0, 1, 5], [3, 2, 6], [1, 2, 4])
    assert times.tolist() == [0, 1, 2, 3, 5, 6]
    assert values.tolist() == [1, 3, 1, 0, 4, 0]


def test_intervals_that_touch_leave_no_dip():
    times, values = step_function([0, 2], [2, 4])
    assert dict(zip(times, values, strict=True)) == {0: 1, 2: 1, 4: 0}


def test_empty_and_undefined_intervals_count_nowhere():
    times, values = step_function([1, 2, np.nan], [1, np.nan, 4])
    assert len(times) == len(values) == 0
    assert time_average(times, values, 0, 10) == 0


@pytest.mark.parametrize(
    ("begin", "end", "average"), [(0, 4, 1.5), (2, 4, 1), (-4, 4, 0.75), (4, 8, 0), (3, 3, 0)]
)
def test_average_over_a_span(begin, end, average):
    times, values = step_function([0, 0], [4, 2])
    assert time_average(times, values, begin, end) == average


@settings(deadline=None)
@given(INTERVALS)
def test_values_are_the_sum_of_open_intervals(intervals):
    begin, end, weight = columns(intervals)
    times, values = step_function(begin, end, weight)
    assert np.all(np.diff(times) > 0)
    for time, value in zip(times, values, strict=True):
        assert value == sum(w for b, e, w in intervals if b <= time < e)
    assert not len(values) or values[-1] == 0


@settings(deadline=None)
@given(INTERVALS, st.integers(0, 15), st.integers(1, 20))
def test_average_is_the_part_of_each_interval_inside(intervals, low, length):
    average = time_average(*step_function(*columns(intervals)), low, low + length)
    inside = sum(w * max(0, min(e, low + length) - max(b, low)) for b, e, w in intervals)
    assert average == pytest.approx(inside / length)
