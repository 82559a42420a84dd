"""Requests and replies in traces of simulated loops with a master, held against a simulation with SimPy."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlsim
from mlsim.errors import InputError
from mlsim.record import Records
from mlsim.record.otf2 import Service
from mlsim.scenario import from_mapping
from mlsim.traces import anchor_of, opened, problems_of, survey
from tests.application.test_reference import coarse_cases, fine_case
from tests.record.builders import random_records, with_requests
from tests.record.loop_traces import FIRST, HOW, ns, of_loops, paired, traced
from tests.record.traces import Trace, needs_otf2_print, printed, read_trace, written
from tests.reference import cca
from tests.reference.loops import Case

INFINITY = float("inf")
SERVICE = Service(calculation=0.003, delay=0.001, message_bytes=16)


class _Master(cca._Loop):
    """The reference, which notes when the master takes requests, and which it answers with a chunk."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.taken: dict[int, list[tuple[Fraction, bool]]] = defaultdict(list)

    def next_chunk(self, rank: int) -> tuple[int, int, int] | None:
        chunk = super().next_chunk(rank)
        self.taken[rank].append((self.env.now, chunk is not None))
        return chunk


def expected_of(case: Case, until: float) -> tuple[list[tuple[int, ...]], list[tuple[int, int]]]:
    """Messages (sender, receiver, sent, received, tag) answered before ``until``, and calculations."""
    loop = _Master(case)
    log = loop.run()
    spent = case.thinking(0) + Fraction(case.assignment)
    messages = []
    for rank in range(1, case.p):
        latency = Fraction(case.latency[rank])
        for (asked, answered), (taken, _) in zip(log.waits[rank], loop.taken[rank], strict=True):
            if answered < until:
                messages.append((rank, 0, ns(asked), ns(taken), 6))
                messages.append((0, rank, ns(answered - latency), ns(answered), 7))
    given_out = (taken for of in loop.taken.values() for taken, is_chunk in of if is_chunk)
    return sorted(messages), sorted((ns(taken), ns(taken + spent)) for taken in given_out if spent)


def calculations(trace: Trace) -> list[tuple[int, int]]:
    found = trace.nested("chunk calculation")
    assert {span.location for span in found} <= {FIRST}
    return sorted((span.begin, span.end) for span in found)


def _ends_first(message: tuple[int, ...]) -> tuple[int, ...]:
    """Order messages by their ends and tags before their times, which rounding may swap."""
    return (*message[:2], message[4], message[2])


TECHNIQUES = st.sampled_from(["STATIC", "SS", "GSS", "FAC2", "AF"])


@settings(max_examples=40, deadline=None)
@given(data=st.data(), technique=TECHNIQUES, dedicated=st.booleans())
def test_messages_are_those_of_the_reference(data: st.DataObject, technique: str, dedicated: bool) -> None:
    case = replace(data.draw(coarse_cases(technique)), dedicated=dedicated)
    trace = traced(case, "cca")
    assert (paired(trace), calculations(trace)) == expected_of(case, INFINITY)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), technique=TECHNIQUES, n=st.integers(0, 120), p=st.integers(1, 20))
def test_messages_are_those_of_the_reference_to_the_rounding(
    seed: int, technique: str, n: int, p: int
) -> None:
    case = fine_case(technique, seed, n, p)
    trace = traced(case, "cca")
    messages, spent = expected_of(case, INFINITY)
    found = np.array(sorted(paired(trace), key=_ends_first)).reshape(-1, 5)
    expected = np.array(sorted(messages, key=_ends_first)).reshape(-1, 5)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2)
    np.testing.assert_allclose(calculations(trace), spent, rtol=0, atol=2)


@settings(max_examples=25, deadline=None)
@given(data=st.data(), technique=TECHNIQUES, eighths=st.integers(0, 40))
def test_requests_that_the_end_of_a_loop_leaves_without_answer_are_left_out(
    data: st.DataObject, technique: str, eighths: int
) -> None:
    case = data.draw(coarse_cases(technique))
    assert paired(traced(case, "cca", eighths / 8)) == expected_of(case, eighths / 8)[0]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), model=st.sampled_from(list(HOW)))
def test_whatever_is_recorded_messages_match_and_regions_nest(seed: int, model: str) -> None:
    records = with_requests(random_records(seed), seed)
    with tempfile.TemporaryDirectory() as directory:
        written(directory, records, "messages", service=SERVICE._replace(**HOW[model]))
        with opened(anchor_of(Path(directory))) as reader:
            assert list(problems_of(reader)) == []
        trace = read_trace(Path(directory))
    if model == "cca":
        assert len(of_loops(trace.sends)) >= 2 * int((records.chunks.pe > 0).sum())
    if model in ("dca", "hdca"):
        assert len(trace.atomics) >= 2 * len(records.chunks.pe)
    (communicator,) = trace.definitions.comms
    firsts = FIRST + np.cumsum(records.nodes.cores) - records.nodes.cores
    assert [member._ref for member in communicator.group.members] == [0, *firsts.tolist()]


SCENARIO = {
    "platform": {"nodes": [{"name": "n", "count": 4, "cores": 2}], "network": {"latency": "1 ms"}},
    "workload": {
        "generate": {"model": "poisson", "jobs": 25, "parameters": {"interval": 15, "run_time": 60}},
        "mapping": "packed",
    },
    "application": {
        "model": "loop",
        "technique": "FAC2",
        "iterations": {"count": 60},
        "costs": {"profile": "exponential", "mean": "1 s"},
        "execution": {"model": "cca", "chunk_calculation": "10 ms", "break_after": 2},
    },
    "output": {"trace": "messages", "pictures": False},
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"application.time_steps": 3},
        {"application.execution.master": "dedicated"},
        {"coordination": {"rca": True, "requests": "head-of-queue", "answer": "always", "reclaim": True}},
        {"platform.failures": [{"node": 1, "at": 40, "repair": 30}], "batch.on_failure": "restart"},
        {"batch.on_overrun": "kill", "application.iterations.count": 600},
        {"platform.perturbations": [{"factor": 0.5, "to": "60 s"}]},
    ],
)
def test_every_answered_request_of_a_run_is_there(changes: dict[str, Any], tmp_path: Path) -> None:
    result = mlsim.run(from_mapping(SCENARIO, overrides=changes), out=tmp_path / "run")
    records: Records = result.records
    assert records.pes.last_request is not None
    with opened(anchor_of(tmp_path / "run")) as reader:
        assert list(problems_of(reader)) == []
    trace = read_trace(tmp_path / "run" / "trace")
    assert len(of_loops(trace.sends)) == 2 * answered(records) > 0
    with opened(anchor_of(tmp_path / "run")) as reader:
        assert survey(reader, anchor_of(tmp_path / "run")).sent == len(trace.sends)
    if not changes:
        assert len(trace.nested("chunk calculation")) == len(records.chunks.pe)


def answered(records: Records) -> int:
    """Count the requests that a master answered before its node was given back."""
    pes, chunks, held = records.pes, records.chunks, records.occupancy
    assert pes.latency is not None
    assert pes.last_request is not None
    ended = {}  # with the first stay of the last attempt
    for job, begin, end in zip(held.job.tolist(), held.start.tolist(), held.end.tolist(), strict=True):
        if begin >= records.jobs.start_time[job]:
            ended.setdefault(job, end)
    latency = dict(
        zip(zip(pes.job.tolist(), pes.pe.tolist(), strict=True), pes.latency.tolist(), strict=True)
    )
    asked = np.isfinite(pes.last_request)
    arrivals = [*zip(chunks.job, chunks.pe, chunks.start, strict=True)]
    arrivals += [*zip(pes.job[asked], pes.pe[asked], pes.told[asked], strict=True)]
    return sum(pe > 0 and at - latency[job, pe] <= ended[job] for job, pe, at in arrivals)


@needs_otf2_print
@pytest.mark.otf2
def test_messages_of_loops_are_printed(tmp_path: Path) -> None:
    records = with_requests(random_records(8), 8)
    written(tmp_path, records, "messages", service=SERVICE)
    definitions, events = printed(tmp_path)
    assert sum(line.startswith("COMM ") for line in definitions) == 1
    kinds = [line.split()[0] for line in events]
    assert kinds.count("MPI_SEND") == kinds.count("MPI_RECV") > 2 * len(records.messages.sent)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["dca", "hdca", "hmw", "mpi+openmp", "steal"])
def test_every_model_has_the_level(model: str, tmp_path: Path) -> None:
    spent = {"application.execution.model": model, "application.execution.chunk_calculation": "10 ms"}
    kept = {"application.execution.break_after": None, "application.technique": "GSS"}
    if model != "hmw":
        spent |= kept
    mlsim.run(from_mapping(SCENARIO, overrides=spent), out=tmp_path / "run")
    with opened(anchor_of(tmp_path / "run")) as reader:
        assert list(problems_of(reader)) == []
    trace = read_trace(tmp_path / "run" / "trace")
    asked = trace.nested("wait" if model == "mpi+openmp" else "request")
    assert len(asked) >= len(trace.nested("chunk")) / (3 if model == "hmw" else 1) > 0


@pytest.mark.parametrize(
    ("application", "words"),
    [
        ({"model": "rigid"}, "messages, but a rigid job sends none"),
        (
            {"model": "loop", "execution": {"model": "cca", "request_ahead": 2}},
            "records do not tell when the master replied",
        ),
    ],
)
def test_the_level_is_for_loops_whose_replies_are_known(application: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        from_mapping({**SCENARIO, "application": application})
