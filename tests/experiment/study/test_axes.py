"""What varies: seeds and weeks in short."""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
import pytest

from mlsim.errors import InputError
from mlsim.experiment import load_study, read_study, run_study
from mlsim.experiment.study.axes import axes_of
from mlsim.experiment.study.study_file import study_schema

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


def test_an_empty_key_below_a_label_has_its_default(tmp_path):
    (tmp_path / "run.yaml").write_text(RUN + "batch: {policy: SAF, threshold: 10 h}\n")
    (tmp_path / "study.yaml").write_text(
        "of: runs\nbase: run.yaml\nvary:\n  limit:\n    base: {batch.policy: SPF}\n"
        "    none: {batch.threshold: null, batch.policy: ~}\n  cases:\n    - {batch.threshold: }\n"
    )
    (limited, _), (free, scenario) = load_study(tmp_path).cases
    assert (limited.labels["limit"], free.labels["limit"]) == ("base", "none")
    assert scenario.batch.threshold is None
    assert scenario.batch.policy == "FCFS"
    (tmp_path / "study.yaml").write_text(
        "of: runs\nbase: run.yaml\nvary:\n  point: {sample: random, count: 3, of: {batch.reservations: }}\n"
    )
    with pytest.raises(InputError, match=r"point: batch\.reservations: None"):
        load_study(tmp_path)


GOOD = [
    {"cases": {"one": {"batch.policy": None}}},
    {"weeks": "all"},
    {"workload.path": {"files": "*.csv"}},
    {"log": {"files": "*.csv"}},
    {"cases": [{"batch.policy": "FCFS"}]},
    {"cases": {"one": {"batch.policy": "FCFS"}}},
    {"batch.reservations": {"sample": "random", "count": 3, "from": 1, "to": 64, "scale": "log-integer"}},
    {
        "point": {
            "sample": "sobol",
            "count": 4,
            "of": {"batch.backfill_interval": {"from": 1, "to": 9, "unit": "s"}},
        }
    },
    {"seeds": 3, "batch.policy": ["FCFS", "SAF"], "both": "{policy} {seed}"},
]
BAD = [
    ({"log": {"files": "*.csv", "sorted": True}}, "log: 'sorted': unknown beside files"),
    ({"cases": []}, "cases: empty"),
    ({"cases": ["FCFS"]}, "cases: .*allowed: mappings of keys"),
    ({"seed": {"sample": "dice", "count": 3, "from": 1, "to": 9}}, "sample: 'dice' is not known"),
    ({"seed": {"sample": "random", "from": 1, "to": 9}}, "count: None; allowed: a whole number from 2"),
    (
        {"seed": {"sample": "random", "count": 3, "from": 1}},
        "seed: to: missing; allowed: a number; units go into unit",
    ),
    ({"seed": {"sample": "random", "count": 3, "from": 1, "to": 9, "step": 1}}, "'step' is not known"),
    ({"a": {"sample": "random", "count": 3, "of": {}}}, "of: allowed: keys, each with a range"),
]
"""What is wrong by its shape, and what is said of it."""
WRONG = [
    *BAD,
    ({"cases": [{"batch.policy": "FCFS"}] * 2}, "two have the same values"),
    ({"log": {"files": "no-*.csv"}}, r"no file is like no-\*.csv; looked up in"),
    ({"seed": {"sample": "random", "count": 3, "from": 9, "to": 1}}, "from 9 to 1; allowed: from below to"),
    (
        {"seed": {"sample": "random", "count": 3, "from": 0, "to": 1, "scale": "log"}},
        "with scale log: above 0",
    ),
    ({"seed": {"sample": "random", "count": 3, "from": 0.5, "to": 9, "scale": "integer"}}, "whole numbers"),
    ({"seed": {"sample": "random", "count": 30, "from": 1, "to": 9, "scale": "integer"}}, "different values"),
    ({"seeds": 3, "both": "{seed} {week}"}, r"\{week\} is no axis; allowed in braces: seed"),
    ({"seeds": 3, "batch.policy": ["FCFS", "SAF"], "both": "{seed} {policy!q}"}, "both: "),
    (
        {"seeds": 12, "batch.reservations": [1, 11], "both": "{seed}{reservations}"},
        "two combinations are called",
    ),
]


def load_weeks(place, weeks):
    from mlsim.scenario import load

    return load(place / "run.yaml", {"workload.select.weeks": weeks}).workload.select.weeks


@pytest.mark.parametrize("value", [0, -1, True, "many", [1, 2], 2.5])
def test_what_is_no_number_of_seeds(value):
    with pytest.raises(InputError, match=r"vary: seeds: .*allowed: how many"):
        axes_of({"seeds": value}, "vary")


@pytest.mark.parametrize("value", ["any", "5-3", "00-4", 7, "1-", [1, 2]])
def test_what_is_no_span_of_weeks(value):
    with pytest.raises(InputError, match=r"vary: weeks: .*allowed: the first and the last week"):
        axes_of({"weeks": value}, "vary")


def test_the_schema_knows_them():
    jsonschema = pytest.importorskip("jsonschema", reason="no jsonschema")
    validator = jsonschema.Draft202012Validator(study_schema())
    study = {"of": "runs", "base": "run.yaml"}
    assert validator.is_valid(study | {"vary": {"seeds": 20, "weeks": "28-64"}})
    assert not validator.is_valid(study | {"vary": {"seeds": 0}})
    for vary in GOOD:
        assert validator.is_valid(study | {"vary": vary}), vary
    for vary in ({"weeks": "any"}, *(vary for vary, _ in BAD)):
        assert not validator.is_valid(study | {"vary": vary}), vary
    repeated = study | {"vary": {"seeds": 2, "weeks": "all"}}
    assert validator.is_valid(repeated | {"repetitions": ["seed", "week"]})
    assert not validator.is_valid(repeated | {"repetitions": []})


@pytest.mark.parametrize(("vary", "message"), WRONG)
def test_what_is_no_axis(vary, message, tmp_path):
    with pytest.raises(InputError, match=f"^vary: .*{message}"):
        axes_of(vary, "vary", tmp_path)


def labels_of(place, text):
    (place / "run.yaml").write_text(RUN)
    (place / "study.yaml").write_text(f"of: runs\nbase: run.yaml\n{text}")
    study = load_study(place)
    return study, [tuple(point.labels.values()) for point in study.points]


HEAD = "job_id,submit_time,run_time,walltime,processors\n"
WEEK = 604_800


def test_all_weeks_are_those_with_jobs(tmp_path):
    """One log has jobs in weeks 1 and 4, the other in 1 and 2; the warm-up moves where weeks begin."""
    (tmp_path / "jobs.csv").write_text(f"{HEAD}1,0,5,5,1\n2,{3 * WEEK},5,5,1\n")
    (tmp_path / "other.csv").write_text(f"{HEAD}1,9,5,5,1\n2,{WEEK + 9},5,5,1\n3,{3 * WEEK + 8},5,5,1\n")
    study, labels = labels_of(
        tmp_path, "vary: {weeks: all, workload.path: [jobs.csv, other.csv]}\nrepetitions: week\n"
    )
    assert labels == [
        *(("1", "jobs.csv"), ("1", "other.csv"), ("2", "other.csv"), ("3", "other.csv"), ("4", "jobs.csv"))
    ]
    assert study.columns == "path"
    _, labels = labels_of(
        tmp_path, "vary: {weeks: all, batch.policy: [FCFS]}\nset: {workload.select.warm_up: 1 week}\n"
    )
    assert labels == [("1", "FCFS")]
    assert study.cases[4][1].workload.select.weeks == (4, 4)


def test_all_weeks_of_loops(tmp_path):
    (tmp_path / "run.yaml").write_text(RUN)
    (tmp_path / "study.yaml").write_text("base: run.yaml\nvary: {weeks: all, seeds: 2}\n")
    with pytest.raises(InputError, match="weeks: are those of a log, and this study is of loops"):
        load_study(tmp_path)


def test_files_are_sorted_and_found_where_scenarios_look(tmp_path, monkeypatch):
    logs = tmp_path / "logs"
    logs.mkdir()
    for name in ("b.swf.gz", "a.swf", "c.csv"):
        (logs / name).write_text("")
    study, labels = labels_of(tmp_path, 'vary: {log: {files: "logs/*.swf*"}, seeds: 2}\n')
    assert labels == [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")]
    assert study.cases[2][1].workload.path == "logs/b.swf.gz"
    monkeypatch.setenv("MLSIM_TRACES", str(logs))
    study, labels = labels_of(tmp_path, 'vary: {workload.path: {files: "*.swf"}, seeds: 1}\n')
    assert [axis.name for axis in study.axes] == ["path", "seed"]
    assert labels == [("a", "1")]
    (logs / "a.csv").write_text("")
    assert labels_of(tmp_path, 'vary: {log: {files: "a.*"}, seeds: 1}\n')[1] == [
        ("a.csv", "1"),
        ("a.swf", "1"),
    ]


def test_cases_are_taken_together(tmp_path):
    text = "vary: {cases: [{batch.policy: FCFS, batch.backfill: easy}, {batch.policy: SAF}], seeds: 2}\n"
    study, labels = labels_of(tmp_path, text)
    assert labels == [("FCFS, easy", "1"), ("FCFS, easy", "2"), ("SAF", "1"), ("SAF", "2")]
    assert [axis.name for axis in study.axes] == ["case", "seed"]
    assert (study.cases[0][1].batch.backfill, study.cases[2][1].batch.backfill) == ("easy", "none")
    _, labels = labels_of(tmp_path, "vary: {cases: {one: {batch.policy: SAF}, two: {seed: 9}}}\n")
    assert labels == [("one",), ("two",)]


@pytest.mark.parametrize("wanted", ["1.0", "[1.0]", "'1.0'", "1.00"])
def test_a_number_names_its_label(tmp_path, wanted):
    text = "vary: {load: {1: {seed: 1}, 1.0: {seed: 2}}, batch.policy: [FCFS, SAF]}\n"
    _, labels = labels_of(tmp_path, f"{text}without: [{{load: {wanted}, policy: SAF}}]\n")
    assert labels == [("1", "FCFS"), ("1", "SAF"), ("1.0", "FCFS")]
    text = "vary: {workload.select.scale_load: [0.5, 1.0], batch.policy: [FCFS, SAF]}\n"
    _, labels = labels_of(tmp_path, f"{text}without: [{{scale_load: 1.0}}]\n")
    assert labels == [("0.5", "FCFS"), ("0.5", "SAF")]


def test_one_axis_in_the_place_of_two(tmp_path):
    text = (
        'vary: {seeds: 2, batch.policy: [FCFS, SAF], weeks: 1-2, "both": "{seed}-{week}"}\n'
        "repetitions: both\nwithout: [{seed: 1, week: 2}]\nset: {name: 'of {seed} {both}'}\n"
    )
    study, labels = labels_of(tmp_path, text)
    assert [axis.name for axis in study.axes] == ["both", "policy"]
    assert [one for one, _ in labels] == ["1-1", "1-1", "2-1", "2-1", "2-2", "2-2"]
    _, scenario = study.cases[5]
    assert (scenario.seed, scenario.name, scenario.batch.policy) == (2, "of 2 2-2", "SAF")
    assert scenario.workload.select.weeks == (2, 2)


def test_several_axes_of_repetitions(tmp_path):
    (tmp_path / "jobs.csv").write_text(f"{HEAD}1,0,5,5,1\n2,{WEEK},5,5,1\n")
    study, labels = labels_of(
        tmp_path, "vary: {batch.policy: [FCFS, SAF], seeds: 2, weeks: all}\nrepetitions: [seed, week]\n"
    )
    assert (study.repetitions, study.columns) == ("seed, week", "policy")
    assert [one for _, one in labels] == ["1, 1", "1, 2", "2, 1", "2, 2"] * 2
    rows = run_study(study, out=tmp_path / "out")
    assert len(rows) == 8
    runs = read_study(tmp_path / "out").runs
    assert runs["seed"].to_list() == ["1", "1", "2", "2"] * 2
    assert runs["week"].to_list() == ["1", "2"] * 4
    assert "| FCFS | 4 |" in (tmp_path / "out/statistics.md").read_text()
    with pytest.raises(InputError, match="repetitions: 'order' is not known"):
        labels_of(tmp_path, "vary: {seeds: 2, weeks: 1-2}\nrepetitions: [seed, order]\n")


@pytest.mark.parametrize("sample", ["random", "latin-hypercube", "sobol"])
def test_samples_fill_their_range_and_depend_on_their_seed(sample):
    if sample != "random":
        pytest.importorskip("scipy", reason="no SciPy")
    given = {"sample": sample, "count": 64, "seed": 3}

    def values(name, seed=3, **of):
        (axis,) = axes_of({name: given | of | {"seed": seed}}, "vary")
        return [dict(keys) for keys in axis.points.values()]

    first = values("batch.a", **{"from": 10, "to": 1000, "scale": "log"})
    assert first == values("batch.a", **{"from": 10, "to": 1000, "scale": "log"})
    assert first != values("batch.a", 4, **{"from": 10, "to": 1000, "scale": "log"})
    numbers = np.array([keys["batch.a"] for keys in first])
    assert numbers.min() >= 10
    assert numbers.max() <= 1000
    assert 20 < (numbers < 100).sum() < 44
    ranges = {"k.a": {"from": 1, "to": 4, "scale": "integer"}, "k.b": {"from": 0, "to": 1, "unit": "s"}}
    both = values("point", of=ranges)
    assert {keys["k.a"] for keys in both} == {1, 2, 3, 4}
    assert all(isinstance(keys["k.a"], int) for keys in both)
    assert all(0 <= float(str(keys["k.b"]).removesuffix(" s")) <= 1 for keys in both)
    if sample == "latin-hypercube":  # one in each of 64 equal parts
        parts = sorted(int(float(str(keys["k.b"]).split()[0]) * 64) for keys in both)
        assert parts == list(range(64))
    if sample == "sobol":  # as many in each cell of a grid of 8 x 8
        shares = axes_of({"p": given | {"of": {key: {"from": 0, "to": 1} for key in "ab"}}}, "vary")[0]
        cells = Counter((int(keys["a"] * 8), int(keys["b"] * 8)) for keys in shares.points.values())
        assert set(cells.values()) == {1}


def test_sobol_takes_powers_of_two():
    pytest.importorskip("scipy", reason="no SciPy")
    with pytest.raises(InputError, match=r"count: 10; allowed for sobol: powers of 2.*e\.g\. 8"):
        axes_of({"seed": {"sample": "sobol", "count": 10, "from": 0, "to": 1}}, "vary")


def test_without_scipy(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    with pytest.raises(InputError, match=r"sobol needs SciPy: .*pip install 'mlsim\[study\]'"):
        axes_of({"seed": {"sample": "sobol", "count": 8, "from": 0, "to": 1}}, "vary")
