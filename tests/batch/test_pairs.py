"""Pairs of features against the slow reference, a few workloads of each; ``tools/pairs.py`` takes more."""

from __future__ import annotations

import pytest

from tests.batch.pairs import PAIRS, REFUSED, difference, drawn
from tests.effort import examples


@pytest.mark.slow
@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair not in REFUSED], ids=" x ".join)
def test_two_features_together_do_what_the_reference_does(pair):
    for seed in range(examples(6)):
        case = drawn(pair, seed)
        assert not difference(case), (seed, case)


@pytest.mark.parametrize("pair", PAIRS, ids=" x ".join)
def test_the_features_of_a_pair_are_in_what_is_drawn(pair):
    """Else the test above would compare nothing."""
    cases = [drawn(pair, seed) for seed in range(20)]
    for feature in pair:
        assert any(
            {
                "backfilling": case.batch["backfill"] != "none",
                "ties": case.batch.get("ties", "drained") != "drained",
                "threshold": "threshold" in case.batch,
                "drains": any(kind != "failed" for kind, *_ in case.outages),
                "caps": bool(case.caps),
                "shared": bool(case.shared),
                "dependencies": bool(case.after),
                "failures": any(kind == "failed" for kind, *_ in case.outages),
                "classes": bool(case.small),
                "engine": True,
                "room": case.matrix,
                "sets": any(nodes is not None for nodes in case.sets),
            }[feature]
            for case in cases
        )


@pytest.mark.parametrize(
    ("pair", "seed"),
    [(("caps", "dependencies"), 700_067), (("dependencies", "room"), 700_203)],
    ids=["cap", "nodes"],
)
def test_jobs_hear_in_order_of_time_of_others_that_never_fit(pair, seed):
    """Rejections of a block come by reason: a later one must not keep an earlier one from being heard."""
    assert not difference(drawn(pair, seed))
