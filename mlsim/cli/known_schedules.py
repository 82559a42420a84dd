"""``mlsim verify --suite``: the known schedules, by mlsim and by others."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from mlsim.cli.command_output import print_json, working
from mlsim.cli.scenario_files import SCENARIOS
from mlsim.errors import InputError, OutputError
from mlsim.verify.known_schedules import KnownSchedule, read_known
from mlsim.verify.schedule_files import Machine, read_schedule

DIRECTORY = SCENARIOS / "known-schedules"


def run_suite(theirs: Path | None, write: Path | None, *, as_json: bool) -> int:
    """Compare schedules with the known ones; return the number that differ. ``write``: only write files."""
    cases = read_known(DIRECTORY)
    if write is not None:
        try:
            os.makedirs(write)
        except OSError as error:
            raise OutputError(f"{write}: cannot be made: {error.strerror}") from error
        for case in cases:
            case.write(write)
        print(f"Written: {write}  ({len(cases)} workloads in 3 formats, {_schedules(cases)} schedules)")
        return 0
    differ: dict[str, list[str]] = {}
    with working("known schedules", len(cases)) as work:
        for case in cases:
            for rule in case.starts:
                starts = _ours(case, rule) if theirs is None else _theirs(case, rule, theirs)
                if starts is not None:
                    differ[f"{case.name}.{rule}"] = case.differences(rule, starts)
            work.done += 1
    if not differ:
        raise InputError(f"{theirs}: has no schedule; expected files such as {cases[0].name}.easy.csv")
    wrong = {name: found for name, found in differ.items() if found}
    if as_json:
        print_json({"schema_version": 1, "schedules": len(differ), "different": wrong})
        return len(wrong)
    for name, found in wrong.items():
        print(f"{name}: {'; '.join(found)}")
    left = _schedules(cases) - len(differ)
    print(
        f"{len(differ) - len(wrong)} of {len(differ)} schedules are as known"
        + (f"; {left} of the suite have no file" if left else "")
    )
    return len(wrong)


def _schedules(cases: list[KnownSchedule]) -> int:
    return sum(len(case.starts) for case in cases)


def _ours(case: KnownSchedule, rule: str) -> dict[str, float]:
    """Return the starts of our simulation."""
    import numpy as np

    import mlsim

    with TemporaryDirectory() as directory:
        jobs = mlsim.run(*case.scenario(rule, Path(directory))).records.jobs
    first = min(submit for submit, *_ in case.jobs)  # from which a run counts
    return {
        str(job): float(start) + first
        for job, start in zip(jobs.job_id, jobs.start_time, strict=True)
        if np.isfinite(start)
    }


def _theirs(case: KnownSchedule, rule: str, directory: Path) -> dict[str, float] | None:
    """Return the starts in ``CASE.RULE.csv``, or in ``CASE.RULE/out_jobs.csv`` and the like."""
    place = directory / f"{case.name}.{rule}"
    names = ("out_jobs.csv", "job_statistics.csv")
    files = [place.with_name(f"{place.name}.csv"), *(place / name for name in names)]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        return None
    schedule = read_schedule(file, Machine(case.units), case.log())
    return {
        job.rpartition("!")[2]: float(start)
        for job, start, ran in zip(schedule.job, schedule.start, schedule.ran, strict=True)
        if ran
    }
