"""Chunk sizes: recorded sequences, exactness, and what holds for every technique."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import ceil
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mlsim.application import TECHNIQUES, simulate
from mlsim.application.iteration_costs import CostSums
from mlsim.application.techniques import Form, choose, sampled_ratio, sequence
from mlsim.errors import InputError
from mlsim.scenario import technique_section
from mlsim.scenario.application_section import ExecutionConfig
from mlsim.scenario.scenario_keys import model_parameters, options
from mlsim.scenario.technique_section import READERS, ParametersConfig
from mlsim.scenario.words import Technique
from mlsim.techniques import _discover, fixed
from mlsim.techniques.guided import FRACTION_WORDS, guided_straightforward_size, new_guide
from mlsim.techniques.linear import default_batches
from mlsim.techniques.pe_statistics import RATE, RISK, learn_chunk, learn_iterations, new_measurements
from mlsim.techniques.technique_rules import new_rule, reset_rule, straightforward_size
from tests.reference import techniques as reference

FORMS: list[Form] = ["recursive", "straightforward"]
ADAPTIVE = ["AWF-B", "AWF-C", "AWF-D", "AWF-E", "AF", "mAF"]
SIZED = [name for name, entry in TECHNIQUES.items() if not (entry.adaptive or entry.rule.follows_chunks)]
TOLD = ParametersConfig(sigma=1.0, mu=2.0, overhead=0.5)

FAC2_BATCHES = [125] * 4 + [63] * 4
N1000_P4: list[tuple[str, Form, dict[str, Any], list[int]]] = [
    ("STATIC", "recursive", {}, [250] * 4),
    ("STATIC", "straightforward", {}, [250] * 4),
    ("SS", "recursive", {}, [1] * 1000),
    ("SS", "straightforward", {}, [1] * 1000),
    ("mFSC", "recursive", {}, [31] * 32 + [8]),
    ("mFSC", "straightforward", {}, [31] * 32 + [8]),
    (
        "GSS",
        "recursive",
        {},
        [250, 188, 141, 106, 79, 59, 45, 33, 25, 19, 14, 11, 8, 6, 4, 3, 3, 2, 1, 1, 1, 1],
    ),
    ("GSS", "straightforward", {}, [250, 188, 141, 106, 80, 60, 45, 34, 26, 19, 15, 11, 8, 6, 5, 4, 2]),
    ("TSS", "recursive", {}, [125, 117, 109, 101, 93, 85, 77, 69, 61, 53, 45, 37, 28]),
    ("TSS", "straightforward", {}, [125, 117, 109, 101, 93, 85, 77, 69, 61, 53, 45, 37, 28]),
    ("FAC2", "recursive", {}, FAC2_BATCHES + [31] * 4 + [16] * 4 + [8] * 4 + [4] * 4 + [2] * 4 + [1] * 4),
    ("FAC2", "straightforward", {}, FAC2_BATCHES + [32] * 4 + [16] * 4 + [8] * 4 + [4] * 4 + [2] * 4),
    ("TFSS", "recursive", {}, [113] * 4 + [81] * 4 + [49] * 4 + [17, 11]),
    ("TFSS", "straightforward", {}, [113] * 4 + [81] * 4 + [49] * 4 + [17, 11]),
    ("FISS", "recursive", {"batches": 3}, [50] * 4 + [84] * 4 + [118] * 3 + [110]),
    ("FISS", "straightforward", {"batches": 3}, [50] * 4 + [84] * 4 + [118] * 3 + [110]),
    ("VISS", "recursive", {}, [27] * 4 + [40] * 4 + [47] * 4 + [50] * 4 + [52] * 4 + [53, 53, 30]),
    (
        "VISS",
        "straightforward",
        {"batches": 7},
        [27] * 4 + [40] * 4 + [47] * 4 + [50] * 4 + [52] * 4 + [53, 53, 30],
    ),
    (
        "PLS",
        "recursive",
        {"swr": 0.5},
        [125] * 5 + [94, 71, 53, 40, 30, 22, 17, 12, 9, 7, 5, 4, 3, 2, 2, 1, 1, 1, 1],
    ),
    ("PLS", "straightforward", {"swr": 0.5}, [125] * 5 + [94, 71, 53, 40, 30, 23, 17, 13, 10, 8, 6, 4, 3, 3]),
    (
        "PLS",
        "recursive",
        {"swr": 0.7},
        [175] * 4 + [75, 57, 42, 32, 24, 18, 13, 10, 8, 6, 4, 3, 2, 2, 1, 1, 1, 1],
    ),
    ("PLS", "straightforward", {"swr": 0.7}, [175] * 4 + [75, 57, 43, 32, 24, 18, 14, 11, 8, 6, 5, 4, 3]),
]


@pytest.mark.parametrize(("technique", "form", "told", "sizes"), N1000_P4)
def test_recorded_sequences(technique: str, form: Form, told: dict[str, Any], sizes: list[int]) -> None:
    assert sequence(technique, 1000, 4, form, parameters=ParametersConfig(**told)) == sizes


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("technique", "n", "p", "sizes"),
    [
        # K_0 = 6, S = 4: C = ⌊5/3⌋, where ⌊6/3⌋ would be another.
        ("TSS", 12, 1, [6, 5, 1]),
        # t = 64: ⌊0.55 + 64/6⌋ = ⌊11.2⌋, where 64/6 alone is below 11.
        ("mFSC", 256, 4, [11] * 23 + [3]),
    ],
)
def test_sizes_where_a_constant_decides(technique: str, n: int, p: int, sizes: list[int], form: Form) -> None:
    assert sequence(technique, n, p, form) == sizes


@pytest.mark.parametrize(
    ("technique", "form", "told", "steps"),
    [
        ("STATIC", "recursive", {}, 256),
        ("SS", "straightforward", {}, 262_144),
        ("mFSC", "recursive", {}, 2571),
        ("GSS", "recursive", {}, 1919),
        ("GSS", "straightforward", {}, 1497),
        ("TSS", "recursive", {}, 512),
        ("TSS", "straightforward", {}, 512),
        ("FAC2", "recursive", {}, 2816),
        ("FAC2", "straightforward", {}, 2816),
        ("WF", "straightforward", {}, 2816),
        ("TFSS", "recursive", {}, 512),
        ("FISS", "straightforward", {"batches": 3}, 769),
        ("VISS", "recursive", {}, 1939),
        ("PLS", "straightforward", {"swr": 0.5}, 1602),
    ],
)
def test_steps_of_a_large_loop(technique: str, form: Form, told: dict[str, Any], steps: int) -> None:
    assert len(sequence(technique, 262_144, 256, form, parameters=ParametersConfig(**told))) == steps


@pytest.mark.parametrize(("n", "p", "batches"), [(1000, 4, 7), (262_144, 256, 11), (0, 3, 2), (1, 1, 2)])
def test_default_batches(n: int, p: int, batches: int) -> None:
    assert default_batches(n, p) == batches


@st.composite
def told_parameters(draw: st.DrawFn, p: int) -> reference.Parameters:
    number = st.floats(1e-6, 1e3)
    weights = st.lists(st.floats(0.01, 10.0), min_size=p, max_size=p).map(tuple)
    return reference.Parameters(
        sigma=draw(st.one_of(number, st.just(1.0))),
        mu=draw(number),
        overhead=draw(number),
        alpha=draw(st.sampled_from([0.0, 1.3, 2.0])),
        batches=draw(st.one_of(st.none(), st.integers(2, 40), st.just(1_000_000))),
        geometric=draw(st.booleans()),
        swr=draw(
            st.one_of(st.sampled_from([0.0, 0.1, 0.7, 1.0]), st.floats(0, 1).map(lambda x: round(x, 6)))
        ),
        random=draw(st.sampled_from([(0.0, 1.0), (0.01, 0.5), (0.3, 0.3), (0.7, 1.0)])),
        seed=draw(st.integers(0, 2**63 - 1)),
        weights=draw(st.one_of(st.none(), weights)) if p <= 12 else None,
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("technique", SIZED)
@settings(max_examples=40, deadline=None)
@given(
    n=st.one_of(st.integers(0, 400), st.integers(0, 3000)),
    p=st.one_of(st.integers(1, 12), st.integers(1, 80)),
    min_chunk=st.sampled_from([1, 1, 2, 7, 4000]),
    data=st.data(),
)
def test_sizes_are_the_formula_and_cover_the_loop(
    technique: str, form: Form, n: int, p: int, min_chunk: int, data: st.DataObject
) -> None:
    assert_sizes(technique, form, n, p, min_chunk, data.draw(told_parameters(p)))


def assert_sizes(
    technique: str, form: Form, n: int, p: int, min_chunk: int, parameters: reference.Parameters
) -> None:
    sizes = sequence(technique, n, p, form, min_chunk, as_config(parameters), parameters.seed)
    assert sum(sizes) == n
    assert min(sizes, default=1) >= 1
    rule = reference.Rule(technique, n, p, None, parameters, min_chunk)
    for i, (size, taken) in enumerate(zip(sizes, accumulate(sizes, initial=0), strict=False)):
        if form == "recursive":
            expected = rule.recursive(i, n - taken, i % p)
        else:
            expected = rule.straightforward(i, i % p)
        assert size == min(max(expected, rule.at_least(min_chunk)), n - taken)


def as_config(told: reference.Parameters) -> ParametersConfig:
    return ParametersConfig(
        sigma=told.sigma,
        mu=told.mu,
        overhead=told.overhead,
        alpha=told.alpha,
        batches=told.batches,
        growth="geometric" if told.geometric else "converging",
        awf_chunk="batch" if told.awf_of_batch else "rest",
        random_from=told.random[0],
        random_to=told.random[1],
        compat="lb4mpi" if told.lb4mpi else "none",
        swr=told.swr,
        weights=told.weights,
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("technique", SIZED)
@pytest.mark.parametrize(("n", "p"), [(0, 1), (1, 1), (1, 5), (5, 5), (3, 8), (7, 1)])
def test_smallest_loops(technique: str, form: Form, n: int, p: int) -> None:
    sizes = sequence(technique, n, p, form, parameters=TOLD)
    assert sum(sizes) == n
    assert all(size >= 1 for size in sizes)


@pytest.mark.parametrize("technique", SIZED)
def test_sizes_of_steps_do_not_depend_on_the_order(technique: str) -> None:
    """DCA hands out steps and iterations by two atomics: a size is a function of step and PE alone."""
    n, p, steps = 10_000, 7, 60
    (choice,) = choose(technique, np.arange(1.0, 8.0), np.arange(n + 1.0), TOLD, 1, 5)
    rule = reference.Rule(technique, n, p, np.arange(1.0, 8.0).tolist(), reference.Parameters(seed=5))

    def sizes(order: Sequence[int]) -> list[int]:
        (numbers, reals), guide = new_rule(), new_guide(FRACTION_WORDS)
        told = choice.settings()
        reset_rule(numbers, reals, told.code, n, p, 1, told.parameters)
        return [straightforward_size(numbers, reals, guide, choice.weights, i, i % p) for i in order]

    forward = sizes(range(steps))
    assert forward == [min(max(rule.straightforward(i, i % p), 1), n) for i in range(steps)]
    shuffled = np.random.default_rng(1).permutation(steps).tolist()
    assert sizes(shuffled) == [forward[i] for i in shuffled]


def test_rule_can_be_used_for_another_loop() -> None:
    rule, reals = new_rule()
    for technique, n, p in [
        ("FAC", 500, 3),
        ("GSS", 1000, 4),
        ("GSS", 90, 2),
        ("FAC", 10, 5),
        ("PLS", 77, 3),
    ]:
        (choice,) = choose(technique, np.ones(p), np.arange(n + 1.0), TOLD, 1, 0)
        told = choice.settings()
        reset_rule(rule, reals, told.code, n, p, 1, told.parameters)
        guide = new_guide(FRACTION_WORDS)
        sizes = [straightforward_size(rule, reals, guide, choice.weights, i, 0) for i in range(5)]
        whole = sequence(technique, n, p, "straightforward", parameters=TOLD)
        assert sizes[: len(whole) - 1] == whole[: len(sizes)][: len(whole) - 1]


def test_taper_without_variation_is_guided() -> None:
    told = ParametersConfig(sigma=0.0, mu=1.0)
    for n, p in [(1000, 5), (262_144, 256), (999_983, 37)]:
        for form in FORMS:
            assert sequence("TAP", n, p, form, parameters=told) == sequence("GSS", n, p, form)


def test_factoring_without_variation_hands_out_all_at_once() -> None:
    assert sequence("FAC", 1000, 4, parameters=ParametersConfig(sigma=0.0, mu=1.0)) == [250] * 4


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 4000),
    p=st.integers(1, 30),
    weights=st.lists(st.floats(0.01, 100), min_size=30, max_size=30),
)
def test_weights_of_any_sum_are_scaled(n: int, p: int, weights: list[float]) -> None:
    first = ParametersConfig(weights=tuple(weights[:p]))
    other = ParametersConfig(weights=tuple(weight * 8 for weight in weights[:p]))
    assert sequence("WF", n, p, parameters=first) == sequence("WF", n, p, parameters=other)
    assert sequence("WF", n, p, parameters=ParametersConfig(weights=(3.0,) * p)) == sequence("FAC2", n, p)


def test_random_sizes_are_uniform() -> None:
    sizes = np.array(sequence("RND", 2_000_000, 200_000, "straightforward", seed=3))[:-1]
    counts = np.bincount(sizes, minlength=11)[1:]
    assert len(counts) == 10
    assert (abs(counts / len(sizes) - 0.1) < 0.003).all()
    told = ParametersConfig(random_from=0.1, random_to=0.5)
    bounded = sequence("RND", 100_000, 1000, parameters=told, seed=3)[:-1]
    assert (min(bounded), max(bounded)) == (10, 50)
    assert sequence("RND", 1000, 4, seed=1) != sequence("RND", 1000, 4, seed=2)


@settings(max_examples=100, deadline=None)
@given(n=st.integers(0, 10**6), p=st.integers(1, 300))
def test_straightforward_gss_is_never_smaller(n: int, p: int) -> None:
    pairs = zip(sequence("GSS", n, p), sequence("GSS", n, p, "straightforward")[:-1], strict=False)
    assert all(recursive <= straightforward for recursive, straightforward in pairs)


def test_straightforward_gss_where_floating_point_is_off() -> None:
    assert sequence("GSS", 1000, 5, "straightforward")[:3] == [200, 160, 128]


def exact_guided(n: int, p: int, i: int) -> int:
    return ceil(reference.guided(n, p, i))


@settings(max_examples=150, deadline=None)
@given(
    n=st.integers(0, 2**62),
    p=st.one_of(st.integers(1, 40), st.integers(1, 10**6), st.sampled_from([2, 4, 1024, 10**6, 2**31 - 1])),
    steps=st.lists(st.integers(0, 150), min_size=1, max_size=5),
    words=st.sampled_from([1, 2, 4]),
)
@example(n=5**26, p=5, steps=[25, 26, 27], words=1)
@example(n=2**62, p=2, steps=[61, 62, 63], words=1)
@example(n=2**62, p=10**6, steps=[0, 150], words=1)
def test_straightforward_gss_is_exact_and_a_function_of_the_step(
    n: int, p: int, steps: list[int], words: int
) -> None:
    """With one word of fraction many values do not decide at first and are computed again."""
    guide = new_guide(words)
    for i in steps:
        exact = exact_guided(n, p, i)
        assert max(guided_straightforward_size(guide, i, n, p), 1) == max(exact, 1)


@pytest.mark.parametrize("technique", [name for name in SIZED if name not in ("SS", "STATIC", "FSC")])
def test_largest_loops_do_not_overflow(technique: str) -> None:
    n, p = 2**62, 3
    for form in FORMS:
        sizes = sequence(technique, n, p, form, min_chunk=2**44, parameters=TOLD)
        assert sum(sizes) == n
        exact = max(reference.Rule(technique, n, p).straightforward(0, 0), 2**44)
        assert abs(sizes[0] - exact) <= exact * 1e-9


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("TSSS", 10, 2), "allowed: STATIC, SS, FSC, mFSC, GSS"),
        (("GSS+SS", 10, 2), "names 2; allowed: one"),
        (("AF", 10, 2), "measured"),
        (("AWF-C", 10, 2), "measured"),
        (("FSC", 10, 2), "application.parameters.sigma: missing; FSC needs the standard deviation"),
        (("FAC", 10, 2), "sigma: missing; FAC needs"),
        (("GSS", -1, 2), "-1 iterations"),
        (("GSS", 10, 0), "0 PEs"),
        (("GSS", 10, 2, "sideways"), "recursive, straightforward"),
        (("GSS", 10, 2, "recursive", 0), "min_chunk: 0"),
    ],
)
def test_wrong_arguments_are_named(arguments: tuple[str, int, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        sequence(*arguments)


@pytest.mark.parametrize(
    ("technique", "told", "words"),
    [
        ("FSC", {"sigma": 0.0, "overhead": 1.0}, "sigma: 0 s; FSC divides by it"),
        ("FSC", {"sigma": 1.0, "overhead": 0.0}, "overhead: 0 s; FSC"),
        ("FSC", {"sigma": 1.0}, "overhead: missing; FSC needs the scheduling overhead"),
        ("TAP", {"sigma": 1.0}, "mu: missing; TAP needs the mean of the iteration times"),
        ("TAP", {"sigma": 1.0, "mu": 0.0}, "mu: 0 s; TAP"),
        ("FAC", {"statistics": "profiled"}, "there are no costs without a loop"),
        ("RND", {"random_from": 0.5, "random_to": 0.4}, "random_to: 0.4, below random_from, 0.5"),
        ("WF", {"weights": (1.0, 2.0, 3.0)}, "3 weights for technique WF in a loop on 2 PEs; allowed: 2"),
    ],
)
def test_wrong_parameters_are_named(technique: str, told: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        sequence(technique, 10, 2, parameters=ParametersConfig(**told))


def test_names_may_be_in_any_case_and_wf2_is_wf() -> None:
    assert sequence("mfsc", 100, 3) == sequence("MFSC", 100, 3) == sequence("mFSC", 100, 3)
    assert sequence("wf2", 100, 3) == sequence("WF", 100, 3)
    assert sequence("mFAC", 100, 3, parameters=TOLD) == sequence("FAC", 100, 3, parameters=TOLD)


def test_catalogue_lists_every_technique_of_the_scenario() -> None:
    assert list(TECHNIQUES) == [technique.value for technique in Technique]
    assert [entry.code for entry in TECHNIQUES.values()] == list(range(len(TECHNIQUES)))
    assert all(entry.title and entry.recursive and entry.reference for entry in TECHNIQUES.values())
    known = {option.key for option in (*options(), *model_parameters())}
    for entry in TECHNIQUES.values():
        assert set(entry.options) <= known
        read = {key for key, readers in READERS.items() if entry.name in readers}
        assert {f"application.parameters.{key}" for key in read} == {
            option for option in entry.options if option.startswith("application.parameters.")
        }


def test_catalogue_and_package_load_no_compiler() -> None:
    import subprocess
    import sys

    code = "import sys, mlsim.application; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_sizes_do_not_depend_on_the_order_of_steps() -> None:
    guide = new_guide(4)
    forward = [guided_straightforward_size(guide, i, 10**9, 37) for i in range(200)]
    shuffled = np.random.default_rng(1).permutation(200)
    assert [guided_straightforward_size(guide, int(i), 10**9, 37) for i in shuffled] == [
        forward[i] for i in shuffled
    ]


@pytest.mark.parametrize("p", [101, 1009, 32749])
@pytest.mark.parametrize("i", [1, 2, 3])
def test_straightforward_gss_next_to_integers(p: int, i: int) -> None:
    """N·(P−1)^i ≡ ±1 modulo P^(i+1): as close to an integer as can be, from above and from below."""
    above = pow((p - 1) ** i, -1, p ** (i + 1))
    for n in (above, p ** (i + 1) - above):
        exact = exact_guided(n, p, i)
        for words in (1, 2, 4):
            assert guided_straightforward_size(new_guide(words), i, n, p) == exact


def test_straightforward_gss_where_the_first_digits_do_not_decide() -> None:
    """With P near 2^31 the error bound takes half of one word of fraction."""
    p = 2**31 - 1
    for n in np.random.default_rng(1).integers(2**50, 2**62, 200).tolist():
        for i in range(3):
            exact = exact_guided(n, p, i)
            assert guided_straightforward_size(new_guide(1), i, n, p) == exact


@pytest.mark.parametrize(("spread", "counts"), [(0.0, False), (1e-3, True)])
def test_rounding_noise_of_prefix_sums_is_no_variance(spread: float, counts: bool) -> None:
    costs = 0.1 * (1.0 + spread * np.tile([-1.0, 1.0], 50))
    prefix = 1e8 + np.concatenate([[0.0], np.cumsum(costs)])
    prefix.flags.writeable = False
    assert np.diff(prefix).std() > 0.0
    measured, sums = new_measurements(2)
    learn_iterations(measured, sums, 0, prefix, 1.0, 0, 100, 0.0)
    assert (sums[RISK, 1] > 0.0) == counts


def test_adaptive_factoring_takes_the_variance_of_a_sample() -> None:
    """Iterations of 1 s and 3 s: mean 2 s, variance ((1 - 2)² + (3 - 2)²) / (2 - 1) = 2 s²."""
    measured, sums = new_measurements(1)
    learn_iterations(measured, sums, 0, np.array([0.0, 1.0, 4.0]), 1.0, 0, 2, 0.0)
    assert sums[RISK, 1] == 2.0 / 2.0


def test_later_chunks_count_for_more_in_weights() -> None:
    """4 iterations in 2 s, then 4 in 4 s: a rate of (1·4 + 2·4) / (1·2 + 2·4) = 1.2 a second."""
    measured, sums = new_measurements(1)
    weights = np.ones(1)
    for seconds in (2.0, 4.0):
        learn_chunk(measured, sums, weights, 0, 4, seconds)
    assert sums[RATE, 1] == 1.2


def test_techniques_that_learn_are_the_same_to_scenarios_and_to_the_catalogue():
    assert {str(word) for word in technique_section._LEARNING} == {
        name for name, entry in TECHNIQUES.items() if entry.adaptive
    }


def test_two_records_of_one_code_are_refused(monkeypatch):
    monkeypatch.setattr(fixed, "OTHER", replace(fixed.STATIC, name="OTHER"), raising=False)
    with pytest.raises(ValueError, match="OTHER and STATIC have the same code, 0"):
        _discover()


def test_pls_samples_five_iterations() -> None:
    """The ratio is the shortest over the longest of five different iterations of the loop, by the seed."""
    costs = np.random.default_rng(3).uniform(1.0, 9.0, 200)
    prefix = np.concatenate([[0.0], np.cumsum(costs)])
    found = set()
    for seed in range(8):
        five = np.random.default_rng((seed, 5)).choice(200, 5, replace=False)
        assert len(set(five.tolist())) == 5
        expected = costs[five].min() / costs[five].max()
        assert sampled_ratio(prefix, 200, seed) == pytest.approx(expected, rel=1e-12)
        found.add(sampled_ratio(prefix, 200, seed))
    assert len(found) > 4


@pytest.mark.parametrize(
    ("costs", "expected"), [([], 1.0), ([0.0] * 9, 1.0), ([4.0], 1.0), ([2.0, 8.0], 0.25), ([0.0, 8.0], 0.0)]
)
def test_ratio_of_short_loops(costs: list[float], expected: float) -> None:
    """Loops of five iterations or less are sampled whole."""
    assert sampled_ratio(np.concatenate([[0.0], np.cumsum(costs)]), len(costs), 0) == expected


def test_sampled_ratio_of_the_longest_loop() -> None:
    """Linear costs need no list: of 2^62 iterations, 1 s to 3 s, the ratio lies between 1/3 and 1."""
    n = 2**62
    line = CostSums.linear(n, 1.0, 2.0 / n).sums
    assert 1.0 / 3.0 < sampled_ratio(line, n, 0) < 1.0


@pytest.mark.parametrize("model", ["cca", "dca"])
def test_sampled_pls_is_pls_with_that_ratio(model: str) -> None:
    costs = np.random.default_rng(1).gamma(4.0, 0.25, 500)
    prefix = np.concatenate([[0.0], np.cumsum(costs)])
    chunks = []
    for swr in ("sampled", sampled_ratio(prefix, 500, 7)):
        outcome = simulate(
            *(prefix, np.ones(4), np.zeros(4), "PLS", ExecutionConfig(model=model)),
            parameters=ParametersConfig(swr=swr),
            seed=7,
            record=True,
        )
        chunks.append(outcome.rows.size.tolist())
    assert chunks[0] == chunks[1]
    assert chunks[0][0] != 63  # 0.5, the default


def test_nothing_can_be_sampled_without_costs() -> None:
    with pytest.raises(InputError, match="swr: sampled: there are no costs without a loop"):
        sequence("PLS", 100, 4, parameters=ParametersConfig(swr="sampled"))
    with pytest.raises(ValueError, match=r"often.*allowed: a number.*or sampled"):
        ParametersConfig(swr="often")
