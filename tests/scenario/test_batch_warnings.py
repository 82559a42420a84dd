"""Keys of the dispatcher that nothing reads, and choices that do not go together."""

from __future__ import annotations

import pytest

from mlsim.errors import InputError
from mlsim.scenario import from_mapping
from mlsim.scenario.scenario_keys import warnings_of


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
        ({"backfill": "greedy", "easy": "cqsim"}, "batch.easy"),
        ({"backfill": "easy", "compression": "one-round"}, "batch.compression"),
    ],
)
def test_unread_keys_are_named(batch, key):
    (line,) = warnings_of(scenario(batch))
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
    assert warnings_of(scenario(batch)) == []


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


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({"easy": "accasim", "policy": "SAF"}, "accasim serves first come first, and policy is SAF"),
        ({"easy": "batsched", "backfill_order": "SPF"}, "first come first, and backfill_order is SPF"),
        ({"easy": "cqsim", "reservations": 2}, "cqsim has one reservation"),
        ({"easy": "accasim", "reservations": 3}, "accasim has one reservation"),
    ],
)
def test_the_easy_of_others_does_what_it_does_there(batch, words):
    with pytest.raises(InputError, match=rf"batch\.easy: .*{words}"):
        scenario(batch | {"backfill": "easy"})


LOOP = {"model": "loop", "technique": "GSS"}


def test_cqsim_looks_at_run_times_that_a_loop_does_not_have():
    with pytest.raises(InputError, match=r"batch\.easy: cqsim judges jobs by their actual run times"):
        scenario({"backfill": "easy", "easy": "cqsim"}, application=LOOP)


@pytest.mark.parametrize("easy", ["accasim", "batsched"])
def test_short_first_knows_the_standard_reservation_only(easy):
    coordination = {"rca": True, "released_nodes": "short-first"}
    with pytest.raises(InputError, match=rf"coordination\.released_nodes: .* not that of {easy}"):
        scenario({"backfill": "easy", "easy": easy}, application=LOOP, coordination=coordination)


@pytest.mark.parametrize("batch", [{"easy": "cqsim"}, {"compression": "one-round"}])
def test_other_dispatchers_do_not_read_rules_of_backfilling(batch):
    with pytest.raises(InputError, match=r"read by dispatcher queue only"):
        scenario(batch | {"dispatcher": "prb"})


@pytest.mark.parametrize("batch", [{"backfill": "conservative"}, {"backfill": "easy", "reservations": 2}])
def test_short_first_knows_one_reservation(batch):
    with pytest.raises(InputError, match=r"coordination\.released_nodes: short-first respects one"):
        scenario(
            batch,
            application={"model": "loop", "technique": "GSS"},
            coordination={"rca": True, "released_nodes": "short-first"},
        )
