"""Chunks that are kept in few bytes are read back as they were, in order, whatever their numbers are."""

from __future__ import annotations

import errno
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mlsim.errors import OutputError
from mlsim.record import Chunks, ChunkStore, LoopChunks, StoredChunks
from mlsim.record.chunk_store import order_of
from mlsim.record.table_blocks import chunk_blocks, size_range

COLUMNS = ("pe", "step", "first", "size", "requested", "start", "end")
SPANS = [0, 1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**62]


def rows_of(random: np.random.Generator, n: int, spans: list[int]) -> list[NDArray[Any]]:
    """Make columns whose whole numbers are up to so much apart; many rows start together."""
    whole = [random.choice([0, span // 2, span], n) for span in spans]
    whole[0] = whole[0].astype(np.int32)
    start = np.sort(random.choice([0.0, 1.0, 2.5, 7.0, 7.0 + 1e-12], n)) + random.choice([0.0, 1.0], n)
    return [*whole, start - 1.0, start, start + random.random(n)]


@settings(deadline=None)
@given(
    st.integers(0, 1000),
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
    st.lists(st.sampled_from(SPANS), min_size=4, max_size=4),
    st.sampled_from([1, 10_000]),
    st.sampled_from([1, 7, 1000]),
)
def test_runs_are_merged_into_the_order_of_start_and_pe(
    seed: int, lengths: list[int], spans: list[int], held: int, block: int
) -> None:
    random = np.random.default_rng(seed)
    spans[0] = min(spans[0], 2**31 - 1)
    runs = [rows_of(random, n, spans) for n in lengths]
    store = ChunkStore(held)
    loop = store.open()
    loop.begin_step(3.0, 0, 0)
    loop.begin_step(5.0, 100, 1000)
    for run in runs:
        loop.take(*run)
    table = store.table([(10.0, 4, loop)])
    assert isinstance(table, StoredChunks) == (held < sum(lengths))
    together = [np.concatenate(columns) for columns in zip(*runs, strict=True)]
    order = np.lexsort((together[0], together[5]))
    parts = table.blocks(block) if isinstance(table, StoredChunks) else chunk_blocks(table)
    found = [[getattr(part, name) for name in COLUMNS] for part in parts]
    for name, expected, values in zip(COLUMNS, together, zip(*found, strict=True), strict=True):
        shift = {"step": 100, "first": 1000, "requested": 15.0, "start": 15.0, "end": 15.0}.get(name, 0)
        read = np.concatenate(values)
        if shift == 15.0:
            np.testing.assert_array_equal(read, (expected[order] + 5.0) + 10.0)
        else:
            np.testing.assert_array_equal(read, expected[order] + shift)
        assert read.dtype == expected.dtype
    assert size_range(table) == (together[3].min(), together[3].max())


@pytest.mark.parametrize("n_runs", range(1, 10))
def test_runs_of_which_no_rows_start_together_are_merged(n_runs: int) -> None:
    """Whichever of the other runs comes next, wherever it stands in the heap."""
    random = np.random.default_rng(n_runs)
    for _ in range(10):
        store = ChunkStore(1)
        loop = store.open()
        loop.begin_step(0.0, 0, 0)
        runs = [np.sort(random.random(random.integers(2, 20))) for _ in range(n_runs)]
        for start in runs:
            numbers = np.arange(len(start))
            loop.take(np.zeros(len(start), np.int32), numbers, numbers, numbers, start, start, start)
        read = store.table([(0.0, 0, loop)]).start
        np.testing.assert_array_equal(read, np.sort(np.concatenate(runs)))


def kept(store: ChunkStore, job: int, n: int) -> tuple[float, int, LoopChunks]:
    """Keep chunks whose sizes are those of their job alone."""
    loop, numbers, times = store.open(), np.arange(n) + 1000 * job, np.arange(n) * 1.0
    loop.begin_step(0.0, 0, 0)
    loop.take(np.zeros(n, np.int32), numbers, numbers, numbers, times, times, times + 1.0)
    return 0.0, job, loop


def jobs_and_sizes(table: Chunks) -> list[tuple[int, int]]:
    return list(zip(table.job.tolist(), table.size.tolist(), strict=True))


def test_what_is_kept_after_reading_is_read_too() -> None:
    """Also where it stands in place of what was forgotten."""
    store = ChunkStore(1)
    expected = {job: [(job, 1000 * job + k) for k in range(600)] for job in range(4)}
    loops = [kept(store, 0, 600)]
    assert jobs_and_sizes(store.table(loops)) == expected[0]
    loops.append(kept(store, 1, 600))
    assert jobs_and_sizes(store.table(loops)) == expected[0] + expected[1]
    loops.pop()[2].forget()
    assert jobs_and_sizes(store.table(loops)) == expected[0]
    loops += [kept(store, 2, 600), kept(store, 3, 600)]
    assert jobs_and_sizes(store.table(loops)) == expected[0] + expected[2] + expected[3]


class ShortWrites(io.FileIO):
    """Takes a part of what is written to it, as a disk that fills up does; in all so much."""

    room = 10**9

    def write(self, data: Any) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = super().write(memoryview(data)[: min(self.room, 1001)])
        self.room -= taken
        return taken


def test_a_file_that_takes_a_part_is_given_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: list[ShortWrites] = []

    def opened(**_: Any) -> ShortWrites:
        files.append(ShortWrites(tmp_path / f"{len(files)}", "w+"))
        return files[-1]

    monkeypatch.setattr("tempfile.TemporaryFile", opened)
    store = ChunkStore(1)
    loops = [kept(store, job, 600) for job in range(2)]
    expected = [(job, 1000 * job + k) for job in range(2) for k in range(600)]
    assert jobs_and_sizes(store.table(loops)) == expected
    files[0].room = 5000
    with pytest.raises(OutputError, match="No space left"):
        kept(store, 2, 600)


def test_sizes_are_those_of_all_loops() -> None:
    store = ChunkStore(1)
    loops = []
    for sizes in ([5, 3], [], [9, 8, 4]):
        loop = store.open()
        loop.begin_step(0.0, 0, 0)
        n = len(sizes)
        if n:
            zeros, times = np.zeros(n, np.int64), np.arange(n) * 1.0
            loop.take(zeros.astype(np.int32), zeros, zeros, np.array(sizes), times, times, times + 1.0)
        loops.append((0.0, len(loops), loop))
    assert size_range(store.table(loops)) == (3, 9)
    none = store.table(loops[1:2])
    assert isinstance(none, Chunks)
    assert size_range(none) is None


@pytest.mark.parametrize("n", [0, 1, 2, 50, 3000])
@pytest.mark.parametrize("kind", ["nearly", "stretches", "random", "equal"])
def test_the_order_of_rows(n: int, kind: str) -> None:
    random = np.random.default_rng(n)
    start = {
        "nearly": np.arange(n) + random.integers(0, 3, n),
        "stretches": np.arange(n) % max(n // 3, 1),
        "random": random.integers(0, n + 1, n),
        "equal": np.zeros(n),
    }[kind].astype(np.float64)
    pe = random.integers(0, 50, n).astype(np.int32)
    assert order_of(start, pe).tolist() == np.lexsort((pe, start)).tolist()
