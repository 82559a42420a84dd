"""Bad input: one clear screen, the right exit code, nothing half-written, nothing lost."""

from __future__ import annotations

import gzip
import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, REPOSITORY, uncounted

SWF = "; MaxProcs: 16\n" + "".join(
    f"{k} {k * 10} 0 50 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1\n" for k in range(1, 400)
)


def assert_clean(small: Path, before: set[str]) -> None:
    """Nothing new is there, not even under a hidden name."""
    left = {path.name for path in small.iterdir()}
    if "runs" in left - before:
        assert list((small / "runs").iterdir()) == []
        left -= {"runs"}
    assert left == before


def refuse(mlsim, small: Path, *arguments: str, code: int = 2) -> str:
    """Run a command that must fail; give its message."""
    before = {path.name for path in small.iterdir()}
    done = mlsim("run", "small.yaml", "--quiet", *arguments)
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    assert 0 < len(done.err.splitlines()) <= 24
    assert_clean(small, before)
    return done.err


def use_log(small: Path, name: str, content: bytes) -> str:
    (small / name).write_bytes(content)
    return f"workload.path={name}"


def test_missing_scenario(mlsim):
    done = mlsim("run", "smal.yaml")
    assert done.code == 2
    assert "smal.yaml" in done.err
    assert "Traceback" not in done.err


def test_missing_log(mlsim, small):
    message = refuse(mlsim, small, "--set", "workload.path=smal.csv")
    assert "smal.csv" in message
    assert "small.csv" in message  # the near miss
    assert "MLSIM_TRACES" in message


def test_truncated_gz(mlsim, small):
    whole = gzip.compress(SWF.encode(), mtime=0)
    message = refuse(mlsim, small, "--set", use_log(small, "log.swf.gz", whole[: len(whole) // 2]))
    assert "log.swf.gz" in message


@pytest.mark.slow
def test_broken_swf_line(mlsim, small):
    lines = SWF.splitlines()
    lines[200] = lines[200].replace(" 50 ", " fifty ", 1)
    setting = use_log(small, "log.swf", "\n".join(lines).encode())
    message = refuse(mlsim, small, "--set", setting)
    assert "log.swf:201" in message
    assert "fifty" in message
    done = mlsim("run", "small.yaml", "--set", setting, "--set", "workload.lenient=true", "--out", "here")
    assert done.code == 0, done.err
    assert "broken_lines 1" in done.out


def test_negative_time(mlsim, small):
    lines = SWF.splitlines()
    lines[7] = lines[7].replace(" 50 ", " -50 ", 1)
    message = refuse(mlsim, small, "--set", use_log(small, "log.swf", "\n".join(lines).encode()))
    assert "log.swf:8" in message
    assert "-50" in message


def test_unknown_technique(mlsim, small):
    message = refuse(mlsim, small, "--set", "application.technique=GSSS")
    assert "GSS" in message
    assert "TSS" in message


def test_five_mistakes_at_once(mlsim, small):
    text = (small / "small.yaml").read_text()
    for right, wrong in (
        ("cores: 4", "cores: 0"),
        ("policy: FCFS", "polcy: FCFS"),
        ("technique: GSS", "technique: GGS"),
        ("variation: 0.3", "variation: 3"),
        ("trace: chunks", "trace: chunk"),
    ):
        text = text.replace(right, wrong)
    (small / "small.yaml").write_text(text)
    message = refuse(mlsim, small)
    for place in ("small.yaml:5", "small.yaml:9", "small.yaml:13", "small.yaml:14", "small.yaml:16"):
        assert place in message
    for suggestion in ("policy", "GSS", "chunks"):
        assert suggestion in message


def test_output_directory_exists(mlsim, small):
    (small / "precious").mkdir()
    (small / "precious" / "file").write_text("keep me")
    message = refuse(mlsim, small, "--out", "precious")
    assert "precious" in message
    assert "--out" in message
    assert (small / "precious" / "file").read_text() == "keep me"


def test_output_below_a_file(mlsim, small):
    message = refuse(mlsim, small, "--out", "small.csv/here")
    assert "small.csv" in message


def test_unknown_option_and_command(mlsim):
    for arguments in (("run", "small.yaml", "--qiet"), ("rnu",)):
        done = mlsim(*arguments)
        assert done.code == 2
        assert "Traceback" not in done.err


def test_a_wrong_word_is_answered_with_what_is_allowed_and_what_may_be_meant(mlsim):
    for words, hint, allowed in (
        (("list", "techniqes"), "did you mean 'techniques'?", "policies"),
        (("metrics", ".", "--by", "siez"), "did you mean 'size'?", "partition"),
    ):
        done = mlsim(*words)
        assert done.code == 2
        said = " ".join(done.err.replace("│", " ").split())
        assert hint in said
        assert "allowed:" in said
        assert allowed in said
        assert "Value error" not in said


def limit_file_size() -> None:
    # As on a full disk, a write fails in the middle of a file.
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))


@pytest.mark.slow
@pytest.mark.parametrize("trace", ["none", "chunks"])
def test_full_disk(small, trace):
    (small / "log.swf").write_text(SWF)
    before = {path.name for path in small.iterdir()}
    done = subprocess.run(
        [*COMMAND, "run", "small.yaml", "--set", "workload.path=log.swf", "--set", f"output.trace={trace}"]
        + ["--set", "application.iterations.per_pe=64", "--out", "deep/er/here"],
        cwd=small,
        env={**uncounted(), "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=limit_file_size,
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "here" in done.stderr
    assert "too large" in done.stderr.lower()
    assert "Nothing was kept" in done.stderr
    assert {path.name for path in small.iterdir()} == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_interrupted_in_mid_run(small, number, code):
    # A loop with very many chunks, so that there is something to interrupt.
    log = SWF.replace(" 50 ", " 5000 ")
    (small / "log.swf").write_text(log)
    command = [*COMMAND, "run", "small.yaml", "--set", "workload.path=log.swf"]
    command += ["--set", "application.technique=SS", "--set"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "MLSIM_TEST_MARK": "1"}
    # Kernels are compiled before: the compiler makes errors of its own of an interrupt.
    few = [*command, "application.iterations.per_pe=4", "--out", "few"]
    subprocess.run(few, cwd=small, env=environment, check=True, capture_output=True, timeout=300)
    process = subprocess.Popen(
        [*command, "application.iterations.per_pe=20000", "--out", "here"],
        cwd=small,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until_busy(process.pid)
    process.send_signal(number)
    _, message = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in message
    assert {path.name for path in small.iterdir()} == {"small.yaml", "small.csv", "log.swf", "few"}


def wait_until_busy(pid: int, seconds: float = 1.5) -> None:
    """Wait until a process has used some CPU time, which takes it past its start into its run."""
    while True:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        if (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") > seconds:
            return
        time.sleep(0.01)
