"""What is told of a log, against polars on the same jobs."""

from __future__ import annotations

import datetime
import zoneinfo
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.workload import Field, generate, log_facts, write_swf
from mlsim.workload.autocorrelation import autocorrelation
from mlsim.workload.log_facts import Tally, describe

START = 1_000_000_123
ZONE = "Europe/Stockholm"


@pytest.fixture(scope="module")
def jobs() -> dict[Field, Any]:
    """Jobs of which something is always unknown, over a change of the clocks."""
    rng = np.random.default_rng(8)
    n = 5000
    columns = {
        Field.JOB_ID: np.arange(1, n + 1),
        Field.SUBMIT_TIME: np.sort(rng.integers(1000, 90 * 86400, n)),
        Field.WAIT_TIME: rng.integers(-1, 500, n),
        Field.RUN_TIME: rng.integers(-1, 9000, n),
        Field.ALLOCATED_PROCESSORS: rng.integers(1, 40, n),
        Field.REQUESTED_PROCESSORS: np.where(rng.random(n) < 0.2, -1, rng.integers(1, 64, n)),
        Field.REQUESTED_TIME: np.where(rng.random(n) < 0.1, -1, rng.integers(60, 20_000, n)),
        Field.STATUS: rng.choice([0, 1, 5, -1], n),
        Field.USER: rng.geometric(0.1, n),
    }
    columns[Field.USER][::97] = -1
    return columns


@pytest.fixture(scope="module")
def log(jobs: dict[Field, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("described") / "log.swf"
    write_swf(path, {"UnixStartTime": str(START), "TimeZoneString": ZONE, "MaxProcs": "64"}, jobs)
    return path


@pytest.fixture(scope="module")
def frame(jobs: dict[Field, Any]) -> pl.DataFrame:
    table = pl.DataFrame({field.label: np.asarray(values, float) for field, values in jobs.items()})
    size = (
        pl.when(pl.col("requested_processors") > 0)
        .then("requested_processors")
        .otherwise("allocated_processors")
    )
    return table.with_columns(size=size)


def test_figures_against_polars(log: Path, frame: pl.DataFrame):
    found = describe(log).facts
    run = frame.filter(pl.col("run_time") >= 0)
    work = (run["run_time"] * run["size"]).sum()
    span = frame["submit_time"].max() - frame["submit_time"].min()
    assert (found["jobs"], found["processors"], found["processors_from"]) == (5000, 64, "header")
    assert found["users"] == frame.filter(pl.col("user") >= 0)["user"].n_unique()
    assert found["work"] == pytest.approx(work, rel=1e-12)
    assert found["load"] == pytest.approx(work / (64 * span), rel=1e-12)
    status = dict(frame["status"].value_counts().iter_rows())
    assert found["status"] == {
        "completed": status[1],
        "failed": status[0],
        "cancelled": status[5],
        "other": status[-1],
    }
    assert found["unknown"]["walltime"] == (frame["requested_time"] < 0).sum()
    assert found["unknown"]["run_time"] == (frame["run_time"] < 0).sum()
    both = frame.filter((pl.col("run_time") >= 0) & (pl.col("requested_time") > 0))
    columns = {
        "processors": frame["size"],
        "run_time": run["run_time"],
        "walltime": frame.filter(pl.col("requested_time") > 0)["requested_time"],
        "accuracy": ((1000 * both["run_time"] / both["requested_time"]).to_numpy().round() / 1000),
        "wait_time": frame.filter(pl.col("wait_time") >= 0)["wait_time"],
        "interval": frame["submit_time"].diff().drop_nulls(),
    }
    for name, column in columns.items():
        values = np.asarray(column, float)
        told = found["distributions"][name]
        assert told["mean"] == pytest.approx(values.mean(), rel=1e-9), name
        assert told["std"] == pytest.approx(values.std(), rel=1e-9), name
        assert (told["min"], told["max"]) == (values.min(), values.max())
        for word, share in (("median", 0.5), ("p90", 0.9), ("p99", 0.99)):
            assert told[word] == np.quantile(values, share, method="inverted_cdf"), (name, word)
    weekly = (
        run.group_by(week=((pl.col("submit_time") - frame["submit_time"].min()) // 604800))
        .agg(((pl.col("run_time") * pl.col("size")).sum() / (64 * 604800)).alias("load"))
        .sort("week")
    )
    assert found["weekly_load"] == pytest.approx(weekly["load"].to_list())
    users = frame.filter(pl.col("user") >= 0)["user"].value_counts(sort=True)
    assert [each["jobs"] for each in found["most_active_users"]] == users["count"].head(5).to_list()
    first = found["most_active_users"][0]["user"]
    of_first = run.filter(pl.col("user") == first)
    share = (of_first["run_time"] * of_first["size"]).sum() / work
    assert found["most_active_users"][0]["work_share"] == pytest.approx(share)


def test_cycles_are_on_the_clocks_of_the_log(log: Path, frame: pl.DataFrame):
    found = describe(log).facts
    zone = zoneinfo.ZoneInfo(ZONE)
    times = [datetime.datetime.fromtimestamp(START + s, zone) for s in frame["submit_time"]]
    hours, days, months = [0] * 24, [0] * 7, [0] * 12
    for time in times:
        hours[time.hour] += 1
        days[time.weekday()] += 1
        months[time.month - 1] += 1
    assert found["arrivals"] == {"by_hour": hours, "by_weekday": days, "by_month": months}
    assert found["first_submission"] == times[0].isoformat(" ")
    assert found["last_submission"] == times[-1].isoformat(" ")


def test_months_are_on_the_clocks_of_the_log(log: Path, frame: pl.DataFrame):
    """Against polars; the first and the last month count as long as jobs come."""
    zone = zoneinfo.ZoneInfo(ZONE)
    rows = frame.with_columns(
        month=pl.Series(
            datetime.datetime.fromtimestamp(START + s, zone).strftime("%Y-%m") for s in frame["submit_time"]
        )
    )
    found = describe(log).facts["months"]
    assert [each["month"] for each in found] == sorted(set(rows["month"]))
    assert len(found) >= 3
    ends = [float(frame["submit_time"].min())]
    for each in found[1:]:
        year, month = map(int, each["month"].split("-"))
        ends.append(datetime.datetime(year, month, 1, tzinfo=zone).timestamp() - START)
    ends.append(float(frame["submit_time"].max()))
    for each, first, last in zip(found, ends, ends[1:], strict=False):
        of_month = rows.filter(pl.col("month") == each["month"])
        known = of_month.filter(pl.col("run_time") >= 0)
        assert each["jobs"] == len(of_month)
        assert each["run_time"] == pytest.approx(known["run_time"].mean())
        assert each["processors"] == pytest.approx(of_month["size"].mean())
        work = (known["run_time"] * known["size"]).sum()
        assert each["load"] == pytest.approx(work / (64 * (last - first)))


def test_autocorrelation_against_a_slow_one(log: Path, frame: pl.DataFrame):
    lags, zone = 4, zoneinfo.ZoneInfo(ZONE)
    rows = frame.filter((pl.col("run_time") >= 0) & (pl.col("user") >= 0) & (pl.col("requested_time") > 0))
    weekdays = [datetime.datetime.fromtimestamp(START + s, zone).weekday() for s in rows["submit_time"]]
    others = (rows["size"].to_list(), rows["requested_time"].to_list(), weekdays)
    found = describe(log, lags=lags).facts["autocorrelation"]
    for (name, told), other in zip(found.items(), others, strict=True):
        series: dict[Any, list[float]] = {}
        for user, value, run in zip(rows["user"], other, rows["run_time"], strict=True):
            series.setdefault((user, value), []).append(run)
        every, jobs = [], 0
        for values in series.values():
            n = len(values)
            if n > 2 * lags and len(set(values)) > 1:
                mean, spread = np.mean(values), np.std(values, ddof=1)
                jobs += n
                every.append(
                    [
                        sum((values[i] - mean) * (values[i + k] - mean) for i in range(n - k))
                        / (n - k)
                        / spread**2
                        for k in range(1, lags + 1)
                    ]
                )
        assert told["categories"] == len(every), name
        assert told["jobs"] == pytest.approx(jobs / len(rows))
        for row, share in (("p25", 0.25), ("median", 0.5), ("p75", 0.75)):
            expected = np.quantile(np.array(every), share, axis=0) if every else []
            assert [lag[row] for lag in told["lags"]] == pytest.approx(list(expected)), (name, row)
    assert found["user and weekday"]["categories"] > 20


def test_autocorrelation_by_hand():
    """1, 3, 1, 3, 1: mean 1.8, sample variance 1.2; lag 1: -0.96 / 1.2, lag 2: 2.72 / 3 / 1.2."""
    category = np.array([0, 1, 0, 0, 1, 0, 1, 0, 1, 1, 2])
    values = np.array([1.0, 7, 3, 1, 7, 3, 7, 1, 7, 7, 9])
    found, jobs = autocorrelation(category, values, 2)
    assert found == pytest.approx(np.array([[-0.8, (0.64 + 1.44 + 0.64) / 3 / 1.2]]))
    assert jobs == 5  # those of category 1 run equally long, and category 2 is too short


def test_blocks_are_of_no_account(log: Path, monkeypatch: pytest.MonkeyPatch):
    whole = describe(log).facts
    monkeypatch.setattr("mlsim.workload.log_formats._BLOCK_JOBS", 77)
    monkeypatch.setattr("mlsim.workload.log_facts._WAITING", 500)
    again = describe(log).facts
    assert again == whole | {
        "work": pytest.approx(whole["work"]),
        **{
            key: again[key] for key in ("load", "weekly_load", "most_active_users", "distributions", "months")
        },
    }
    for name in log_facts.DISTRIBUTIONS:
        assert again["distributions"][name] == pytest.approx(whole["distributions"][name])


def test_a_generated_log_has_the_load_that_was_asked_for(tmp_path: Path):
    for suffix in ("swf", "csv", "parquet"):
        path = tmp_path / f"made.{suffix}"
        generate("lublin", jobs=2000, processors=64, seed=1, load=0.8).write(path)
        found = describe(path).facts
        span = found["days"] * 86400
        last = span + generate("lublin", jobs=2000, processors=64, seed=1, load=0.8).jobs().submit_time[0]
        assert found["load"] * found["processors"] / 64 == pytest.approx(0.8 * last / span, rel=1e-4)


def test_a_tally_counts_with_weights():
    tally = Tally()
    assert tally.summary() is None
    tally.add(np.array([3, 1, 3]), np.array([0.5, 2.0, 1.5]))
    values, counts = tally.counted()
    assert (values.tolist(), counts.tolist()) == ([1.0, 3.0], [2.0, 2.0])
    assert tally.summary() == {"min": 1, "mean": 2, "std": 1, "median": 1, "p90": 3, "p99": 3, "max": 3}


def test_a_log_without_jobs(tmp_path: Path):
    (tmp_path / "none.swf").write_text("; MaxProcs: 4\n")
    with pytest.raises(InputError, match="holds no job with a submit time"):
        describe(tmp_path / "none.swf")


def test_what_was_understood_begins_and_what_is_missing_ends(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    head = "JobIDRaw|Submit|Start|End|ElapsedRaw|ReqCPUS|State|Comment|ReqTRES"
    rows = [
        "1|2026-03-01T08:00:00|2026-03-01T08:00:05|2026-03-01T08:01:05|60|4|COMPLETED|x|cpu=4,mem=1G",
        "1.batch|2026-03-01T08:00:00|2026-03-01T08:00:05|2026-03-01T08:01:05|60|4|COMPLETED||",
        "2|2026-03-01T08:00:00|None|2026-03-01T08:01:05|0|4|CANCELLED by 7||cpu=4,mem=1G",
        "3|2026-03-01T08:00:00|2026-03-01T08:00:05|Unknown|60|4|RUNNING||cpu=4,mem=1G",
    ]
    path.write_text("\n".join([head, *rows]) + "\n")
    facts = describe(path).facts
    understood = facts["understood"]
    assert understood["columns"]["recorded_start"] == "Start"
    assert understood["columns"]["request_memory"] == "ReqTRES"
    assert not {"request_gpu", "walltime", "user"} & set(understood["columns"])
    assert understood["ignored"] == ["Comment"]
    assert understood["left_out"] == {"steps": 1, "unfinished_jobs": 1}
    assert facts["missing"] == [
        "backfilling as on the machine: walltimes",
        "fair shares, and results by user: users",
        "limits by GPUs: request_gpu",
        "results by partition or queue: partitions or queues",
        "the offered load: processors of the machine (MaxProcs)",
    ]
    lines = CliRunner().invoke(app, ["workload", "describe", str(path)]).output.splitlines()
    assert lines[0].startswith("log.txt: sacct, ")
    assert lines[3] == "  rows: 2 jobs; steps 1; unfinished jobs 1"
    assert lines[4] == "  time zone: none in the log, read as UTC"
    assert lines[-1] == "  the offered load: processors of the machine (MaxProcs)"
