"""What the benchmarks of `tools/bench` calculate, draw and decide; what they measure is not tested."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import against_release
import children
import growth
import numpy as np
import pytest
import synthetic
from children import Cost

from mlsim.workload import Field, read_swf


def _costs(*seconds: float) -> Callable[[], Cost]:
    left: Iterator[float] = iter(seconds)
    return lambda: Cost(next(left), 1.0, 100.0)


def test_the_first_run_does_not_count_and_the_least_of_three_does() -> None:
    row = against_release.compare("x", _costs(9.0, 1.2, 1.05, 1.3), _costs(0.1, 1.0, 1.5, 1.1), 10.0)
    assert row.ratio == pytest.approx(1.05)
    assert not row.slower(10.0)
    assert row.slower(4.0)


def test_what_seems_slower_is_measured_again() -> None:
    noisy = (9.0, 1.5, 1.5, 1.5, 1.5, 1.1, 1.5)
    row = against_release.compare("x", _costs(*noisy), _costs(*[1.0] * 7), 10.0)
    assert not row.slower(10.0)
    assert len(row.ours) == len(row.theirs) == 6


def test_what_stays_slower_is_believed_after_three_rounds() -> None:
    row = against_release.compare("x", _costs(*[1.11] * 10), _costs(*[1.0] * 10), 10.0)
    assert row.slower(10.0)
    assert len(row.ours) == 9
    assert "+11.0" in str(row)


def test_a_directory_is_compared_in_place_and_a_revision_in_a_tree_of_its_own(tmp_path: Path) -> None:
    with against_release.other_tree(str(tmp_path)) as tree:
        assert tree is not None
        assert (tree.root, tree.cache) == (tmp_path, None)
    with pytest.raises(SystemExit, match="neither a directory nor a revision"):
        against_release.other_tree("no-such-revision").__enter__()


def test_kernels_of_the_two_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/elsewhere")
    this = against_release.Tree("this", tmp_path, None).environment()
    other = against_release.Tree("other", tmp_path / "tree", tmp_path / "kernels").environment()
    assert "NUMBA_CACHE_DIR" not in this
    assert other["NUMBA_CACHE_DIR"] == str(tmp_path / "kernels")
    assert other["PYTHONPATH"] == str(tmp_path / "tree")


def test_the_cost_of_a_command_is_its_own(tmp_path: Path) -> None:
    grow = "x = bytearray(300 << 20); x[::4096] = b'1' * len(x[::4096])"
    large = children.measure([sys.executable, "-c", grow], os.environ, tmp_path)
    ballast = bytearray(os.urandom(1 << 20)) * 250
    small = children.measure([sys.executable, "-c", "pass"], os.environ, tmp_path)
    assert large.peak > 300 > len(ballast) / 2**20 > 100 > small.peak
    assert small.cpu > 0.0
    assert small.wall > 0.0


def test_a_command_that_fails_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(children.FailedError, match="no such thing"):
        children.measure([sys.executable, "-c", "raise SystemExit('no such thing')"], os.environ, tmp_path)


def test_the_drawn_workload_offers_the_load_and_reads_back(tmp_path: Path) -> None:
    jobs = synthetic.workload(5_000, 128, 0.8)
    work = (jobs.processors * jobs.run_time).sum()
    assert work / (128 * jobs.submit_time[-1]) == pytest.approx(0.8, rel=0.1)
    assert jobs.processors.min() == 1
    assert jobs.processors.max() <= 128
    assert (jobs.walltime >= jobs.run_time).all()
    assert (jobs.run_time > 0).all()
    synthetic.write(jobs, 128, tmp_path / "log.swf")
    _, block = read_swf(tmp_path / "log.swf")
    assert np.array_equal(block.columns[Field.SUBMIT_TIME], jobs.submit_time)
    assert np.array_equal(block.columns[Field.REQUESTED_TIME], jobs.walltime)


def test_an_exponent_is_the_slope_between_logarithms() -> None:
    sizes = [10, 100, 1_000, 10_000]
    assert growth.exponent(sizes, [3e-6 * size**1.25 for size in sizes]) == pytest.approx(1.25)
    uneven = [1.0, 4.0, 1.0, 4.0]
    assert growth.exponent(sizes, uneven) == pytest.approx(np.polyfit(np.log(sizes), np.log(uneven), 1)[0])


@pytest.mark.parametrize("name", growth.CURVES)
def test_a_curve_is_measured_and_held_against_its_bar(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    curve = growth.CURVES[name]
    grown = iter([1.0, 3.9])
    prepared: list[int] = []

    def prepare(size: int) -> Callable[[], None]:
        prepared.append(size)
        return curve.prepare(min(size, 100))

    small = growth.Curve((10, 20, 40), curve.bar, prepare)
    growth.measure(name, small, largest=20, repetitions=1)
    assert prepared == [10, 20]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth, "seconds_of", lambda *_: next(grown))
        growth.measure(name, growth.Curve((10, 20), curve.bar, lambda _: lambda: None), 20, 1)
    assert (
        f"exponent 1.96, last step 1.96; {'within' if curve.bar >= 2 else 'BEYOND'}"
        in capsys.readouterr().out
    )


def test_the_tools_say_what_they_do() -> None:
    for tool in ("against_release", "growth"):
        file = Path(against_release.__file__).with_name(f"{tool}.py")
        done = subprocess.run([sys.executable, file, "--help"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "Usage" in done.stdout
