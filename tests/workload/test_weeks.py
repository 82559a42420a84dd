"""Weeks of a log: cut as a slow reference cuts them, whatever the blocks, and on the calendar."""

from __future__ import annotations

import datetime
import math
import zoneinfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.errors import InputError
from mlsim.scenario import WorkloadConfig
from mlsim.scenario.workload_section import WeeksConfig
from mlsim.workload.job_selection import WEEK_SECONDS, WeekCut, split_weeks, week_cut
from mlsim.workload.log_source import open_workload
from mlsim.workload.workload_jobs import JobBlock

DAY = 86_400.0


def block_of(jobs):
    submit, wait, run = (np.array(column, float) for column in zip(*jobs, strict=True))
    ids = np.arange(1, len(jobs) + 1)
    return JobBlock(ids, submit, run, run + 1, np.ones_like(ids), log_wait=wait)


def reference(jobs, cut, zero):
    """Return the numbers of the jobs of each week, one job at a time."""
    weeks = {}
    for number, (submit, wait, run) in enumerate(jobs, start=1):
        start = submit + max(wait, 0)
        own = math.floor(((start if cut.by_start else submit) - zero) / WEEK_SECONDS)
        last = math.ceil((start + run - zero) / WEEK_SECONDS) - 1  # an end at an edge is no crossing
        if own >= 0 and not (cut.remove and last > own):
            weeks.setdefault(own, []).append(number)
    return weeks


half_days = st.integers(0, 120).map(lambda k: k * DAY / 2)
jobs_of_logs = st.lists(
    st.tuples(half_days, st.just(-1.0) | half_days.map(lambda t: t / 4), half_days.map(lambda t: t / 3 + 1)),
    min_size=1,
    max_size=40,
).map(sorted)


@settings(deadline=None, max_examples=200)
@given(jobs_of_logs, st.booleans(), st.booleans(), st.sampled_from([0.0, 1.867 * DAY, 3 * WEEK_SECONDS]))
def test_weeks_are_those_of_the_reference(jobs, by_start, remove, zero):
    cut = WeekCut(by_start, remove, math.nan, 0.0)
    weeks = split_weeks(block_of(jobs), cut, zero, 0, 1000)
    assert {week: block.job_id.tolist() for week, block in weeks.items()} == reference(jobs, cut, zero)
    for block in weeks.values():
        assert block.submit_time[0] == 0


HEADER = {"UnixStartTime": "893466664", "TimeZoneString": "US/Pacific"}  # SDSC-SP2's


@pytest.mark.parametrize("begin", ["Monday", "Sunday", "Friday"])
@pytest.mark.parametrize("zone", [None, "Europe/Paris", "Asia/Tokyo"])
def test_weeks_begin_at_midnight_of_their_day(begin, zone, tmp_path):
    config = WeeksConfig.model_validate({"begin": begin, **({"zone": zone} if zone else {})})
    zero = week_cut(config, HEADER, tmp_path).zero_after(5.0, 0.0)
    clock = zoneinfo.ZoneInfo(zone or "US/Pacific")
    moment = datetime.datetime.fromtimestamp(893466664 + zero, clock)
    assert (moment.strftime("%A"), moment.hour, moment.minute, moment.second) == (begin, 0, 0, 0)
    assert 0 <= zero < WEEK_SECONDS


def test_week_0_of_sdsc_sp2_begins_where_the_tables_of_the_source_say(tmp_path):
    """1.867 d after the log's zero: the reading that gives Zrigui 2021, Table 5.1."""
    config = WeeksConfig.model_validate({"zone": "Europe/Paris"})
    assert week_cut(config, HEADER, tmp_path).zero_after(0.0, 0.0) / DAY == pytest.approx(1.867, abs=1e-3)


def test_the_phase_moves_edges_and_the_warm_up_the_first_week(tmp_path):
    def zero(first=0.0, warm_up=0.0, **keys):
        return week_cut(WeeksConfig.model_validate(keys), HEADER, tmp_path).zero_after(first, warm_up)

    assert zero(phase="6 h") == zero() + 6 * 3600
    assert zero(first=20 * DAY, warm_up=19 * DAY) == zero() + 3 * WEEK_SECONDS
    assert zero(begin="first-job", phase="1 h", first=77.0) == 77.0 + 3600


@settings(deadline=None, max_examples=100)
@given(jobs_of_logs, st.booleans(), st.booleans(), st.sampled_from(["0 h", "30 h"]), st.sampled_from([0, 25]))
def test_months_are_those_of_the_calendar(jobs, by_start, remove, phase, warm_up):
    keys = {"begin": "month", "phase": phase, "by": "start" if by_start else "submit"}
    keys["crossing"] = "remove" if remove else "keep"
    cut = week_cut(WeeksConfig.model_validate(keys), HEADER, "log.swf")
    clock, late = zoneinfo.ZoneInfo("US/Pacific"), 3600.0 * int(phase[:-2])

    def months(time):  # since year 0, of a time of the log
        moment = datetime.datetime.fromtimestamp(893466664 + time - late, clock)
        return 12 * moment.year + moment.month

    zero = cut.zero_after(warm_up * DAY, warm_up * DAY)
    assert months(zero) == months(zero - 1) + 1
    assert months(zero) - months(warm_up * DAY) in (0, 1)
    expected = {}
    for number, (submit, wait, run) in enumerate(jobs, start=1):
        start = submit + max(wait, 0)
        own = start if by_start else submit
        if own >= zero and not (remove and months(math.nextafter(start + run, 0)) > months(own)):
            expected.setdefault(months(own) - months(zero), []).append(number)
    found = split_weeks(block_of(jobs), cut, zero, 0, 1000)
    assert {month: block.job_id.tolist() for month, block in found.items()} == expected
    some = split_weeks(block_of(jobs), cut, zero, 1, 1)
    assert {month: block.job_id.tolist() for month, block in some.items()} == {
        month: numbers for month, numbers in expected.items() if month == 1
    }


def write_log(path, jobs, header=""):
    lines = [
        f"{number} {submit:.0f} {wait:.0f} {run:.0f} 1 -1 -1 1 {run + 1:.0f} -1 1 1 1 1 1 1 -1 -1"
        for number, (submit, wait, run) in enumerate(jobs, start=1)
    ]
    path.write_text(header + "\n".join(lines) + "\n")
    return path


@settings(deadline=None, max_examples=40)
@given(
    jobs_of_logs, st.sampled_from(["start", "submit"]), st.sampled_from(["keep", "remove"]), st.integers(0, 5)
)
def test_a_workload_takes_the_jobs_of_its_weeks(tmp_path_factory, jobs, by, crossing, week):
    path = write_log(tmp_path_factory.mktemp("log") / "log.swf", [tuple(map(round, job)) for job in jobs])
    cut = {"by": by, "begin": "first-job", "crossing": crossing}
    config = WorkloadConfig.model_validate({"path": "x", "weeks": cut, "select": {"weeks": week}})
    whole = [tuple(map(float, map(round, job))) for job in jobs]
    expected = reference(whole, WeekCut(by == "start", crossing == "remove", math.nan, 0.0), whole[0][0])
    if week not in expected:
        with pytest.raises(InputError, match="none is left"):
            open_workload(config, path, 8)
        return
    (found,) = open_workload(config, path, 8).blocks()
    assert found.job_id.tolist() == expected[week]
    assert found.submit_time[0] == 0
    every = WorkloadConfig.model_validate({"path": "x", "weeks": cut})
    taken = [number for block in open_workload(every, path, 8).blocks() for number in block.job_id.tolist()]
    assert taken == sorted(number for numbers in expected.values() for number in numbers)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"select": {"weeks": 0}}, "from 0 with workload.weeks"),
        ({"weeks": {"phase": "7 d"}}, "not less than a week"),
        ({"weeks": {"zone": "Europe/Atlantis"}}, "no time zone"),
        ({"weeks": {"zone": "Europe/Paris", "begin": "first-job"}}, "weekday only"),
        ({"weeks": {}, "select": {"most_intensive": "1 d"}}, "takes another stretch"),
        ({"weeks": {}, "select": {"week_crossers": "drop"}}, "write crossing: remove here"),
    ],
)
def test_what_makes_no_sense_is_refused(keys, message):
    with pytest.raises(ValueError, match=message):
        WorkloadConfig.model_validate({"path": "x"} | keys)


def test_a_weekday_needs_the_start_of_the_log(tmp_path):
    with pytest.raises(InputError, match="begin: first-job"):
        week_cut(WeeksConfig(), {}, tmp_path / "log.csv")
