"""The page of a report: what is packed into it, who got which nodes, what it says without a script."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlsim
from mlsim.analysis.machine_metrics import transfers
from mlsim.analysis.page import PageRun, page_text, wanted_jobs
from mlsim.analysis.page.page_data import packed
from mlsim.record import Loops, Records, empty

QUICKSTART = "scenarios/quickstart.yaml"


@pytest.fixture(scope="module")
def coordinated() -> mlsim.Result:
    return mlsim.run(QUICKSTART)


def unpacked(column: dict) -> np.ndarray:
    """Undo :func:`packed`, as the page's script does."""
    dtype = np.dtype({"f8": "<f8", "f4": "<f4", "i4": "<i4", "u1": "u1"}[column["type"]])
    planes = np.frombuffer(zlib.decompress(base64.b64decode(column["data"])), np.uint8)
    return np.ascontiguousarray(planes.reshape(dtype.itemsize, column["n"]).T).view(dtype)[:, 0]


@given(st.lists(st.integers(-(2**52), 2**52)))
def test_whole_numbers_survive_packing(values: list[int]) -> None:
    assert unpacked(packed(np.array(values, np.int64))).tolist() == values


@given(st.lists(st.floats(allow_nan=True)))
def test_times_survive_packing_to_the_bit(values: list[float]) -> None:
    column = np.array(values, np.float64)
    assert unpacked(packed(column)).tobytes() == column.tobytes()


def reference_transfers(records: Records) -> dict[tuple[int, int, int], float]:
    """Who got which node for how many node-seconds, by looking at every pair of stays."""
    held, jobs, won = records.occupancy, records.jobs, {}
    stays = [
        (
            int(held.job[row]),
            node,
            float(held.start[row]),
            float(held.end[row]),
            bool(held.released[row]),
            int(held.cores[row]),
        )
        for row in range(len(held.job))
        for node in range(int(held.node[row]), int(held.node[row] + held.count[row]))
    ]
    for giver, node, _, left, released, _ in stays:
        if not released:
            continue
        # A node that its job got back was away until then, else until the job's end.
        back = [start for job, other, start, *_ in stays if job == giver and other == node and start >= left]
        until = min([*back, float(jobs.end_time[giver])])
        for taker, other, start, end, _, cores in stays:
            if other == node and taker != giver and left <= start < until:
                part = cores / int(records.nodes.cores[node])
                key = (giver, taker, node)
                won[key] = won.get(key, 0.0) + (min(end, until) - start) * part
    return won


@pytest.mark.slow
def test_nodes_given_on_are_those_that_a_search_of_all_pairs_finds(coordinated: mlsim.Result) -> None:
    found, won = transfers(coordinated.records), {}
    for giver, taker, node, seconds in zip(found.giver, found.taker, found.node, found.seconds, strict=True):
        key = (int(giver), int(taker), int(node))
        won[key] = won.get(key, 0.0) + float(seconds)
    expected = reference_transfers(coordinated.records)
    assert won.keys() == expected.keys()
    assert len(won) > 50
    for key, seconds in expected.items():
        assert won[key] == pytest.approx(seconds)


def test_no_node_is_given_on_without_coordination() -> None:
    alone = mlsim.run(QUICKSTART, {"coordination.rca": False, "output.trace": "jobs"})
    assert len(transfers(alone.records).giver) == 0


def page_of(result: mlsim.Result, label: str = "first", **more: object) -> str:
    return page_text([PageRun(label, result.summary, result.records, "name: quickstart\n")], **more)


def data_of(text: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_the_page_holds_every_job_and_rectangle(coordinated: mlsim.Result) -> None:
    records = coordinated.records
    (run,) = data_of(page_of(coordinated))["runs"]
    assert unpacked(run["jobs"]["id"]).tolist() == records.jobs.job_id.tolist()
    # Jobs get whole nodes, so that a stay is a rectangle.
    assert unpacked(run["boxes"]["start"]).tolist() == records.occupancy.start.tolist()
    assert (
        unpacked(run["boxes"]["bottom"]) - unpacked(run["boxes"]["top"])
    ).tolist() == records.occupancy.count.tolist()
    assert f"drawn as {len(records.occupancy.job)} rectangles" in run["alternative"]


def test_step_functions_of_the_page_average_to_the_summary(coordinated: mlsim.Result) -> None:
    (run,) = data_of(page_of(coordinated))["runs"]
    shares, queue = run["tracks"]
    jobs = coordinated.records.jobs

    def mean(series: dict, begin: float, end: float) -> float:
        time, value = (unpacked(series["steps"][name]).astype(float) for name in ("time", "value"))
        lengths = np.diff(np.clip(np.append(time, np.inf), begin, end))
        return float(value @ lengths) / (end - begin)

    used, first, last = (
        coordinated.summary["utilization"],
        float(np.nanmin(jobs.start_time)),
        float(np.nanmax(jobs.end_time)),
    )
    assert mean(shares["series"][0], first, last) == pytest.approx(used["allocated"], rel=1e-5)
    assert mean(shares["series"][1], first, last) == pytest.approx(used["busy"], rel=1e-3)
    waited = float(np.nanmin(jobs.submit_time)), float(np.nanmax(jobs.start_time))
    assert mean(queue["series"][0], *waited) == pytest.approx(
        coordinated.summary["queue_length"]["mean"], rel=1e-5
    )


def test_of_too_many_rectangles_the_largest_stay_and_the_page_says_so(coordinated: mlsim.Result) -> None:
    (run,) = data_of(page_of(coordinated, most_boxes=50))["runs"]
    held = coordinated.records.occupancy
    area = (held.end - held.start) * held.count
    kept = (unpacked(run["boxes"]["end"]) - unpacked(run["boxes"]["start"])) * (
        unpacked(run["boxes"]["bottom"]) - unpacked(run["boxes"]["top"])
    )
    assert sorted(kept) == pytest.approx(sorted(area)[-50:])
    missing = 1 - kept.sum() / area.sum()
    assert (
        f"the {len(area) - 50} rectangles that are smallest, with {missing * 100:.1f} %" in run["alternative"]
    )


def test_the_same_records_give_the_same_page(coordinated: mlsim.Result) -> None:
    assert page_of(coordinated) == page_of(coordinated)


def test_names_cannot_break_out_of_the_page(coordinated: mlsim.Result) -> None:
    evil = "</script><script>alert(1)</script>"
    nodes = replace(coordinated.records.nodes, name=[evil] * 16)
    result = replace(coordinated, records=replace(coordinated.records, nodes=nodes))
    result.summary["scenario"], before = evil, result.summary["scenario"]
    text = page_of(result, evil)
    result.summary["scenario"] = before
    assert "<script>alert" not in text
    assert text.count("</script>") == 2
    assert data_of(text)["runs"][0]["nodes"]["names"][0] == evil


def test_the_page_asks_for_nothing_from_elsewhere(coordinated: mlsim.Result) -> None:
    text = page_of(coordinated)
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", text)
    assert set(re.findall(r"https?://[^\s\"'<>)]*", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_pictures_have_a_text_alternative_each(coordinated: mlsim.Result) -> None:
    text = page_of(coordinated)
    pictures = re.findall(r"<svg [^>]*>", text.partition("<script")[0])
    assert len(pictures) == 3
    assert all('role="img"' in picture and "aria-label" in picture for picture in pictures)


def test_chunks_go_to_the_loops_that_lost_most_time() -> None:
    n = 4
    loops = replace(
        empty(Loops),
        **{name: np.zeros(n) for name in ("t_loop", "mean_finish", "std_finish", "max_finish", "busy")},
        job=np.arange(n) + 10,
        pes=np.ones(n, np.int64),
        iterations=np.ones(n, np.int64),
        steps=np.array([5, 5, 5, 5]),
        overhead=np.array([1.0, 0.0, 2.0, 0.0]),
        idle=np.array([1.0, 9.0, 2.0, 3.0]),
    )
    assert wanted_jobs(loops, 20).tolist() == [10, 11, 12, 13]
    assert wanted_jobs(loops, 14).tolist() == [11, 12]
    assert wanted_jobs(loops, 4).tolist() == []
