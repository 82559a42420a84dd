"""Has the batch executed by the jobs of a trial cluster."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mlsim._files import is_file, read_text
from mlsim.errors import MlsimError
from mlsim.mpi.rca.wire import ADDRESS
from mlsim.scenario.words import Technique
from mlsim.slurm.cluster import Cluster
from mlsim.slurm.esp.plan import Job, Plan, Work

__all__ = ["Seen", "execute"]

_LOOK_EVERY = 0.3
_LOOK_FOR_OTHERS = 0.01
_SECRET = "MLSIM_RCA_SECRET"
_REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Seen:
    """What was seen of a job; times in s since 1970.

    Attributes
    ----------
    job
        The job of the plan.
    number
        Its number in Slurm.
    submitted, started, ended
        When its submission began, and the first and the last line of its script.
    nodes
        Names of the nodes that it got.
    columns
        File with the records of its loop.
    """

    job: Job
    number: str
    submitted: float
    started: float
    ended: float
    nodes: tuple[str, ...]
    columns: Path


def execute(
    cluster: Cluster,
    plan: Plan,
    jobs: list[Job],
    technique: Technique,
    rca: bool,
    limits: dict[str, int],
    place: Path,
) -> list[Seen]:
    """Submit jobs as they arrive, and wait until all have ended.

    Parameters
    ----------
    cluster
        An idle cluster.
    plan, jobs
        The trial, and the jobs, in order of arrival.
    technique, rca
        Of all jobs of this run.
    limits
        Limit of steps of each category.
    place
        Directory with the files of costs in ``costs``, for scripts and what they leave.

    Raises
    ------
    MlsimError
        If a job fails; the others are cancelled then.
    """
    work = place / "jobs"
    work.mkdir(parents=True)
    environment = {
        ADDRESS: cluster.address if rca else "",
        _SECRET: secrets.token_hex(32) if rca else "",
        "PYTHONPATH": os.pathsep.join([str(_REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    numbers: dict[int, tuple[str, float]] = {}
    try:
        began = time.time()
        for job in jobs:
            time.sleep(max(began + job.submit - time.time(), 0.0))
            submitted = time.time()
            script = work / f"{job.number}.sh"
            script.write_text(_script(plan, job, technique, limits[job.category], place))
            numbers[job.number] = _submit(cluster, job, script, environment), submitted
            _refuse_failures(jobs, work)
        while waiting := cluster.call("squeue", "--noheader", "--format", "%j: %r").splitlines():
            _refuse_failures(jobs, work)
            held = [line for line in waiting if "held" in line.casefold()]
            if held:
                raise MlsimError(
                    f"Slurm has put a job on hold, {held[0]}; its logs are in {cluster.place}/log"
                )
            time.sleep(_LOOK_EVERY)
        _refuse_failures(jobs, work)
    except BaseException:
        cluster.cancel_jobs()
        raise
    return list(_seen(cluster, jobs, numbers, work))


def _submit(cluster: Cluster, job: Job, script: Path, environment: dict[str, str]) -> str:
    options = [f"--nodes={job.nodes}", f"--time={round(job.estimate / 60.0)}", f"--job-name={job.category}"]
    out = script.with_suffix(".out")
    return cluster.call(
        "sbatch", "--parsable", f"--output={out}", *options, str(script), environment=environment
    ).strip()


def _script(plan: Plan, job: Job, technique: Technique, limit: int, place: Path) -> str:
    work = place / "jobs" / str(job.number)
    words = [sys.executable, "-m", *_application(plan, job, limit, place)]
    words += ["--technique", technique, "--model", plan.model, "--columns", f"{work}.npz"]
    words += ["--option", f"break_after={_pieces(plan, job)}"]
    return "\n".join(
        [
            "#!/bin/sh",
            f'echo "$(date +%s.%N) $SLURM_JOB_NODELIST" > {shlex.quote(f"{work}.start")}',
            f"srun --mpi=pmi2 {shlex.join(words)}",
            "code=$?",
            f'echo "$(date +%s.%N) $code" > {shlex.quote(f"{work}.end")}',
            "exit $code",
            "",
        ]
    )


def _pieces(plan: Plan, job: Job) -> int:
    """Return the iterations between two looks of rank 0 at what others want of it.

    Ranks of different nodes of Slurm have no memory in common, even on one machine: a rank's atomics on
    memory of rank 0 wait until rank 0 calls MPI.
    """
    return max(round(_LOOK_FOR_OTHERS * plan.size**2 / (job.run_time * job.nodes)), 1)


def _application(plan: Plan, job: Job, limit: int, place: Path) -> list[str]:
    if plan.work is Work.SLEEP:
        return ["mlsim.mpi.apps.synthetic", "--costs", str(place / "costs" / f"{job.category}.npy")]
    image = ["--scenario", str(place / "loop.yaml"), "--size", str(plan.size)]
    return ["mlsim.mpi.apps.mandelbrot", *image, "--limit", str(limit), "--every-step"]


def _refuse_failures(jobs: list[Job], work: Path) -> None:
    for job in jobs:
        end = work / f"{job.number}.end"
        if is_file(end):
            words = read_text(end, "end of a job").split()
            if len(words) == 2 and words[1] != "0":
                raise _failure(job, work, f"exit code {words[1]}")


def _failure(job: Job, work: Path, what: str) -> MlsimError:
    out = work / f"{job.number}.out"
    said = read_text(out, "output of a job").strip().splitlines()[-8:] if is_file(out) else []
    return MlsimError("\n".join([f"job {job.number} (category {job.category}): {what}", *said]))


def _seen(
    cluster: Cluster, jobs: list[Job], numbers: dict[int, tuple[str, float]], work: Path
) -> Iterator[Seen]:
    names: dict[str, tuple[str, ...]] = {}
    for job in jobs:
        if not is_file(work / f"{job.number}.end"):
            raise _failure(job, work, "Slurm has ended it before its script was done")
        started, text = read_text(work / f"{job.number}.start", "start of a job").split()
        ended = read_text(work / f"{job.number}.end", "end of a job").split()[0]
        if text not in names:
            names[text] = tuple(cluster.call("scontrol", "show", "hostnames", text).split())
        number, submitted = numbers[job.number]
        columns = work / f"{job.number}.npz"
        yield Seen(job, number, submitted, float(started), float(ended), names[text], columns)
