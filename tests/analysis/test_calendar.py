"""Dates of a run: of which logs they are, how they are kept, and how axes show them."""

from __future__ import annotations

import datetime
import json
import zoneinfo
from dataclasses import replace
from pathlib import Path

import pytest

import mlsim
from mlsim.analysis.plots import gantt
from mlsim.analysis.plots.chart_style import common_axis
from mlsim.errors import InputError
from mlsim.experiment.stored_runs import read_run
from mlsim.record.calendar import Calendar
from tests.reference.runs import Job, Stay, records_of

HOUR = 3600.0
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
ZERO = datetime.datetime(2006, 10, 28, 9, 30, tzinfo=BERLIN).timestamp()


def log(path: Path, *header: str) -> Path:
    """A log of three jobs, the first of which comes after an hour."""
    jobs = (f"{k} {3600 * k} -1 5000 1 -1 -1 1 6000 -1 1 {k} 1 1 1 1 -1 -1" for k in (1, 2, 3))
    path.write_text("\n".join([*(f"; {line}" for line in header), *jobs, ""]))
    return path


def scenario(path: Path, **workload: object) -> dict:
    machine = {"nodes": [{"name": "n", "count": 2, "cores": 1}]}
    return {"name": "small", "platform": machine, "workload": {"path": str(path), **workload}}


def test_a_run_has_the_dates_of_its_log_from_its_first_job_on(tmp_path: Path) -> None:
    dated = log(tmp_path / "a.swf", f"UnixStartTime: {int(ZERO)}", "TimeZoneString: Europe/Berlin")
    result = mlsim.run(scenario(dated), out=tmp_path / "run")
    assert result.records.calendar == Calendar(ZERO + HOUR, BERLIN)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())["workload"]
    assert summary["start"] == "2006-10-28T10:30:00+02:00"
    assert summary["time_zone"] == "Europe/Berlin"
    assert read_run(tmp_path / "run").records.calendar == result.records.calendar


@pytest.mark.parametrize(
    "header",
    [
        (),
        ("UnixStartTime: 0",),
        ("UnixStartTime: 9e15",),
        ("UnixStartTime: 1161997200", "TimeZoneString: Moon/Tycho"),
    ],
)
def test_a_log_without_usable_dates_is_simulated_without(header: tuple[str, ...], tmp_path: Path) -> None:
    result = mlsim.run(scenario(log(tmp_path / "a.swf", *header)))
    assert result.records.calendar is None
    assert "start" not in result.summary["workload"]


def test_times_that_are_not_those_of_the_log_have_no_dates(tmp_path: Path) -> None:
    dated = log(tmp_path / "a.swf", f"UnixStartTime: {int(ZERO)}")
    assert mlsim.run(scenario(dated, select={"scale_load": 2.0})).records.calendar is None


def test_dates_of_a_log_without_a_zone_are_written_without(tmp_path: Path) -> None:
    found = mlsim.run(scenario(log(tmp_path / "a.swf", f"UnixStartTime: {int(ZERO)}"))).records.calendar
    assert found is not None
    assert found.title == "date"
    assert found.to_summary() == {"start": "2006-10-28T08:30:00"}
    assert Calendar.from_summary(found.to_summary()) == found


def test_a_damaged_date_is_told(tmp_path: Path) -> None:
    dated = log(tmp_path / "a.swf", f"UnixStartTime: {int(ZERO)}")
    mlsim.run(scenario(dated), out=tmp_path / "run")
    (tmp_path / "run" / "manifest.json").unlink()
    path = tmp_path / "run" / "summary.json"
    summary = json.loads(path.read_text())
    summary["workload"]["start"] = "yesterday"
    path.write_text(json.dumps(summary))
    with pytest.raises(InputError, match=r"workload\.start"):
        read_run(tmp_path / "run")


def test_the_clock_is_changed_when_it_is_in_the_zone() -> None:
    changed = datetime.datetime(2006, 10, 29, 1, 0, tzinfo=datetime.UTC).timestamp() - ZERO
    shifts = Calendar(ZERO, BERLIN).shifts(0.0, 10 * 24 * HOUR)
    assert shifts == [(0.0, 7200.0), (changed, 3600.0)]
    assert Calendar(ZERO, None).shifts(0.0, 10 * 24 * HOUR) == [(0.0, 0.0)]


def test_ticks_are_at_midnights_of_the_zone_on_both_sides_of_a_change() -> None:
    end = 5 * 24 * HOUR
    records = records_of([Job(0, 0, end)], [Stay(0, 0, 1, 1, 0, end)])
    axes = gantt(replace(records, calendar=Calendar(ZERO, BERLIN)), "").axes[0]
    axes.figure.draw_without_rendering()
    unit = common_axis(records).seconds
    low, high = axes.get_xlim()
    shown = [
        (tick.get_loc() * unit, tick.label1.get_text()) for tick in axes.xaxis.get_major_ticks()
        if low <= tick.get_loc() <= high
    ]  # fmt: skip
    midnights = [datetime.datetime(2006, 10, day, tzinfo=BERLIN).timestamp() - ZERO for day in (29, 30, 31)]
    days = {round(time): label for time, label in shown}
    assert [days[round(time)] for time in midnights] == ["29 Oct", "30 Oct", "31 Oct"]
    assert axes.get_xlabel() == "date (Europe/Berlin)"
    assert axes.xaxis.get_offset_text().get_text() == "2006"


def test_runs_with_other_dates_share_no_dates() -> None:
    one = records_of([Job(0, 0, 10)], [Stay(0, 0, 1, 1, 0, 10)])
    dated = replace(one, calendar=Calendar(ZERO, None))
    assert common_axis(dated, dated).calendar == dated.calendar
    assert common_axis(dated, one).calendar is None
