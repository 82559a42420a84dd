"""Runs whose chunks are too many for memory leave the same files as those whose chunks are few."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from mlsim.cli.main import app
from mlsim.errors import OutputError
from mlsim.experiment import loop_from_mapping, run, run_loops
from mlsim.record import ChunkStore, StoredChunks
from mlsim.scenario import from_mapping

MACHINE = {"nodes": [{"name": "n", "count": 3, "cores": 4}]}
APPLICATION = {
    "model": "loop",
    "costs": {"profile": "exponential", "mean": "1 s"},
    "iterations": {"count": 300},
    "technique": "GSS+SS",
    "execution": {"model": "hdca"},
    "time_steps": 2,
}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def make_small() -> None:
        for module in ("record", "cosim.coupling"):
            monkeypatch.setattr(f"mlsim.{module}.ChunkStore", lambda: ChunkStore(20, 7))
        monkeypatch.setattr("mlsim.record.table_blocks.CHUNK_ROWS", 11)
        monkeypatch.setattr("mlsim.record.column_types.HELD_ROWS", 5)
        monkeypatch.setattr("mlsim.record.otf2.trace_content._ROWS_AT_ONCE", 30)

    return make_small


def workload(directory: Path) -> Path:
    rows = [f"{job} {10 * job} 0 500 4 -1 -1 4 500 -1 1 1 1 1 1 1 -1 -1" for job in range(1, 9)]
    path = directory / "jobs.swf"
    path.write_text("\n".join(rows) + "\n")
    return path


def scenario_of(directory: Path, rca: str) -> dict[str, object]:
    return {
        "platform": MACHINE,
        "workload": {"path": str(workload(directory)), "mapping": "core"},
        "batch": {"policy": "FCFS", "backfill": "easy", "on_overrun": "extend"},
        "application": APPLICATION,
        "coordination": {"rca": rca},
        "output": {"trace": "chunks"},
    }


def assert_equal_runs(one: Path, other: Path, differing: tuple[str, ...]) -> None:
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(other) for path in other.rglob("*") if path.is_file())
    assert any(path.parts[0] == "trace" for path in files)
    for path in files:
        if path.name == "chunks.parquet":
            assert pl.read_parquet(one / path).equals(pl.read_parquet(other / path))
            assert pl.read_parquet_schema(one / path) == pl.read_parquet_schema(other / path)
        elif path.name not in differing:
            assert (one / path).read_bytes() == (other / path).read_bytes(), path


@pytest.mark.slow
@pytest.mark.parametrize("rca", ["off", "on"])
def test_a_run_with_many_chunks(tmp_path: Path, small_blocks: Callable[[], None], rca: str) -> None:
    scenario = from_mapping(scenario_of(tmp_path, rca), "many")
    few = run(scenario, out=tmp_path / "few")
    small_blocks()
    many = run(scenario, out=tmp_path / "many")
    assert not isinstance(few.records.chunks, StoredChunks)
    assert isinstance(many.records.chunks, StoredChunks)
    assert many.chunks.equals(few.chunks)
    assert len(many.chunks) > 300
    assert_equal_runs(tmp_path / "few", tmp_path / "many", ("summary.json", "manifest.json"))
    checked = CliRunner().invoke(app, ["check", str(tmp_path / "many")])
    assert checked.exit_code == 0, checked.output


@pytest.mark.slow
def test_a_loop_alone_with_many_chunks(tmp_path: Path, small_blocks: Callable[[], None]) -> None:
    loop = loop_from_mapping(
        {"platform": MACHINE, "application": APPLICATION, "output": {"trace": "chunks", "csv": True}}
    )
    run_loops([loop], out=tmp_path / "few")
    small_blocks()
    run_loops([loop], out=tmp_path / "many")
    assert_equal_runs(tmp_path / "few", tmp_path / "many", ("manifest.json",))


def test_chunks_that_cannot_be_kept_leave_nothing(
    tmp_path: Path, small_blocks: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before half of the blocks are there does the disk fill up."""
    small_blocks()
    keep, times = ChunkStore.keep, iter(range(100))

    def full(store: ChunkStore, *columns: object) -> int:
        if next(times) > 20:
            raise OutputError("no room for the chunks")
        return keep(store, *columns)  # type: ignore[arg-type]  # columns of all types, handed on as they came

    monkeypatch.setattr(ChunkStore, "keep", full)
    loop = loop_from_mapping({"platform": MACHINE, "application": APPLICATION})
    with pytest.raises(OutputError, match="no room for the chunks"):
        run_loops([loop], out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
