"""Selections through the whole reader, held and streamed, against a plain filter."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlsim._runtime.shared_cache import sharing
from mlsim.errors import InputError
from mlsim.scenario import WorkloadConfig
from mlsim.workload import Field, JobBlock, Workload, log_formats, log_source, open_workload, write_swf

DAY = 86_400
WEEK = 7 * DAY

Job = tuple[float, int, float, float, int]  # submit, id, wait, run, user


def config_of(**values: object) -> WorkloadConfig:
    return WorkloadConfig.model_validate({"path": "log.swf", **values})


def write(directory: Path, jobs: list[Job], header: dict[str, str] | None = None) -> Path:
    path = directory / "log.swf"
    names = (Field.SUBMIT_TIME, Field.JOB_ID, Field.WAIT_TIME, Field.RUN_TIME, Field.USER)
    columns = dict(zip(names, map(list, zip(*jobs, strict=True)), strict=True))
    write_swf(path, header or {}, columns | {Field.REQUESTED_PROCESSORS: [1] * len(jobs)})
    return path


def taken(workload: Workload) -> list[tuple[int, float]]:
    jobs = JobBlock.concatenate(list(workload.blocks()))
    return list(zip(jobs.job_id.tolist(), jobs.submit_time.tolist(), strict=True))


def expected(jobs: list[Job], select: dict) -> list[tuple[int, float]]:
    """Select jobs the slow and obvious way."""
    left = sorted(jobs)
    if "warm_up" in select:
        left = [job for job in left if job[0] >= left[0][0] + select["warm_up"]]
    if not left:
        return []
    zero = left[0][0]
    if "weeks" in select:
        first, last = map(int, str(select["weeks"]).split("-"))
        left = [job for job in left if (first - 1) * WEEK <= job[0] - zero < last * WEEK]
    if "window" in select:
        window = select["window"]
        left = [job for job in left if window["start"] <= job[0] - zero < window["end"]]
    if "most_intensive" in select:
        length = select["most_intensive"]
        windows = [[other for other in left if job[0] <= other[0] < job[0] + length] for job in left]
        left = max(windows, key=len)
    if "week_crossers" in select:
        left = [job for job in left if not crosses(job, zero)]
    if "user" in select:
        left = [job for job in left if job[4] in select["user"]]
    left = left[: select.get("first")]
    factor = select.get("scale_load", 1.0)
    return [(job[1], (job[0] - left[0][0]) / factor) for job in left]


def crosses(job: Job, zero: float) -> bool:
    begin = job[0] + max(job[2], 0) - zero
    end = begin + job[3]
    edge = (math.floor(begin / WEEK) + 1) * WEEK
    return end > edge


jobs = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 40).map(lambda day: day * DAY / 2.0), st.integers(0, 20 * DAY).map(float)),
        st.integers(0, 9),
        st.sampled_from([-1.0, 0.0, 5.0, DAY, 3.0 * DAY]),
        st.sampled_from([0.0, 60.0, DAY, 5.0 * DAY]),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=30,
)
stretches = st.one_of(
    st.just({}),
    st.sampled_from(["1-1", "1-2", "2-3", "3-3"]).map(lambda weeks: {"weeks": weeks}),
    st.sampled_from([3600.0, DAY, WEEK]).map(lambda length: {"most_intensive": length}),
    st.just({"window": {"start": DAY / 2, "end": 9.5 * DAY}}),
)
others = st.fixed_dictionaries(
    {},
    optional={
        "warm_up": st.sampled_from([60.0, DAY, 1.5 * WEEK]),
        "week_crossers": st.just("drop"),
        "user": st.lists(st.integers(1, 3), min_size=1, max_size=2),
        "first": st.integers(1, 5),
        "scale_load": st.sampled_from([0.5, 1.0, 4.0]),
    },
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(log=jobs, stretch=stretches, other=others, block=st.integers(1, 7))
def test_against_a_plain_filter(
    tmp_path: Path, log: list[Job], stretch: dict, other: dict, block: int
) -> None:
    # Jobs that tie in time and id keep the order of the log, which sorting tuples does not.
    log = list({(job[0], job[1]): job for job in log}.values())
    path = write(tmp_path, log)
    select = stretch | other
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_formats, "_BLOCK_JOBS", block)
        for held in (log_source.HELD_JOBS, 0):
            patch.setattr(log_source, "HELD_JOBS", held)
            if not expected(log, select):
                with pytest.raises(InputError, match="none is left"):
                    open_workload(config_of(select=select), path, 4)
                continue
            found = open_workload(config_of(select=select), path, 4)
            assert taken(found) == expected(log, select)
            assert found.n_jobs == len(taken(found))
            with sharing():
                same = [open_workload(config_of(select=select), path, 4) for _ in range(2)]
            assert all(taken(one) == taken(found) and one.notes == found.notes for one in same)


HOUR = 3600
# 2002-08-01 is in summer time, two hours east of Greenwich: it begins at 22:00 of the day before (UTC).
AUGUST = 1_028_152_800
STOCKHOLM = {"UnixStartTime": str(AUGUST - 1000), "TimeZone": "3600", "TimeZoneString": "Europe/Stockholm"}


@pytest.mark.parametrize(
    ("header", "dates", "ids"),
    [
        (STOCKHOLM, {"start": "2002-08-01"}, [2, 3, 4]),
        (STOCKHOLM, {"start": "2002-08-01", "end": "2002-08-02"}, [2, 3]),
        (STOCKHOLM, {"end": "2002-08-01T01:00"}, [1, 2]),
        (STOCKHOLM, {"start": "2002-08-01 01:00:00+02:00"}, [3, 4]),
        ({"UnixStartTime": str(AUGUST - 1000), "TimeZone": "3600"}, {"start": "2002-08-01"}, [3, 4]),
        ({"UnixStartTime": str(AUGUST - 1000)}, {"start": "2002-08-01"}, [4]),
    ],
)
def test_dates_are_of_the_logs_time_zone(tmp_path: Path, header: dict, dates: dict, ids: list[int]) -> None:
    times = [999, 1000, 1000 + HOUR, 1000 + 24 * HOUR]
    path = write(tmp_path, [(float(time), row + 1, 0.0, 60.0, 1) for row, time in enumerate(times)], header)
    assert [number for number, _ in taken(open_workload(config_of(select={"dates": dates}), path, 4))] == ids


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({}, "has no UnixStartTime"),
        ({"UnixStartTime": "yesterday"}, "UnixStartTime of the header is 'yesterday', which is no number"),
        ({"UnixStartTime": "0", "TimeZoneString": "Mars/Olympus"}, "the time zone 'Mars/Olympus'"),
    ],
)
def test_dates_need_a_start_and_a_zone(tmp_path: Path, header: dict, message: str) -> None:
    path = write(tmp_path, [(0.0, 1, 0.0, 60.0, 1)], header)
    with pytest.raises(InputError, match=message):
        open_workload(config_of(select={"dates": {"start": "2002-08-01"}}), path, 4)


def test_users_by_name(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "job_id,submit_time,run_time,walltime,processors,user\n1,0,1,1,1,zoe\n2,5,1,1,1,adam\n3,6,1,1,1,zoe\n"
    )
    assert taken(open_workload(config_of(select={"user": "zoe"}), path, 4)) == [(1, 0), (3, 6)]
    assert taken(open_workload(config_of(select={"user": ["adam"]}), path, 4)) == [(2, 0)]
    with pytest.raises(InputError, match="there is no user 'zo'; did you mean 'zoe'"):
        open_workload(config_of(select={"user": "zo"}), path, 4)


@pytest.mark.parametrize("block", [1, 3, 100])
def test_duplicate_ids_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(log_formats, "_BLOCK_JOBS", block)
    ids = [7, 2**40, 8, 7, 2**40, 0, 7, 2**28, 2**28 - 1, 2**28]
    path = write(tmp_path, [(float(row), number, 0.0, 60.0, 1) for row, number in enumerate(ids)])
    for held in (log_source.HELD_JOBS, 0):
        monkeypatch.setattr(log_source, "HELD_JOBS", held)
        assert open_workload(config_of(), path, 4).notes["duplicate_ids"] == 4


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ({"weeks": 0}, "names no weeks"),
        ({"weeks": "3-2"}, "names no weeks"),
        ({"weeks": 1, "window": {"start": 0, "end": 9}}, "weeks: given together with window"),
        ({"dates": {}}, "start: missing; give start, end, or both"),
        ({"dates": {"start": "1st of May"}}, "is not a date"),
        ({"dates": {"start": "2002-02-30"}}, "is not a date"),
        ({"user": []}, "names no user"),
        ({"user": [1.5]}, "is not a user"),
        ({"scale_load": 0}, "out of range"),
        ({"week_crossers": "clamp"}, "makes no sense here"),
    ],
)
def test_wrong_selections(select: dict, message: str) -> None:
    from mlsim.scenario.scenario_loading import from_mapping

    scenario = {
        "name": "a",
        "platform": {"nodes": [{"name": "n", "count": 1, "cores": 1}]},
        "workload": {"path": "log.swf", "select": select},
    }
    with pytest.raises(InputError, match=message):
        from_mapping(scenario)
