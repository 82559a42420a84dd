"""The measurements of ``scenarios/studies/simulators``, on small logs."""

from __future__ import annotations

import csv
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "scenarios" / "studies" / "simulators"
LOG = ROOT / "traces" / "quickstart.swf"


@pytest.fixture(scope="module")
def measure() -> ModuleType:
    spec = importlib.util.spec_from_file_location("measure", HERE / "measure.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["measure"] = module  # where its dataclass is looked up
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_rejecting_runs_are_measured_and_laid_out_beside_the_source(measure: ModuleType, capsys):
    found = measure.reject(1, {"Seth": (str(LOG), 16, 16), "RICC": ("nowhere.swf", 1, 1)})
    assert list(found) == ["Seth"]
    assert "RICC: nowhere.swf is in no directory of MLSIM_TRACES; left out" in capsys.readouterr().err
    (cost,) = found["Seth"]
    assert 0 < cost.memory <= cost.peak
    assert cost.cpu > 0
    lines = measure.reject_table({"Seth": [cost, cost]}).splitlines()
    assert len(lines) == 2 + 3 * len(measure.LOGS)
    assert lines[2].startswith("| Seth | CPU s | 15 | 34 | 15 | ")
    assert "±" in lines[2]
    assert lines[5].endswith("| 24 |  |")


@pytest.mark.slow
def test_growth_is_measured_and_drawn(measure: ModuleType, tmp_path: Path):
    keys = {"workload.path": LOG, "workload.mapping": "core"}
    found = measure.growth(1, [5, 20], keys)
    assert list(found) == [5, 20]
    table = measure.growth_table(found).splitlines()
    assert [line.split(" | ")[0] for line in table[2:]] == ["| 5", "| 20"]
    measure.draw(tmp_path / "growth.png", found)
    assert (tmp_path / "growth.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_that_fails_ends_the_measurement(measure: ModuleType):
    with pytest.raises(SystemExit, match="ended with 2"):
        measure.run(HERE / "reject.yaml", {"workload.path": "nowhere.swf"})


def test_what_the_source_found_is_of_the_logs_that_are_measured(measure: ModuleType):
    rows = list(csv.DictReader((HERE / "source.csv").read_text().splitlines()))
    assert {row["log"] for row in rows} == set(measure.LOGS)
    assert {row["ours"] for row in rows} <= {"cpu", "memory", "peak"}
