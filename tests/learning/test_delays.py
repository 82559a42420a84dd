"""Who is delayed: premature jobs, categories of slowdown, sizes of the most delayed, and over a study."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import mlsim
from mlsim.analysis.job_metrics import JOB_METRICS, backfilled_share
from mlsim.cli.main import app
from mlsim.learning.policy_delays import CURVES, DELAYS, Delays, delay_pictures, delays_of
from mlsim.record import Jobs
from mlsim.record.column_types import empty
from mlsim.workload import generate

rows_of_jobs = st.lists(
    st.tuples(
        st.sampled_from([0.0, 1.0, 90.0, 900.0, 20_000.0]),
        st.sampled_from([1.0, 10.0, 60.0, 600.0]),
        st.sampled_from([60.0, 600.0, 6000.0, 60_000.0]),
        st.integers(1, 64),
        st.booleans(),
    ),
    max_size=150,
)


@given(rows_of_jobs)
def test_delays_are_what_plain_words_give(rows):
    wait, run, walltime, processors, ran = (
        (list(column) for column in zip(*rows, strict=True)) if rows else [[]] * 5
    )
    start = np.where(np.array(ran, bool), np.array(wait, float), np.nan)
    jobs = replace(
        empty(Jobs),
        submit_time=np.zeros(len(rows)),
        start_time=start,
        end_time=start + np.array(run, float),
        walltime=np.array(walltime, float),
        processors=np.array(processors, np.int64),
    )
    delays = delays_of(jobs)
    again = Delays.unpacked(delays.packed())
    assert np.array_equal(again.packed(), delays.packed(), equal_nan=True)
    found = dict(zip(DELAYS, again.row().tolist(), strict=True))
    known = [(max((w + r) / max(r, 10.0), 1.0), p >= 100 * r, q) for w, r, p, q, ran in rows if ran]
    if not known:
        assert np.isnan(list(found.values())).all()
        return
    early, other = ([slow for slow, is_early, _ in known if is_early is kind] for kind in (True, False))
    assert found["premature %"] == pytest.approx(100 * len(early) / len(known))
    if early and other:
        assert found["premature to standard"] == pytest.approx(np.mean(early) / np.mean(other))
    else:
        assert np.isnan(found["premature to standard"])
    counts = [sum(slow == 1 for slow, *_ in known)]
    counts += [
        sum(low <= slow < high and slow > 1 for slow, *_ in known)
        for low, high in pairwise([1, 10, 100, 1e9])
    ]
    assert [found[name] for name in DELAYS[2:6]] == pytest.approx([100 * n / len(known) for n in counts])
    worst = [q for *_, q in sorted(known, key=lambda job: -job[0])[:100]]
    assert [found[name] for name in DELAYS[6:9]] == pytest.approx(np.percentile(worst, [25, 50, 75]).tolist())
    assert again.sizes.tolist() == worst
    assert found["backfilled %"] == 0
    assert found["mean bounded slowdown"] == pytest.approx(np.mean([slow for slow, *_ in known]))
    assert found["mean wait"] == pytest.approx(np.mean([row[0] for row in rows if row[-1]]))


def test_curves_are_means_of_all_that_ended_so_far(tmp_path):
    path = tmp_path / "log.swf"
    generate("lublin", days=30, processors=32, load=0.9, seed=2, estimates="tsafrir").write(path)
    scenario = {
        "platform": {"nodes": [{"name": "n", "count": 32, "cores": 1}]},
        "workload": {"path": str(path), "mapping": "node"},
        "batch": {"policy": "FCFS", "backfill": "easy"},
    }
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(scenario))
    jobs = mlsim.run(tmp_path / "base.yaml").records.jobs
    found = delays_of(jobs)
    weeks = int(np.ceil(jobs.end_time.max() / 604_800))
    assert found.curves.shape == (3, weeks)
    for curve, name in zip(found.curves, CURVES, strict=True):
        values = JOB_METRICS[name].values(jobs, 10.0)
        means = [values[jobs.end_time < 604_800 * week].mean() for week in range(1, weeks + 1)]
        assert curve.tolist() == pytest.approx(means)
    assert found.backfilled == pytest.approx(100 * backfilled_share(jobs))
    assert found.backfilled > 0


def made(end: float, weeks: int, backfilled: float = 20.0) -> Delays:
    """Return delays whose curves go straight from 0 to some end."""
    curves = np.tile(np.linspace(0, end, weeks), (3, 1))
    return Delays(8.0, 10.0, np.array([60.0, 25.0, 10.0, 5.0]), backfilled, np.arange(1.0, 101), curves)


def test_pictures_show_what_is_left_of_the_samples():
    samples = {
        ("one", "FCFS"): [made(end, weeks) for end, weeks in ((9.0, 5), (2.0, 4), (4.0, 6), (99.0, 5))],
        ("one", "SPF"): [made(end, 5, backfilled=7.0) for end in (1.0, 2.0, 3.0, 4.0)],
    }
    figures = {name: draw() for name, draw in delay_pictures(samples, trim=1).items()}
    assert list(figures) == [
        "cumulative-bounded-slowdown",
        "cumulative-per-processor-bounded-slowdown",
        "cumulative-wait-time",
        "most-delayed",
        "slowdown-shares",
        "backfilled",
    ]
    (axes,) = figures["cumulative-bounded-slowdown"].axes
    first, second = axes.get_lines()
    assert first.get_xdata().tolist() == [1, 2, 3, 4, 5]  # as long as both of those that are left
    assert first.get_ydata().tolist() == pytest.approx(
        np.mean([np.linspace(0, 9, 5), [0, 0.8, 1.6, 2.4, 3.2]], 0)
    )
    assert second.get_ydata()[-1] == pytest.approx(2.5)
    (shares,) = figures["slowdown-shares"].axes
    assert sorted({bar.get_height() for bar in shares.patches}) == [5, 10, 25, 60]
    (boxes,) = figures["backfilled"].axes
    assert [label.get_text() for label in boxes.get_xticklabels()] == ["FCFS", "SPF"]
    assert {7.0, 20.0} <= {float(line.get_ydata()[0]) for line in boxes.get_lines()}
    (sizes,) = figures["most-delayed"].axes
    assert sizes.get_yscale() == "log"


def test_a_study_gives_the_means_over_its_samples(tmp_path):
    generate("lublin", days=21, processors=32, load=0.9, seed=2, estimates="tsafrir").write(
        tmp_path / "log.swf"
    )
    base = {
        "platform": {"nodes": [{"name": "n", "count": 32, "cores": 1}]},
        "workload": {"path": "log.swf", "mapping": "node", "resample": {"weeks": 1, "by": "week"}},
        "batch": {"policy": "FCFS", "backfill": "easy"},
    }
    study = {"of": "runs", "name": "small", "base": "base.yaml", "repetitions": "seed", "columns": "policy"}
    study["vary"] = {"log": {"mine": {}}, "batch.policy": ["FCFS", "SPF"], "seeds": 2}
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(base))
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    (tmp_path / "source.csv").write_text("log,policy,value\nmine,premature,77.25\nmine,SPF,66.75\n")
    out = tmp_path / "out"
    words = ["learn", "policies", str(tmp_path), "--reference", str(tmp_path / "source.csv"), "--jobs", "1"]
    result = CliRunner().invoke(app, [*words, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "77.25" in result.output
    rows = pl.read_csv(out / "delays.csv")
    assert rows.select("log", "policy").rows() == [("mine", "FCFS"), ("mine", "SPF")]
    for policy in ("FCFS", "SPF"):
        keys = [{"batch.policy": policy, "seed": seed} for seed in (1, 2)]
        runs = [delays_of(mlsim.run(tmp_path / "base.yaml", one).records.jobs).row() for one in keys]
        row = rows.filter(pl.col("policy") == policy)
        assert row.select(DELAYS).row(0) == pytest.approx(np.mean(runs, axis=0).tolist())
    pictures = sorted(path.name for path in out.glob("*.png"))
    assert pictures == [
        "backfilled.png",
        "cumulative-bounded-slowdown.png",
        "cumulative-per-processor-bounded-slowdown.png",
        "cumulative-wait-time.png",
        "most-delayed.png",
        "slowdown-shares.png",
    ]
    log = mlsim.run(tmp_path / "base.yaml", {"workload.resample": None}).records.jobs
    share = 100 * np.mean(log.walltime >= 100 * log.log_run_time)
    assert pl.read_csv(out / "premature.csv")["premature %"][0] == pytest.approx(share)


@pytest.mark.filterwarnings("error::UserWarning")  # of pictures of a single week, which have no width
def test_results_of_others_stand_beside_their_log_and_policy_in_any_order_of_axes(tmp_path):
    generate("lublin", days=2, processors=32, load=0.9, seed=2, estimates="tsafrir").write(tmp_path / "a.swf")
    base = {
        "platform": {"nodes": [{"name": "n", "count": 32, "cores": 1}]},
        "workload": {"path": "a.swf", "mapping": "node"},
        "batch": {"policy": "FCFS", "backfill": "easy"},
    }
    study = {"of": "runs", "name": "small", "base": "base.yaml"}
    study["vary"] = {
        "batch.policy": ["FCFS", "SPF"],
        "log": {"mine": {"workload.path": "a.swf"}},
        "batch.backfill": ["easy", "none"],
    }
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(base))
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study, sort_keys=False))
    source, out = tmp_path / "source.csv", tmp_path / "out"
    words = ["learn", "policies", str(tmp_path), "--reference", str(source), "--jobs", "1", "--out", str(out)]
    source.write_text("log,policy,value\nyours,SPF,1\nmine,LPF,2\n")
    result = CliRunner().invoke(app, words)
    assert "none of its rows is of what it would stand beside. Shown are log: mine; policy:" in str(
        result.exception
    )
    assert not out.exists()
    source.write_text("log,policy,value\nmine,SPF,66.75\nyours,SPF,1\n")
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    rows = pl.read_csv(out / "delays.csv")
    beside = rows.select("policy", "source: premature to standard").rows()
    assert beside == [("FCFS", ""), ("FCFS", ""), ("SPF", "66.75"), ("SPF", "66.75")]
    assert pl.read_csv(out / "premature.csv")["jobs"].dtype == pl.Int64
