"""Requests for resources of generated jobs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import mlsim
from mlsim.cli.main import app
from mlsim.errors import InputError
from mlsim.scenario.resources_section import parse_requests
from mlsim.workload import generate
from mlsim.workload.models.accasim_generator import LearnedModel

MODEL = LearnedModel(
    of="a log",
    jobs=100,
    start=0.0,
    processors=64,
    gflops=2.0,
    slots=(1 / 48,) * 48,
    shares=(1 / 24,) * 24 + (1 / 7,) * 7 + (1 / 12,) * 12,
    intervals=(0.0, 0.01),
    flop=(1e12, 1e15),
    serial=0.5,
    sizes=(4, 16, 24),
    size_shares=(0.2, 0.2, 0.1),
    longest=1e6,
)


def test_amounts_are_uniform_in_their_share_of_the_jobs() -> None:
    requests = {"gpu": "1:2@0.25", "memory": "1 GB:4 GB"}
    plain = generate("lublin", jobs=20_000, seed=3, processors=128).jobs()
    jobs = generate(
        "lublin", jobs=20_000, seed=3, processors=128, requests=requests, processors_per_unit=8
    ).jobs()
    asked = jobs.asked
    assert asked is not None
    assert asked.names == ("gpu", "memory")
    assert (asked.units == -(-plain.processors // 8)).all()
    assert (jobs.processors == np.where(asked.units > 1, asked.units * 8, plain.processors)).all()
    assert (asked.totals % asked.units[:, None] == 0).all()
    each = asked.totals // asked.units[:, None]
    assert set(each[:, 0].tolist()) == {0, 1, 2}
    counts = np.bincount(each[:, 0]) / 20_000
    np.testing.assert_allclose(counts, [0.75, 0.125, 0.125], atol=0.012)
    assert each[:, 1].min() >= 1000
    assert each[:, 1].max() <= 4000
    assert each[:, 1].mean() == pytest.approx(2500, rel=0.01)
    for name in ("submit_time", "run_time", "walltime"):
        assert (getattr(jobs, name) == getattr(plain, name)).all()
    again = generate("lublin", jobs=20_000, seed=3, processors=128, requests=requests, processors_per_unit=8)
    assert (again.jobs().asked.totals == asked.totals).all()
    fewer = generate("lublin", jobs=17_000, seed=3, processors=128, requests=requests, processors_per_unit=8)
    assert (fewer.jobs().asked.totals == asked.totals[:17_000]).all()


def test_the_load_is_that_of_the_rounded_sizes() -> None:
    made = generate(
        "lublin", jobs=3000, seed=1, processors=128, load=0.7, requests={"gpu": 1}, processors_per_unit=16
    )
    jobs = made.jobs()
    assert (jobs.run_time * jobs.processors).sum() / (128 * jobs.submit_time[-1]) == pytest.approx(0.7, 1e-3)


PLATFORM = {"nodes": [{"name": "n", "count": 16, "cores": 8, "memory": "32 GB", "resources": {"gpu": 2}}]}


def _scenario(model: object = "lublin", **parameters: object) -> dict[str, object]:
    """Return a scenario of 300 generated jobs on nodes of 8 cores and 2 GPUs."""
    generate = {"model": model, "jobs": 300, "seed": 3, "load": 0.9, "parameters": parameters}
    batch = {"policy": "FCFS", "backfill": "easy"}
    return {
        "platform": PLATFORM,
        "workload": {"mapping": "core", "generate": generate},
        "batch": batch,
        "application": {"model": "rigid"},
    }


def test_a_scenario_draws_what_the_function_draws(tmp_path) -> None:
    requests = {"gpu": "1:2@0.25", "memory": "1 GB:8 GB"}
    log = tmp_path / "drawn.csv"
    machine = {"nodes": 16, "processors": 128, "processors_per_unit": 8}
    generate("lublin", jobs=300, seed=3, load=0.9, requests=requests, **machine).write(log)
    drawn = _scenario(request=requests, processors_per_unit=8)
    of_log = drawn | {"workload": {"mapping": "core", "path": str(log)}}
    jobs, expected = (mlsim.run(each).records.jobs for each in (drawn, of_log))
    assert (jobs.start_time == expected.start_time).all()
    plain = mlsim.run(_scenario(**{"batch.aarr": 10.23})).records.jobs
    assert (plain.start_time != jobs.start_time).any()  # GPUs and memory delay jobs


def test_a_model_of_the_users_own_may_have_drawn_requests(tmp_path, monkeypatch) -> None:
    (tmp_path / "same.py").write_text(
        "def same(processors, rng):\n"
        "    yield {'submit_time': [0.0] * 300, 'run_time': [50.0] * 300, 'processors': [3] * 300}\n"
    )
    monkeypatch.chdir(tmp_path)
    scenario = _scenario("./same.py:same", **{"request.gpu": 2})
    del scenario["workload"]["generate"]["load"]
    found = mlsim.run(scenario)
    assert found.records.jobs.start_time.max() == 50.0 * (300 // 5 - 1)  # 3 of 16 nodes' GPUs per job


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"request.gpu": "2:1"}, "request gpu=2:1: allowed: RESOURCE=LOW:HIGH"),
        ({"request.tpu": 1}, "the platform has no tpu; it has: cores, memory, gpu"),
        ({"processors_per_unit": 8}, "processors_per_unit: 8; allowed: a whole number, 1 or more"),
        ({"request.gpu": 1, "processors_per_unit": 1.5}, "processors_per_unit: 1.5; allowed: a whole"),
        ({"request.gpu": 1, "processors_per_unit": 7}, "7 does not divide the 128 of the machine"),
    ],
)
def test_requests_of_a_scenario_that_make_no_sense(parameters, words) -> None:
    with pytest.raises(InputError, match="generate") as error:
        mlsim.run(_scenario(**parameters))
    assert words in str(error.value)


def test_gpus_do_their_part_of_the_work(tmp_path) -> None:
    """Work / (p·2 + g·933 GFLOP/s), within the second to which run times are rounded."""
    file = tmp_path / "model.json"
    file.write_text(MODEL.text())
    keys = {"jobs": 4000, "seed": 2, "processors_per_unit": 8}
    plain = generate(str(file), requests={"gpu": "0"}, **keys).jobs()
    jobs = generate(str(file), requests={"gpu": "0:2"}, gflops={"gpu": 933}, **keys).jobs()
    gpus = jobs.asked.totals[:, 0]
    expected = plain.run_time * jobs.processors * 2.0 / (jobs.processors * 2.0 + gpus * 933.0)
    assert (gpus > 0).any()
    assert (jobs.run_time >= expected).all()
    assert (jobs.run_time <= np.maximum(expected + 1.0, 1.0)).all()
    assert (jobs.walltime >= jobs.run_time).all()


def test_a_generated_file_runs(tmp_path, monkeypatch) -> None:
    """Jobs of a file hold what they request: never more GPUs than there are."""
    monkeypatch.chdir(tmp_path)
    words = ["--jobs", "60", "--nodes", "4", "--cores", "8", "--processors-per-unit", "8", "--request"]
    command = ["workload", "generate", "lublin", *words, "gpu=1:2@0.5", "-o", "new.csv"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    nodes = [{"name": "n", "count": 4, "cores": 8, "resources": {"gpu": 2}}]
    content = {"platform": {"nodes": nodes}, "workload": {"path": "new.csv", "mapping": "core"}}
    (tmp_path / "s.yaml").write_text(json.dumps(content))
    result = mlsim.run("s.yaml")
    assert result.summary["jobs"]["completed"] == 60


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"gpu": "3:1"}, "request gpu=3:1: allowed: RESOURCE=LOW:HIGH"),
        ({"gpu": "1:2@0"}, "request gpu"),
        ({"gpu": "half"}, "request gpu"),
        ({"cores": "1"}, "not cores"),
    ],
)
def test_wrong_ranges_are_refused(given: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_requests(given)


def test_what_is_not_read_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="gflops: read by a learned model only"):
        generate("lublin", jobs=3, requests={"gpu": 1}, gflops={"gpu": 9.0})
    with pytest.raises(InputError, match="no request names gpu"):
        parse_requests({}, {"gpu": 9.0})
    with pytest.raises(InputError, match="allowed: 1 or more, with requests"):
        generate("lublin", jobs=3, processors_per_unit=8)
    with pytest.raises(InputError, match="does not divide the 128 of the machine"):
        generate("lublin", jobs=3, requests={"gpu": 1}, processors_per_unit=7)
    words = ["workload", "generate", "lublin", "--jobs", "3", "--request", "gpu=1", "-o", "new.swf"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code != 0
    assert not (tmp_path / "new.swf").exists()
    assert "SWF has no requests" in f"{done.output} {done.exception}"
