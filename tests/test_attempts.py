"""Jobs that start again: what each attempt executed is kept where chunks are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlsim
from mlsim.analysis.machine_metrics import busy_seconds
from mlsim.analysis.plots.chart_style import time_axis
from mlsim.analysis.plots.utilization_plot import busy_share
from mlsim.cosim import simulation
from mlsim.experiment.comparison import read_for_plot
from mlsim.experiment.recorded_loop import recorded_loop
from mlsim.record import JobState, MessageKind, Records
from mlsim.record.derived_times import restarts
from mlsim.record.otf2 import Selection, TraceOptions, write_otf2
from mlsim.record.parquet_tables import read_tables
from mlsim.scenario import from_mapping
from mlsim.verify.laws import judge
from tests.effort import examples
from tests.record.traces import ns, read_trace, traced

NODES, CORES = 5, 2

jobs_of_workload = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 60), st.integers(1, NODES * CORES)), min_size=1, max_size=8
)
failures = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.integers(0, 120), st.one_of(st.none(), st.integers(1, 20))),
    min_size=1,
    max_size=6,
)


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("attempts")


ASKING = {"rca": True, "requests": "head-of-queue", "answer": "always", "reclaim": True}


def scenario_of(workplace: Path, jobs, failing, *, mapping="packed", trace="chunks", **sections):
    """A scenario of jobs (submit, run, processors) and failures (node, at, repair)."""
    lines = ["job_id,submit_time,run_time,estimate,processors"]
    lines += [f"{k + 1},{r},{p},{p * 1.5},{q}" for k, (r, p, q) in enumerate(jobs)]
    (workplace / "jobs.csv").write_text("\n".join(lines) + "\n")
    listed = [{"node": n, "at": t} | ({} if gap is None else {"repair": gap}) for n, t, gap in failing]
    loop = {"model": "loop", "costs": {"profile": "job", "variation": 0.4}, "iterations": {"per_pe": 12}}
    return from_mapping(
        {
            "name": "test",
            "seed": 5,
            "platform": {
                "nodes": [{"name": "n", "count": NODES, "cores": CORES, "speed": 1e9}],
                "failures": listed,
            },
            "workload": {"path": "jobs.csv", "mapping": mapping},
            "batch": {"backfill": "easy", "on_failure": "restart", **sections.get("batch", {})},
            "application": {**loop, "technique": "GSS", **sections.get("application", {})},
            "coordination": sections.get("coordination", {}),
            "output": {"trace": trace},
        },
        directory=workplace,
    )


def records_of(workplace: Path, jobs, failing, **options) -> Records:
    return simulation.simulate(scenario_of(workplace, jobs, failing, **options)).records


def spans_of(records: Records, job: int) -> list[tuple[float, float]]:
    """Begin and end of every attempt of a job."""
    attempts, jobs = records.attempts, records.jobs
    mine = attempts.job == job
    spans = list(zip(attempts.start[mine].tolist(), attempts.end[mine].tolist(), strict=True))
    return [*spans, (float(jobs.start_time[job]), float(jobs.end_time[job]))]


def attempts_of(table, n: int) -> np.ndarray:
    return np.ones(n, np.int32) if table.attempt is None else table.attempt


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(80))
@given(
    jobs_of_workload,
    failures,
    st.sampled_from(
        [("packed", {}), ("core", {}), ("packed", {"rca": True}), ("core", {"rca": True}), ("packed", ASKING)]
    ),
    st.sampled_from(["STATIC", "SS", "GSS", "AF"]),
    st.sampled_from(["cca", "dca", "hdca", "hmw"]),
    st.sampled_from([1, 3]),
    st.sampled_from(["extend", "kill"]),
    st.sampled_from(["chunks", "messages", "nodes"]),
    st.sampled_from([0, 1, 5]),
)
def test_laws_of_attempts(workplace, jobs, failing, sharing, technique, model, steps, overrun, trace, most):
    execution = {"model": model, "chunk_calculation": "10 ms"}
    scenario = scenario_of(
        workplace,
        jobs,
        failing,
        mapping=sharing[0],
        coordination=sharing[1],
        trace=trace,
        batch={"on_overrun": overrun, "max_restarts": most},
        application={"technique": technique, "execution": execution, "time_steps": steps},
    )
    records = simulation.simulate(scenario).records
    check_times(records)
    check_sums(records, timed=model in ("dca", "hdca"))
    if trace != "nodes":
        check_iterations(records)
        check_utilization(records)
    check_trace(records, trace, exclusive=sharing[0] == "packed")
    assert [breach for verdict in judge(records, scenario) for breach in verdict.breaches] == []


def check_times(records: Records) -> None:
    """What an attempt executed is within its time; there is a column only where a job started again."""
    again = restarts(records.attempts, len(records.jobs.job_id))
    for table in (records.chunks, records.pes):
        if len(table.job):
            assert (table.attempt is not None) == again.any()
    attempt = attempts_of(records.chunks, len(records.chunks.job))
    for job, number, start, end in zip(
        records.chunks.job, attempt, records.chunks.start, records.chunks.end, strict=True
    ):
        begin, stop = spans_of(records, job)[number - 1]
        assert begin - 1e-9 <= start <= end <= stop + 1e-9
    of_pes = attempts_of(records.pes, len(records.pes.job))
    for job in records.loops.job:
        found = Counter(of_pes[records.pes.job == job].tolist())
        assert set(found) == set(range(1, again[job] + 2))
    in_order = np.flatnonzero(np.diff(records.chunks.job) == 0)
    assert (np.diff(records.chunks.start)[in_order] >= 0).all()
    assert len(np.unique(records.chunks.job)) == np.count_nonzero(np.diff(records.chunks.job)) + bool(
        len(records.chunks.job)
    )


def check_sums(records: Records, timed: bool) -> None:
    """PEs were as busy as their chunks took, and attempts as their PEs."""
    pes, n = records.pes, len(records.jobs.job_id)
    attempt = attempts_of(pes, len(pes.job))
    last = attempt > restarts(records.attempts, n)[pes.job]
    by_job = np.bincount(pes.job[last], pes.busy[last], n)
    assert by_job[records.loops.job] == pytest.approx(records.loops.busy)
    earlier = np.bincount(records.attempts.job, records.attempts.busy, n)
    assert np.bincount(pes.job[~last], pes.busy[~last], n) == pytest.approx(earlier)
    if timed and len(records.chunks.job):
        keys = zip(pes.job, attempt, pes.pe, strict=True)
        took = dict.fromkeys(keys, 0.0)
        chunks = records.chunks
        of_chunks = attempts_of(chunks, len(chunks.job))
        for key, seconds in zip(
            zip(chunks.job, of_chunks, chunks.pe, strict=True), chunks.end - chunks.start, strict=True
        ):
            took[key] += seconds
        assert list(took.values()) == pytest.approx(pes.busy.tolist(), abs=1e-6)


def check_iterations(records: Records) -> None:
    """No attempt has an iteration twice; the last one of a job that completed has each of them."""
    chunks, loops = records.chunks, records.loops
    attempt = attempts_of(chunks, len(chunks.job))
    again = restarts(records.attempts, len(records.jobs.job_id))
    for job, iterations, steps in zip(loops.job, loops.iterations, loops.steps, strict=True):
        for number in range(1, again[job] + 2):
            mine = np.flatnonzero((chunks.job == job) & (attempt == number))
            parts = [np.arange(chunks.first[k], chunks.first[k] + chunks.size[k]) for k in mine]
            executed = np.concatenate([np.empty(0, np.int64), *parts])
            assert len(np.unique(executed)) == len(executed)
            if number == again[job] + 1:
                assert len(mine) == steps
                if records.jobs.state[job] == JobState.COMPLETED:
                    assert len(executed) == iterations


def check_utilization(records: Records) -> None:
    """The busy share over time is what the chunks of all attempts add up to."""
    axis = time_axis(records.jobs)
    span = axis.end - axis.begin
    cores = float(records.nodes.cores.sum())
    took = float((records.chunks.end - records.chunks.start).sum())
    assert float(busy_share(records, axis, 64).mean()) * span * cores == pytest.approx(took, abs=1e-3)


def check_trace(records: Records, level: str, exclusive: bool = False) -> None:
    """Every chunk is on a core that its job held then, in every attempt; at a loss the writer raises."""
    if not np.isfinite(records.jobs.start_time).any():
        return
    trace = traced(records, level, exclusive=exclusive)
    if level == "nodes":
        return
    found = Counter((int(s.outer), s.begin, s.end) for s in trace.nested("chunk"))
    chunks = records.chunks
    assert sum(found.values()) == len(chunks.job)
    told = Counter(
        (int(records.jobs.job_id[job]), ns(start), ns(end))
        for job, start, end in zip(chunks.job, chunks.start, chunks.end, strict=True)
    )
    for (job, begin, end), count in told.items():
        near = [seen for seen in found if seen[0] == job and abs(seen[1] - begin) + abs(seen[2] - end) <= 4]
        assert sum(found[seen] for seen in near) >= count


def test_chunks_before_a_failure_are_whole_and_those_amid_it_are_cut(workplace):
    """As of the same job without a failure, which a kill would cut alike."""
    jobs, model = [(0, 60, 8)], {"execution": {"model": "dca"}, "technique": "SS"}
    whole = records_of(workplace, jobs, [], application=model)
    found = records_of(workplace, jobs, [(1, 20, 5)], application=model)
    assert whole.chunks.attempt is None
    assert found.attempts.end.tolist() == [20.0]
    first = found.chunks.attempt == 1
    begun = whole.chunks.start < 20
    for name in ("pe", "step", "first", "size", "requested", "start"):
        np.testing.assert_array_equal(getattr(found.chunks, name)[first], getattr(whole.chunks, name)[begun])
    np.testing.assert_array_equal(found.chunks.end[first], np.minimum(whole.chunks.end[begun], 20.0))
    assert (found.chunks.end[first] == 20.0).sum() == 8
    again = ~first
    start = found.jobs.start_time[0]
    assert found.chunks.attempt[again].tolist() == [2] * len(whole.chunks.job)
    assert found.chunks.end[again] == pytest.approx(whole.chunks.end + start)
    assert busy_seconds(found)[0] == pytest.approx((found.chunks.end - found.chunks.start).sum())


def test_the_trace_shows_an_attempt_on_the_nodes_that_it_held(workplace):
    """The second one is on other nodes: the first failed for good."""
    found = records_of(workplace, [(0, 60, 4)], [(0, 20, None)])
    trace = traced(found, "chunks")
    before = {span.location for span in trace.nested("chunk") if span.end <= ns(20)}
    after = {span.location for span in trace.nested("chunk") if span.begin >= ns(20)}
    assert (before, after) == ({2, 3, 4, 5}, {4, 5, 6, 7})
    assert {span.end for span in trace.of_jobs() if span.begin == 0} == {ns(20)}


@pytest.mark.parametrize("selection", [Selection(), Selection(jobs=[1])])
def test_rows_of_nodes_show_the_chunks_of_attempts(workplace, tmp_path, selection):
    found = records_of(workplace, [(0, 60, 4), (0, 90, 2)], [(0, 20, None)])
    kinds = {"exclusive_nodes": True, "rows": "nodes", "selection": selection}
    write_otf2(
        tmp_path, found, TraceOptions("chunks", scenario_name="", technique="", workload_name="", **kinds)
    )
    trace = read_trace(tmp_path)
    shown = np.isin(found.jobs.job_id, list(selection.jobs) or found.jobs.job_id)[found.chunks.job]
    took = sum(span.attributes["PE time"] for span in trace.nested("chunks"))
    assert took == pytest.approx(float((found.chunks.end - found.chunks.start)[shown].sum()), abs=1e-6)
    earlier = [span for span in trace.nested("chunks") if span.begin < ns(20) and span.outer == "1"]
    assert {span.location for span in earlier} == {2, 3}


def test_a_job_that_never_starts_again_has_its_only_attempt(workplace):
    found = records_of(workplace, [(0, 60, 10)], [(0, 20, None)])
    assert found.jobs.state.tolist() == [JobState.FAILED]
    assert (len(found.attempts.job), found.chunks.attempt, found.pes.attempt) == (0, None, None)
    assert found.chunks.end.max() == 20.0
    twice = records_of(workplace, [(0, 60, 10)], [(0, 20, 5), (0, 45, None)])
    assert (twice.jobs.start_time[0], twice.jobs.end_time[0]) == (25.0, 45.0)
    assert np.unique(twice.chunks.attempt).tolist() == [1, 2]
    assert twice.loops.busy[0] == pytest.approx(twice.pes.busy[twice.pes.attempt == 2].sum())


def test_nodes_that_an_attempt_gave_back_are_not_its_own(workplace):
    """With RCA: what PEs of a released node executed before is kept, and told on its row."""
    application = {
        "technique": "STATIC",
        "costs": {"profile": "job", "variation": 0.9},
        "iterations": {"per_pe": 2},
    }
    found = records_of(
        workplace,
        [(0, 60, 10), (1, 10, 2), (1, 10, 2)],
        [(1, 80, 5)],
        coordination={"rca": True},
        application=application,
    )
    stays = found.occupancy
    assert stays.released[(stays.job == 0) & (stays.end < 80)].any()
    assert found.attempts.job.tolist() == [0]
    check_sums(found, timed=False)
    idle = found.messages.kind == MessageKind.NODE_IDLE
    early = idle & (found.messages.job == 0) & (found.messages.sent < 80)
    assert early.any()
    check_trace(found, "messages")


def test_the_safeguard_cuts_an_attempt_where_it_ends(workplace):
    """PEs have computed until then, and say nothing of what comes later."""
    # A week's jobs take 75 s, which divides; the next one is shorter in the log, and its loop longer.
    week = 7 * 86400
    jobs = [(0, 60, 10), (100, 60, 10), (week + 100, 10, 2)]
    batch = {"policy": "FCFS", "classifier": {"by": "actual"}, "on_failure": "die", "on_overrun": "extend"}
    application = {
        "iterations": {"count": 30},
        "costs": {"profile": "constant", "mean": "25 s"},
        "technique": "SS",
    }
    found = records_of(workplace, jobs, [], coordination={"rca": True}, batch=batch, application=application)
    assert found.attempts.job.tolist() == [2]
    end = found.attempts.end[0]
    assert end - found.attempts.start[0] == pytest.approx(75.0, abs=0.1)
    first = found.chunks.attempt == 1
    assert found.chunks.end[first & (found.chunks.job == 2)].max() == end
    assert found.attempts.busy[0] == pytest.approx(2 * 75.0, abs=0.1)
    check_times(found)
    check_sums(found, timed=False)
    idle = (found.messages.kind == MessageKind.NODE_IDLE) & (found.messages.job == 2)
    assert not (
        (found.messages.sent[idle] > end) & (found.messages.sent[idle] < found.jobs.start_time[2])
    ).any()
    assert idle.sum() == 1


def test_readers_by_job_take_the_last_attempt(workplace, tmp_path):
    """The plots of loops, the page, and advice; what a run has written is read back as it was."""
    options = {"application": {"technique": "SS", "execution": {"model": "dca"}}}
    scenario = scenario_of(workplace, [(0, 60, 4)], [(0, 20, None)], **options)
    result = mlsim.run(scenario, out=tmp_path / "run")
    found = result.records
    back = read_tables(tmp_path / "run")
    for table in ("chunks", "pes"):
        np.testing.assert_array_equal(getattr(back, table).attempt, getattr(found, table).attempt)
    of_last = np.count_nonzero(found.chunks.attempt == 2)
    assert 0 < of_last < len(found.chunks.attempt)
    (shown,) = read_for_plot([tmp_path / "run"], None, of_loops=True).values()
    assert (len(shown.chunks.job), len(shown.pes.job)) == (of_last, 4)
    advised = recorded_loop(tmp_path / "run")
    assert (advised.chunks, advised.pes, len(advised.costs)) == (of_last, 4, found.loops.iterations[0])
    assert result.attempts["attempt"].to_list() == [1]
