"""Known schedules: small workloads with the exact start of each job under each rule.

A case is one YAML file, and the only copy of its numbers: workloads in other formats are written from it.
"""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pydantic

from mlsim._files import read_text
from mlsim.errors import InputError
from mlsim.scenario import scenario_text
from mlsim.scenario.words import WorkloadFormat
from mlsim.verify.plain_schedules import SLACK, seconds
from mlsim.workload.format_record import new_file
from mlsim.workload.log_fields import Field, Header
from mlsim.workload.log_formats import FORMATS, write_blocks, write_columns
from mlsim.workload.workload_jobs import LogBlock, named_columns

RULES: Final = {"fcfs": "none", "greedy": "greedy", "easy": "easy", "conservative": "conservative"}
"""Rules of known schedules, and the value of ``batch.backfill`` that means each."""


@pydantic.dataclasses.dataclass(frozen=True, config={"extra": "forbid"})
class KnownSchedule:
    """One workload, and when its jobs start."""

    question: str
    """What the case asks."""
    text: str
    """The answer, in two sentences."""
    units: int
    """Nodes of the machine."""
    jobs: list[tuple[float, float, float, int]]
    """Submit time, run time, walltime [s] and nodes of jobs 1, 2, ..."""
    starts: dict[str, list[float | None]]
    """By rule: when each job starts [s]; null: never."""
    derived: str
    """How the starts were found."""
    after: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Job -> the job whose end it waits for, and the seconds after it."""
    keys: dict[str, Any] = field(default_factory=dict)
    """Further keys of the scenario, under every rule."""
    name: str = ""

    def scenario(self, rule: str, directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        """Write the workload into a directory; return a scenario that reads it, and its other keys."""
        write_blocks(directory / "jobs.csv", {}, [self.log()])
        base = {
            "platform": {"nodes": [{"name": "n", "count": self.units, "cores": 1}]},
            "workload": {"path": str(directory / "jobs.csv"), "mapping": "node"},
        }
        keys = {"batch.backfill": RULES[rule]} | ({"workload.dependencies": True} if self.after else {})
        return base, keys | self.keys

    def log(self) -> LogBlock:
        """Return the workload as a log."""
        columns = np.full((len(Field), len(self.jobs)), -1.0)
        columns[Field.JOB_ID] = np.arange(1, len(self.jobs) + 1)
        places = (Field.SUBMIT_TIME, Field.RUN_TIME, Field.REQUESTED_TIME, Field.REQUESTED_PROCESSORS)
        columns[list(places)] = np.array(self.jobs).T
        for job, (other, think) in self.after.items():
            columns[[Field.PRECEDING_JOB, Field.THINK_TIME], job - 1] = other, think
        return LogBlock.from_columns(columns)

    def ends(self, rule: str) -> list[float | None]:
        """Return when each job ends: at its walltime at the latest, unless overruns are extended."""
        kills = self.keys.get("batch.on_overrun", "kill") == "kill"
        return [
            None if start is None else start + (min(run, walltime) if kills else run)
            for start, (_, run, walltime, _) in zip(self.starts[rule], self.jobs, strict=True)
        ]

    def differences(self, rule: str, starts: dict[str, float]) -> list[str]:
        """Return a sentence per job that does not start as is known; jobs that never did have no start."""
        found = []
        for job, expected in enumerate(self.starts[rule], 1):
            start = starts.get(str(job))
            if start != expected and not (
                start is not None and expected is not None and abs(start - expected) <= SLACK
            ):
                words = [("never" if time is None else f"at {seconds(time)}") for time in (start, expected)]
                found.append(f"job {job} starts {words[0]}, and {rule} starts it {words[1]}")
        return found

    def write(self, directory: Path) -> None:
        """Write the workload as SWF, Batsim's JSON and CSV, and the schedule under each rule as CSV."""
        log = self.log()
        header: Header = {"MaxNodes": str(self.units), "MaxProcs": str(self.units)}
        for suffix in (".swf", ".csv"):
            write_blocks(directory / f"{self.name}{suffix}", header, [log])
        batsim = FORMATS[WorkloadFormat.BATSIM]
        write_columns(directory / f"{self.name}.json", batsim, header, [named_columns(log, header)])
        for rule, starts in self.starts.items():
            rows = ["job_id,submit_time,eligible_time,start_time,end_time,processors,walltime,run_time"]
            ends = self.ends(rule)
            for job, (start, end, (submit, run, walltime, units)) in enumerate(
                zip(starts, ends, self.jobs, strict=True), 1
            ):
                other, think = self.after.get(job, (0, 0.0))
                eligible = max(submit, (ends[other - 1] or 0.0) + think) if other else submit
                times = [submit, eligible, start, end]
                words = ["" if time is None else f"{time:.17g}" for time in times]
                rows.append(f"{job},{','.join(words)},{units},{walltime:.17g},{run:.17g}")
            with new_file(directory / f"{self.name}.{rule}.csv") as file:
                file.write("\n".join([*rows, ""]).encode())


def read_known(directory: Path) -> list[KnownSchedule]:
    """Read all cases of a directory, in the order of their names."""
    files = sorted(directory.glob("*.yaml"))
    if not files:
        raise InputError(f"{directory}: has no known schedules (files *.yaml)")
    return [read_case(file) for file in files]


def read_case(file: Path) -> KnownSchedule:
    """Read one case."""
    found = scenario_text.parse_text(read_text(file), str(file), lambda _: True)
    if found.problems:
        raise InputError(f"{file}: {found.problems[0].message}")
    try:
        case = pydantic.TypeAdapter(KnownSchedule).validate_python({**found.value, "name": file.stem})
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{file}: {place}: {first['msg']}") from error
    for rule, starts in case.starts.items():
        if rule not in RULES:
            raise InputError(f"{file}: starts.{rule}: no such rule; allowed: {', '.join(RULES)}")
        if len(starts) != len(case.jobs):
            raise InputError(f"{file}: starts.{rule}: {len(starts)} starts of {len(case.jobs)} jobs")
    return case
