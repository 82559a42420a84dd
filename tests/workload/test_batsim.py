from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlsim.errors import InputError
from mlsim.workload.batsim_log import read_batsim
from mlsim.workload.format_record import Reading, WholeLog
from mlsim.workload.log_fields import Rates

RATES = Rates(speed=1e9, bandwidth=8e9)  # 1 GFLOP/s, 1 GB/s

# As the documentation of Batsim describes them, each worth 20 s on 4 resources at these rates.
PROFILES = {
    "sleep": {"type": "delay", "delay": 20},
    "sleep5": {"type": "DelayProfile", "delay": 2e1},
    "compute": {"type": "parallel_homogeneous", "cpu": 20e9, "com": 0},
    "old": {"type": "msg_par_hg", "cpu": 20e9, "com": 1e6},
    "send": {"type": "ptask_homogeneous", "cpu": 1e9, "com": 20e9 / 3},
    "new": {"type": "ParallelTaskHomogeneousProfile", "com": 20e9 / 3},
    "total": {"type": "parallel_homogeneous_total", "cpu": 80e9, "com": 0},
    "oldtotal": {"type": "msg_par_hg_tot", "cpu": 0, "com": 80e9},
    "spread": {
        "type": "ParallelTaskHomogeneousProfile",
        "cpu": 80e9,
        "generation_strategy": "DefinedAmountsSpreadUniformly",
    },
    "each": {
        "type": "ptask_homogeneous",
        "cpu": 20e9,
        "com": 0,
        "generation_strategy": "defined_amount_used_for_each_value",
    },
}


def read(
    directory: Path,
    jobs: list[dict],
    profiles: dict | None = None,
    rates: Rates | None = RATES,
    lenient: bool = False,
) -> WholeLog:
    path = directory / "w.json"
    profiles = PROFILES if profiles is None else profiles
    path.write_text(json.dumps({"nb_res": 8, "jobs": jobs, "profiles": profiles}))
    return read_batsim(path, Reading(lenient, rates=rates))


def job(**values: object) -> dict[str, object]:
    return {"id": 1, "subtime": 0, "res": 4, "profile": "sleep"} | values


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_every_profile(tmp_path: Path, profile: str) -> None:
    log = read(tmp_path, [job(profile=profile)])
    assert log.jobs.run_time.tolist() == pytest.approx([20])


def test_one_resource_sends_nothing(tmp_path: Path) -> None:
    log = read(tmp_path, [job(profile=name, res=1) for name in ("new", "oldtotal", "compute")])
    assert log.jobs.run_time.tolist() == [0, 0, 20]


def test_fields_of_jobs(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        [
            job(id="7", subtime=1.5, walltime=100, user="zoe", status=1, color="red"),
            job(id=3, walltime=-1, user="adam"),
            job(id="5"),
        ],
    )
    assert log.jobs.job_id.tolist() == [7, 3, 5]
    assert log.jobs.submit_time.tolist() == [1.5, 0, 0]
    assert log.jobs.requested_time.tolist() == [100, -1, -1]
    assert log.jobs.requested_processors.tolist() == [4, 4, 4]
    assert log.jobs.user.tolist() == [1, 2, -1]
    assert log.jobs.status.tolist() == [1, -1, -1]
    assert log.header == {"nb_res": "8", "user_names": ["zoe", "adam"]}


def test_names_of_jobs_become_numbers(tmp_path: Path) -> None:
    log = read(tmp_path, [job(id="w0!3"), job(id=9), job(id="late")])
    assert log.jobs.job_id.tolist() == [1, 2, 3]
    assert log.header["job_names"] == ["w0!3", "9", "late"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"profile": "nap"}, "job 1: there is no profile 'nap'"),
        ({"profile": None}, "job 1: there is no profile None"),
        ({"profile": "seq"}, "job 1: profile seq is of type 'replay', whose run time is unknown"),
        ({"profile": "neg"}, "job 1: profile neg: delay is -1; expected a number from 0 up"),
        ({"profile": "bare"}, "job 1: profile bare: delay is null"),
        ({"profile": "odd"}, "job 1: profile odd: generation_strategy is 'random'"),
        ({"profile": "loop"}, "job 1: profile loop is a sequence that leads back to itself"),
        ({"profile": "long"}, r"job 1: profile long: cpu is \[1, 2, 3\]; expected"),
        ({"profile": "empty"}, r"job 1: profile empty: seq is \[\]; expected a list of names"),
        ({"res": 0}, "job 1: res is 0; expected a whole number from 1 up"),
        ({"res": 1.5}, "job 1: res is 1.5"),
        ({"res": None}, "job 1: res is null"),
        ({"subtime": "soon"}, 'job 1: subtime is "soon"; expected seconds from 0 up'),
        ({"subtime": None}, "job 1: subtime is null"),
        ({"id": 1.5}, "job 1 of the list has no id"),
    ],
)
def test_what_cannot_be_is_told_with_job_and_profile(tmp_path: Path, values: dict, message: str) -> None:
    profiles = PROFILES | {
        "seq": {"type": "replay", "trace": "usage"},
        "loop": {"type": "composed", "seq": ["sleep", "loop"]},
        "long": {"type": "parallel", "cpu": [1, 2, 3], "com": []},
        "empty": {"type": "composed", "seq": []},
        "neg": {"type": "delay", "delay": -1},
        "bare": {"type": "delay"},
        "odd": {"type": "parallel_homogeneous", "cpu": 1, "generation_strategy": "random"},
    }
    with pytest.raises(InputError, match=message):
        read(tmp_path, [job(**values)], profiles)


def test_amounts_need_rates(tmp_path: Path) -> None:
    assert read(tmp_path, [job()], rates=None).jobs.run_time.tolist() == [20]
    with pytest.raises(InputError, match=r"job 1: profile compute counts operations(.|\n)*--speed"):
        read(tmp_path, [job(profile="compute")], rates=None)


def test_lenient_skips_jobs_and_counts_them(tmp_path: Path) -> None:
    log = read(tmp_path, [job(), job(id=2, res=-3), job(id=3, subtime=None)], lenient=True)
    assert log.jobs.job_id.tolist() == [1]
    assert log.broken_lines == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "no JSON object"),
        ('{"profiles": {}}', "jobs is missing; expected an object with a list 'jobs'"),
        ('{"jobs": [], "profiles": []}', "profiles is wrong"),
        ('{"jobs": [], "profiles": {}}', "holds no job"),
        ('{"jobs": [3], "profiles": {}}', "job 1 of the list has no id"),
    ],
)
def test_files_of_another_form(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "w.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_batsim(path, Reading(rates=RATES))
