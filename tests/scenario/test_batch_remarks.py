"""Keys of the dispatcher that nothing reads, and choices that do not go together."""

from __future__ import annotations

import pytest

from mlsim.errors import InputError
from mlsim.scenario import from_mapping, remarks


def scenario(batch, **sections):
    return from_mapping(
        {
            "platform": {"nodes": [{"name": "n", "count": 1, "cores": 1}]},
            "workload": {"path": "log.swf"},
            "batch": batch,
            **sections,
        }
    )


@pytest.mark.parametrize(
    ("batch", "key"),
    [
        ({"weights": {"q": 1}}, "batch.weights"),
        ({"fairshare": {"by": "group"}}, "batch.fairshare"),
        ({"backfill_order": "SAF"}, "batch.backfill_order"),
        ({"backfill": "conservative", "backfill_order": "SAF"}, "batch.backfill_order"),
        ({"backfill": "greedy", "reservations": 2}, "batch.reservations"),
    ],
)
def test_unread_keys_are_named(batch, key):
    (line,) = remarks(scenario(batch))
    assert line.startswith(f"{key} has no effect")


def test_read_keys_are_not():
    batch = {
        "policy": "fairshare",
        "fairshare": {"half_life": "1 d"},
        "backfill": "easy",
        "backfill_order": "linear",
        "weights": {"q": 1},
        "reservations": 2,
        "threshold": "20 h",
    }
    assert remarks(scenario(batch)) == []


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({}, "needs dispatcher queue with backfill greedy or easy, and backfill is none"),
        ({"backfill": "conservative"}, "backfill is conservative"),
        ({"dispatcher": "cp"}, "needs dispatcher queue"),
        ({"backfill": "easy", "pass_interval": 10}, "take pass_interval out, or this"),
    ],
)
def test_backfilling_at_intervals_needs_backfilling(batch, words):
    with pytest.raises(InputError, match=rf"batch\.backfill_interval: .*{words}"):
        scenario(batch | {"backfill_interval": "30 s"})


@pytest.mark.parametrize("batch", [{"backfill": "conservative"}, {"backfill": "easy", "reservations": 2}])
def test_short_first_knows_one_reservation(batch):
    with pytest.raises(InputError, match=r"coordination\.released_nodes: short-first respects one"):
        scenario(
            batch,
            application={"model": "loop", "technique": "GSS"},
            coordination={"rca": True, "released_nodes": "short-first"},
        )
