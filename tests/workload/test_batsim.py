from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
    own = {"ignored_columns": ["color"]}
    assert log.header == {"nb_res": "8", "user_names": ["zoe", "adam"]} | own


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
        (
            {"profile": "disk"},
            "job 1: profile disk is of type 'ptask_on_storage_homogeneous', whose run time is ",
        ),
        ({"profile": "asks"}, "asks is of type 'recv', .* exchanges messages with the scheduler"),
        ({"profile": "far"}, "job 1: profile far: its trace .*nowhere.txt is not there"),
        ({"profile": "kind"}, "job 1: profile kind: trace_type is 'Extrae'"),
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
        "disk": {"type": "ptask_on_storage_homogeneous", "bytes_to_read": 10e7},
        "asks": {"type": "recv", "regex": "x"},
        "far": {"type": "smpi", "trace": "nowhere.txt"},
        "kind": {"type": "TraceReplayProfile", "trace_type": "Extrae", "filename": "nowhere.txt"},
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
        ('{"jobs": [], "profiles": {}}', r"holds no job; where a scheduler submits the jobs as it runs"),
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


def test_sequences_of_delays_and_tasks(tmp_path: Path) -> None:
    profiles = PROFILES | {
        "both": {"type": "composed", "repeat": 3, "seq": ["sleep", "compute"]},
        "nested": {"type": "SequentialCompositionProfile", "seq": ["both", "sleep"]},
    }
    log = read(tmp_path, [job(profile="both"), job(profile="nested", res=1)], profiles)
    assert log.jobs.run_time.tolist() == [120, 140]


# Rank 0 computes 3 s and rank 1 4 s, at 1 GFLOP/s.
TRACES = {
    "usage/all.txt": "r0.txt\nr1.txt\n",
    "usage/r0.txt": "0 m_usage 0.6 1e9\n0 m_usage 0 2e9\n",
    "usage/r1.txt": "1 m_usage 1.0 4000000000\n",
    "mpi/all.txt": "r0.txt\nr1.txt\n",
    "mpi/r0.txt": "0 init\n0 compute 3e9\n0 finalize\n",
    "mpi/r1.txt": "1 init\n1 compute 1e9\n1 compute 3e9\n1 finalize\n",
}
REPLAYS = {
    "usage5": {
        "type": "TraceReplayProfile",
        "trace_type": "FractionalComputation",
        "filename": "usage/all.txt",
    },
    "usage4": {"type": "usage_trace", "trace": "usage/all.txt"},
    "mpi5": {"type": "TraceReplayProfile", "trace_type": "SMPI", "filename": "mpi/all.txt"},
    "mpi4": {"type": "smpi", "trace": "mpi/all.txt"},
}


def traces(directory: Path, **changed: str) -> None:
    for name, text in TRACES.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(changed.get(name.replace("/", "_").removesuffix(".txt"), text))


@pytest.mark.parametrize("profile", sorted(REPLAYS))
def test_traces_take_the_time_of_their_slowest_rank(tmp_path: Path, profile: str) -> None:
    traces(tmp_path)
    assert read(tmp_path, [job(profile=profile)], REPLAYS).jobs.run_time.tolist() == [4]


@pytest.mark.parametrize(
    ("profile", "changed", "message"),
    [
        (
            "mpi5",
            {"mpi_r1": "1 send 0 0 1e6\n"},
            "r1.txt, line 1: send takes a time that Batsim's network decides",
        ),
        (
            "mpi5",
            {"mpi_r1": "1 compute lots\n"},
            "line 1: is '1 compute lots'; expected RANK compute OPERATIONS",
        ),
        ("mpi5", {"mpi_r1": "1\n"}, "line 1: is '1'; expected RANK compute"),
        (
            "usage4",
            {"usage_r0": "0 m_usage 1.5 10\n"},
            "expected RANK m_usage USAGE OPERATIONS, a usage of at most",
        ),
        ("usage4", {"usage_r0": "0 m_usage 0.5 -10\n"}, "expected RANK m_usage USAGE OPERATIONS"),
        ("usage4", {"usage_all": "r0.txt\nr7.txt\n"}, "names 'r7.txt', which is not there"),
        ("usage4", {"usage_all": "\n"}, "names no file of a rank"),
    ],
)
def test_traces_that_tell_no_run_time(tmp_path: Path, profile: str, changed: dict, message: str) -> None:
    traces(tmp_path, **changed)
    with pytest.raises(InputError, match=message):
        read(tmp_path, [job(profile=profile)], REPLAYS)
    other = "mpi4" if "usage" in profile else "usage4"
    log = read(tmp_path, [job(profile=profile), job(id=2, profile=other)], REPLAYS, lenient=True)
    assert (log.jobs.job_id.tolist(), log.broken_lines) == ([2], 1)


def test_ranks_have_processors_of_their_own(tmp_path: Path) -> None:
    traces(tmp_path)
    with pytest.raises(InputError, match="its 2 ranks share 1 processors"):
        read(tmp_path, [job(profile="mpi5", res=1)], REPLAYS)


def test_lenient_still_needs_rates(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="counts operations"):
        read(tmp_path, [job(profile="compute")], rates=None, lenient=True)


def test_extra_data_and_lists_of_dependencies(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        [
            job(id="w0!1", extra_data='{"user": "zoe", "res": 7}'),
            job(id="w0!2", extra_data={"dependencies": ["w0!1"]}),
            job(id="w0!3", dependencies=["w0!1", "w0!2"], extra_data="any text {"),
        ],
    )
    assert log.jobs.requested_processors.tolist() == [4, 4, 4]
    assert log.jobs.user.tolist() == [1, -1, -1]
    assert log.jobs.after is not None
    assert log.jobs.after.cells(log.header["job_names"]) == ["", "afterok:w0!1", "afterok:w0!1,afterok:w0!2"]


def test_further_keys_are_columns_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    jobs = [job(color="red", shape=[1, 2]), job(id=2)]
    path.write_text(json.dumps({"jobs": jobs, "profiles": PROFILES}))
    log = read_batsim(path, Reading(own=("profile", "color", "shape"), rates=RATES))
    own = {name: column.tolist() for name, column in log.jobs.own.of.items()}
    assert own == {"profile": ["sleep", "sleep"], "color": ["red", None], "shape": ["[1, 2]", None]}


WORDS = st.sampled_from(["delay", "smpi", "composed", "parallel", "recv", "", None, 3, [], {}])
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.sampled_from(["a", "b", "usage/all.txt"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "cpu"]), inner, max_size=2)
    ),
    max_leaves=4,
)
KEYS = ("type", "delay", "cpu", "com", "seq", "repeat", "trace", "filename", "trace_type")
JOB_KEYS = ("id", "subtime", "res", "walltime", "profile", "extra_data", "dependencies", "user", "units")


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(
        st.sampled_from(["a", "b"]), st.dictionaries(st.sampled_from(KEYS), VALUES | WORDS) | VALUES
    ),
    st.lists(st.dictionaries(st.sampled_from(JOB_KEYS), VALUES) | VALUES, max_size=3),
    st.booleans(),
)
def test_any_content_is_read_or_refused(tmp_path: Path, profiles: dict, jobs: list, lenient: bool) -> None:
    path = tmp_path / "w.json"
    jobs = [{"id": row, "subtime": 0, "res": 1, "profile": "a"} | one if isinstance(one, dict) else one
            for row, one in enumerate(jobs)]  # fmt: skip
    path.write_text(json.dumps({"jobs": jobs, "profiles": profiles}))
    with suppress(InputError):
        log = read_batsim(path, Reading(lenient, rates=RATES))
        assert len(log.jobs) + log.broken_lines == len(jobs)
