"""Energy profiles: cleaning, the three tests, and synthetic profiles of known classes."""

from __future__ import annotations

import cmath
import math
import statistics
import sys

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import mlsim
from mlsim.errors import InputError
from mlsim.learning.energy_classes import (
    KINDS,
    Cleaning,
    EnergyClass,
    GeneratedProfiles,
    Measured,
    Samples,
    Tree,
    classify,
    cleaned,
    generated_profiles,
    power_steps,
    read_samples,
    write_samples,
    write_steps,
)
from mlsim.workload.measured_power import read_steps
from tests.effort import examples

N = 300
BOUNDS = {"low": np.full(20, 100.0), "high": np.full(20, 500.0)}
"""Jobs that make the scale that of the platform, 100 to 500 W."""


def synthetic(kind, rng):
    noise = rng.normal(0, 8, N)
    level = rng.uniform(220, 380)
    if kind is EnergyClass.CONSTANT:
        return level + noise
    if kind is EnergyClass.PERIODIC:
        period, phase = rng.uniform(8, 40), rng.uniform(0, 2 * np.pi)
        wave = np.sin(2 * np.pi * np.arange(N) / period + phase)
        return level + rng.uniform(75, 110) * (np.sign(wave) if rng.random() < 0.5 else 1.2 * wave) + noise
    if kind is EnergyClass.APERIODIC:
        return level + rng.normal(0, rng.uniform(48, 60), N)
    step = np.where(np.arange(N) < rng.integers(N // 4, 3 * N // 4), -1, 1)
    return level + rng.uniform(75, 110) * step + noise


def test_synthetic_profiles_of_known_classes_are_found():
    rng = np.random.default_rng(3)
    made = {f"{kind} {k}": np.clip(synthetic(kind, rng), 100, 500) for kind in KINDS for k in range(100)}
    found = classify({**made, **BOUNDS})
    right = np.mean([job.rsplit(" ", 1)[0] == found[job].kind for job in made])
    assert right >= 0.99, right


@pytest.mark.parametrize("period", [6, 10, 25])
def test_the_period_is_that_of_the_wave(period):
    wave = 300 + 150 * np.sin(2 * np.pi * np.arange(N) / period)
    found = classify({"wave": wave, **BOUNDS})["wave"]
    assert found.kind is EnergyClass.PERIODIC
    assert found.period == pytest.approx(period)
    amplitude = 150 / 400
    assert found.density == pytest.approx(N * amplitude**2 / 4, rel=1e-6)  # |X|² / n of a sine


def in_plain_words(jobs, group, head, tail):
    """Classify raw samples step by step (Zrigui 2021, §7.4): job to class, period and what was compared."""
    kept = {}
    for job, power in jobs.items():
        means = [statistics.fmean(power[k : k + group]) for k in range(0, len(power) - group + 1, group)]
        means = means[head : len(means) - tail] if len(means) > head + tail else []
        if len(means) > 1 and (spread := statistics.pstdev(means)) > 0:
            middle = statistics.fmean(means)
            means = [mean for mean in means if abs(mean - middle) / spread <= 3]
        kept[job] = means
    every = [mean for means in kept.values() for mean in means]
    low, high = min(every, default=0), max(every, default=0)
    return {job: judged(means, low, (high - low) or 1) for job, means in kept.items()}


def judged(means, low, span):
    n = len(means)
    if n < 12:
        return "too-short", None, []
    scaled = [(mean - low) / span for mean in means]
    windows, first = [], 0
    for number in range(6):  # as equal as can be, longer ones first
        last = first + n // 6 + (number < n % 6)
        windows.append(statistics.fmean(scaled[first:last]))
        first = last
    compared = [statistics.stdev(windows)]
    if compared[0] > 0.1:
        return "non-stationary", None, compared
    compared.append(statistics.stdev(scaled))
    if compared[1] < 0.1:
        return "constant", None, compared
    middle = statistics.fmean(scaled)
    densities = [
        abs(sum((x - middle) * cmath.exp(-2j * math.pi * k * i / n) for i, x in enumerate(scaled))) ** 2 / n
        for k in range(1, n // 2 + 1)
    ]
    compared.append(max(densities))
    if compared[2] > 1:
        return "periodic", n / (densities.index(compared[2]) + 1), compared
    return "aperiodic", None, compared


@settings(deadline=None, max_examples=examples(60))
@given(
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(0, 3),
    st.lists(
        st.tuples(
            st.integers(0, 240),
            st.sampled_from([0, 8, 60, 200]),
            st.sampled_from([0, 120, 300]),
            st.integers(2, 40),
        ),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 9),
)
def test_classes_are_those_of_plain_words(group, head, tail, shapes, seed):
    rng = np.random.default_rng(seed)
    jobs = {
        str(job): 400 + wave * np.sin(2 * np.pi * np.arange(n) / period) + rng.normal(0, noise, n)
        for job, (n, noise, wave, period) in enumerate(shapes)
    }
    cleaning = Cleaning(group, head, tail)
    found = classify({job: cleaned(power, cleaning) for job, power in jobs.items()})
    for job, (kind, period, compared) in in_plain_words(
        {job: power.tolist() for job, power in jobs.items()}, group, head, tail
    ).items():
        one = found[job]
        if any(abs(value - edge) < 1e-9 for value, edge in zip(compared, (0.1, 0.1, 1), strict=False)):
            continue  # rounding decides
        values = [one.windows_deviation, one.deviation, one.density][: len(compared)]
        assert one.kind == kind
        assert values == pytest.approx(compared, abs=1e-9)
        assert math.isnan(one.period) == (period is None)
        assert period is None or one.period == pytest.approx(period)


def test_thresholds_decide():
    rng = np.random.default_rng(1)
    jobs = {"noise": 300 + rng.normal(0, 50, N), **BOUNDS}
    assert classify(jobs)["noise"].kind is EnergyClass.APERIODIC
    assert classify(jobs, Tree(constant=0.2))["noise"].kind is EnergyClass.CONSTANT
    assert classify(jobs, Tree(periodic=0.001))["noise"].kind is EnergyClass.PERIODIC
    assert classify(jobs, Tree(stationary=0.0))["noise"].kind is EnergyClass.NON_STATIONARY
    assert classify({"short": np.ones(11), **BOUNDS})["short"].kind is EnergyClass.TOO_SHORT
    assert classify({"none": np.empty(0)})["none"].samples == 0


def test_cleaning_takes_means_and_drops_ends_and_outliers():
    raw = np.repeat(np.r_[np.full(2, 900.0), np.tile([100.0, 102.0], 20), 5000.0, np.full(3, 7.0)], 4)
    found = cleaned(np.r_[raw, 1.0], Cleaning(group=4, head=2, tail=3))
    assert found.tolist() == [100.0, 102.0] * 20
    assert cleaned(np.arange(10.0), Cleaning(group=4, head=1, tail=1)).size == 0
    assert cleaned(np.full(40, 3.0), Cleaning(group=2, head=0, tail=0)).tolist() == [3.0] * 20


def test_deviations_are_those_of_samples():
    """Eq. 7.1 divides by n - 1: of six window means that decides near the threshold."""
    windows = np.repeat([0.4, 0.6, 0.4, 0.6, 0.5, 0.5], 4)
    found = classify({"a": windows, "scale": np.array([0.0, 1.0])})["a"]
    assert found.windows_deviation == pytest.approx(np.sqrt(0.04 / 5))
    assert found.deviation == pytest.approx(np.sqrt(0.16 / 23))


def test_the_scale_may_be_given():
    wave = 300 + 150 * np.sin(2 * np.pi * np.arange(N) / 20)
    assert classify({"a": wave})["a"].kind is EnergyClass.PERIODIC
    assert classify({"a": wave}, Tree(least=0.0, most=3000.0))["a"].kind is EnergyClass.CONSTANT


def test_jobs_with_missing_samples_are_not_judged_and_do_not_count():
    time = np.delete(np.arange(60.0), 30)
    samples = Samples(time * 5, np.full(59, 1e6))
    assert samples.interval == 5
    assert not samples.complete
    noise = 300 + np.random.default_rng(0).normal(0, 50, N)
    found = classify({"gap": samples.power, "noise": noise, **BOUNDS}, incomplete={"gap"})
    assert found["gap"].kind is EnergyClass.INCOMPLETE
    assert found["noise"].kind is EnergyClass.APERIODIC
    assert classify({"gap": samples.power}, incomplete={"gap"})["gap"].kind is EnergyClass.INCOMPLETE
    assert power_steps(samples, found["gap"]) is None


def test_made_profiles_have_their_classes_and_depend_on_the_seed_alone():
    made = generated_profiles(GeneratedProfiles(each=30, shortest=20_000, longest=40_000, seed=1))
    again = generated_profiles(GeneratedProfiles(each=30, shortest=20_000, longest=40_000, seed=1))
    assert [one.power.tobytes() for one in made.samples.values()] == [
        one.power.tobytes() for one in again.samples.values()
    ]
    found = classify({job: cleaned(samples.power) for job, samples in made.samples.items()})
    right = {
        kind: np.mean([found[job].kind == kind for job in made.known if made.known[job] == kind])
        for kind in KINDS
    }
    assert right[EnergyClass.CONSTANT] == right[EnergyClass.NON_STATIONARY] == 1
    assert np.mean(list(right.values())) > 0.9, right


def test_steps_keep_the_energy_of_a_job():
    rng = np.random.default_rng(2)
    power = 200 + np.cumsum(rng.normal(0, 3, 12 * 200))
    samples = Samples(np.arange(len(power)) * 5.0, power)
    found = classify({"a": cleaned(power), **BOUNDS})["a"]
    assert found.kind is EnergyClass.NON_STATIONARY
    steps = power_steps(samples, found)
    assert np.diff(steps.time) == pytest.approx(60)
    assert steps.power.sum() * 60 == pytest.approx(power.sum() * 5)


@pytest.mark.parametrize("period", [20.0, 23.37])
def test_a_period_is_folded(period):
    """A square wave whose periods are no whole number of means: the step is where it was, at both ends."""
    minutes = np.arange(12 * N) / 12
    power = np.where(minutes % period < period / 2, 400.0, 200.0)
    samples = Samples(minutes * 60, power)
    found = classify({"a": cleaned(power), **BOUNDS})["a"]
    steps = power_steps(samples, found)
    assert steps.period == pytest.approx(60 * period, rel=2e-3)
    high = steps.power > 300
    assert steps.time[high].max() < 60 * period / 2 + 60 <= steps.time[~high].min() + 120
    assert steps.power.mean() == pytest.approx(300, abs=12)
    assert steps.power.max() > 390
    assert steps.power.min() < 210


def test_constant_and_short_jobs_are_one_step():
    rng = np.random.default_rng(2)
    samples = Samples(np.arange(1200) * 5.0, 300 + rng.normal(0, 5, 1200))
    short = Samples(np.arange(3) * 5.0, np.array([1.0, 2.0, 6.0]))
    found = classify({"a": cleaned(samples.power), "b": cleaned(short.power), **BOUNDS})
    assert power_steps(samples, found["a"]).power == pytest.approx([300], abs=1)
    assert power_steps(short, found["b"]).power.tolist() == [3.0]


def written_hdf5(path, measured, grouped):
    h5py = pytest.importorskip("h5py", reason="no h5py; pip install 'mlsim[energy]'")
    with h5py.File(path, "w") as file:
        if grouped:
            for job, samples in measured.samples.items():
                group = file.create_group(job)
                group["time"], group["power"] = samples.time, samples.power
                group.attrs["class"] = measured.known[job]
            return
        n = [len(samples.time) for samples in measured.samples.values()]
        file["job_id"] = np.repeat([job.encode() for job in measured.samples], n)
        file["class"] = np.repeat([measured.known[job].encode() for job in measured.samples], n)
        file["time"] = np.concatenate([samples.time for samples in measured.samples.values()])
        file["power"] = np.concatenate([samples.power for samples in measured.samples.values()])


@pytest.mark.parametrize("form", ["csv", "parquet", "hdf5, a table", "hdf5, groups"])
def test_files_of_all_forms_say_the_same(form, tmp_path):
    made = generated_profiles(GeneratedProfiles(each=2, shortest=600, longest=700))
    made = Measured(
        {job: Samples(one.time, one.power.round(3)) for job, one in made.samples.items()}, made.known
    )
    path = tmp_path / "samples"
    if form.startswith("hdf5"):
        written_hdf5(path, made, grouped=form.endswith("groups"))
    else:
        write_samples(path, made)
    if form == "parquet":
        pl.read_csv(path).write_parquet(path)
    found = read_samples(path)
    assert found.known == made.known
    assert list(found.samples) == list(made.samples)
    for job, samples in found.samples.items():
        np.testing.assert_array_equal(samples.time, made.samples[job].time)
        np.testing.assert_array_equal(samples.power, made.samples[job].power)


def test_broken_hdf5_and_a_missing_package_are_told(tmp_path, monkeypatch):
    path = tmp_path / "samples.h5"
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(50))
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "h5py", None)
        with pytest.raises(InputError, match=r"pip install 'mlsim\[energy\]'"):
            read_samples(path)
    h5py = pytest.importorskip("h5py", reason="no h5py; pip install 'mlsim[energy]'")
    with pytest.raises(InputError, match="cannot be read as HDF5"):
        read_samples(path)
    with h5py.File(path, "w") as file:
        file["7/time"] = np.arange(3)
    with pytest.raises(InputError, match="7: has no dataset power"):
        read_samples(path)


def test_from_samples_to_power_over_time_of_a_run(tmp_path, monkeypatch):
    """By commands alone: profiles made, classified, taken by a run whose energy is that of the samples."""
    from mlsim.cli.main import app

    monkeypatch.chdir(tmp_path)
    for words in (
        ["profiles", "-o", "samples.csv", "--each", "3", "--shortest", "8000", "--longest", "9000"],
        ["energy", "samples.csv", "--csv", "classes.csv", "--steps", "steps.csv"],
    ):
        result = CliRunner().invoke(app, ["learn", *words])
        assert result.exit_code == 0, result.output
    assert "right: 1" in result.output
    measured = read_samples("samples.csv")
    times = {job: len(one.time) * one.interval for job, one in measured.samples.items()}
    lines = [f"{job},0,{time},{time},1" for job, time in times.items()]
    (tmp_path / "log.csv").write_text("job_id,submit_time,run_time,estimate,processors\n" + "\n".join(lines))
    (tmp_path / "run.yaml").write_text(
        "platform: {nodes: [{name: n, count: 5, cores: 1, power: {idle: 60, busy: 220}}]}\n"
        "workload: {path: log.csv, mapping: node, power: {path: steps.csv}}\nbatch: {backfill: easy}\n"
    )
    for engine in ("replay", "simpy"):
        result = mlsim.run("run.yaml", {"batch.engine": engine})
        assert result.summary["energy"]["measured_jobs"] == 12
        energy = dict(result.jobs.select("job_id", "energy").iter_rows())
        for job, one in measured.samples.items():
            joules = one.power.sum() * one.interval
            tolerance = 0.02 if measured.known[job] in ("aperiodic", "non-stationary") else 0.12
            assert energy[int(job)] == pytest.approx(joules, rel=tolerance), measured.known[job]


def test_steps_are_written_as_parquet_too(tmp_path):
    samples = Samples(np.arange(1200) * 5.0, np.full(1200, 300.0))
    found = classify({"a": cleaned(samples.power), **BOUNDS})["a"]
    steps = {"7": power_steps(samples, found)}
    write_steps(tmp_path / "steps.parquet", steps, parquet=True)
    write_steps(tmp_path / "steps.csv", steps)
    for name in ("steps.parquet", "steps.csv"):
        read = read_steps(tmp_path / name)
        assert (read.job_id.tolist(), read.time.tolist(), read.power.tolist()) == ([7], [0.0], [300.0])
        assert np.isnan(read.period).all()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("1,0,5\n1,10,x", ":3: power is no number"),
        ("1,5,5", ":2: the first step of the job is not at time 0"),
        ("1,0,5\n1,0,6", ":3: the job has two steps at this time"),
        ("a,0,5", ":2: job_id is no whole number"),
        ("1,0,5\n1,-1,5", ":3: time is no number of seconds"),
        ("1,0,5,10\n1,4,5,11", ":3: the job has two periods"),
        ("1,0,5,10\n1,10,5,10", ":3: time is not below the period"),
        ("1,0,5,0", ":2: period is no number of seconds above 0"),
    ],
)
def test_broken_steps_are_refused(lines, message, tmp_path):
    head = "job_id,time,power" + (",period" if lines.split("\n")[0].count(",") == 3 else "")
    (tmp_path / "steps.csv").write_text(f"{head}\n{lines}\n")
    with pytest.raises(InputError, match=message):
        read_steps(tmp_path / "steps.csv")


def test_the_command_reads_and_writes_csv(tmp_path):
    from mlsim.cli.main import app

    wave = 300 + 150 * np.sign(np.sin(2 * np.pi * np.arange(N) / 20 + 0.1))
    rows = [f"a{k % 2},{k // 2},{power if k % 2 else 300}" for k, power in enumerate(np.repeat(wave, 2))]
    (tmp_path / "samples.csv").write_text("job_id,time,power\n" + "\n".join(reversed(rows)) + "\n")
    out = tmp_path / "classes.csv"
    words = ["learn", "energy", str(tmp_path / "samples.csv"), "--group", "1", "--csv", str(out)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    kinds = dict(line.split(",")[:2] for line in out.read_text().splitlines()[1:])
    assert kinds == {"a0": "constant", "a1": "periodic"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("job_id,time\n1,2\n", "no column power"),
        ("job_id,time,power\n1,2,3\n1,3,many\n", ":3: time or power"),
        ("job_id,time,power\n1,2,3\n1,inf,3\n", ":3: time or power is no number"),
        ("job_id,time,power\n1,2,3\n1,3,-4\n", ":3: power is below 0"),
        ("job_id,time,power\n1,2,3\n,3,4\n", ":3: has no job_id"),
        ("job_id,time,power\n1,2,3\n2,2,3\n1,2,4\n", ":4: a second sample of the job at this time"),
        ("job_id,time,power,class\n1,2,3,steady\n", ":2: class is none of constant, periodic"),
        (
            "job_id,time,power,class\n1,2,3,constant\n2,2,3,\n1,3,3,periodic\n",
            ":4: the job has another class",
        ),
        ("job_id,time,power,class\n1,2,3,constant\n1,3,3,\n", ":3: the job has another class"),
        ("job_id,time,power\n", "has no samples"),
    ],
)
def test_broken_files_are_refused(text, message, tmp_path):
    (tmp_path / "samples.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_samples(tmp_path / "samples.csv")


def test_rows_of_binary_files_are_counted_from_1(tmp_path):
    path = tmp_path / "samples.parquet"
    pl.DataFrame({"job_id": [1, 1], "time": [0.0, 5.0], "power": [1.0, -1.0]}).write_parquet(path)
    with pytest.raises(InputError, match=r"samples.parquet: row 2: power is below 0"):
        read_samples(path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--least", "nan"], "--least: nan; allowed: a number of watts"),
        (["--most", "90"], "scaled from 100 to 90 W; needed: a range. Means of samples are 100 to 300 W"),
        (["--least", "300"], "scaled from 300 to 300 W"),
        (["--least", "200", "--most", "150"], "scaled from 200 to 150 W"),
        (["--steps", "steps.txt"], "--steps: steps.txt; allowed: names that end with .csv or .parquet"),
        (
            ["--csv", "a.csv", "--steps", "a.csv"],
            "a.csv: is asked for twice; give each file a name of its own",
        ),
        (["--csv", "a.csv", "--steps", "sub/../a.csv"], "asked for twice"),
    ],
)
def test_options_that_make_no_sense_are_refused(words, message, tmp_path, monkeypatch):
    """One sample of 900 W is no mean of twelve: what counts for the scale is what is left of it."""
    from mlsim.cli.main import app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    powers = [*np.repeat([100, 300], 600), 900]
    lines = [f"1,{5 * k},{power}" for k, power in enumerate(powers)]
    (tmp_path / "samples.csv").write_text("job_id,time,power\n" + "\n".join(lines) + "\n")
    result = CliRunner().invoke(app, ["learn", "energy", "samples.csv", *words])
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["samples.csv", "sub"]


@pytest.mark.parametrize("option", ["--csv", "--steps"])
def test_what_cannot_be_written_is_said_before_anything_is_read(option, tmp_path, monkeypatch):
    from mlsim.cli.main import app

    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.csv").write_text("mine")
    result = CliRunner().invoke(app, ["learn", "energy", "no-samples.csv", option, "old.csv"])
    assert "old.csv: already exists" in str(result.exception)
    assert result.output == ""
    assert (tmp_path / "old.csv").read_text() == "mine"


@pytest.mark.parametrize("words", [["--longest", "inf"], ["--noise", "inf"], ["--shortest", "9000"]])
def test_profiles_that_nobody_can_make_are_refused(words, tmp_path):
    from mlsim.cli.main import app

    out = str(tmp_path / "a.csv")
    result = CliRunner().invoke(app, ["learn", "profiles", "-o", out, "--longest", "8000", *words])
    assert result.exit_code != 0
    assert words[0].removeprefix("--") in f"{result.output}{result.exception}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--group", "--head", "--tail"])
def test_more_samples_than_any_job_has_are_refused(option, tmp_path):
    from mlsim.cli.main import app

    (tmp_path / "samples.csv").write_text("job_id,time,power\n1,0,3\n1,5,4\n")
    result = CliRunner().invoke(app, ["learn", "energy", str(tmp_path / "samples.csv"), option, str(10**21)])
    assert result.exit_code != 0
    assert option.removeprefix("--") in f"{result.output}{result.exception}"
