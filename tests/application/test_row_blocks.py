"""Chunks that leave an event loop in blocks are those that it would have kept in memory."""

from __future__ import annotations

import errno
import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.application import simulate
from mlsim.errors import OutputError
from mlsim.record import Chunks, ChunkStore, LoopChunks, StoredChunks
from mlsim.record.table_blocks import chunk_blocks, n_rows
from mlsim.scenario.application_section import ExecutionConfig

COMBINATIONS = [
    ("dca", "SS"),
    ("dca", "AWF"),
    ("dca", "GSS"),
    ("cca", "SS"),
    ("cca", "AF"),
    ("hdca", "GSS+SS"),
    ("hdca", "SS+FAC2"),
    ("hmw", "GSS+SS"),
    ("mpi+openmp", "GSS+SS"),
    ("steal", "SS"),
]
COLUMNS = ("pe", "step", "first", "size", "requested", "start", "end")
MODEL_FILE = """
from mlsim.application.kit import *

@execution_model(levels=1, hands_out_first=True)
def in_blocks(inputs):
    owned = open_state(inputs)
    s = shared(owned)
    queue = s.queues[0]
    ask_first(s, queue)
    while True:
        pe = enter(s, queue)
        if pe == NOBODY:
            break
        me, arrival = s.pes[pe], due_of(s.matches, queue.tree, queue.width, pe)
        following = np.inf
        if queue.position < queue.end:
            end = execute(s, me, pe, queue.step, queue.position, 1, arrival)
            queue.position, queue.step = queue.position + 1, queue.step + 1
            following = next_request(s, me, pe, end)
        else:
            notify(s, me, arrival)
        move(s.matches, queue.tree, queue.width, pe, following)
    return close_state(owned.pes, owned.written, inputs.until, inputs.stats)
"""


def loop_of(seed: int, n: int, **options: Any) -> dict[str, Any]:
    """Four nodes of three PEs; costs that are often equal, so that chunks start together."""
    random = np.random.default_rng(seed)
    latency = np.repeat([0.0, 1e-3, 1e-3, 2e-3], 3)
    return {
        "prefix": np.append(0.0, np.cumsum(random.choice([0.0, 0.25, 0.5, 1.0], n))),
        "pe_speed": random.choice([0.5, 1.0], 12),
        "pe_latency": latency,
        "node_of_pe": np.repeat(np.arange(4), 3),
        **options,
    }


def kept(store: ChunkStore, loop: dict[str, Any]) -> LoopChunks:
    chunks = store.open()
    simulate(**loop, chunks=chunks)
    return chunks


def whole(chunks: Chunks) -> dict[str, list[float]]:
    return {name: getattr(chunks, name).tolist() for name in COLUMNS}


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(COMBINATIONS),
    st.integers(0, 99),
    st.integers(1, 300),
    st.integers(1, 3),
    st.sampled_from([1, 2, 7, 64, 1000]),
    st.sampled_from([1, 50, 10_000]),
    st.sampled_from([float("inf"), 20.0]),
)
def test_blocks_of_any_size_give_the_same_chunks(
    combination: tuple[str, str], seed: int, n: int, time_steps: int, block: int, held: int, until: float
) -> None:
    model, technique = combination
    execution = ExecutionConfig(model=model)
    loop = loop_of(seed, n, technique=technique, execution=execution, time_steps=time_steps, until=until)
    expected = simulate(**loop, record=True).rows
    store = ChunkStore(held, block)
    table = store.table([(100.0, 7, kept(store, loop))])
    assert expected is not None
    for name in COLUMNS:
        values = getattr(expected, name)
        if name in ("requested", "start", "end"):
            values = 100.0 + values
        np.testing.assert_array_equal(getattr(table, name), values)
        assert getattr(table, name).dtype == values.dtype
    assert (table.job == 7).all()


def test_loops_come_in_the_order_given_in_blocks_of_any_size() -> None:
    store = ChunkStore(10, 4)
    loops = [kept(store, loop_of(seed, 20, technique="SS", execution=ExecutionConfig())) for seed in range(3)]
    table = store.table(list(zip((10.0, 10.0, 30.0), (2, 9, 5), loops, strict=True)))
    assert isinstance(table, StoredChunks)
    assert table.job.tolist() == [2] * 20 + [9] * 20 + [5] * 20
    assert table.start.min() >= 10.0
    parts = list(table.blocks(13))
    assert [len(part.job) for part in parts] == [13, 13, 13, 13, 8]
    assert np.concatenate([part.step for part in parts]).tolist() == table.step.tolist()
    assert n_rows(table) == sum(n_rows(part) for part in chunk_blocks(table)) == 60


def test_what_is_forgotten_leaves_no_rows_and_no_room() -> None:
    store = ChunkStore(10, 4)
    loop = loop_of(1, 50, technique="SS", execution=ExecutionConfig())
    first = kept(store, loop)
    used = store.end
    chunks = store.open()
    simulate(**loop, chunks=chunks)
    chunks.forget()
    assert store.end == used
    assert (chunks.rows, chunks.runs) == (0, [])
    second = kept(store, loop_of(2, 30, technique="SS", execution=ExecutionConfig()))
    table = store.table([(0.0, 0, first), (1e6, 1, second)])
    assert table.job.tolist() == [0] * 50 + [1] * 30


def test_a_disk_without_room_is_an_error_of_the_whole_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    store = ChunkStore(10, 4)
    with pytest.raises(OutputError, match=r"no room for the chunks.*No space left.*TMPDIR"):
        kept(store, loop_of(1, 50, technique="SS", execution=ExecutionConfig()))


def test_nothing_of_a_store_outlives_it() -> None:
    """Its file would otherwise stay until garbage is looked for."""
    gc.disable()
    try:
        store = ChunkStore(10, 4)
        loop = kept(store, loop_of(1, 50, technique="SS", execution=ExecutionConfig()))
        table = store.table([(0.0, 0, loop)])
        assert len(table.job) == 50
        reference = weakref.ref(store)
        del store, loop, table
        assert reference() is None
    finally:
        gc.enable()


def test_a_model_of_the_users_own_has_room_for_all_rows(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MODEL_FILE)
    execution = ExecutionConfig(model=f"{path}:in_blocks")
    loop = loop_of(3, 100, technique="SS", execution=execution)
    store = ChunkStore(10, 4)
    table = store.table([(0.0, 0, kept(store, loop))])
    rows = simulate(**loop, record=True).rows
    assert rows is not None
    assert whole(table) == {name: getattr(rows, name).tolist() for name in COLUMNS}
