"""Chunk sizes: recorded sequences, exactness, and what holds for every technique."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mlsim.application import TECHNIQUES
from mlsim.application.techniques import Form, sequence
from mlsim.application.techniques.adaptive import RISK, learn, new_measurements
from mlsim.application.techniques.guided import guided_straightforward_size, new_guide
from mlsim.errors import InputError
from mlsim.scenario import Technique
from tests.reference import techniques as reference

SIZED = ["STATIC", "SS", "GSS", "TSS", "FAC2"]
FORMS: list[Form] = ["recursive", "straightforward"]

N1000_P4 = {
    ("STATIC", "recursive"): [250] * 4,
    ("STATIC", "straightforward"): [250] * 4,
    ("SS", "recursive"): [1] * 1000,
    ("SS", "straightforward"): [1] * 1000,
    ("GSS", "recursive"): [250, 188, 141, 106, 79, 59, 45, 33, 25, 19, 14, 11, 8, 6, 4, 3, 3, 2, 1, 1, 1, 1],
    ("GSS", "straightforward"): [250, 188, 141, 106, 80, 60, 45, 34, 26, 19, 15, 11, 8, 6, 5, 4, 2],
    ("TSS", "recursive"): [125, 117, 109, 101, 93, 85, 77, 69, 61, 53, 45, 37, 28],
    ("TSS", "straightforward"): [125, 117, 109, 101, 93, 85, 77, 69, 61, 53, 45, 37, 28],
    ("FAC2", "recursive"): [125] * 4 + [63] * 4 + [31] * 4 + [16] * 4 + [8] * 4 + [4] * 4 + [2] * 4 + [1] * 4,
    ("FAC2", "straightforward"): [125] * 4 + [63] * 4 + [32] * 4 + [16] * 4 + [8] * 4 + [4] * 4 + [2] * 4,
}


@pytest.mark.parametrize(("technique", "form"), N1000_P4)
def test_recorded_sequences(technique: str, form: Form) -> None:
    assert sequence(technique, 1000, 4, form) == N1000_P4[technique, form]


@pytest.mark.parametrize(
    ("technique", "form", "steps"),
    [
        ("STATIC", "recursive", 256),
        ("SS", "straightforward", 262_144),
        ("GSS", "recursive", 1919),
        ("GSS", "straightforward", 1497),
        ("TSS", "recursive", 512),
        ("TSS", "straightforward", 512),
        ("FAC2", "recursive", 2816),
        ("FAC2", "straightforward", 2816),
    ],
)
def test_steps_of_a_large_loop(technique: str, form: Form, steps: int) -> None:
    assert len(sequence(technique, 262_144, 256, form)) == steps


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("technique", SIZED)
@settings(max_examples=60, deadline=None)
@given(n=st.integers(0, 3000), p=st.integers(1, 80), min_chunk=st.sampled_from([1, 1, 2, 7, 4000]))
@example(n=0, p=1, min_chunk=1)
@example(n=1, p=1, min_chunk=1)
@example(n=3, p=8, min_chunk=1)
def test_sizes_are_the_formula_and_cover_the_loop(
    technique: str, form: Form, n: int, p: int, min_chunk: int
) -> None:
    sizes = sequence(technique, n, p, form, min_chunk)
    assert sum(sizes) == n
    assert min(sizes, default=1) >= 1
    previous = 0
    for i, (size, taken) in enumerate(zip(sizes, accumulate(sizes, initial=0), strict=False)):
        if form == "recursive":
            previous = reference.recursive_size(technique, n, p, i, n - taken, previous)
        else:
            previous = reference.straightforward_size(technique, n, p, i)
        assert size == min(max(previous, min_chunk), n - taken)


@settings(max_examples=100, deadline=None)
@given(n=st.integers(0, 10**6), p=st.integers(1, 300))
def test_straightforward_gss_is_never_smaller(n: int, p: int) -> None:
    pairs = zip(sequence("GSS", n, p), sequence("GSS", n, p, "straightforward")[:-1], strict=False)
    assert all(recursive <= straightforward for recursive, straightforward in pairs)


def test_straightforward_gss_where_floating_point_is_off() -> None:
    assert sequence("GSS", 1000, 5, "straightforward")[:3] == [200, 160, 128]


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
        exact = reference.straightforward_size("GSS", n, p, i)
        assert max(guided_straightforward_size(guide, i, n, p), 1) == max(exact, 1)


@pytest.mark.parametrize("technique", ["GSS", "TSS", "FAC2"])
def test_largest_loops_do_not_overflow(technique: str) -> None:
    n, p = 2**62, 3
    for form in FORMS:
        sizes = sequence(technique, n, p, form, min_chunk=2**40)
        assert sum(sizes) == n
        assert sizes[0] == reference.straightforward_size(technique, n, p, 0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("TSSS", 10, 2), "allowed: STATIC, SS, GSS, TSS, FAC2, AF"),
        (("AF", 10, 2), "measured"),
        (("GSS", -1, 2), "-1 iterations"),
        (("GSS", 10, 0), "0 PEs"),
        (("GSS", 10, 2, "sideways"), "recursive, straightforward"),
        (("GSS", 10, 2, "recursive", 0), "min_chunk: 0"),
    ],
)
def test_wrong_arguments_are_named(arguments: tuple[str, int, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        sequence(*arguments)


def test_catalogue_lists_every_technique_of_the_scenario() -> None:
    assert list(TECHNIQUES) == [technique.value for technique in Technique]
    assert [entry.code for entry in TECHNIQUES.values()] == list(range(len(TECHNIQUES)))
    assert all(entry.title and entry.recursive and entry.reference for entry in TECHNIQUES.values())


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
        exact = reference.straightforward_size("GSS", n, p, i)
        for words in (1, 2, 4):
            assert guided_straightforward_size(new_guide(words), i, n, p) == exact


def test_straightforward_gss_where_the_first_digits_do_not_decide() -> None:
    """With P near 2^31 the error bound takes half of one word of fraction."""
    p = 2**31 - 1
    for n in np.random.default_rng(1).integers(2**50, 2**62, 200).tolist():
        for i in range(3):
            exact = reference.straightforward_size("GSS", n, p, i)
            assert guided_straightforward_size(new_guide(1), i, n, p) == exact


@pytest.mark.parametrize(("spread", "counts"), [(0.0, False), (1e-3, True)])
def test_rounding_noise_of_prefix_sums_is_no_variance(spread: float, counts: bool) -> None:
    costs = 0.1 * (1.0 + spread * np.tile([-1.0, 1.0], 50))
    prefix = 1e8 + np.concatenate([[0.0], np.cumsum(costs)])
    prefix.flags.writeable = False
    assert np.diff(prefix).std() > 0.0
    measured, sums = new_measurements(2)
    learn(measured, sums, 0, prefix, 1.0, 0, 100)
    assert (sums[RISK, 1] > 0.0) == counts
