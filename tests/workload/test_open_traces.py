"""The recipes for open traces: what each makes of rows with the published header."""

import re
from pathlib import Path

import pytest

import mlsim
from mlsim.scenario import load
from mlsim.workload.format_record import Reading
from mlsim.workload.log_formats import LogReader
from mlsim.workload.workload_jobs import LogBlock
from tests.test_docs import REPOSITORY, blocks

MEMORY = 10**9
# Of each job: submission, start, run time, walltime, processors, nodes, status, requests, names of nodes.
EXPECTED = {
    "helios": [(0, 10, 3600, -1, 32, 2, 1, {"gpu": 8}, None), (5, 5, 60, -1, 4, 1, 5, {"gpu": 0}, None)],
    "acme": [
        (0, 10, 8, -1, 240, 2, 0, {"gpu": 16, "memory": 2000 * MEMORY}, None),
        (3542, 3554, 70, -1, 120, 1, 1, {"gpu": 8, "memory": 500 * MEMORY}, None),
    ],
    "philly": [(0, 180, 3600, -1, 2, 2, 1, {"gpu": 2}, "m1,m2")],
    "lassen": [(0, 30, 3600, 7200, 2, 2, 1, {}, "lassen7,lassen9")],
    "pm100": [(0, 30, 3600, 7200, 32, 1, -1, {"gpu": 4}, "7")],
    "alibaba": [
        (9437497, 9437497, 1332357, -1, 88, 1, 1, {"gpu": 8, "memory": 327680 * 2**20}, None),
        (9679175, 9679185, 294641, -1, 5, 1, 1, {"gpu": 0.22, "memory": 15258 * 2**20}, None),
        (10020010, -1, 0, -1, 8, 1, 5, {"gpu": 0.32, "memory": 30517 * 2**20}, None),
    ],
}


def made(place: Path) -> None:
    """Write the page's rows, and convert them by its recipes."""
    for block in blocks(REPOSITORY / "docs" / "how-to" / "open-traces.md"):
        if block.kind == "python":
            exec(block.code, {})
        elif block.runs():
            for name, text in re.findall(r"^cat > (\S+) <<'END'\n(.*?)^END$", block.code, re.M | re.S):
                (place / name).write_text(text)


def facts(path: Path) -> list[tuple[object, ...]]:
    reader = LogReader(path, "auto", Reading())
    jobs = LogBlock.concatenate(list(reader.blocks()))
    found = []
    for k in range(len(jobs)):
        asked = {} if jobs.asked is None else dict(zip(jobs.asked.names, jobs.asked.totals[k], strict=True))
        if jobs.asked is not None and jobs.asked.exact is not None:
            asked["memory"] = jobs.asked.exact[k]
        for name in () if jobs.asked is None else jobs.asked.parts:
            asked[name] = jobs.asked.columns()[f"request_{name}"][k]
        nodes = None if jobs.own is None else jobs.own.of["recorded_nodes"][k]
        columns = (jobs.submit_time, jobs.recorded_start, jobs.run_time, jobs.requested_time)
        columns += (jobs.requested_processors, jobs.node_count, jobs.status)
        found.append((*(int(column[k]) for column in columns), asked, nodes))
    return found


def test_recipes_read_the_published_columns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made(tmp_path)
    for name, rows in EXPECTED.items():
        assert facts(tmp_path / f"{name}.parquet") == rows, name
    scenario = load(tmp_path / "alibaba.yaml")
    assert [(group.count, group.cores) for group in scenario.platform.nodes] == [(1, 32), (2, 128)]
    assert [dict(group.resources) for group in scenario.platform.nodes] == [{"gpu": 0}, {"gpu": 8}]
    done = mlsim.run(scenario)
    jobs = done.jobs
    # The third pod fits at once here, so that it does not wait until its deletion.
    assert jobs["state"].to_list() == ["completed"] * 3
    assert jobs["start_time"].to_list() == pytest.approx([0, 241678, 582513])
    assert jobs["request_gpu"].to_list() == [8.0, 0.22, 0.32]
    assert done.occupancy["devices"].to_list() == [255, 1, 1]
