"""What varies: seeds and weeks in short."""

from __future__ import annotations

import pytest

from mlsim.errors import InputError
from mlsim.experiment import load_study
from mlsim.experiment.schemas import study_schema
from mlsim.experiment.study.axes import axes_of

RUN = "platform: {nodes: [{name: n, count: 4, cores: 1}]}\nworkload: {path: jobs.csv, mapping: node}\n"


def test_seeds_and_weeks(tmp_path):
    (tmp_path / "run.yaml").write_text(RUN)
    (tmp_path / "study.yaml").write_text(
        "of: runs\nbase: run.yaml\nvary: {seeds: 3, weeks: 28-29}\nrepetitions: seed\n"
    )
    study = load_study(tmp_path)
    labels = [tuple(point.labels.values()) for point, _ in study.cases]
    assert labels == [("1", "28"), ("1", "29"), ("2", "28"), ("2", "29"), ("3", "28"), ("3", "29")]
    _, scenario = study.cases[3]
    assert scenario.seed == 2
    assert scenario.workload.select.weeks == load_weeks(tmp_path, "29-29")
    assert (study.columns, study.repetitions) == ("week", "seed")


def load_weeks(place, weeks):
    from mlsim.scenario import load

    return load(place / "run.yaml", {"workload.select.weeks": weeks}).workload.select.weeks


@pytest.mark.parametrize("value", [0, -1, True, "many", [1, 2], 2.5])
def test_what_is_no_number_of_seeds(value):
    with pytest.raises(InputError, match=r"vary: seeds: .*allowed: how many"):
        axes_of({"seeds": value}, "vary")


@pytest.mark.parametrize("value", ["all", "5-3", "0-4", 7, "1-", [1, 2]])
def test_what_is_no_span_of_weeks(value):
    with pytest.raises(InputError, match=r"vary: weeks: .*allowed: the first and the last week"):
        axes_of({"weeks": value}, "vary")


def test_the_schema_knows_them():
    jsonschema = pytest.importorskip("jsonschema", reason="no jsonschema")
    validator = jsonschema.Draft202012Validator(study_schema())
    study = {"of": "runs", "base": "run.yaml"}
    assert validator.is_valid(study | {"vary": {"seeds": 20, "weeks": "28-64"}})
    assert not validator.is_valid(study | {"vary": {"seeds": 0}})
    assert not validator.is_valid(study | {"vary": {"weeks": "all"}})
