"""The script of the study of selection: regrets of methods, from loop times whose regrets are known."""

from __future__ import annotations

import runpy
from pathlib import Path

import polars as pl
import pytest

SCRIPT = Path(__file__).parents[2] / "scenarios" / "studies" / "selection" / "regret.py"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT), run_name="regret")


def loop(choice, t_loop, selection_time=0.0, **keys):
    where = {"profile": "even", "condition": "steady", "seed": 1} | keys
    return where | {"choice": choice, "t_loop": t_loop, "selection_time": selection_time}


def test_regret_is_against_the_best_single_technique_of_the_same_cell(script):
    loops = pl.DataFrame(
        [
            *(loop("STATIC", 8.0), loop("GSS", 10.0), loop("rl", 9.0, 0.45)),
            *(loop("STATIC", 30.0, seed=2), loop("GSS", 20.0, seed=2), loop("rl", 25.0, seed=2)),
            *(loop("STATIC", 4.0, profile="rising"), loop("GSS", 5.0, profile="rising")),
            loop("rl", 3.0, profile="rising"),
        ]
    )
    rows = script["regrets"](loops).sort("profile", "seed")
    assert rows["method"].to_list() == ["rl"] * 3
    assert rows["regret"].to_list() == pytest.approx([12.5, 25.0, -25.0])
    assert rows["choosing"].to_list() == pytest.approx([5.0, 0.0, 0.0])
    # Where nothing changes, the oracle of a time step is the best single technique.
    assert rows["against_oracle"].to_list() == pytest.approx(rows["regret"].to_list())
    assert rows["oracle_gain"].to_list() == [0.0, 0.0, 0.0]


def test_the_table_has_means_over_profiles_and_the_worst_profile(script):
    loops = pl.DataFrame(
        [
            *(loop("SS", 10.0), loop("random", 11.0)),
            *(loop("SS", 10.0, seed=2), loop("random", 13.0, seed=2)),
            *(loop("SS", 10.0, profile="rising"), loop("random", 16.0, 1.6, profile="rising")),
        ]
    )
    rows = script["regrets"](loops)
    (line,) = script["table"](rows).iter_rows(named=True)
    assert line["regret %"] == pytest.approx((10 + 30 + 60) / 3)
    assert line["worst profile %"] == pytest.approx(60.0)
    assert line["choosing at most %"] == pytest.approx(10.0)
    assert line["from"] < line["regret %"] < line["to"]
    by_profile = script["by_profile"](rows)
    assert dict(zip(by_profile["profile"], by_profile["random"], strict=True)) == pytest.approx(
        {"even": 20.0, "rising": 60.0}
    )
