"""Iteration costs from files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlsim.application.profiles.cost_files import read_costs
from mlsim.application.profiles.profile_costs import Request, iteration_costs
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
    ("text", "column", "costs"),
    [
        ("seconds,time\n1,3\n2,4\n", "time", [3.0, 4.0]),
        ("node,Seconds\nn01,1.5\nn02,2\n", "seconds", [1.5, 2.0]),
        ("node,seconds\nn01,1.5\nn02,2\n", None, [1.5, 2.0]),
        ('i,"work, s"\n0,1.5\n1,2\n', "work, s", [1.5, 2.0]),
        (",a,b\n0,1.5,7\n1,2,7\n", "a", [1.5, 2.0]),
        ("0,1.5\n1,2\n", 2, [1.5, 2.0]),
        ("a,b\n1,2\n", 1, [1.0]),
        ("1.5\n2\n", 1, [1.5, 2.0]),
        ("1.5,2\n", 2, [2.0]),
    ],
)
def test_a_column_is_chosen(tmp_path: Path, text: str, column: str | int | None, costs: list[float]) -> None:
    path = tmp_path / "costs.csv"
    path.write_text(text, encoding="utf-8")
    assert read_costs(path, column).tolist() == costs


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("node,second\n1,2\n3,4\n", "seconds", "no such column; did you mean 'second'.*: 'node', 'second'$"),
        ("0,1.5\n1,2\n", "seconds", "they have no names: choose by number"),
        ("a,b\n1,2\n", 3, "column: 3: there is no such column"),
        ("a,A\n1,2\n", "a", None),
        ("b,b\n1,2\n", "b", "several columns have this name"),
        ("a,b\n1,2\n3\n", "b", "costs.csv:3: the line ends before column 2"),
        ("a,b\n1,2\n3,x\n", "b", "costs.csv:3: 'x' is not a number"),
        ("a,b\n1,2\n3,-1\n", "b", "costs.csv:3: the cost of iteration 1 is -1.0"),
    ],
)
def test_a_wrong_column_is_an_error(tmp_path: Path, text: str, column: str | int, words: str | None) -> None:
    path = tmp_path / "costs.csv"
    path.write_text(text, encoding="utf-8")
    if words is None:
        assert read_costs(path, column).tolist() == [1.0]
        return
    with pytest.raises(InputError, match=words):
        read_costs(path, column)


def test_a_column_of_an_array_is_chosen(tmp_path: Path) -> None:
    path = tmp_path / "costs.npy"
    np.save(path, np.array([[0, 1.5], [1, 2]]))
    assert read_costs(path, 2).tolist() == [1.5, 2.0]
    for column in (3, "seconds"):
        with pytest.raises(InputError, match="there is no such column; the file's columns: 1, 2;"):
            read_costs(path, column)
    np.save(path, np.array([(7, 1.5), (8, 2)], [("node", int), ("seconds", float)]))
    assert read_costs(path, "seconds").tolist() == [1.5, 2.0]
    with pytest.raises(InputError, match=r"one of which is chosen by application\.costs\.column"):
        read_costs(path)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("costs.csv", b"1\nx\n", r"costs.csv:2: 'x' is not a number"),
        ("costs.csv", b"1,x\n", r"costs.csv:1: 'x' is not a number"),
        ("costs.csv", b"1,x\n2\n", r"costs.csv:1: 2 columns, 1 \(1, 2\), 2 \(x\): which one holds the costs"),
        ("costs.csv", b"0,1.5\n1,2\n", r"2 columns, 1 \(0, 1\), 2 \(1.5, 2\): which .*costs.column=2"),
        ("costs.csv", b"0.5,1.5\n2,3\n4,5\n6,7\n", r"2 columns, 1 \(0.5, 2, 4, ...\), 2 \(1.5, 3, 5, ...\)"),
        ("costs.csv", b"1,2\n3\n", "2 columns"),
        ("costs.csv", b"iteration,chunk\n0,1\n1,2\n", "2 columns, 'iteration', 'chunk': which .*=chunk"),
        ("costs.csv", b"cost,time\n0,1\n1,2\n", "which one holds the costs"),
        ("costs.csv", b"cost\n0,1\n1,2\n", r"2 columns, 'cost', 2 \(1, 2\): which one holds the costs"),
        ("costs.csv", b"", "holds no costs"),
        ("costs.csv", b"cost\n", "holds no costs"),
        ("costs.csv", b"cost\n1\n-2\n", r"costs.csv:3: the cost of iteration 1 is -2.0 \(1 of 2"),
        ("costs.csv", b"1,2,nan\n", "costs.csv:1: the cost of iteration 2 is nan"),
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
