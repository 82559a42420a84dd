"""Iteration costs from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlsim.application.profiles.profile_costs import Request, iteration_costs, read_costs
from mlsim.errors import InputError
from mlsim.scenario.costs_section import CostsConfig


@pytest.mark.parametrize("text", ["cost\n1.5\n2\n", "1.5,2", "1.5\n\n2\n", '"seconds"\n 1.5 , 2,\n'])
def test_csv_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "costs.csv"
    path.write_text(text, encoding="utf-8")
    assert read_costs(path).tolist() == [1.5, 2.0]


@pytest.mark.parametrize(
    "text", ["iteration,cost\n0,1.5\n1,2\n", "Cost,node\n1.5,3\n2,3\n", '"iteration cost", i\n1.5,1\n2,2\n']
)
def test_of_a_table_the_column_of_costs_is_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / "costs.csv"
    path.write_text(text, encoding="utf-8")
    assert read_costs(path).tolist() == [1.5, 2.0]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("costs.csv", b"1\nx\n", r"costs.csv:2: 'x' is not a number"),
        ("costs.csv", b"1,x\n2\n", r"costs.csv:1: 'x' is not a number"),
        ("costs.csv", b"0,1.5\n1,2\n", "the first of its two columns counts iterations"),
        ("costs.csv", b"1,1.5\n2,2\n", "the first of its two columns counts iterations"),
        ("costs.csv", b"iteration,chunk\n0,1\n1,2\n", "columns iteration, chunk: which one holds costs"),
        ("costs.csv", b"cost,time\n0,1\n1,2\n", "which one holds costs"),
        ("costs.csv", b"", "holds no costs"),
        ("costs.csv", b"cost\n", "holds no costs"),
        ("costs.csv", b"cost\n1\n-2\n", r"costs.csv:3: the cost of iteration 1 is -2.0 \(1 of 2"),
        ("costs.csv", b"1,2,\n3,nan\n", "costs.csv:2: the cost of iteration 3 is nan"),
        ("costs.csv", b"inf\n", "iteration 0 is inf"),
        ("costs.csv", b"1\n1e308\n", r"costs.csv:2: the cost of iteration 1 is 1e\+308 .* below 2\^53 s"),
        ("costs.csv", b"\xff\xfe", "not UTF-8 text"),
        ("costs.npy", b"1\n", "not a NumPy file"),
        ("costs.npy", b"", "not a NumPy file"),
        ("costs.txt", b"1\n", "allowed: .npy, .csv"),
    ],
)
def test_unusable_files_are_named(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=words) as error:
        read_costs(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("values", [np.ones((2, 2)), np.array(["a"]), np.array([1 + 2j]), np.array(3.0)])
def test_npy_files_of_another_shape_or_type(tmp_path: Path, values: np.ndarray[Any, Any]) -> None:
    np.save(tmp_path / "costs.npy", values)
    with pytest.raises(InputError, match="one column of real numbers"):
        read_costs(tmp_path / "costs.npy")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_costs(tmp_path / "costs.csv")


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e-300])
def test_npy_files_with_a_wrong_cost(tmp_path: Path, value: float) -> None:
    np.save(tmp_path / "costs.npy", np.array([0.0, 1.0, value, value]))
    with pytest.raises(InputError, match=r"costs.npy: the cost of iteration 2 is .* \(2 of 4"):
        read_costs(tmp_path / "costs.npy")


def scaled(path: Path, mean: str) -> Any:
    return iteration_costs(Request(CostsConfig(profile="file", path=str(path), mean=mean), 0, 0, 1e9))


def test_costs_of_a_file_are_scaled_to_a_mean(tmp_path: Path) -> None:
    np.save(tmp_path / "costs.npy", np.array([1, 2, 3, 10]))
    np.testing.assert_allclose(scaled(tmp_path / "costs.npy", "8 ms"), [0.002, 0.004, 0.006, 0.020])


def test_costs_that_are_all_zero_have_no_scale(tmp_path: Path) -> None:
    np.save(tmp_path / "costs.npy", np.zeros(4))
    with pytest.raises(
        InputError, match=r"costs.npy: all 4 costs are 0 and cannot be scaled to a mean of 1.0 s"
    ):
        scaled(tmp_path / "costs.npy", "1 s")
