"""The example of the predictors' page works."""

from __future__ import annotations

import re
from pathlib import Path

import mlsim
from mlsim.scenario.words import Predictor

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "predictors.md").read_text(encoding="utf-8")


def test_the_example_runs(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    (tmp_path / "cautious.py").write_text(example)
    (tmp_path / "log.csv").write_text(
        "job_id,submit_time,run_time,walltime,processors,user\n1,0,50,900,1,1\n2,60,200,900,1,1\n3,400,5,90,1,1\n"
    )
    (tmp_path / "own.yaml").write_text(
        "platform: {nodes: [{name: n, count: 2, cores: 1}]}\n"
        "workload: {path: log.csv, mapping: core}\n"
        "batch: {predictor: ./cautious.py:Cautious, backfill: easy}\n"
    )
    assert mlsim.run(tmp_path / "own.yaml").jobs["prediction"].to_list() == [900.0, 50.0, 90.0]


def test_every_predictor_is_on_the_page():
    for word in Predictor:
        assert f"| `{word}`" in PAGE
