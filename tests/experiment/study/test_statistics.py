"""Statistics over repetitions, against what is known of them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mlsim.errors import InputError
from mlsim.experiment import load_study, run_study
from mlsim.experiment.study.study_tables import (
    Spread,
    Table,
    latex,
    markdown,
    mean_interval,
    signed_rank_p,
    spread_of,
    trimmed,
)


def by_counting(differences: list[float]) -> float:
    """Compute p by trying all signs."""
    known = [value for value in differences if value]
    sizes = [abs(value) for value in known]
    ranks = [sum(s < size for s in sizes) + (sum(s == size for s in sizes) + 1) / 2 for size in sizes]
    found = sum(rank for rank, value in zip(ranks, known, strict=True) if value > 0)
    least = min(found, sum(ranks) - found)
    all_signs = product((0, 1), repeat=len(ranks))
    sums = [sum(r for r, sign in zip(ranks, signs, strict=True) if sign) for signs in all_signs]
    return min(1.0, 2 * sum(value <= least for value in sums) / len(sums))


@pytest.mark.parametrize(
    "differences",
    [
        [1.0],
        [1.0, 2.0, 3.0, 4.0, 5.0],
        [1.0, -2.0, 3.0, -4.0, 5.0, 6.0],
        [1.0, 1.0, -1.0, 2.0, 2.0, 0.0],
        [0.5, -0.5],
        [-3.0, -1.0, -4.0, -1.5, -5.0, -9.0, -2.0, -6.0],
    ],
)
def test_signed_ranks_against_all_signs(differences):
    assert signed_rank_p(np.array(differences)) == pytest.approx(by_counting(differences), rel=1e-12)


def test_signed_ranks_of_a_textbook():
    """Five pairs, all in one direction: 2 / 2^5 (Wilcoxon 1945)."""
    assert signed_rank_p(np.arange(1.0, 6.0)) == pytest.approx(0.0625)
    assert np.isnan(signed_rank_p(np.zeros(4)))


def test_many_pairs_take_the_normal_distribution():
    random = np.random.default_rng(1)
    differences = random.normal(0.1, 1.0, 200)
    exact = signed_rank_p(differences)
    assert signed_rank_p(np.append(differences, 1e-9)) == pytest.approx(exact, rel=0.05)


def test_signed_ranks_against_scipy():
    stats = pytest.importorskip("scipy.stats", reason="no scipy")
    random = np.random.default_rng(2)
    for n in (3, 8, 20, 40):
        differences = random.normal(0.2, 1.0, n)
        expected = stats.wilcoxon(differences, method="exact").pvalue
        assert signed_rank_p(differences) == pytest.approx(expected, rel=1e-9)


def test_intervals():
    assert all(np.isnan(mean_interval(np.array([1.0]))))
    assert mean_interval(np.array([2.0, 2.0, 2.0])) == (2.0, 2.0)
    values = np.random.default_rng(3).normal(10.0, 1.0, 400)
    low, high = mean_interval(values)
    error = 1.96 * values.std(ddof=1) / 20.0
    assert low == pytest.approx(values.mean() - error, abs=0.1 * error)
    assert high == pytest.approx(values.mean() + error, abs=0.1 * error)
    assert mean_interval(values) == (low, high)


@pytest.mark.parametrize("runs", [2, 37, 300])
def test_resamples_in_parts_are_those_of_one_draw(runs):
    """300 values are resampled in three parts, so that the memory of many is bounded."""
    values = np.random.default_rng(runs).gamma(2.0, size=runs)
    drawn = np.random.default_rng(0).integers(0, runs, (10_000, runs))
    expected = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
    assert mean_interval(values) == tuple(expected)


def test_pairs_are_of_the_same_repetition():
    found = spread_of({"1": 5.0, "2": 7.0, "3": float("nan"), "4": 1.0}, {"2": 4.0, "1": 3.0, "3": 1.0})
    assert (found.runs, found.mean, found.median, found.pairs) == (3, 13 / 3, 5.0, 2)
    assert found.difference == 2.5
    assert found.difference_low == 2.0
    assert found.difference_high == 3.0
    assert found.p == 0.5
    alone = spread_of({"1": 5.0}, {"1": 3.0})
    assert (alone.runs, alone.pairs) == (1, 1)
    assert np.isnan([alone.low, alone.difference, alone.p]).all()
    nothing = spread_of({"1": float("nan")})
    assert isinstance(nothing, Spread)
    assert nothing.runs == 0


def test_latex_aligns_numbers_by_their_points_with_intervals_and_the_best_in_bold():
    lines = [["50 %", "12,345 ± 6", "x"], ["µ", "1.25", "2.5e-07"], ["", "", "-1"]]
    table = Table(["a_b", "T_loop", "c"], lines, best=frozenset({(0, 1), (1, 1)}))
    assert latex("T & U", table, "a note").splitlines() == [
        "% T & U",
        "% a note",
        r"\begin{tabular}{lr@{}ll}",
        r"\toprule",
        r"a\_b & \multicolumn{2}{c}{T\_loop} & c \\",
        r"\midrule",
        r"50 \% & \textbf{12,345} & \,$\pm$\,6 & x \\",
        r"$\mu$ & \textbf{1} & \textbf{.25} & 2.5e-07 \\",
        r" &  &  & -1 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_markdown_has_the_best_in_bold():
    table = Table(["who", "wait"], [["FCFS", "12 ± 3"], ["SPF", "7 ± 1"]], best=frozenset({(1, 1)}))
    assert markdown(table).splitlines() == [
        "| who | wait |",
        "| --- | ---: |",
        "| FCFS | 12 ± 3 |",
        "| SPF | **7 ± 1** |",
    ]


def test_trimming_leaves_out_the_least_and_the_largest():
    values = {"a": 5.0, "b": 1.0, "c": float("nan"), "d": 3.0, "e": 9.0, "f": 1.0}
    assert trimmed(values, 1) == {"a": 5.0, "d": 3.0, "f": 1.0}
    assert trimmed(values, 2) == {"d": 3.0}
    assert trimmed(values, 0) == values


def test_a_study_leaves_out_the_best_and_the_worst_sample_of_each_policy(tmp_path):
    """Table and statistics against plain sorting of what the runs gave (Zrigui 2021, §4.3.1)."""
    (tmp_path / "base.yaml").write_text(
        "platform: {nodes: [{name: n, count: 8, cores: 1}]}\n"
        "workload: {generate: {model: poisson, jobs: 60, processors: 8, load: 1.2}, mapping: node}\n"
    )
    text = (
        "of: runs\nbase: base.yaml\nvary: {batch.policy: [FCFS, SPF], seeds: 6}\nrepetitions: seed\n"
        "metrics: {wait: wait_time.mean}\nrelative: {policy: FCFS}\ntrim: "
    )
    (tmp_path / "study.yaml").write_text(text + "1\n")
    rows = run_study(load_study(tmp_path), out=tmp_path / "out")
    statistics = (tmp_path / "out" / "statistics.csv").read_text().splitlines()
    for number, policy in enumerate(("FCFS", "SPF")):
        kept = sorted(row.metrics["wait"] for row in rows if row.labels["policy"] == policy)[1:-1]
        _, name, runs, mean, *_ = statistics[1 + number].split(",")
        assert (name, runs) == (policy, "4")
        assert float(mean) == pytest.approx(np.mean(kept), rel=1e-5)
        low, high = mean_interval(
            np.array(
                [
                    row.metrics["wait"]
                    for row in rows
                    if row.labels["policy"] == policy and row.metrics["wait"] in kept
                ]
            )
        )
        half = max(np.mean(kept) - low, high - np.mean(kept))
        page = (tmp_path / "out" / "table.md").read_text()
        assert f"{np.mean(kept):,.0f} ± {half:,.0f}" in page
        assert "±: 95 % interval of the mean (percentiles of 10,000 bootstrap resamples)" in page
    (tmp_path / "study.yaml").write_text(text + "3\n")
    with pytest.raises(InputError, match=r"trim: 3; allowed: how many of the 6 repetitions .* 0 to 2"):
        load_study(tmp_path)
