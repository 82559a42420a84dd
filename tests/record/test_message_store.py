"""Messages kept in blocks and files come back as one sorted table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.errors import OutputError
from mlsim.record import MessageKind, MessageStore, message_store
from mlsim.record.column_types import stored_columns
from mlsim.record.record_tables import Messages

sends = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 7.25]), min_size=1, max_size=9),
        st.sampled_from([0.0, 0.25]),
    ),
    max_size=40,
)


def rows_of(table: Messages) -> list[tuple]:
    names = ("sent", "received", "job", "kind", "node", "nodes", "for_job", "remaining_iterations")
    columns = [getattr(table, name).tolist() for name in (*names, "remaining_work")]
    return list(zip(*columns, strict=True))


@settings(deadline=None)
@given(sends, st.sampled_from([1, 7, 1000]), st.sampled_from([1, 4, 64]), st.sampled_from([1, 16]))
def test_the_table_is_sorted_whatever_is_kept_where(batches, held, block, part):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_store, "_BLOCK_ROWS", part)  # of the parts that are sorted by themselves
        patch.setattr(message_store, "_SAMPLED", 2)
        store, expected = MessageStore(held, block), []
        for job, times, latency in batches:
            sent = np.array(times)
            node, left, work = np.arange(len(times))[::-1], np.full(len(times), 3), sent / 2
            store.add(job, sent, sent + latency, MessageKind.NODE_IDLE, node, 1, -1, left, work)
            columns = zip(times, node.tolist(), work.tolist(), strict=True)
            expected += [(t, t + latency, job, 0, n, 1, -1, 3, w) for t, n, w in columns]
            store.add(job, times[-1], times[-1] + latency, MessageKind.RELEASE_REQUEST, -1, 2, 5)
            expected.append((times[-1], times[-1] + latency, job, 2, -1, 2, 5, 0, 0.0))
        assert len(store) == len(expected)
        found = rows_of(store.table())
    key = [(row[0], *row[2:]) for row in found]
    assert key == sorted(key)
    assert sorted(found) == sorted(expected)


def test_columns_have_their_types_and_files_are_gone():
    store = MessageStore(held_rows=2, block_rows=2)
    for time in range(9):
        store.add(time, float(-time), 0.0, MessageKind.JOB_COMPLETED, nodes=0)
    table = store.table()
    assert table.job.tolist() == list(range(8, -1, -1))
    for column in stored_columns(Messages):
        assert getattr(table, column.field).dtype == column.dtype
    assert store._file is None


def test_no_room_is_said(monkeypatch):
    def refuse(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(message_store.tempfile, "TemporaryFile", refuse)
    store = MessageStore(held_rows=1, block_rows=1)
    store.add(0, 0.0, 0.0, MessageKind.JOB_COMPLETED)
    store.add(0, 1.0, 1.0, MessageKind.JOB_COMPLETED)
    with pytest.raises(OutputError, match=r"no room for coordination messages .*No space.*TMPDIR"):
        store.add(0, 2.0, 2.0, MessageKind.JOB_COMPLETED)
