"""The order in which both sides of coordination messages stand in a trace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mlsim.record import MessageKind, Messages, Records
from mlsim.record.otf2.trace_content import MessageEvents, deliver
from mlsim.record.otf2.trace_layout import lay_out
from tests.record.builders import random_records

IDLE, REQUEST, ACCEPTED = (MessageKind.NODE_IDLE, MessageKind.RELEASE_REQUEST, MessageKind.RELEASE_ACCEPTED)


def records_with(*messages: tuple[MessageKind, int, float, float]) -> Records:
    """Records of a small run with these messages: kind, node, sent, received."""
    records = random_records(8, jobs=4, exclusive=True)
    assert len(records.nodes.cores) >= 2
    kind, node, sent, received = zip(*messages, strict=True)
    n = len(messages)
    return replace(
        records,
        messages=Messages(
            np.array(kind, np.int8),
            np.zeros(n, np.int64),
            np.array(node, np.int64),
            np.array(sent),
            np.array(received),
            np.ones(n, np.int64),
            np.full(n, -1, np.int64),
            np.arange(n),  # tells the messages apart
            np.zeros(n),
        ),
    )


def delivered(records: Records) -> MessageEvents:
    return deliver(records, lay_out(records.nodes, records.jobs, records.occupancy, per_node=True))


def on_row(messages: MessageEvents, row: int) -> list[tuple[float, str, int]]:
    """Time in s, side and message of each entry of a row; 0 is the batch system, then nodes from 1."""
    row += row > 0  # the second location has the metrics
    entries = range(messages.first[row], messages.first[row + 1])
    sides = ["sent" if messages.is_sent[entry] else "received" for entry in entries]
    numbers = messages.remaining_iterations[entries.start : entries.stop].tolist()
    times = (messages.time[entries.start : entries.stop] / 1e9).tolist()
    return list(zip(times, sides, numbers, strict=True))


def test_what_was_sent_before_comes_before_at_the_same_instant() -> None:
    messages = delivered(records_with((IDLE, 1, 1.0, 10.0), (IDLE, 0, 2.0, 10.0), (REQUEST, 0, 10.0, 11.0)))
    assert on_row(messages, 0) == [(10.0, "received", 0), (10.0, "received", 1), (10.0, "sent", 2)]
    assert on_row(messages, 1) == [(2.0, "sent", 1), (11.0, "received", 2)]
    assert on_row(messages, 2) == [(1.0, "sent", 0)]


def test_of_messages_sent_together_the_first_to_arrive_comes_first() -> None:
    messages = delivered(records_with((REQUEST, 1, 1.0, 4.0), (REQUEST, 0, 1.0, 3.0)))
    assert on_row(messages, 0) == [(1.0, "sent", 1), (1.0, "sent", 0)]


def test_messages_that_take_no_time_keep_their_order() -> None:
    """A request and its answer at one instant: each side sends what it says after what it has heard."""
    messages = delivered(records_with((REQUEST, 0, 5.0, 5.0), (ACCEPTED, 0, 5.0, 5.0)))
    assert on_row(messages, 0) == [(5.0, "sent", 0), (5.0, "received", 1)]
    assert on_row(messages, 1) == [(5.0, "received", 0), (5.0, "sent", 1)]
