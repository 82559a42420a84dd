"""The measurement of loops under delayed chunk calculations, and its table."""

from __future__ import annotations

import csv
import runpy
import sys
from pathlib import Path

import pytest

from tests.mpi.conftest import REPOSITORY, execute, find

DELAYS = REPOSITORY / "scenarios" / "mpi" / "delays"
MEASURE = "../../../scenarios/mpi/delays/measure.py"


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
@pytest.mark.mpi
def test_repetitions_are_added_to_those_that_are_there(tmp_path: Path) -> None:
    out = tmp_path / "delays.csv"
    for repetitions in (1, 2):
        words = ("compute", "--out", str(out), "--technique", "STATIC", "--repetitions", str(repetitions))
        done = execute(find("any"), 2, MEASURE, *words)
        assert done.code == 0, done.err
    rows = _rows(out)
    cases = {(row["application"], row["model"], float(row["delay"])) for row in rows}
    assert cases == {
        (name, model, delay)
        for name in ("psia", "mandelbrot")
        for model in ("cca", "dca")
        for delay in (0.0, 10e-6, 100e-6)
    }
    assert [row["repetition"] for row in rows] == ["0"] * 12 + ["1"] * 12
    assert {row["chunks"] for row in rows} == {"2"}
    assert all(float(row["t_loop"]) > 0.0 for row in rows)


def test_the_table_has_medians_their_intervals_and_what_a_delay_adds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "delays.csv"
    with out.open("w", newline="", encoding="utf-8") as file:
        write = csv.writer(file)
        write.writerow(["application", "technique", "model", "delay", "repetition", "t_loop", "chunks"])
        for name in ("psia", "mandelbrot"):
            for delay, longer in ((0.0, 0.0), (1e-5, 0.1), (1e-4, 0.5)):
                for repetition, seconds in enumerate((1.0, 3.0, 2.0)):
                    write.writerow([name, "SS", "cca", delay, repetition, seconds * (1.0 + longer), 7])
                    write.writerow([name, "SS", "dca", delay, repetition, 1.0, 7])
    monkeypatch.setattr(sys, "argv", ["table.py", str(out)])
    runpy.run_path(str(DELAYS / "table.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    row = (
        "| SS | cca | 7 | 2.0000 (1.0000–3.0000) | 2.2000 (1.1000–3.3000) | 3.0000 (1.5000–4.5000) | +50.0% |"
    )
    assert lines.count(row) == 2
    row = "| SS | +100.0% (+0.0% – +200.0%) | +120.0% (+10.0% – +230.0%) | +200.0% (+50.0% – +350.0%) |"
    assert lines.count(row) == 2
    assert lines[0] == "psia"
    assert "mandelbrot" in lines


@pytest.mark.parametrize(("name", "n"), [("psia", 2048), ("mandelbrot", 2025)])
def test_loops_that_sleep_have_the_iterations_of_the_applications(name: str, n: int) -> None:
    application = runpy.run_path(str(DELAYS / "measure.py"))["sleeping"](name)
    assert application.n == n
    assert application._prefix[-1] / n == pytest.approx(1e-3)
