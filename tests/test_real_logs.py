"""Whole runs of real logs against published and recorded results."""

from __future__ import annotations

from pathlib import Path

import pytest

import mlsim
from mlsim.scenario import from_mapping

SCENARIOS = Path(__file__).parents[1] / "scenarios"

pytestmark = pytest.mark.logs


@pytest.fixture(autouse=True)
def _traces(logs_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLSIM_TRACES", str(logs_dir))


@pytest.mark.parametrize(
    ("backfill", "easy", "ties", "starts", "wait"),
    # FCFS: PYSS, AccaSim, CQSim and Alea give this schedule job by job. EASY with a pass after every event:
    # PYSS; that of AccaSim and CQSim: their own code, job by job; see docs/explanation/easy.md.
    [
        ("none", "standard", "drained", 9_395_531_239, 5601.351),
        ("none", "standard", "per-event", 9_395_531_239, 5601.351),
        ("easy", "standard", "drained", 9_388_855_074, 3478.564),
        ("easy", "standard", "per-event", 9_388_834_946, 3472.164),
        ("easy", "accasim", "drained", 9_388_450_977, 3350.076),
        ("easy", "cqsim", "ends-first", 9_387_598_515, 3079.023),
    ],
)
def test_recorded_schedules_of_two_months_of_hpc2n(backfill, easy, ties, starts, wait):
    scenario = from_mapping(
        {
            "name": "hpc2n-3k",
            "platform": {"nodes": [{"name": "n", "count": 120, "cores": 2}]},
            "workload": {
                "path": "hpc2n-3k.swf",
                "mapping": "core",
                "cleaning": {"zero_run_time": "drop", "underestimate": "clamp"},
            },
            "batch": {"policy": "FCFS", "backfill": backfill, "easy": easy, "ties": ties},
        }
    )
    result = mlsim.run(scenario)
    assert result.summary["jobs"]["completed"] == 3145
    assert int(result.jobs["start_time"].sum()) == starts
    assert result.summary["wait_time"]["mean"] == pytest.approx(wait, abs=0.0005)


def test_easy_on_kth_is_near_published_values():
    # Published mean bounded slowdowns of EASY on this log are about 92.
    result = mlsim.run(SCENARIOS / "kth.yaml")
    assert result.summary["jobs"]["completed"] == 28_467
    assert result.summary["bounded_slowdown"]["mean"] == pytest.approx(91, abs=1.5)


@pytest.mark.slow
def test_predictions_help_on_gaia(logs_dir):
    if not (logs_dir / "UniLu-Gaia-2014-1.swf.gz").is_file():
        pytest.skip("no log of Gaia")
    runs = {
        name: mlsim.run(SCENARIOS / "predicted.yaml", overrides={"batch.predictor": name}).summary
        for name in ("walltime", "D", "actual")
    }
    slowdown = {name: summary["slowdown"]["mean"] for name, summary in runs.items()}
    assert slowdown["actual"] < slowdown["D"] < slowdown["walltime"]
    assert runs["D"]["estimates"]["prediction"]["mae"] < 423 * 60  # published


@pytest.mark.slow
@pytest.mark.parametrize("backfill", ["none", "easy"])
def test_all_of_hpc2n(backfill):
    result = mlsim.run(SCENARIOS / "hpc2n.yaml", overrides={"batch.backfill": backfill})
    assert result.summary["jobs"]["completed"] == 202_871
    if backfill == "easy":
        assert result.summary["bounded_slowdown"]["mean"] == pytest.approx(87, abs=1)


@pytest.mark.slow
def test_the_most_intensive_day_of_curie_on_four_hosts():
    runs = {
        rca: mlsim.run(SCENARIOS / "curie-24h.yaml", overrides={"coordination.rca": rca}).summary
        for rca in (False, True)
    }
    for summary in runs.values():
        assert summary["jobs"]["completed"] == 9_643
        assert summary["workload"]["simulated"]["oversize"] == 464  # clamped to the machine
    assert runs[True]["coordination"]["releases"] > 0
    assert runs[True]["makespan"] < runs[False]["makespan"]
    assert runs[True]["utilization"]["busy"] > runs[False]["utilization"]["busy"]
