from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.errors import InputError
from mlsim.scenario import WorkloadConfig
from mlsim.workload import JobBlock, open_workload
from mlsim.workload.csv_log import csv_text, write_csv
from mlsim.workload.esp_workload import CATEGORIES, EspApplication, EspCalibration, esp, nodes_of
from mlsim.workload.workload_jobs import NamedJobs

PSIA, MANDELBROT = EspApplication.PSIA, EspApplication.MANDELBROT
LIMITS = {category.code: category.limit for category in CATEGORIES}


def codes(workload: NamedJobs) -> list[str]:
    names = workload.header["executable_names"]
    return [names[code - 1] for code in workload.jobs.executable.tolist()]


def by_category(workload: NamedJobs, column: str) -> dict[str, set[float]]:
    values: dict[str, set[float]] = {}
    for code, value in zip(codes(workload), getattr(workload.jobs, column).tolist(), strict=True):
        values.setdefault(code, set()).add(value)
    return values


def read(path: Path) -> tuple[JobBlock, dict[str, object]]:
    config = WorkloadConfig.model_validate({"path": path.name})
    workload = open_workload(config, path, 256)
    assert workload.notes == {}
    return JobBlock.concatenate(list(workload.blocks())), dict(workload.header)


@pytest.mark.parametrize("application", EspApplication)
def test_table(application: EspApplication) -> None:
    # Wong et al. 2000; Eleliemy 2021, Table 6.1.
    workload = esp(application)
    counts = Counter(codes(workload))
    assert sum(counts.values()) == len(workload.jobs) == 230
    assert counts == {c.code: c.jobs for c in CATEGORIES}
    assert by_category(workload, "processors") == {c.code: {c.nodes} for c in CATEGORIES}
    assert by_category(workload, "run_time") == {c.code: {c.target} for c in CATEGORIES}
    assert np.sum(workload.jobs.run_time * workload.jobs.processors) == 2_809_904
    assert (workload.jobs.walltime == workload.jobs.run_time).all()


def test_loops() -> None:
    psia, mandelbrot = esp(PSIA), esp(MANDELBROT)
    assert by_category(psia, "loop_iterations") == {c.code: {c.images} for c in CATEGORIES}
    assert set(psia.jobs.loop_limit.tolist()) == {-1}
    assert psia.jobs.loop_iterations.sum() == 41_034_000
    assert set(mandelbrot.jobs.loop_iterations.tolist()) == {512 * 512}
    assert by_category(mandelbrot, "loop_limit") == {code: {limit} for code, limit in LIMITS.items()}
    assert LIMITS["G"] == 1_000_000
    assert by_category(esp(MANDELBROT, fixed_g=True), "loop_limit")["G"] == {10_000_000}


def test_arrivals() -> None:
    workload = esp(MANDELBROT)
    submit = workload.jobs.submit_time
    others = np.array([code != "Z" for code in codes(workload)])
    assert submit[others].tolist() == [0.0] * 50 + [30.0 * k for k in range(1, 179)]
    assert submit[~others].tolist() == [5340 / 3, 2 * 5340 / 3]
    assert workload.jobs.is_ordered()
    assert workload.jobs.job_id.tolist() == list(range(1, 231))
    other = esp(MANDELBROT, initial=0, interval=10)
    assert other.jobs.submit_time[:3].tolist() == [10, 20, 30]
    together = esp(MANDELBROT, initial=500)
    assert set(together.jobs.submit_time.tolist()) == {0.0}
    assert codes(together)[-2:] == ["Z", "Z"]


@given(seed=st.integers(0, 2**40), nodes=st.integers(1, 5000))
@settings(max_examples=30, deadline=None)
def test_the_same_seed_gives_the_same_jobs(seed: int, nodes: int) -> None:
    one, again = (esp(PSIA, nodes, seed=seed, estimate_factor=(1, 3)) for _ in range(2))
    assert csv_text(*one) == csv_text(*again)
    factor = one.jobs.walltime / one.jobs.run_time
    assert 1 <= factor.min() < factor.max() <= 3
    assert by_category(one, "processors") == {c.code: {nodes_of(c, nodes)} for c in CATEGORIES}


def test_seeds_change_the_order_and_nothing_else() -> None:
    one, other = esp(PSIA, seed=1), esp(PSIA, seed=2)
    assert codes(one) != codes(other)
    assert one.jobs.submit_time.tolist() == other.jobs.submit_time.tolist()
    assert Counter(codes(one)) == Counter(codes(other))
    assert codes(one) == codes(esp(MANDELBROT, seed=1))


@given(nodes=st.integers(1, 100_000))
@settings(max_examples=50, deadline=None)
def test_sizes_follow_the_machine(nodes: int) -> None:
    for category in CATEGORIES:
        size, exact = nodes_of(category, nodes), category.nodes * nodes / 256
        assert 1 <= size <= nodes
        assert abs(size - exact) <= 0.5 or size == 1
        assert nodes_of(category, 256 * nodes) == category.nodes * nodes


@pytest.mark.parametrize("application", EspApplication)
def test_without_calibration_run_times_follow_the_table_at_the_same_work(application: EspApplication) -> None:
    workload = esp(application, calibrate=EspCalibration.NONE)
    jobs = workload.jobs
    amount = jobs.loop_iterations if application is PSIA else jobs.loop_limit
    cost = jobs.run_time * jobs.processors / amount
    assert cost == pytest.approx(cost[0])
    assert np.sum(jobs.run_time * jobs.processors) == pytest.approx(2_809_904)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "csv.zst"])
def test_files_read_back_equal(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"esp.{suffix}"
    jobs, header = esp(MANDELBROT, seed=7, calibrate=EspCalibration.NONE, estimate_factor=(1, 2))
    write_csv(path, jobs, header)
    back, names = read(path)
    assert names == header
    for name in sorted(set(JobBlock.__slots__) - {"asked", "after", "own", "node_sets", "number"}):
        assert getattr(back, name).tolist() == getattr(jobs, name).tolist(), name


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 0}, "nodes: 0; allowed: 1 or more"),
        ({"initial": -1}, "initial: -1"),
        ({"interval": float("nan")}, "interval: nan"),
        ({"estimate_factor": (0.0, 1.0)}, "estimate factor: 0:1"),
        ({"estimate_factor": (2.0, 1.0)}, "estimate factor: 2:1; allowed: FACTOR or LOW:HIGH"),
    ],
)
def test_arguments_that_make_no_sense(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        esp(PSIA, **options)  # type: ignore[arg-type]
