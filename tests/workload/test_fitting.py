"""Models learned from logs, and what is drawn from them."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from typer.testing import CliRunner

from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.workload import JobBlock, fit, generate
from mlsim.workload.derived_logs import SourceLog
from mlsim.workload.models.accasim_generator import (
    DAY,
    N_COUNTS,
    SLOT,
    SLOTS,
    arrivals,
    read_model,
    weight_at,
)
from mlsim.workload.models.model_fit import calendar_counts

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half a year of drawn jobs, half as many at weekends."""
    path = tmp_path_factory.mktemp("log") / "log.swf"
    generate("lublin", days=180, processors=64, seed=5).write(path)
    kept = []
    for line in path.read_text().splitlines():
        if not line.startswith(";"):
            number, submit = (int(word) for word in line.split()[:2])
            if (submit // 86400 + 3) % 7 >= 5 and number % 2:
                continue
        kept.append(line)
    path.write_text("\n".join(kept) + "\n")
    return path


@pytest.fixture(scope="module")
def model(log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.json"
    path.write_text(fit(log, gflops=2.0).text())
    return path


def test_what_is_learned_is_what_the_log_has(log: Path, model: Path) -> None:
    found, jobs = read_model(model), SourceLog(log).jobs()
    first = float(next(line for line in log.read_text().splitlines() if line[0] != ";").split()[1])
    submit = jobs.submit_time + first
    assert found == fit(log, gflops=2.0)
    assert found.start == first  # the clock of a drawn log starts in 1970, UTC
    slots = np.bincount((submit % DAY // SLOT).astype(int), minlength=SLOTS) / len(jobs)
    assert found.slots == pytest.approx(slots)
    dates = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=float(time)) for time in submit]
    counts = np.zeros(N_COUNTS)
    for date in dates:
        for place in (date.hour, 24 + date.weekday(), 31 + date.month - 1):
            counts[place] += 1
    assert calendar_counts(submit).tolist() == counts.tolist()
    assert found.shares == pytest.approx(counts / len(jobs))
    assert found.serial == pytest.approx(float((jobs.processors == 1).mean()))
    work = np.sort(jobs.run_time * jobs.processors * 2e9)
    assert (found.flop[0], found.flop[-1]) == (work[0], work[-1])
    assert found.flop[len(found.flop) // 2] == pytest.approx(float(np.median(work)))
    assert found.longest == jobs.run_time.max()


def _passed(until: float, weights: np.ndarray) -> float:
    """Add up weights slot by slot: the plain way to say what :func:`weight_at` finds."""
    total, time = 0.0, 0.0
    while time < until:
        step = min(SLOT, until - time)
        total += float(weights[int(time % DAY // SLOT)]) * step / SLOT
        time += SLOT
    return total


def test_weight_passes_as_it_is_drawn() -> None:
    rng = np.random.default_rng(2)
    weights = np.where(rng.random(SLOTS) < 0.3, 0.0, rng.random(SLOTS))
    weights /= weights.sum()
    drawn = np.concatenate([rng.exponential(0.05, 200), [2.5, 0.0, 1.0]])
    even = np.zeros(N_COUNTS)  # shares that say nothing: v_max stays
    times, state = np.empty(len(drawn)), np.array([123.0, 0.0])
    arrivals(drawn, float(drawn.max()), weights, even, np.zeros(N_COUNTS, np.int64), state, times)
    assert np.all(np.diff(times) >= 0)
    passed = np.empty(len(drawn) + 1)
    weight_at(np.concatenate([[123.0], times]), weights, passed)
    assert np.diff(passed) == pytest.approx(drawn, abs=1e-9)
    assert passed == pytest.approx([_passed(time, weights) for time in [123.0, *times]], abs=1e-9)
    assert state.tolist() == [times[-1], len(drawn)]


def test_a_month_with_too_few_jobs_gets_more() -> None:
    """Progress below 1 makes the next interval shorter, and above 1 longer, by the formula of the source."""
    weights, most, least = np.full(SLOTS, 1 / SLOTS), 0.5, 1 / SLOTS
    shares = np.zeros(N_COUNTS)
    shares[31] = 0.5  # half of the jobs come in January
    for there, progress in ((10, 0.2), (50, 1.0), (90, 1.8), (100, 2.0)):
        counts = np.zeros(N_COUNTS, np.int64)
        counts[31] = there
        times, state = np.empty(1), np.array([0.0, 100.0])
        arrivals(np.array([0.25]), most, weights, shares, counts, state, times)
        limit = most - (most - least) * (1 - progress)
        assert times[0] / DAY == pytest.approx(0.25 * limit / most)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    places = np.unique(np.concatenate([a, b]))
    of_a, of_b = (np.searchsorted(np.sort(each), places, "right") / len(each) for each in (a, b))
    return float(np.abs(of_a - of_b).max())


def test_generated_jobs_are_distributed_as_those_of_the_log(log: Path, model: Path) -> None:
    real, made = SourceLog(log).jobs(), generate(str(model), jobs=20_000, seed=3)
    jobs = made.jobs()
    assert int(jobs.processors.max()) <= 64
    assert made.header["MaxProcs"] == "64"
    assert "what was learned of log.swf" in str(made.header["Note"])
    assert distance(real.run_time * real.processors, (jobs.run_time * jobs.processors)) < 0.06
    assert distance(real.processors, jobs.processors) < 0.06
    assert np.all(jobs.run_time <= read_model(model).longest + 1)
    found = read_model(model)
    start = float(str(made.header["UnixStartTime"]))
    shares = calendar_counts(jobs.submit_time + start) / len(jobs)
    for part, most in ((slice(0, 24), 0.05), (slice(24, 31), 0.1)):
        gap = np.abs(np.cumsum(shares[part]) - np.cumsum(found.shares[part])).max()
        assert gap < most
    uniform = np.abs(np.arange(1, 25) / 24 - np.cumsum(found.shares[:24])).max()
    assert uniform > 0.1  # else the distances above would say nothing


def test_the_same_seed_gives_the_same_jobs_and_a_smaller_machine_smaller_ones(model: Path) -> None:
    columns = ("submit_time", "run_time", "walltime", "processors")

    def drawn(**options) -> JobBlock:
        return generate(str(model), jobs=500, **options).jobs()

    assert all(np.array_equal(getattr(drawn(), name), getattr(drawn(), name)) for name in columns)
    assert not np.array_equal(drawn(seed=1).submit_time, drawn(seed=2).submit_time)
    assert np.array_equal(drawn(estimates=2.0).walltime, 2 * drawn().run_time)
    assert drawn(processors=8).processors.max() <= 8
    assert set(generate(str(model), jobs=50, processors=1).jobs().processors.tolist()) == {1}


def test_the_commands_go_from_a_log_to_a_log(log: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "model.json", tmp_path / "new.swf"
    done = CliRunner().invoke(app, ["workload", "fit", str(log), "-o", str(model)])
    assert done.exit_code == 0, (done.output, done.exception)
    assert "serial" in done.output
    words = ["workload", "generate", str(model), "--jobs", "300", "--load", "0.5", "-o", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (done.output, done.exception)
    jobs = SourceLog(out).jobs()
    assert len(jobs) == 300


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"mlsim_model": 2}, "a model of version 2"),
        ({"slots": [1.0]}, "is no model"),
        ({"flop": [-1.0, 2.0]}, "is no model"),
        ({"gflops": 0}, "is no model"),
        ({"sizes": None}, "is no model"),
    ],
)
def test_a_file_that_is_no_model_is_told(model: Path, tmp_path: Path, change, says: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(json.loads(model.read_text()) | change))
    with pytest.raises(InputError, match=says):
        generate(str(path), jobs=5).jobs()


def test_what_cannot_be_learned_is_told(log: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.swf"
    short.write_text("\n".join(log.read_text().splitlines()[:60]) + "\n")
    with pytest.raises(InputError, match="a model is learned of 100 or more"):
        fit(short)
    with pytest.raises(InputError, match="gflops: 0; allowed"):
        fit(log, gflops=0.0)
    with pytest.raises(InputError, match="has no parameters"):
        generate("model.json", jobs=5, parameters={"a": 1.0})
    done = CliRunner().invoke(app, ["workload", "fit", str(log), "-o", str(tmp_path / "model.yaml")])
    assert done.exit_code != 0
    assert not (tmp_path / "model.yaml").exists()


@pytest.fixture(scope="module")
def measure() -> ModuleType:
    spec = spec_from_file_location("generator_measure", ROOT / "scenarios/studies/generator/measure.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["generator_measure"] = module  # where its dataclass is looked up
    spec.loader.exec_module(module)
    return module


def test_the_study_compares_logs_and_draws_them(measure: ModuleType, log: Path, tmp_path: Path) -> None:
    found = measure.measure(log, 1.0, 2)
    real, compared = found
    generated, rivals = compared["generated"], compared["Poisson"]
    near, far = real.distance(generated[0]), real.distance(rivals[0])
    assert near["hour"] < far["hour"]
    assert set(real.distance(real).values()) == {0.0}
    lines = measure.table({"log": found}).splitlines()
    assert [line.split(" | ")[1] for line in lines[2:]] == ["generated", "Poisson"]
    measure.draw(tmp_path / "log.png", "log", real, generated[0])
    assert (tmp_path / "log.png").read_bytes().startswith(b"\x89PNG")


def test_the_study_compares_with_the_half_that_is_not_learned(
    measure: ModuleType, log: Path, tmp_path: Path
) -> None:
    (early, first), (late, second) = (measure.logged(path) for path in measure.halves(log, tmp_path))
    times, whole = measure.logged(log)
    assert np.array_equal(np.concatenate([first.job_id, second.job_id]), whole.job_id)
    assert np.array_equal(np.concatenate([early, late]), times)
    assert early.max() < (times.min() + times.max()) / 2 <= late.min()
    real, compared = measure.measure(log, 1.0, 1, held_out=True)
    assert list(compared) == ["generated", "Poisson", "first half"]
    assert len(real.size) == len(second) == len(compared["Poisson"][0].size)
    assert len(compared["first half"][0].size) == len(first)
