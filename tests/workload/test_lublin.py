"""Jobs of the model of Lublin and Feitelson, against one that makes them one after the other."""

from __future__ import annotations

import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

import mlsim
from mlsim._runtime.arrays import Floats
from mlsim.errors import InputError
from mlsim.scenario.words import JobKinds as Kinds
from mlsim.workload.log_fields import DAY
from mlsim.workload.models.lublin_model import (
    PARAMETERS,
    JobKind,
    Lublin,
    Parameters,
    _merged,
    arrival_weights,
)
from mlsim.workload.models.model_base import Drawing, check_length, cut
from mlsim.workload.swf_log import read_swf, write_swf, write_swf_blocks
from mlsim.workload.workload_jobs import JobBlock, log_of
from tests.reference.lublin import Job, jobs, slot_weights

N = 20_000


def lublin(**options: Any) -> Lublin:
    return Lublin(Drawing(**options))


def made(model: Lublin, count: int = N) -> JobBlock:
    return JobBlock.concatenate(list(cut(model.stream(), count, None)))


def distance(one: ArrayLike, other: ArrayLike) -> float:
    """Return the Kolmogorov distance of two samples as a test has it: by chance above 1.95 in 0.1 %."""
    a, b = np.sort(np.asarray(one, float)), np.sort(np.asarray(other, float))
    values = np.concatenate([a, b])
    below = [np.searchsorted(each, values, "right") / each.size for each in (a, b)]
    return float(np.abs(below[0] - below[1]).max() * np.sqrt(a.size * b.size / (a.size + b.size)))


@pytest.fixture(scope="module")
def ours() -> JobBlock:
    return made(lublin(seed=1))


@pytest.fixture(scope="module")
def reference() -> list[Job]:
    return jobs({kind: PARAMETERS[kind] for kind in (JobKind.INTERACTIVE, JobKind.BATCH)}, N, 1)


@pytest.mark.parametrize(("code", "kind"), [(0, "interactive"), (1, "batch")])
def test_distributions_of_both_kinds(ours: JobBlock, reference: list[Job], code: int, kind: str):
    mine = ours.select(np.flatnonzero(ours.queue == code))
    theirs = [job for job in reference if job.kind == kind]
    assert distance(mine.processors, [job.size for job in theirs]) < 1.95
    assert distance(mine.run_time, [job.run_time for job in theirs]) < 1.95
    for low, high in ((1, 1), (2, 8), (9, 128)):  # run times depend on the size
        some = mine.run_time[(mine.processors >= low) & (mine.processors <= high)]
        assert distance(some, [job.run_time for job in theirs if low <= job.size <= high]) < 1.95
    submit = np.floor([job.submit for job in theirs])
    assert distance(np.diff(mine.submit_time), np.diff(submit)) < 1.95
    of = PARAMETERS[JobKind(kind)]
    whole_day = [intervals(of, times, 0, 24) for times in (mine.submit_time, submit)]
    spread = np.sqrt(sum(each.var() / each.size for each in whole_day))
    assert abs(whole_day[0].mean() - whole_day[1].mean()) < 3.3 * spread
    for low, high in ((0, 8), (8, 12), (12, 18), (18, 24)):  # on the model's clock no hour differs
        some = intervals(of, mine.submit_time, low, high)
        assert some.size > 100
        assert distance(some, intervals(of, submit, low, high)) < 1.95


def intervals(of: Parameters, submit: Floats, low: int, high: int) -> Floats:
    """Return the intervals after jobs of some hours, on a clock that runs as fast as jobs come."""
    passed = 1800.0 * np.append(0.0, np.cumsum(slot_weights(of.anum, of.bnum)))
    clock = np.floor(submit / 86400) * 86400 + np.interp(submit % 86400, np.arange(49) * 1800.0, passed)
    hour = submit[:-1] % 86400 / 3600
    found: Floats = np.diff(clock)[(low <= hour) & (hour < high)]
    return found


def test_jobs_without_a_kind():
    mine = made(lublin(kinds=Kinds.TYPELESS, seed=3))
    theirs = jobs({"typeless": PARAMETERS[JobKind.TYPELESS]}, N, 3)
    assert distance(mine.processors, [job.size for job in theirs]) < 1.95
    assert distance(mine.run_time, [job.run_time for job in theirs]) < 1.95
    assert distance(np.diff(mine.submit_time), np.diff(np.floor([job.submit for job in theirs]))) < 1.95


def test_published_shares(ours: JobBlock):
    for code, kind in ((0, JobKind.INTERACTIVE), (1, JobKind.BATCH)):
        sizes = ours.processors[ours.queue == code]
        of = PARAMETERS[kind]
        spread = 3.3 * 0.5 / np.sqrt(sizes.size)
        assert np.mean(sizes == 1) == pytest.approx(of.serial_prob, abs=spread)
        assert sizes.max() <= 2**of.uhi + 0.5


@pytest.mark.parametrize("kind", list(JobKind))
def test_the_daily_cycle(kind: JobKind):
    of = PARAMETERS[kind]
    weights = arrival_weights(kind, of)
    assert weights == pytest.approx(slot_weights(of.anum, of.bnum), rel=1e-4)
    assert weights.mean() == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize(("anum", "bnum"), [(0.5, 30.0), (1000.0, 0.03), (300.0, 0.1), (2.0, 500.0)])
def test_the_daily_cycle_of_other_parameters(anum: float, bnum: float):
    model = lublin(kinds=Kinds.BATCH, parameters={"batch.anum": anum, "batch.bnum": bnum})
    weights = arrival_weights(JobKind.BATCH, model.parameters[JobKind.BATCH])
    assert weights == pytest.approx(slot_weights(anum, bnum), rel=2e-3, abs=1e-9)


def test_the_order_and_the_numbers(ours: JobBlock):
    assert np.all(np.diff(ours.submit_time) >= 0)
    assert np.array_equal(ours.job_id, np.arange(1, N + 1))
    assert np.array_equal(ours.run_time, np.floor(ours.run_time))
    assert ours.run_time.min() >= 1
    assert np.array_equal(ours.walltime, ours.run_time)


def test_merging_is_sorting():
    rng = np.random.default_rng(5)
    streams = [np.cumsum(rng.integers(0, step, (40, 8)).ravel()).reshape(40, 8) for step in (3, 9, 2)]

    def blocks(k: int) -> list[JobBlock]:
        return [block(times.astype(float), k) for times in streams[k]]

    def block(times: Floats, k: int) -> JobBlock:
        ones = np.ones(times.size)
        numbers = ones.astype(np.int64)
        return JobBlock(numbers, times, ones, ones, numbers, queue=numbers * k)

    got = []
    merged = _merged([iter(blocks(k)) for k in range(3)])
    while len(got) < 200:
        part = next(merged)
        got += list(zip(part.submit_time.tolist(), part.queue.tolist(), strict=True))
    every = sorted((float(t), k) for k in range(3) for t in streams[k].ravel())
    assert got == every[: len(got)]


def test_the_first_jobs_do_not_depend_on_how_many_there_are(ours: JobBlock):
    few = made(lublin(seed=1), 100)
    for name in ("submit_time", "processors", "run_time", "queue"):
        assert np.array_equal(getattr(few, name), getattr(ours, name)[:100])
    assert not np.array_equal(made(lublin(seed=2), 100).submit_time, few.submit_time)


def test_days():
    blocks = JobBlock.concatenate(list(cut(lublin(seed=1).stream(), None, 3 * DAY)))
    longer = made(lublin(seed=1), len(blocks) + 1)
    assert blocks.submit_time[-1] < 3 * 86400 <= longer.submit_time[-1]
    assert sum(map(len, cut(lublin(seed=1).stream(), 50, 3 * DAY))) == 50


def test_walltimes_leave_the_jobs_as_they_are(ours: JobBlock):
    mine = made(lublin(seed=1, factor=(2.0, 6.0)))
    assert np.array_equal(mine.run_time, ours.run_time)
    assert np.array_equal(mine.submit_time, ours.submit_time)
    long = mine.run_time > 1000
    factor = (mine.walltime / mine.run_time)[long]
    assert 2.0 <= factor.min() < 2.05
    assert 5.95 < factor.max() <= 6.001
    assert factor.mean() == pytest.approx(4.0, abs=0.05)


@pytest.mark.parametrize("processors", [32, 100, 1024])
def test_other_machines(processors: int):
    sizes = made(lublin(processors=processors)).processors
    assert processors / 2 < sizes.max() <= processors


def test_blocks_are_bounded():
    tracemalloc.start()
    lengths = [len(block) for block in islice(cut(lublin().stream(), 10**7, None), 3)]
    tracemalloc.reset_peak()
    lengths += [len(block) for block in islice(cut(lublin().stream(), 10**7, None), 40)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(lengths) <= 4 * 16_384
    assert peak < 60e6


def test_a_log_written_in_blocks_is_the_log_written_at_once(tmp_path: Path):
    model = lublin(seed=4)
    blocks, once = tmp_path / "blocks.swf.gz", tmp_path / "once.swf"
    write_swf_blocks(
        blocks, model.header, (log_of(block).numbered() for block in cut(model.stream(), N, None))
    )
    write_swf(once, model.header, log_of(made(model)).numbered())
    header, found = read_swf(blocks)
    other, columns = read_swf(once)
    assert header == other == model.header
    assert np.array_equal(found.columns, columns.columns)


def test_the_header_says_how_it_was_made():
    model = lublin(kinds=Kinds.BATCH, processors=64, parameters={"batch.aarr": 7}, seed=9, factor=(1, 2.5))
    note = model.header["Note"]
    assert f"mlsim {mlsim.__version__} " in str(note)
    for words in ("Lublin and Feitelson 2003", "kinds batch", "seed 9", "batch.aarr=7.0", "1 to 2.5 times"):
        assert words in note
    assert model.header["MaxProcs"] == "64"
    assert model.header["Queue"] == ["1 batch"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"processors": 31}, "processors: 31; allowed: 32 to 1,073,741,824"),
        ({"factor": (2.0, 1.0)}, "estimates: 2:1; allowed"),
        ({"factor": (1.0, float("nan"))}, "estimates: 1:nan; allowed"),
        ({"seed": -1}, "seed: -1; allowed: 0 or more"),
        ({"parameters": {"bath.a1": 1.0}}, "there are no such jobs; allowed: interactive, batch"),
        ({"parameters": {"batch.a3": 1.0}}, "batch.a3: unknown"),
        ({"parameters": {"batch.a1": 0.0}}, "batch.a1: 0; allowed: a number above 0"),
        ({"parameters": {"batch.pb": float("inf")}}, "batch.pb: inf; allowed: a finite number"),
        ({"parameters": {"batch.uprob": 1.5}}, "batch.uprob: 1.5; allowed: 0 to 1"),
        ({"parameters": {"batch.pow2_prob": 0.8}}, "batch.pow2_prob: 0.8; allowed: at most 1 - serial_prob"),
        ({"parameters": {"batch.ulow": 6.0}}, "batch.umed: 5; allowed: from ulow, 6, to uhi, 7"),
        ({"parameters": {"batch.ulow": -1.0}}, "batch.ulow: -1; allowed: 0 or more"),
        ({"parameters": {"batch.uhi": 8.0}}, "batch.uhi: 8; allowed: at most log2 of the 128 processors, 7"),
        (
            {"parameters": {"batch.a1": 20.0}},
            "batch.a1: 20; allowed: a mean logarithm of the run time below 12",
        ),
        ({"parameters": {"batch.aarr": 20.0}}, "batch.aarr: 20; allowed: a mean logarithm of the interval"),
    ],
)
def test_mistakes(options, words: str):
    with pytest.raises(InputError) as error:
        lublin(**options)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "jobs and days: neither is given"),
        ({"jobs": 0}, "jobs: 0; allowed: 1 to 1,000,000,000"),
        ({"end": -DAY}, "days: -1; allowed: a number above 0"),
        ({"end": float("nan")}, "days: nan; allowed"),
    ],
)
def test_mistakes_in_how_many(options, words: str):
    with pytest.raises(InputError) as error:
        check_length(options.get("jobs"), options.get("end"))
    assert words in str(error.value)


def test_a_cycle_without_jobs():
    model = lublin(kinds=Kinds.BATCH, parameters={"batch.anum": 1000.0, "batch.bnum": 1000.0})
    with pytest.raises(InputError, match=r"batch\.anum and batch\.bnum: by these no job comes"):
        next(cut(model.stream(), 1, None))


@pytest.mark.parametrize(
    ("kind", "shares", "sizes"),
    # From the authors' program (lublin99): serial, power of two, uprob; ulow, umed, uhi for 128 processors.
    [
        (JobKind.INTERACTIVE, (0.1541, 0.625, 0.705), (1.0, 3.0, 5.5)),
        (JobKind.BATCH, (0.2927, 0.6686, 0.875), (1.2, 5.0, 7.0)),
        (JobKind.TYPELESS, (0.244, 0.576, 0.86), (0.8, 4.5, 7.0)),
    ],
)
def test_the_published_sizes_of_each_kind(
    kind: JobKind, shares: tuple[float, ...], sizes: tuple[float, ...]
) -> None:
    of = PARAMETERS[kind]
    assert (of.serial_prob, of.pow2_prob, of.uprob) == shares
    assert (of.ulow, of.umed, of.uhi) == sizes
