"""Studies of whole runs."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from mlsim.errors import InputError
from mlsim.experiment.study import StudyRow, load_study, read_study, run_study
from mlsim.experiment.study.study_tables import study_tables
from mlsim.workload.csv_log import csv_text
from mlsim.workload.esp_workload import EspApplication, esp

REPOSITORY = Path(__file__).resolve().parents[3]
STUDIES = REPOSITORY / "scenarios" / "studies"

SCENARIO = """\
platform:
  nodes: [{name: n, count: 4, cores: 1}]
workload: {path: none.csv, mapping: node}
batch: {backfill: easy, on_overrun: extend}
application:
  model: loop
  iterations: {per_pe: 6}
  costs: {profile: job, variation: 0.5}
"""
STUDY = """\
of: runs
name: demo
base: run.yaml
vary:
  application.technique: [STATIC, SS]
  rca:
    off: {coordination.rca: off}
    on: {coordination.rca: on}
  order: {0: {}, 1: {}}
set: {workload.path: "jobs-{order}.csv", output.trace: chunks}
columns: rca
repetitions: order
metrics: {makespan (s): makespan, utilization: utilization.busy}
relative: {rca: "off"}
reference: source.csv
pictures:
  - {kind: utilization, lines: technique, panels: rca, where: {order: 0}}
  - {kind: balance, lines: technique, where: {order: 1, rca: "on"}}
  - {kind: gantt, where: {technique: STATIC, order: 0, rca: "on"}, span: [5, 20]}
  - {kind: metric, along: rca, lines: technique, relative: true}
"""
SOURCE = "technique,rca,makespan (s),utilization,from\nSTATIC,off,100,0.7,guess\nSTATIC,on,80,,\nSS,on,70,,\n"
JOBS = """\
job_id,submit_time,run_time,estimate,processors,executable
1,0,10,10,4,long
2,0,8,8,2,short
3,1,5,5,2,short
4,2,12,12,3,long
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    files = {"run.yaml": SCENARIO, "study.yaml": STUDY, "source.csv": SOURCE, "jobs-0.csv": JOBS}
    for name, text in (*files.items(), ("jobs-1.csv", JOBS.replace("1,0,10", "1,3,10"))):
        (tmp_path / name).write_text(text)
    return tmp_path


def test_every_combination_with_its_own_keys(place):
    study = load_study(place)
    assert [tuple(point.labels.values()) for point, _ in study.cases][:3] == [
        ("STATIC", "off", "0"),
        ("STATIC", "off", "1"),
        ("STATIC", "on", "0"),
    ]
    point, scenario = study.cases[3]
    assert point.labels == {"technique": "STATIC", "rca": "on", "order": "1"}
    assert scenario.workload.path == "jobs-1.csv"
    assert bool(scenario.coordination.rca)


def test_tables_show_means_ratios_and_what_others_found(place):
    study = load_study(place)
    makespans = iter([100, 120, 50, 90, 200, 200, 200, 100])
    rows = [
        StudyRow(point.labels, {"makespan (s)": float(next(makespans)), "utilization": float("nan")}, {})
        for point, _ in study.cases
    ]
    tables = study_tables(study, rows)
    assert list(tables) == ["makespan (s)", "utilization", "makespan (s) / with rca: off"]
    titles, lines, keys, best = tables["makespan (s)"]
    assert (keys, best) == (1, {(0, 3), (1, 3)})
    assert titles == ["technique", "off", "source", "on", "source"]
    assert lines == [["STATIC", "110 ± 10", "100", "70.0 ± 20.0", "80"], ["SS", "200", "", "150 ± 50", "70"]]
    lines = tables["makespan (s) / with rca: off"].lines
    assert lines[0][3:] == ["0.625 ± 0.125", "0.800"]
    assert lines[1][1:] == ["1.000", "", "0.750 ± 0.250", ""]
    lines = tables["utilization"].lines
    assert lines[0] == ["STATIC", "", "0.7", ""]


def test_what_a_study_writes(place):
    seen = []
    study = load_study(place / "study.yaml")
    rows = run_study(study, out=place / "out", progress=lambda row, total: seen.append(total))
    assert seen == [8] * 8
    assert {path.name for path in (place / "out").iterdir()} == {
        "manifest.json",
        "study.yaml",
        "versions.json",
        "runs.csv",
        "runs.parquet",
        "statistics.csv",
        "statistics.md",
        "store",
        "table-makespan-s-with-rca-off.csv",
        "table-makespan-s.csv",
        "table-utilization.csv",
        "table.md",
        "table.tex",
        "utilization-0.png",
        "balance-on-1.csv",
        "balance-on-1.png",
        "gantt-STATIC-on-0-5-20.png",
        "makespan-s-with-rca-off.png",
    }
    runs = pl.read_csv(place / "out" / "runs.csv")
    assert runs.columns[:6] == [
        *("technique", "rca", "order", "makespan (s)", "utilization", "makespan (s) / with rca: off")
    ]
    assert runs["makespan"].to_list() == runs["makespan (s)"].to_list()
    assert runs["jobs.completed"].to_list() == [4] * 8
    assert not [name for name in runs.columns if name.startswith("self")]
    assert read_study(place / "out").runs.columns == runs.columns
    assert runs["makespan (s)"].to_list() == [row.metrics["makespan (s)"] for row in rows]
    assert runs.filter(pl.col("rca") == "off")["makespan (s) / with rca: off"].to_list() == [1.0] * 4
    balance = pl.read_csv(place / "out" / "balance-on-1.csv")
    assert balance.columns == ["technique", "rca", "order", "job_id", "executable", "max_over_mean"]
    assert balance.filter(pl.col("job_id") == 4)["executable"].to_list() == ["long", "long"]
    assert len(balance) == 8
    assert (balance["max_over_mean"] >= 1.0).all()
    assert (
        "## makespan (s)\n\n| technique | off | source | on | source |"
        in (place / "out" / "table.md").read_text()
    )


def test_nothing_is_written_without_a_place(place):
    before = sorted(place.iterdir())
    rows = run_study(load_study(place))
    assert len(rows) == 8
    assert sorted(place.iterdir()) == before


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("of: runs", "of: runz", ("study.yaml: of", "'runz'", "'runs'")),
        ("columns: rca", "colums: rca", ("study.yaml:11", "colums", "'columns'")),
        ("jobs-{order}.csv", "jobs-{ordre}.csv", ("set", "'ordre'", "{technique}, {rca}, {order}")),
        ("repetitions: order", "repetitions: ordre", ("repetitions", "'ordre'", "'order'")),
        ('relative: {rca: "off"}', "relative: {rca: away}", ("relative: rca", "'away'", "off, on")),
        ("utilization: utilization.busy", "utilization: [busy]", ("metrics", "summary.json")),
        ("kind: gantt", "kind: gant", ("pictures: kind", "'gant'", "'gantt'")),
        ("span: [5, 20]", "span: [20, 5]", ("span", "[BEGIN, END]")),
        ("along: rca, ", "", ("metric: along: missing", "technique, rca, order")),
        ("relative: true", "relatve: true", ("metric", "relatve", "'relative'")),
        ("lines: technique, panels: rca", "lines: tecnique", ("lines", "'tecnique'", "'technique'")),
        ("columns: rca", "columns: order", ("columns: order", "axis of repetitions", "technique, rca")),
        ("name: demo", "name: a/b", ("name: 'a/b'", "without /")),
        ("  rca:", "  batch.technique: [a, b]\n  rca:", ("2 axes are called technique",)),
        ("set: {", "without: [{}]\nset: {", ("without", "leaves no combination")),
        ("metrics: {makespan", "metrics: {order: makespan, makespan", ("metrics: order: names 2 columns",)),
        ("utilization.busy", "jobs.complete", ("metrics: jobs.complete: not in", "'completed'")),
        ("utilization.busy", "technique", ("metrics: technique is str, no number",)),
        ("utilization.busy", "cp.fallbacks", ("cp.fallbacks: not in", "batch.dispatcher", "cp.fallbacks?")),
        ("relative: true", "metric: makspan", ("metric: 'makspan'", "makespan (s)")),
        ('relative: {rca: "off"}\n', "", ("metric: relative", "no combination to divide by")),
        ('relative: {rca: "off"}', 'relative: {rca: ["off"]}', ("relative: rca", "one label")),
        ("span: [5, 20]", "span: [5.0000001, 20]}\n  - {kind: gantt, where: {}, span: [5, 20]", ("gantt-",)),
    ],
)
def test_mistakes_are_named(place, right, wrong, words):
    assert right in STUDY
    (place / "study.yaml").write_text(STUDY.replace(right, wrong))
    with pytest.raises(InputError) as caught:
        load_study(place)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("STATIC,off,100", "STATIC,of,100", ("source.csv:2: rca", "'of'", "off")),
        ("STATIC,off,100", "STATIC,off,fast", ("source.csv:2", "fast", "numbers")),
        ("technique,rca", "tecnique,rca", ("source.csv:2: technique", "missing")),
    ],
)
def test_mistakes_in_the_reference_are_named(place, right, wrong, words):
    (place / "source.csv").write_text(SOURCE.replace(right, wrong))
    with pytest.raises(InputError) as caught:
        load_study(place)
    for word in words:
        assert word in str(caught.value)


def test_a_metric_that_no_summary_has(place):
    (place / "study.yaml").write_text(STUDY.replace("utilization.busy", "utilization.bussy"))
    with pytest.raises(InputError, match=r"study\.yaml: metrics: utilization\.bussy: not in the summary"):
        run_study(load_study(place), out=place / "out")
    assert not (place / "out").exists()


def test_a_metric_that_is_no_number(place):
    (place / "study.yaml").write_text(STUDY.replace("utilization.busy", "utilization"))
    with pytest.raises(InputError, match=r"utilization is dict, no number; allowed: utilization\.busy"):
        run_study(load_study(place), out=place / "out")


def test_nothing_is_simulated_before_all_is_checked(place, monkeypatch):
    from mlsim.experiment import runner

    monkeypatch.setattr(runner, "run", lambda *_: pytest.fail("simulated"))
    (place / "jobs-1.csv").unlink()
    for out in (None, place / "out"):
        with pytest.raises(
            InputError, match=r"(?s)jobs-1\.csv.*combination technique: STATIC, rca: off, order: 1"
        ):
            run_study(load_study(place), out=out)


def test_loops_of_jobs_without_loops_are_not_drawn(place):
    rigid = SCENARIO.split("application:")[0] + "application: {model: rigid}\n"
    (place / "run.yaml").write_text(rigid)
    text = "of: runs\nbase: run.yaml\nvary: {seed: [1, 2]}\npictures: [{kind: balance, lines: seed}]\n"
    (place / "study.yaml").write_text(text)
    with pytest.raises(InputError, match="balance: shows loops, and jobs execute none where seed: 1"):
        load_study(place)


def test_repetitions_may_vary_fastest(place):
    (place / "study.yaml").write_text(STUDY.replace("columns: rca\n", ""))
    study = load_study(place)
    assert (study.columns, study.repetitions) == ("rca", "order")


def test_repetitions_alone_have_no_columns(place):
    (place / "study.yaml").write_text("of: runs\nbase: run.yaml\nvary: {seed: [1, 2]}\nrepetitions: seed\n")
    with pytest.raises(InputError, match="is all that varies, and repeated; vary needs another axis"):
        load_study(place)


def test_kinds_are_told_apart(place):
    assert load_study(place).subject.kind == "runs"
    assert load_study(STUDIES / "slowdown").subject.kind == "loops"
    (place / "study.yaml").write_text(STUDY.replace("of: runs", "of: runz"))
    with pytest.raises(InputError, match=r"study\.yaml: of: 'runz' is not known; did you mean 'runs'"):
        load_study(place)


def test_the_names_of_old_scripts(place):
    from mlsim.experiment.study import load_study as load_batch_study
    from mlsim.experiment.study import run_study as run_batch_study

    assert (load_batch_study, run_batch_study) == (load_study, run_study)


@pytest.mark.parametrize("name", ["esp-rca", "esp-rca/window.yaml", "two-level"])
def test_studies_that_come_with_the_tool_can_be_read(name):
    study = load_study(STUDIES / name)
    assert len({tuple(point.labels.values()) for point, _ in study.cases}) == len(study.cases) >= 12


@pytest.mark.parametrize("application", EspApplication)
@pytest.mark.parametrize("order", range(10))
def test_esp_workloads_are_those_of_the_generator(application, order):
    text = (STUDIES / "esp-rca" / "workloads" / f"{application.value}-{order}.csv").read_text()
    assert text == csv_text(*esp(application, seed=order))


def test_a_metric_that_is_not_there_is_answered_with_the_nearest(place: Path) -> None:
    study = place / "study.yaml"
    study.write_text(study.read_text().replace("(s): makespan", "(s): makspan"))
    with pytest.raises(InputError, match=r"did you mean 'makespan'.*`mlsim list metrics`"):
        load_study(study)
