"""The table of a trial."""

from __future__ import annotations

import csv
import io

import pytest

from mlsim.slurm.esp_plan import COLUMNS, Row, as_csv, cells_of

ROWS = [
    Row("STATIC", False, (100.0, 110.0), 84.0, 105.0, 0.0),
    Row("STATIC", True, (90.0, 99.0), 75.6, 99.75, 12.0),
]


def test_ratios_are_those_of_means() -> None:
    off, on = cells_of(ROWS)
    assert tuple(off) == COLUMNS
    assert (off["real makespan (s)"], off["least (s)"], off["largest (s)"]) == (105.0, 100.0, 110.0)
    assert off["on/off"] is None
    assert off["simulated/real"] == pytest.approx(0.8)
    assert on["on/off"] == pytest.approx(0.9)
    assert on["on/off simulated"] == pytest.approx(0.9)
    assert on["with launches/real"] == pytest.approx(99.75 / 94.5)
    assert on["nodes given back"] == 12.0


def test_the_file_has_a_row_for_each() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(ROWS))))
    assert [row["rca"] for row in rows] == ["off", "on"]
    assert rows[0]["on/off"] == ""
    assert rows[1]["on/off"] == "0.9"
