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
from mlsim.cli.main import app
from mlsim.learning.delays import DELAYS, delays_of
from mlsim.record import Jobs
from mlsim.record.columns import empty
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
    found = dict(zip(DELAYS, delays_of(jobs).tolist(), strict=True))
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
    assert [found[name] for name in DELAYS[6:]] == pytest.approx(np.percentile(worst, [25, 50, 75]).tolist())


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
        runs = [delays_of(mlsim.run(tmp_path / "base.yaml", one).records.jobs) for one in keys]
        row = rows.filter(pl.col("policy") == policy)
        assert row.select(DELAYS).row(0) == pytest.approx(np.mean(runs, axis=0).tolist())
    log = mlsim.run(tmp_path / "base.yaml", {"workload.resample": None}).records.jobs
    share = 100 * np.mean(log.walltime >= 100 * log.log_run_time)
    assert pl.read_csv(out / "premature.csv")["premature %"][0] == pytest.approx(share)
