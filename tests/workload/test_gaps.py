"""What a log lacks is filled by one rule for all formats, counted, and said in a sentence."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import mlsim
from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.scenario import WorkloadConfig, dump, from_mapping
from mlsim.workload import JobBlock, Workload, open_workload
from mlsim.workload.format_record import Reading
from mlsim.workload.log_formats import LogReader
from mlsim.workload.log_gaps import GAPS, IGNORED, gap_sentences, other_counts
from mlsim.workload.log_source import MARKS
from tests.workload.test_recorded import log
from tests.workload.test_totals import ACCOUNTING, JOBS, READERS

MACHINE = {"nodes": [{"name": "n", "count": 4, "cores": 8, "resources": {"gpu": 2}}]}
CSV = """\
job_id,submit_time,run_time,walltime,queue
1,0,100,,debug
2,5,7200,,night
3,9,50,300,debug
"""


def opened(path: Path, **options: object) -> tuple[JobBlock, Workload]:
    config = WorkloadConfig.model_validate({"path": str(path), **options})
    workload = open_workload(config, path, 32, ("cores", "gpu"), cores_per_node=8)
    return JobBlock.concatenate(list(workload.blocks())), workload


@pytest.mark.parametrize(
    ("rule", "walltimes", "counts"),
    [
        ("request", [100, 7200, 300], {"estimate_from_run_time": 2}),
        ("1 h", [3600, 7200, 300], {"walltime_from_scenario": 2}),  # a job that ran longer has its run time
        ({"debug": "30 min"}, [1800, 7200, 300], {"estimate_from_run_time": 1, "walltime_from_scenario": 1}),
        ({"debug": "30 min", "*": "1 d"}, [1800, 86_400, 300], {"walltime_from_scenario": 2}),
        (
            {"debug": "run-time", "*": "1 d"},
            [100, 86_400, 300],
            {"estimate_from_run_time": 1, "walltime_from_scenario": 1},
        ),
    ],
)
def test_a_missing_walltime_is_what_the_scenario_says(tmp_path, rule, walltimes, counts):
    jobs, workload = opened(log(tmp_path, "log.csv", CSV), estimates=rule)
    assert jobs.walltime.tolist() == walltimes
    assert {name: workload.notes.get(name) for name in counts} == counts
    assert [int(met >> MARKS.index("walltime_from_scenario") & 1) for met in jobs.met.tolist()].count(
        1
    ) == counts.get("walltime_from_scenario", 0)


def test_numbers_of_queues_are_names_too(tmp_path):
    swf = "1 0 -1 60 2 -1 -1 2 -1 -1 1 1 1 1 3 -1 -1 -1\n2 0 -1 60 2 -1 -1 2 -1 -1 1 1 1 1 4 -1 -1 -1\n"
    jobs, _ = opened(log(tmp_path, "log.swf", swf), estimates={"3": "2 h"})
    assert jobs.walltime.tolist() == [7200, 60]


def test_scenarios_with_the_rule_are_written_and_read_back():
    for rule in ("request", "actual", "1 d", {"debug": "30 min", "*": "run-time"}):
        scenario = from_mapping({"platform": MACHINE, "workload": {"path": "x.swf", "estimates": rule}})
        from mlsim.scenario import loads

        assert loads(dump(scenario)) == scenario
    with pytest.raises(
        InputError, match=r"workload\.estimates.*allowed: request, actual, a time such as 24 h"
    ):
        from_mapping({"platform": MACHINE, "workload": {"path": "x.swf", "estimates": "soon"}})


@pytest.mark.parametrize(
    ("head", "cells", "processors", "count"),
    [
        ("", "", [1, 1], ("assumed_processors", 2)),
        (",node_count", ",3 ,", [24, 1], ("processors_from_nodes", 1)),
        (",node_count,processors", ",3,-1 ,2,6", [24, 6], ("processors_from_nodes", 1)),
    ],
)
def test_missing_processors_are_those_of_nodes_or_one(tmp_path, head, cells, processors, count):
    first, second = cells.split(" ") if cells else ("", "")
    text = f"job_id,submit_time,run_time{head}\n1,0,60{first}\n2,1,60{second}\n"
    jobs, workload = opened(log(tmp_path, "log.csv", text), mapping="core")
    assert jobs.processors.tolist() == processors
    assert workload.notes[count[0]] == count[1]
    of_nodes, _ = opened(tmp_path / "log.csv", mapping="node")
    assert of_nodes.processors.tolist()[0] == (3 if head else 1)


OF_COBALT = """\
COBALT_JOBID,QUEUED_TIMESTAMP,START_TIMESTAMP,END_TIMESTAMP,WALLTIME_SECONDS,NODES_REQUESTED
1,2020-01-01 00:00:00,2020-01-01 00:00:00,2020-01-01 01:00:00,3600,3
"""
OF_COBALT_ACCOUNTING = (
    "01/01/2020 00:00:00;E;1;Resource_List.nodect=3 exec_host=MIR-00000-33331-512 ctime=1.0 "
    "start=2.0 end=9.0\n"
)


@pytest.mark.parametrize("text", [OF_COBALT, OF_COBALT_ACCOUNTING])
@pytest.mark.parametrize(("mapping", "processors"), [("core", 24), ("packed", 24), ("node", 3)])
def test_whole_nodes_without_processors_have_all_of_theirs(tmp_path, text, mapping, processors):
    jobs, workload = opened(log(tmp_path, "log", text), mapping=mapping)
    assert (jobs.processors.tolist(), jobs.node_count.tolist()) == ([processors], [3])
    assert workload.notes["processors_from_nodes"] == 1


@pytest.mark.parametrize("name", ["procs", "ncpus", "NODES_USED", "size", "estimat", "time_limit"])
def test_a_column_that_seems_to_be_the_missing_one_is_asked_about(tmp_path, name):
    text = f"job_id,submit_time,run_time,{name}\n1,0,60,4\n"
    with pytest.raises(InputError, match=f"is {name} meant"):
        opened(log(tmp_path, "log.csv", text))


def test_resources_that_the_machine_lacks_are_ignored_and_said(tmp_path):
    text = "job_id,submit_time,run_time,walltime,processors,request_fpga,request_gpu\n1,0,5,9,4,1,1\n"
    path = log(tmp_path, "log.csv", text + "2,0,5,9,4,0,1\n3,0,5,9,4,2,\n")
    scenario = {
        "platform": MACHINE,
        "workload": {"path": str(path), "mapping": "core"},
        "output": {"pictures": "off"},
    }
    result = mlsim.run(scenario, out=tmp_path / "out")
    assert result.summary["workload"]["log"]["ignored_fpga"] == 2
    assert result.jobs["request_gpu"].to_list() == [1, 1, 0]
    assert "request_fpga" not in result.jobs.columns
    assert result.jobs["start_time"].to_list() == [0, 0, 0]
    (tmp_path / "s.yaml").write_text(dump(from_mapping(scenario)))
    sentence = "fpga is requested by 2 jobs, and the platform has none: ignored"
    for words in (["run", "--out", str(tmp_path / "again")], ["check"]):
        done = CliRunner().invoke(app, [words[0], str(tmp_path / "s.yaml"), *words[1:]])
        assert done.exit_code == 0, done.output
        assert sentence in " ".join(done.output.split())


WRITERS: dict[str, Callable[[Path], None]] = {
    **READERS,
    **{
        name: lambda path, write=write, said=said: write(path, [job for job in map(said, JOBS) if job])
        for name, (write, said) in ACCOUNTING.items()
    },
}


@pytest.mark.parametrize("name", WRITERS)
def test_strict_refuses_what_is_otherwise_ignored_and_counted(tmp_path, name):
    path = tmp_path / "log"
    WRITERS[name](path)
    (block,) = LogReader(path, "auto", Reading()).blocks()
    asked = {} if block.asked is None else dict(zip(block.asked.names, block.asked.totals.T, strict=True))
    wanting = {resource: int(np.sum(totals > 0)) for resource, totals in asked.items() if np.any(totals > 0)}
    config = WorkloadConfig.model_validate({"path": str(path)})
    notes = open_workload(config, path, 256, ()).notes
    assert {note: jobs for note, jobs in notes.items() if note.startswith(IGNORED)} == {
        f"{IGNORED}{resource}": jobs for resource, jobs in wanting.items()
    }
    strict = config.model_copy(update={"strict": True})
    assert open_workload(strict, path, 256, tuple(asked)).n_jobs == len(block)
    if not wanting:
        assert name in ("sge", "cobalt", "oar")
        assert open_workload(strict, path, 256, ()).n_jobs == len(block)
        return
    resource = next(iter(wanting))
    rest = tuple(other for other in asked if other != resource)
    first = int(np.argmax(asked[resource] > 0)) + 1
    job = f"{first}_0" if name == "htcondor" else str(first)
    told = rf"log: job {job} asks for {resource}: the platform has no {resource}; it has: cores.*strict: off"
    with pytest.raises(InputError, match=re.compile(told, re.DOTALL)):
        open_workload(strict, path, 256, rest)


def test_a_resampled_log_follows_the_rule_of_logs(tmp_path):
    rows = "".join(f"{k},{k * 40_000},60,90,4,1,2\n" for k in range(40))
    head = "job_id,submit_time,run_time,walltime,processors,user,request_fpga\n"
    scenario = {
        "platform": MACHINE,
        "workload": {"path": str(log(tmp_path, "log.csv", head + rows)), "mapping": "core"},
        "output": {"pictures": "off"},
    }
    scenario["workload"]["resample"] = {"weeks": 2}
    notes = mlsim.run(scenario).summary["workload"]["log"]
    assert notes["ignored_fpga"] > 0
    scenario["workload"]["strict"] = True
    with pytest.raises(InputError, match="asks for fpga: the platform has no fpga"):
        mlsim.run(scenario)


def test_every_gap_has_a_sentence_and_other_counts_have_none():
    counts = dict.fromkeys(GAPS, 1234) | {"ignored_memory": 7, "out_of_order": 3}
    found = gap_sentences(counts)
    assert len(found) == len(GAPS) + 1
    assert found[-1] == "memory is requested by 7 jobs, and the platform has none: ignored"
    assert found[0].startswith("jobs without a walltime: 1,234 (")
    assert other_counts(counts) == {"out_of_order": 3}
