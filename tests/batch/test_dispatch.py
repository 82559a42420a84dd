"""Order and backfilling in all their variants: against the slow twin, promises, and worked cases."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim._jit import kernel
from mlsim.batch.columns.job_columns import RESERVATIONS
from mlsim.batch.order.policies import CODES, Accounts, is_starved, parameters_of, policy_key, usage_at
from mlsim.record import JobState
from mlsim.scenario import BatchConfig
from tests.batch.builders import RigidApplications, block, simulate, system
from tests.batch.test_simulator import UNITS, assert_same, check_conservation, columns, job_lists, quarters
from tests.effort import examples
from tests.reference.batch import Job, ReferenceBatchSystem

KEYS = {
    "FCFS": lambda job, now: job.submit,
    "LCFS": lambda job, now: -job.submit,
    "SPF": lambda job, now: job.estimate,
    "SQF": lambda job, now: job.units,
    "LQF": lambda job, now: -job.units,
    "SAF": lambda job, now: job.estimate * job.units,
    "SRF": lambda job, now: job.estimate / job.units,
    "LEXP": lambda job, now: -((now - job.submit + max(job.estimate, 1.0)) / max(job.estimate, 1.0)),
    "WFP": lambda job, now: -(((now - job.submit) / max(job.estimate, 1.0)) ** 3) * job.units,
    # Weights that are exact in binary, so that the sum is exact and ties are ties in both.
    "linear": lambda job, now: 0.25 * job.units - 0.5 * (now - job.submit) + 0.25 * job.estimate * job.units,
}
WEIGHTS = {"q": 1, "wait": 2, "area": 1}
policies = st.sampled_from(sorted(KEYS))

dispatchers = st.fixed_dictionaries(
    {
        "policy": policies,
        "backfill": st.sampled_from(["none", "greedy", "easy", "conservative"]),
        "backfill_order": st.none() | policies,
        "reservations": st.sampled_from([1, 2, 3, 50]),
        "threshold": st.none() | st.sampled_from([1.0, 4.0, 12.5]),
        "compression": st.sampled_from(["fixpoint", "one-round", "every-end"]),
        "ties": st.sampled_from(["drained", "per-event", "ends-first"]),
        "on_overrun": st.sampled_from(["kill", "extend"]),
    }
)
easy_of_others = st.fixed_dictionaries(
    {
        "backfill": st.just("easy"),
        "easy": st.sampled_from(["accasim", "batsched"]),
        "threshold": st.none() | st.just(4.0),
        "ties": st.sampled_from(["drained", "per-event", "ends-first"]),
        "on_overrun": st.sampled_from(["kill", "extend"]),
    }
) | st.fixed_dictionaries(
    {
        "policy": policies,
        "backfill": st.just("easy"),
        "backfill_order": st.none() | policies,
        "easy": st.just("cqsim"),
        "ties": st.sampled_from(["drained", "per-event", "ends-first"]),
        "on_overrun": st.sampled_from(["kill", "extend"]),
    }
)


def twins_of(jobs):
    rows = block(*columns(jobs))
    return [
        Job(int(i), float(r), float(p), float(e), int(q))
        for i, r, p, e, q in zip(
            rows.job_id, rows.submit_time, rows.run_time, rows.estimate, rows.processors, strict=True
        )
    ]


def run_reference(jobs, options, twins=None, key=None, shared=()):
    twins = twins_of(jobs) if twins is None else twins
    key = KEYS[options.get("policy", "FCFS")] if key is None else key
    order = options.get("backfill_order")
    ReferenceBatchSystem(
        UNITS,
        options["backfill"],
        key,
        options.get("on_overrun") == "kill",
        walk_key=None if order is None else KEYS[order],
        threshold=options.get("threshold") or math.inf,
        reservations=options.get("reservations", 1),
        per_event=options.get("ties", "drained") != "drained",
        ends_first=options.get("ties") == "ends-first",
        easy=options.get("easy", "standard"),
        one_round=options.get("compression") == "one-round",
        every_end=options.get("compression") == "every-end",
        pass_interval=options.get("pass_interval", 0.0),
        backfill_interval=options.get("backfill_interval", 0.0),
        shared=shared,
    ).run(twins)
    return twins


def run(jobs, **options):
    return simulate(block(*columns(jobs)), UNITS, weights=WEIGHTS, **options)


@pytest.mark.slow
@settings(deadline=None, max_examples=600)
@given(job_lists, dispatchers)
def test_every_dispatcher_agrees_with_the_reference(jobs, options):
    _, rows, occupancy = run(jobs, **options)
    assert_same(run_reference(jobs, options), rows)
    check_conservation(rows, occupancy, UNITS, 1)
    # Every job that fits the machine ends, and in one state.
    assert np.isin(rows.state, [JobState.COMPLETED, JobState.KILLED]).all()


@settings(deadline=None, max_examples=examples(150))
@given(job_lists, easy_of_others)
def test_the_easy_of_other_simulators_agrees_with_the_reference(jobs, options):
    _, rows, occupancy = run(jobs, **options)
    assert_same(run_reference(jobs, options), rows)
    check_conservation(rows, occupancy, UNITS, 1)


@settings(deadline=None, max_examples=examples(150))
@given(
    job_lists,
    dispatchers | easy_of_others,
    st.sampled_from([0.25, 1.5, 4.0]),
    st.sampled_from(["pass_interval", "backfill_interval"]),
)
def test_rare_passes_agree_with_the_reference(jobs, options, interval, which):
    if which == "backfill_interval" and options["backfill"] not in ("greedy", "easy"):
        which = "pass_interval"
    options = {**options, which: interval}
    _, rows, occupancy = run(jobs, **options)
    assert_same(run_reference(jobs, options), rows)
    check_conservation(rows, occupancy, UNITS, 1)


@settings(deadline=None, max_examples=examples(100))
@given(job_lists, dispatchers | easy_of_others, st.data())
def test_nodes_given_back_early_agree_with_the_reference(jobs, options, data):
    """Under every rule of backfilling: what is back is free, and no reservation expects it a second time."""
    options = {**options, "ties": "drained"}
    twins = twins_of(jobs)
    for twin in twins:
        offsets = data.draw(st.lists(quarters, max_size=twin.units - 1))
        twin.releases = sorted(offset for offset in offsets if offset <= twin.run)
    releases = {n: list(twin.releases) for n, twin in enumerate(twins) if twin.releases}
    batch, rows, _ = run(jobs, releases=releases, **options)
    assert_same(run_reference(jobs, options, twins), rows)
    check_conservation(rows, batch.occupancy_rows(), UNITS, 1)


@settings(deadline=None, max_examples=200)
@given(job_lists, policies, st.none() | policies, st.booleans())
def test_one_reservation_on_the_profile_is_easy(jobs, policy, order, kill):
    """The kernel of several reservations, held to one, starts and flags the same jobs as EASY's own."""
    options = {"policy": policy, "backfill_order": order, "on_overrun": "kill" if kill else "extend"}
    _, easy, _ = run(jobs, backfill="easy", **options)
    batch = system(UNITS, backfill="easy", weights=WEIGHTS, **options)
    batch.state.columns.rules[RESERVATIONS] = 0  # none beyond the head's, and not by the short way
    batch.run([block(*columns(jobs))], RigidApplications(batch))
    profile = batch.jobs()
    np.testing.assert_array_equal(profile.start_time, easy.start_time)
    np.testing.assert_array_equal(profile.backfilled, easy.backfilled)


@settings(deadline=None, max_examples=150)
@given(job_lists, st.sampled_from([1.0, 4.0, 12.5]), st.sampled_from(["none", "greedy", "easy"]))
def test_fcfs_does_not_care_about_the_threshold(jobs, threshold, backfill):
    _, without, _ = run(jobs, policy="FCFS", backfill=backfill)
    _, with_it, _ = run(jobs, policy="FCFS", backfill=backfill, threshold=threshold)
    np.testing.assert_array_equal(without.start_time, with_it.start_time)
    np.testing.assert_array_equal(without.backfilled, with_it.backfilled)


@settings(deadline=None, max_examples=150)
@given(job_lists, st.sampled_from(["greedy", "easy"]))
def test_sqf_never_backfills(jobs, backfill):
    """Zrigui 2021, Proposition 1; greedy skips nothing then either."""
    _, rows, _ = run(jobs, policy="SQF", backfill=backfill)
    assert not rows.backfilled.any()
    _, none, _ = run(jobs, policy="SQF", backfill="none")
    np.testing.assert_array_equal(rows.start_time, none.start_time)


@settings(deadline=None, max_examples=200)
@given(job_lists, policies, st.booleans())
def test_conservative_keeps_its_promises(jobs, policy, early):
    """No job starts after the reservation that it had when it was submitted, though jobs may end early."""
    jobs = [(r, max(min(p, e), 0.25) if early else e, e, q) for r, p, e, q in jobs]
    _, rows, _ = run(jobs, policy=policy, backfill="conservative")
    twins = run_reference(jobs, {"policy": policy, "backfill": "conservative"})
    promises = np.array([twin.first_promise for twin in twins])
    assert (rows.start_time <= promises).all()
    if not early:
        # Nothing ends early, so nothing is ever moved.
        np.testing.assert_array_equal(rows.start_time, promises)


@settings(deadline=None, max_examples=100)
@given(job_lists, st.sampled_from(["FCFS", "SAF"]), st.sampled_from(["none", "easy"]))
def test_equal_jobs_start_in_order_of_arrival(jobs, policy, backfill):
    equal = [(r, 3.0, 4.0, 3) for r, _, _, _ in jobs]
    _, rows, _ = run(equal, policy=policy, backfill=backfill)
    assert (np.diff(rows.start_time) >= 0).all()
    assert not rows.backfilled.any()


PURE = {"q": "SQF", "p": "SPF", "wait": "FCFS", "ratio": "SRF", "exp": "LEXP", "area": "SAF"}


@pytest.mark.parametrize(("weight", "policy"), PURE.items())
@settings(deadline=None, max_examples=40)
@given(jobs=job_lists, backfill=st.sampled_from(["none", "easy"]))
def test_a_pure_policy_is_a_vertex_of_linear(weight, policy, jobs, backfill):
    rows = block(*columns(jobs))
    _, pure, _ = simulate(rows, UNITS, policy=policy, backfill=backfill)
    # The longest wait is the earliest submission; any size of the one weight is the same.
    _, vertex, _ = simulate(rows, UNITS, policy="linear", weights={weight: 3.0}, backfill=backfill)
    np.testing.assert_array_equal(pure.start_time, vertex.start_time)
    np.testing.assert_array_equal(pure.backfilled, vertex.backfilled)


def test_a_negative_weight_prefers_the_opposite():
    jobs = block([0, 1, 1], [9, 5, 5], [9, 2, 3], [8, 8, 8])
    _, short, _ = simulate(jobs, UNITS, policy="linear", weights={"p": 1})
    _, long, _ = simulate(jobs, UNITS, policy="linear", weights={"p": -1})
    assert short.start_time.tolist() == [0, 9, 11]
    assert long.start_time.tolist() == [0, 12, 9]


def test_the_walk_of_backfilling_has_an_order_of_its_own():
    # 4 of 8 units are free until 10; the head needs 8. Two jobs of 4 units fit one after the other only.
    jobs = block([0, 1, 2, 2], [10, 5, 8, 4], [10, 5, 8, 4], [4, 8, 4, 4])
    _, same, _ = simulate(jobs, UNITS, backfill="easy")
    _, shortest, _ = simulate(jobs, UNITS, backfill="easy", backfill_order="SPF")
    _, longest, _ = simulate(jobs, UNITS, backfill="easy", backfill_order="LPF")
    # The first of the two ends when the head is to start: that is soon enough.
    assert same.start_time.tolist() == longest.start_time.tolist() == [0, 10, 2, 15]
    assert shortest.start_time.tolist() == [0, 10, 15, 2]


@pytest.mark.parametrize("order", [None, "SPF"])
def test_what_the_reservation_leaves_over_is_used_once(order):
    # At 10 the head takes 7 of 8 units: one of the two long jobs may still hold the last one.
    jobs = block([0, 1, 2, 3], [10, 5, 30, 30], [10, 5, 30, 30], [6, 7, 1, 1])
    _, rows, _ = simulate(jobs, UNITS, backfill="easy", backfill_order=order)
    assert rows.start_time.tolist() == [0, 10, 2, 15]
    # The same where both are there when the pass begins.
    jobs = block([0, 1, 2, 2], [10, 5, 30, 30], [10, 5, 30, 30], [6, 7, 1, 1])
    _, rows, _ = simulate(jobs, UNITS, backfill="easy", backfill_order=order)
    assert rows.start_time.tolist() == [0, 10, 2, 15]


def test_the_second_reservation_protects_the_second_job():
    # Free: 2 until 10. Jobs 1 and 2 need 8 and 6: EASY lets job 3 (2 units, 30 s) go, which delays neither
    # head, but job 2 with a second reservation at 15 as well.
    jobs = block([0, 1, 2, 3], [10, 5, 5, 30], [10, 5, 5, 30], [6, 6, 8, 2])
    _, easy, _ = simulate(jobs, UNITS, backfill="easy")
    _, two, _ = simulate(jobs, UNITS, backfill="easy", reservations=2)
    assert easy.start_time.tolist() == [0, 10, 33, 3]
    assert two.start_time.tolist() == [0, 10, 15, 20]


def test_no_more_jobs_are_protected_than_there_are_reservations():
    # Job 4 needs 2 units for 30 s, which jobs 1 and 2 leave over, one after the other; job 3 needs all.
    jobs = block([0, 1, 2, 3, 4], [10, 5, 5, 5, 30], [10, 5, 5, 5, 30], [6, 6, 6, 8, 2])
    _, two, _ = simulate(jobs, UNITS, backfill="easy", reservations=2)
    _, three, _ = simulate(jobs, UNITS, backfill="easy", reservations=3)
    assert two.start_time.tolist() == [0, 10, 15, 34, 4]
    assert three.start_time.tolist() == [0, 10, 15, 20, 25]


@pytest.mark.parametrize("rule", [{"backfill": "conservative"}, {"backfill": "easy", "reservations": 3}])
def test_jobs_of_hardly_any_length_do_not_share_units(rule):
    # 1e-9 s is less than the next number after 1e9 s is away. The first job holds half of the machine.
    jobs = block([1e9] * 5, [9, 9, 9, 9, 1], [9, 1e-9, 1e-9, 1e-9, 1e-9], [4, 8, 3, 3, 3])
    _, rows, occupancy = simulate(jobs, UNITS, **rule, on_overrun="extend")
    check_conservation(rows, occupancy, UNITS, 1)


def test_greedy_lets_a_wide_job_wait():
    jobs = block([0, 1, 2], [10, 5, 30], [10, 5, 30], [6, 8, 2])
    _, greedy, _ = simulate(jobs, UNITS, backfill="greedy")
    assert greedy.start_time.tolist() == [0, 32, 2]
    assert greedy.backfilled.tolist() == [False, False, True]


def test_between_the_times_of_backfilling_only_the_head_may_start():
    # Job 1 waits for the whole machine. Job 2 fits at 3 and is backfilled at the next multiple of 4; job 1
    # starts when job 0 ends, at 10, which is none.
    jobs = block([0, 1, 3, 9.5], [10, 5, 3, 0.5], [10, 5, 3, 0.5], [6, 8, 2, 1])
    _, rare, _ = simulate(jobs, UNITS, backfill="easy", backfill_interval=4.0)
    assert rare.start_time.tolist() == [0, 10, 4, 15]
    assert rare.backfilled.tolist() == [False, False, True, False]


def test_a_job_past_the_threshold_goes_first():
    # Under SPF the long job would start last; after 6 s it is first.
    jobs = block([0, 0, 1, 2], [10, 9, 1, 1], [10, 9, 1, 1], [8, 8, 8, 8])
    _, without, _ = simulate(jobs, UNITS, policy="LPF")
    assert without.start_time.tolist() == [0, 10, 19, 20]
    jobs = block([0, 0, 1, 2, 8], [5, 9, 4, 1, 1], [5, 9, 4, 1, 1], [8, 8, 8, 8, 8])
    _, spf, _ = simulate(jobs, UNITS, policy="SPF")
    _, first, _ = simulate(jobs, UNITS, policy="SPF", threshold=5.5)
    assert spf.start_time.tolist() == [0, 11, 6, 5, 10]
    assert first.start_time.tolist() == [0, 6, 15, 5, 19]


def test_conservative_moves_reservations_forward_when_a_job_ends_early():
    # Promised: job 1 at 10, job 2 (2 units for 30 s) behind it. Job 0 ends at 4 already.
    jobs = block([0, 1, 2], [4, 5, 30], [10, 5, 30], [6, 8, 2])
    _, rows, _ = simulate(jobs, UNITS, backfill="conservative")
    assert rows.start_time.tolist() == [0, 4, 9]


@pytest.mark.parametrize("rule", [{"backfill": "conservative"}, {"backfill": "easy", "reservations": 2}])
def test_a_job_may_fill_a_gap_to_its_end(rule):
    # Half of the machine is free until 10, when job 1 has all of it; job 2 asks for just that.
    jobs = block([0, 1, 2], [10, 5, 8], [10, 5, 8], [4, 8, 4])
    _, rows, _ = simulate(jobs, UNITS, **rule)
    assert rows.start_time.tolist() == [0, 10, 2]


def test_compression_goes_on_until_nothing_moves():
    # Job 2 is promised 20, job 3 the gap before it. Job 0 ends at 4: job 3 moves there, and only then job 2.
    jobs = block([0, 0, 1, 2], [4, 10, 5, 10], [20, 10, 5, 10], [4, 4, 8, 4])
    _, rows, _ = simulate(jobs, UNITS, backfill="conservative")
    assert rows.start_time.tolist() == [0, 0, 14, 4]


def owned(jobs, users):
    return replace(jobs, user=np.asarray(users, np.int64), group=np.asarray(users, np.int64) // 10)


def test_fairshare_serves_first_who_has_used_least():
    # User 1 has used 80 processor-seconds when users 1 and 2 have a job each; user 2 arrives later.
    jobs = owned(block([0, 1, 2], [10, 5, 5], [10, 5, 5], [8, 8, 8]), [1, 1, 2])
    _, rows, _ = simulate(jobs, UNITS, policy="fairshare")
    assert rows.start_time.tolist() == [0, 15, 10]


def test_fairshare_forgets_by_half_lives():
    # At 13 each has a job waiting: user 11 used 80 processor-seconds by 10, user 12 24 from 10 to 13.
    jobs = owned(block([0, 10, 11, 12], [10, 3, 5, 5], [10, 3, 5, 5], [8, 8, 8, 8]), [11, 12, 12, 11])
    long, short = (
        simulate(jobs, UNITS, policy="fairshare", fairshare={"half_life": h})[1] for h in (1e6, 1.0)
    )
    # 80 against 24: user 12 first. With a half-life of 1 s, 1.4 against 10.1: user 11 first.
    assert long.start_time.tolist() == [0, 10, 13, 18]
    assert short.start_time.tolist() == [0, 10, 18, 13]


def test_usage_halves_in_a_half_life():
    # 80 processor-seconds by 5 s, and from then on nothing, or 4 processors: ∫ 4·2^(-t/10) from 0 to 10.
    config = BatchConfig.model_validate({"fairshare": {"half_life": 10.0}}).fairshare
    for processors, grown in ((0, 0.0), (4, 4.0 * (10.0 / math.log(2.0)) * 0.5)):
        accounts = Accounts(config)
        accounts.shares[:3, 0] = 80.0, processors, 5.0
        assert usage_at(0, 15.0, 10.0, accounts.shares) == pytest.approx(40.0 + grown)


@given(st.lists(st.tuples(st.floats(0.0, 30.0), st.integers(0, 2), st.integers(0, 3)), max_size=30))
def test_usage_is_the_integral_however_often_it_is_asked_for(steps):
    # (seconds since the step before, account, processors that a job starts to use; 0: it is only asked for).
    config = BatchConfig.model_validate({"fairshare": {"half_life": 10.0}}).fairshare
    accounts, now, begun = Accounts(config), 0.0, []
    for gap, account, processors in steps:
        now += gap
        if processors:
            accounts.change(account, processors, now)
            begun.append((account, processors, now))
        for other in (account, 0, account):
            # A job of q processors since t: ∫ q·2^(-(now - s)/10) ds over [t, now].
            used = sum(
                q * (10.0 / math.log(2.0)) * (1.0 - 2.0 ** (-(now - t) / 10.0))
                for a, q, t in begun
                if a == other
            )
            assert usage_at(other, now, 10.0, accounts.shares) == pytest.approx(used, abs=1e-9)


def test_fairshare_by_group():
    jobs = owned(block([0, 1, 2], [10, 5, 5], [10, 5, 5], [8, 8, 8]), [11, 21, 12])
    _, by_user, _ = simulate(jobs, UNITS, policy="fairshare")
    _, by_group, _ = simulate(jobs, UNITS, policy="fairshare", fairshare={"by": "group"})
    assert by_user.start_time.tolist() == [0, 10, 15]
    assert by_group.start_time.tolist() == [0, 10, 15]
    jobs = owned(block([0, 1, 2], [10, 5, 5], [10, 5, 5], [8, 8, 8]), [11, 12, 21])
    _, by_user, _ = simulate(jobs, UNITS, policy="fairshare")
    _, by_group, _ = simulate(jobs, UNITS, policy="fairshare", fairshare={"by": "group"})
    assert by_user.start_time.tolist() == [0, 10, 15]
    assert by_group.start_time.tolist() == [0, 15, 10]


@kernel
def policy_keys(policy, now, submit, estimate, processors, used, parameters):
    """Return the keys of many jobs, minus infinity for those past the threshold."""
    keys = np.empty(len(submit))
    for k in range(len(keys)):
        if is_starved(policy, False, now, submit[k], parameters):
            keys[k] = -np.inf
        else:
            keys[k] = policy_key(
                policy, now, submit[k], estimate[k], float(processors[k]), used[k], parameters
            )
    return keys


@pytest.mark.parametrize("policy", ["FCFS", "SAF", "WFP", "linear"])
def test_queue_order_is_that_of_the_queue(policy):
    config = BatchConfig.model_validate({"policy": policy, "weights": WEIGHTS, "threshold": 50})
    rng = np.random.default_rng(3)
    submit = np.sort(rng.integers(0, 100, 40)).astype(float)
    estimate, processors = rng.integers(1, 9, 40).astype(float), rng.integers(1, 5, 40)
    code = CODES[config.ordering.value]
    keys = policy_keys(code, 100.0, submit, estimate, processors, np.zeros(40), parameters_of(config))
    order = np.argsort(keys, kind="stable")
    twins = [
        Job(k, r, p, p, q)
        for k, (r, p, q) in enumerate(
            zip(submit.tolist(), estimate.tolist(), processors.tolist(), strict=True)
        )
    ]
    reference = ReferenceBatchSystem(UNITS, "none", KEYS[policy], threshold=50)
    assert order.tolist() == [job.id for job in reference._in_order(twins, KEYS[policy], 100.0)]


# Of a job of 8 processors and an estimate of 100 s that has waited for 300 s since it came at 1000 s.
BY_HAND = {
    "FCFS": 1000.0,
    "LCFS": -1000.0,
    "SPF": 100.0,
    "LPF": -100.0,
    "SQF": 8.0,
    "LQF": -8.0,
    "SAF": 800.0,
    "LAF": -800.0,
    "SRF": 12.5,
    "LRF": -12.5,
    "EDF": 1000.0 + 2.0 * 100.0,
    "F1": 2.0 * 8 + 870.0 * 3.0,
    "F2": 10.0 * 8 + 25600.0 * 3.0,
    "F3": 800.0 + 6.86e6 * 3.0,
    "F4": 100.0 * math.sqrt(8.0) + 5.3e5 * 3.0,
    "SEXP": 4.0,
    "LEXP": -4.0,
    "WFP": -27.0 * 8,
    "UNICEF": -300.0 / (3.0 * 100.0),
    "fairshare": 7.0,
    "linear q": 8.0,
    "linear p": 100.0,
    "linear wait": -300.0,
    "linear ratio": 12.5,
    "linear exp": -4.0,
    "linear area": 800.0,
}


@pytest.mark.parametrize(("policy", "expected"), BY_HAND.items())
def test_keys_by_hand(policy, expected):
    name, *weights = policy.split()
    given_weights = {"weights": dict.fromkeys(weights, 2.0)} if weights else {}
    config = BatchConfig.model_validate({"policy": name, "deadline_factor": 2.0, **given_weights})
    columns_of_job = (np.array([1000.0]), np.array([100.0]), np.array([8]), np.array([7.0]))
    keys = policy_keys(CODES[name], 1300.0, *columns_of_job, parameters_of(config))
    assert keys.tolist() == pytest.approx([expected], rel=1e-15)


def test_every_policy_has_a_key_by_hand():
    assert {name.split()[0] for name in BY_HAND} == set(CODES)


@pytest.mark.parametrize("weights", [None, {}, {"p": 0.0}])
def test_linear_needs_a_weight(weights):
    with pytest.raises(ValueError, match=r"policy linear needs at least one weight"):
        BatchConfig.model_validate({"policy": "linear", "weights": weights})
    BatchConfig.model_validate({"policy": "SAF", "weights": weights})


def test_fairshare_has_more_than_64_accounts():
    accounts = Accounts(BatchConfig().fairshare)
    jobs = block([0.0] * 60, [1.0] * 60, [1.0] * 60, [1] * 60)
    few = accounts.of(replace(jobs, user=np.arange(60)))
    for k in few.tolist():
        accounts.change(k, k + 1, 0.0)
        accounts.change(k, -k - 1, 100.0)
    many = accounts.of(replace(jobs, user=np.arange(40, 100)))
    assert many.tolist() == list(range(40, 100))
    used = [usage_at(k, 100.0, 604800.0, accounts.shares) for k in range(100)]
    assert used[:60] == pytest.approx([100.0 * (k + 1) for k in range(60)], rel=1e-3)
    assert used[60:] == [0.0] * 40
    accounts.change(99, 7, 100.0)
    assert usage_at(99, 200.0, 604800.0, accounts.shares) == pytest.approx(700.0, rel=1e-3)
    assert usage_at(98, 200.0, 604800.0, accounts.shares) == 0.0
