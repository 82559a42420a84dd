"""Generated workloads: length, load, walltimes, files, models of the user's own, runs on them."""

from __future__ import annotations

import math
import tracemalloc
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import mlsim
from mlsim.errors import InputError
from mlsim.scenario import WorkloadConfig
from mlsim.scenario.words import WorkloadFormat
from mlsim.workload import JobBlock, generate
from mlsim.workload.derived_logs import convert

COLUMNS = ("submit_time", "run_time", "walltime", "processors", "queue")
OWN = """
import numpy as np

class Steady:
    def __init__(self, gap=10):
        self.gap = gap

    def draw(self, processors, rng):
        first = 0
        while True:
            rows = np.arange(first, first + 100)
            yield {
                "submit_time": rows * float(self.gap),
                "run_time": rng.integers(1, 50, 100),
                "processors": np.full(100, processors),
                "user": rows % 3,
            }
            first += 100

def few(processors, rng, walltime=7.0):
    import polars as pl
    columns = {"submit_time": [0, 5], "run_time": [3, 4], "processors": [1, 2]}
    yield pl.DataFrame(columns | {"walltime": [walltime] * 2})
"""


def load_of(jobs: JobBlock, processors: int, time: float | None = None) -> float:
    return float((jobs.run_time * jobs.processors).sum()) / (processors * (time or jobs.submit_time[-1]))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(OWN)
    return tmp_path / "own.py"


def distance(values: np.ndarray, cdf) -> float:
    """Return the Kolmogorov distance to a continuous distribution, above 1.95 in 0.1 % of samples."""
    x = np.sort(values)
    below = cdf(x)
    n = x.size
    return float(
        max((np.arange(1, n + 1) / n - below).max(), (below - np.arange(n) / n).max()) * math.sqrt(n)
    )


@pytest.mark.parametrize(("model", "shape"), [("poisson", 1.0), ("weibull", 0.7)])
def test_distributions_of_plain_models(model: str, shape: float):
    changed = {"interval": 20_000.0, "run_time": 50_000.0, "largest": 16}
    changed |= {} if model == "poisson" else {"shape": shape}
    jobs = generate(model, jobs=20_000, processors=64, seed=3, parameters=changed).jobs()
    scale = 20_000 / math.gamma(1 + 1 / shape)
    gaps = np.diff(jobs.submit_time) + np.random.default_rng(0).random(19_999) - 0.5  # undo whole seconds
    assert distance(gaps[gaps > 0], lambda x: 1 - np.exp(-((x / scale) ** shape))) < 1.95 + 0.3
    assert (
        distance(jobs.run_time - np.random.default_rng(1).random(20_000), lambda x: 1 - np.exp(-x / 50_000))
        < 1.95
    )
    counts = np.bincount(jobs.processors, minlength=17)[1:]
    assert counts.size == 16
    assert ((counts - 1250) ** 2 / 1250).sum() < 37.7  # chi square of 15 degrees, 0.1 %


def test_a_load_by_a_number_of_jobs_keeps_the_jobs():
    plain = generate("lublin", jobs=3000, processors=64, seed=2).jobs()
    made = generate("lublin", jobs=3000, processors=64, seed=2, load=0.9)
    jobs = made.jobs()
    assert load_of(jobs, 64) == pytest.approx(0.9, rel=1e-5)
    for name in ("run_time", "processors", "walltime", "queue", "job_id"):
        assert np.array_equal(getattr(jobs, name), getattr(plain, name))
    assert np.array_equal(jobs.submit_time, np.floor(plain.submit_time * made.stretch))
    assert f"load 0.9 by times between arrivals x {made.stretch!r}" in made.header["Note"]


@pytest.mark.parametrize("load", [0.2, 0.7, 1.5])
def test_a_load_in_a_time_fills_the_time(load: float):
    made = generate("lublin", days=60, processors=64, seed=2, load=load)
    jobs = made.jobs()
    most = float((jobs.run_time * jobs.processors).max())
    assert jobs.submit_time[-1] < 60 * 86400
    offered = load_of(jobs, 64, 60 * 86400)
    assert load - most / (64 * 60 * 86400) <= offered <= load
    first = generate("lublin", days=60, jobs=50, processors=64, seed=2, load=load).jobs()
    assert np.array_equal(first.submit_time, jobs.submit_time[:50])


def test_every_call_gives_the_same_jobs_and_walltimes_leave_the_rest():
    made = generate("lublin", jobs=2000, seed=4, load=0.8, estimates="tsafrir")
    one, two, plain = made.jobs(), made.jobs(), generate("lublin", jobs=2000, seed=4, load=0.8).jobs()
    for name in COLUMNS:
        assert np.array_equal(getattr(one, name), getattr(two, name))
        if name != "walltime":
            assert np.array_equal(getattr(one, name), getattr(plain, name))
    assert np.all(one.walltime >= one.run_time)
    assert np.array_equal(plain.walltime, plain.run_time)
    between = generate("poisson", jobs=500, estimates=[2, 3]).jobs()
    assert np.all(
        (between.walltime >= 2 * between.run_time) & (between.walltime <= np.ceil(3 * between.run_time))
    )


@pytest.mark.slow
@pytest.mark.parametrize("estimates", ["perfect", "tsafrir"])
def test_files_are_those_that_conversion_makes(tmp_path: Path, estimates: str):
    made = generate("lublin", jobs=70_000, seed=1, load=0.7, estimates=estimates)  # more than a row group
    for suffix in ("swf", "csv", "parquet", "csv.gz"):
        assert made.write(tmp_path / f"a.{suffix}") == 70_000
    config = WorkloadConfig(path="x")
    for word in (WorkloadFormat.CSV, WorkloadFormat.PARQUET):
        convert(config, tmp_path / "a.swf", tmp_path / f"b.{word}", word, as_simulated=False)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    a, b = (tmp_path / f"{name}.parquet" for name in "ab")
    assert pl.read_parquet(a).equals(pl.read_parquet(b))
    assert pl.read_parquet_metadata(a)["mlsim.header"] == pl.read_parquet_metadata(b)["mlsim.header"]
    convert(config, a, tmp_path / "c.swf", WorkloadFormat.SWF, as_simulated=False)
    assert (tmp_path / "c.swf").read_bytes() == (tmp_path / "a.swf").read_bytes()
    assert made.frame().columns == pl.read_csv(tmp_path / "a.csv").columns


def scenario(generated: dict[str, object], nodes: int = 64) -> dict[str, object]:
    return {
        "seed": 5,
        "platform": {"nodes": [{"name": "n", "count": nodes, "cores": 1}]},
        "workload": {"generate": generated, "mapping": "node"},
        "batch": {"backfill": "easy"},
        "output": {"pictures": False},
    }


def test_a_run_on_drawn_jobs_is_that_on_a_file_of_them(tmp_path: Path):
    given = {"model": "lublin", "jobs": 1500, "load": 0.8, "estimates": "tsafrir"}
    drawn = mlsim.run(scenario(given))
    made = generate("lublin", jobs=1500, processors=64, seed=5, load=0.8, estimates="tsafrir")
    made.write(tmp_path / "log.swf")
    read = scenario(given) | {"workload": {"path": str(tmp_path / "log.swf"), "mapping": "node"}}
    assert drawn.jobs.equals(mlsim.run(read).jobs)
    assert drawn.jobs.equals(
        mlsim.run(scenario(given), workload=made.frame()).jobs.with_columns(drawn.jobs["queue"])
    )
    other = mlsim.run(scenario(given | {"seed": 6})).jobs
    assert not drawn.jobs.equals(other)
    assert other.equals(mlsim.run(scenario(given) | {"seed": 6}).jobs)


def test_a_long_drawn_workload_is_not_held(monkeypatch: pytest.MonkeyPatch):
    given = scenario({"model": "poisson", "duration": "40 d", "load": 0.6})
    held = mlsim.run(given).jobs
    monkeypatch.setattr("mlsim.workload.log_source.HELD_JOBS", 100)
    assert mlsim.run(given).jobs.equals(held)


def test_memory_does_not_grow_with_the_jobs():
    peaks = []
    for jobs in (40_000, 400_000):
        made = generate(
            "poisson",
            jobs=jobs,
            load=0.8,
            estimates="tsafrir",
            max_estimate=36_000,
            parameters={"run_time": 100},
        )
        tracemalloc.start()
        assert sum(map(len, made.blocks())) == jobs
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_models_of_ones_own(own: Path, tmp_path: Path):
    made = generate(f"{own}:Steady", jobs=250, processors=8, seed=1, parameters={"gap": 30})
    jobs = made.jobs()
    assert jobs.submit_time.tolist() == [30.0 * k for k in range(250)]
    assert set(jobs.user.tolist()) == {0, 1, 2}
    assert np.array_equal(jobs.walltime, jobs.run_time)
    assert np.array_equal(jobs.run_time, made.jobs().run_time)
    assert not np.array_equal(
        jobs.run_time, generate(f"{own}:Steady", jobs=250, processors=8, seed=2).jobs().run_time
    )
    assert generate(f"{own}:few", jobs=9, processors=8).jobs().walltime.tolist() == [7.0, 7.0]
    assert generate(f"{own}:few", jobs=9, processors=8, estimates=2).jobs().walltime.tolist() == [6.0, 8.0]
    assert load_of(generate(f"{own}:Steady", jobs=250, processors=8, load=0.5).jobs(), 8) == pytest.approx(
        0.5, rel=1e-3
    )
    given = scenario({"model": {"class": "own.py:Steady", "parameters": {"gap": 60}}, "jobs": 40}, 8)
    result = mlsim.run(mlsim.scenario.from_mapping(given, "s", None, tmp_path))
    assert result.jobs["submit_time"].to_list() == [60.0 * k for k in range(40)]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("yield 3", "jobs after the first 0: a int; allowed: a mapping of names to columns"),
        ("yield dict(submit_time=[1], run_time=[2])", "no column processors"),
        ("yield dict(submit_time=[1], run_time=[2], processors=[1], nodes=[3])", "column 'nodes' is unknown"),
        (
            "yield dict(submit_time=[1], run_time=[2, 3], processors=[1])",
            "2 values of run_time, and 1 of submit_time",
        ),
        (
            "yield dict(submit_time=[5, 4], run_time=[2, 3], processors=[1, 1])",
            "allowed: jobs in arrival order",
        ),
        (
            "yield dict(submit_time=[5], run_time=[float('nan')], processors=[1])",
            "run_time nan; allowed: seconds",
        ),
        (
            "yield dict(submit_time=[5], run_time=[1], processors=[1.5])",
            "processors 1.5; allowed: a whole number",
        ),
        (
            "yield dict(submit_time=[5], run_time=[1], processors=[9])",
            "asks for 9 processors, and the machine has 8",
        ),
        (
            "yield dict(submit_time=[5], run_time=[1], processors=[9], walltime=[0])",
            "walltime 0; allowed: seconds, more",
        ),
        ("yield dict(submit_time=['x'], run_time=[1], processors=[1])", "submit_time: could not convert"),
        ("raise KeyError('gone')\n    yield", "failed after 0 jobs: KeyError"),
        ("return 3", "cannot draw jobs: TypeError"),
    ],
)
def test_what_models_of_ones_own_do_wrong(tmp_path: Path, body: str, words: str):
    (tmp_path / "wrong.py").write_text(f"def wrong(processors, rng):\n    {body}\n")
    with pytest.raises(InputError) as info:
        generate(f"{tmp_path / 'wrong.py'}:wrong", jobs=5, processors=8).jobs()
    assert words in str(info.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model": "lubin", "jobs": 5}, "no installed package offers it in the group mlsim.workloads"),
        ({"jobs": None}, "jobs and days: neither is given"),
        ({"jobs": 5, "load": -0.5}, "load: -0.5; allowed: a number above 0"),
        (
            {"jobs": 1, "load": 0.5, "model": "poisson", "parameters": {"interval": 1e-9}},
            "the 1 jobs come at one time",
        ),
        ({"days": 1e-4, "load": 1e-9}, "the first job alone has more work"),
        ({"jobs": 5, "kinds": "bath"}, "kinds: 'bath'; did you mean 'batch'?"),
        ({"jobs": 5, "kinds": "batch", "model": "poisson"}, "kinds: read by model lublin only"),
        ({"jobs": 5, "estimates": "popular"}, "estimates: 'popular'; allowed: perfect, tsafrir"),
        ({"jobs": 5, "max_estimate": 7200}, "max-estimate: needs estimates tsafrir"),
        ({"jobs": 5, "processors": 8}, "processors: 8; allowed: 32 to"),
        (
            {"jobs": 5, "processors": 64, "parameters": {"batch.uhi": 7}},
            "batch.uhi: 7; allowed: at most log2 of the 64",
        ),
        (
            {"jobs": 5, "model": "poisson", "parameters": {"largest": 500}},
            "largest: 500; allowed: a whole number, 1 to",
        ),
        (
            {"jobs": 5, "model": "poisson", "parameters": {"shape": 2}},
            "shape: unknown; allowed: interval, run_time",
        ),
        ({"jobs": 5, "parameters": {"aarr": 2}}, "aarr: allowed: KIND.NAME, such as batch.aarr"),
        ({"jobs": 400, "estimates": "tsafrir"}, "estimates: tsafrir: 400 jobs; allowed: 500 or more"),
    ],
)
def test_mistakes(given: dict[str, object], words: str):
    with pytest.raises(InputError) as info:
        generate(**given).jobs()
    assert words in str(info.value)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"workload.generate": {"model": "lublin"}},
            "workload.generate.jobs: missing; give jobs, duration, or both",
        ),
        ({"workload.path": "log.swf"}, "workload.generate: given together with path; give one of them"),
        ({"workload.generate": None}, "workload.path: missing; give the log, or generate"),
        ({"workload.format": "swf"}, "workload.format: is about logs that are read"),
        (
            {"workload.dependencies": True},
            "workload.dependencies: is for logs, and generated jobs depend on none",
        ),
        ({"workload.generate.load": -1}, "workload.generate.load: -1 is out of range"),
        ({"workload.generate.model": "lubin"}, "'lubin' is not known; did you mean 'lublin'?"),
        ({"workload.generate.estimates": [3, 2]}, "the first is above the second"),
        (
            {"workload.generate.max_estimate": "3 h"},
            "workload.generate.max_estimate: needs estimates: tsafrir",
        ),
        ({"workload.generate.processors": 100}, "processors: 100; the platform has 64"),
    ],
)
def test_mistakes_of_a_scenario(changed: dict[str, object], words: str):
    with pytest.raises(InputError) as info:
        mlsim.run(scenario({"model": "lublin", "jobs": 20}), changed)
    assert words in str(info.value)


def test_jobs_for_a_larger_machine_are_cleaned():
    given = {"workload.generate.processors": 256, "workload.cleaning.oversize": "clamp"}
    result = mlsim.run(scenario({"model": "lublin", "jobs": 800}), given)
    assert result.jobs["processors"].max() == 64
    plain = generate("lublin", jobs=800, processors=256, seed=5).jobs()
    assert (result.jobs["processors"] == 64).sum() == (plain.processors >= 64).sum()


def test_the_year_of_the_example():
    """All of it, with what it says of itself; no file from outside is read."""
    file = Path(__file__).parents[2] / "scenarios" / "generated.yaml"
    result = mlsim.run(file, {"workload.generate.duration": "30 d", "output.pictures": False})
    jobs = result.jobs
    assert 25 * 86400 < jobs["submit_time"].max() < 30 * 86400
    assert jobs.filter(pl.col("run_time") > pl.col("walltime")).height == 0


def test_runs_of_a_study_share_what_is_drawn(own: Path, monkeypatch: pytest.MonkeyPatch):
    from mlsim._runtime import shared_cache
    from mlsim.workload import generated_jobs

    made = []
    real = generated_jobs.MadeReader.__init__
    monkeypatch.setattr(
        generated_jobs.MadeReader, "__init__", lambda self, of: made.append(of.plan) or real(self, of)
    )
    given = scenario({"model": "poisson", "jobs": 50})
    of_own = scenario({"model": f"{own}:Steady", "jobs": 50})
    with shared_cache.sharing():
        try:
            for policy in ("FCFS", "SPF"):
                mlsim.run(given, {"batch.policy": policy})
            assert len(made) == 1
            for seed in (1, 2):
                mlsim.run(given, {"seed": seed})
            assert len(made) == 3
            for _ in range(2):
                mlsim.run(of_own)
            assert len(made) == 5
        finally:
            shared_cache.forget()
