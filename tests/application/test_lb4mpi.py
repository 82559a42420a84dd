"""``compat: lb4mpi``: chunks as the library hands them out."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.application import TECHNIQUES, simulate
from mlsim.application.techniques import Form, sequence
from mlsim.errors import InputError
from mlsim.scenario import from_mapping
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.technique_section import LB4MPI, ParametersConfig
from tests.application import test_techniques, test_time_steps
from tests.application.test_models import full_cases, full_fine_case
from tests.application.test_reference import assert_same, fine_case
from tests.reference import library
from tests.reference import techniques as reference
from tests.reference.loops import Case

TOLD = ParametersConfig(compat="lb4mpi")
LEARNING = ["AWF-B", "AWF-C", "AWF-D", "AWF-E", "AF"]
SIZED = [name for name in library.HAS if name not in LEARNING]
BY_STEP = ["STATIC", "SS", "FSC", "mFSC", "GSS", "TSS"]


def test_recorded_sequences() -> None:
    """Chunks that the library itself handed out."""
    kept = os.environ.get("MLSIM_ORACLES")
    if kept is None:
        pytest.skip("MLSIM_ORACLES names no directory with recorded sequences (dls4lb.json)")
    recorded = json.loads((Path(kept) / "dls4lb.json").read_text(encoding="utf-8"))["sequences"]
    told = ParametersConfig(compat="lb4mpi", overhead=1e-5, sigma=1e-3)
    for loop in recorded:
        for technique, chunks in loop["chunks"].items():
            assert sequence(technique, loop["n"], loop["p"], parameters=told) == chunks, technique


def test_the_rest_of_a_batch_joins_a_chunk() -> None:
    batches = [125] * 4 + [63] * 4 + [31] * 4 + [16] * 4 + [8] * 4 + [4] * 4 + [2] * 4
    assert sequence("FAC2", 1000, 4, parameters=TOLD) == [*batches, 1, 1, 2]
    assert sequence("FAC", 1000, 4, parameters=TOLD) == sequence("FAC2", 1000, 4, parameters=TOLD)
    # in the second batch 31.5 and 94.5 are cut off, and the 1 that is left joins the last
    told = ParametersConfig(compat="lb4mpi", weights=(1.0, 2.0, 2.0, 3.0))
    assert sequence("WF", 1007, 4, parameters=told)[:8] == [63, 126, 126, 189, 31, 63, 63, 95]


def test_steps_of_trapezoids_are_rounded_down() -> None:
    # K_0 = 7, S = ⌊26/8⌋ = 3: C = ⌊6/2⌋ = 3; with S = 4 it is 2
    assert sequence("TSS", 13, 1, parameters=TOLD) == [7, 4, 1, 1]
    assert sequence("TSS", 13, 1) == [7, 5, 1]
    assert sum(sequence("TSS", 2**62, 3, min_chunk=2**44, parameters=TOLD)) == 2**62


def test_techniques_of_one_size_do_not_look_at_the_least_chunk() -> None:
    assert sequence("SS", 5, 2, min_chunk=3, parameters=TOLD) == [1] * 5
    assert sequence("GSS", 9, 3, min_chunk=2, parameters=TOLD) == [3, 2, 2, 2]


@st.composite
def told_parameters(draw: st.DrawFn, technique: str, p: int) -> reference.Parameters:
    told = draw(test_techniques.told_parameters(p))
    weights = told.weights if technique == "WF" else None
    return replace(told, lb4mpi=True, weights=weights, awf_of_batch=False)


@pytest.mark.parametrize(
    ("technique", "form"),
    [(name, "recursive") for name in SIZED] + [(name, "straightforward") for name in BY_STEP],
)
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 3000), st.integers(1, 80), st.sampled_from([1, 2, 7, 4000]), st.data())
def test_sizes_are_those_of_the_library(
    technique: str, form: Form, n: int, p: int, min_chunk: int, data: st.DataObject
) -> None:
    parameters = data.draw(told_parameters(technique, p))
    test_techniques.assert_sizes(technique, form, n, p, min_chunk, parameters)


def as_library(case: Case) -> Case:
    told = case.parameters
    weights = told.weights if case.technique == "WF" else None
    return replace(case, parameters=replace(told, lb4mpi=True, weights=weights, awf_of_batch=False))


@pytest.mark.parametrize("model", ["cca", "dca"])
@pytest.mark.parametrize("technique", library.HAS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_same_as_reference_where_events_coincide(model: str, technique: str, data: st.DataObject) -> None:
    assert_same(as_library(data.draw(full_cases(model, technique))), model)


@pytest.mark.parametrize("model", ["cca", "dca"])
@pytest.mark.parametrize("technique", library.HAS)
def test_same_as_reference_with_real_numbers(model: str, technique: str) -> None:
    for seed, (n, p) in enumerate([(200, 4), (500, 9)]):
        assert_same(as_library(full_fine_case(model, technique, seed, n, p)), model)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(0, 120), p=st.integers(1, 12), steps=st.integers(2, 4))
def test_weights_of_the_last_time_step(seed: int, n: int, p: int, steps: int) -> None:
    test_time_steps.assert_same(as_library(fine_case("AWF", seed, n, p)), "cca", steps)


def test_a_master_sends_first_chunks_unasked() -> None:
    prefix, latency = np.arange(101.0), np.array([0.0, 3.0, 1.0, 2.0])

    def firsts(told: ParametersConfig) -> dict[int, tuple[int, int, float]]:
        columns = (prefix, np.ones(4), latency)
        rows = simulate(*columns, "AWF-B", ExecutionConfig(model="cca"), 5, record=True, parameters=told).rows
        assert rows is not None
        chunks = zip(rows.pe, rows.step, rows.size, rows.start, strict=True)
        return {
            int(pe): (int(step), int(size), float(start)) for pe, step, size, start in reversed([*chunks])
        }

    assert firsts(TOLD) == {0: (0, 5, 0.0), 1: (1, 5, 3.0), 2: (2, 5, 1.0), 3: (3, 5, 2.0)}
    assert {pe: step for pe, (step, _, _) in firsts(ParametersConfig()).items()} != {0: 0, 1: 1, 2: 2, 3: 3}


@pytest.mark.parametrize(
    ("technique", "model", "told", "words"),
    [
        ("TFSS", "cca", {}, "LB4MPI has no TFSS; allowed: STATIC, SS, FSC"),
        ("TAP", "dca", {}, "LB4MPI has no TAP"),
        ("GSS", "hdca", {}, "LB4MPI has one queue of chunks, and not model hdca; .* allowed: cca, dca"),
        ("GSS", "steal", {}, "not model steal"),
        ("AWF", "cca", {"weights": [1, 2]}, "AWF of LB4MPI begins without weights"),
        ("AWF-C", "cca", {"awf_chunk": "batch"}, "AWF-C of LB4MPI has no batches"),
    ],
)
def test_what_the_library_lacks_is_refused(
    technique: str, model: str, told: dict[str, object], words: str
) -> None:
    parameters = {"compat": "lb4mpi", **told}
    application = {"model": "loop", "technique": technique, "parameters": parameters}
    with pytest.raises(InputError, match=words):
        from_mapping(
            {
                "name": "x",
                "platform": {"nodes": [{"name": "n", "count": 2, "cores": 1}]},
                "workload": {"path": "x.swf"},
                "application": {**application, "execution": {"model": model}},
            }
        )
    columns = (np.arange(11.0), np.ones(2), np.zeros(2))
    with pytest.raises(InputError, match=words):
        simulate(
            *columns,
            technique,
            ExecutionConfig(model=model),
            parameters=ParametersConfig.model_validate(parameters),
        )


def test_the_library_has_what_the_catalogue_says() -> None:
    having = [name for name, entry in TECHNIQUES.items() if "application.parameters.compat" in entry.options]
    assert sorted(having) == sorted(LB4MPI) == sorted(library.HAS)
