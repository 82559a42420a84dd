"""``mlsim verify``: judge a schedule by a rule; known schedules."""

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import typer

from mlsim._files import is_directory
from mlsim.cli import command_options as cli
from mlsim.cli.command_output import print_json, working
from mlsim.errors import InputError
from mlsim.scenario import Policy, load
from mlsim.scenario.words import Backfill, Dispatcher

RuleName = Literal["fcfs", "easy", "conservative", "none"]


class _VerifyOptions(cli.Options):
    file: Path | None = cli.argument(
        "The schedule: a run of mlsim, a CSV, Batsim's out_jobs.csv, ElastiSim's job_statistics.csv, or a "
        "log with recorded starts (SWF, sacct, PBS). With --suite: a directory of your schedules.",
        "[FILE]",
        default=None,
    )
    rule: RuleName | None = cli.option(
        "The rule that made it: fcfs, easy, conservative, or none for capacity and times alone. Default: "
        "that of the run's scenario, or none."
    )
    policy: str = cli.option("The order of the queue, such as SPF; see mlsim list policies.", default="FCFS")
    reservations: int = cli.option("Reservations of EASY.", "N", default=1, min=1)
    platform: Path | None = cli.option(
        "Scenario with the machine (platform, workload.mapping), for capacity.", "SCENARIO"
    )
    units: int | None = cli.option("Processors of the machine, without a scenario.", "N", min=1)
    workload: Path | None = cli.option(
        "The jobs' workload: compared with the schedule, and read for what the schedule lacks.", "LOG"
    )
    delay: float = cli.option(
        "Seconds by which a start may be late, for schedulers that act at intervals.", default=0.0, min=0.0
    )
    limit: int = cli.option("Findings that are printed of each kind.", "N", default=5, min=0)
    suite: bool = cli.flag(
        "Run the known schedules: those of mlsim, or of FILE, with CASE.RULE.csv for each case.", "--suite"
    )
    write: Path | None = cli.option(
        "With --suite: write the workloads (SWF, Batsim, CSV) and schedules into DIR, which must not exist.",
        "DIR",
    )
    json_: cli.Json = False


def verify(options: _VerifyOptions) -> None:
    """Find the faults of a schedule: over-allocation, starts that its rule forbids, broken reservations.

    Any simulator or machine may have made it. Exit code 1 if there are faults; warnings are none.
    """
    if options.suite:
        from mlsim.cli.known_schedules import run_suite

        if run_suite(options.file, options.write, as_json=options.json_):
            raise typer.Exit(1)
        return
    if options.write is not None:
        raise InputError("--write is for the known schedules; give --suite too")
    if options.file is None:
        raise InputError("mlsim verify: give a schedule, or --suite for the known schedules")
    if options.platform is not None and options.units is not None:
        raise InputError("--platform and --units: both give the machine's size; leave one of them out")
    with working("verifying"):
        facts = _run_facts(options) if is_directory(options.file) else _file_facts(options)
    if options.json_:
        print_json(facts)
    else:
        _print(facts)
    if facts["faults"]:
        raise typer.Exit(1)


def _policy(options: _VerifyOptions) -> Policy:
    from mlsim.verify.plain_schedules import RANKED

    policy = None
    with suppress(ValueError):
        policy = Policy(options.policy)
    if policy is None or policy not in RANKED:
        raise InputError(
            f"--policy {options.policy}: a schedule does not show the order of its queue; allowed: "
            f"{', '.join(each.value for each in RANKED)}"
        )
    return policy


def _file_facts(options: _VerifyOptions) -> dict[str, Any]:
    from mlsim.verify import rule_walk, schedule_files
    from mlsim.verify.plain_schedules import Findings, judge_plain

    assert options.file is not None
    rule = rule_walk.Rule(options.rule or "none", _policy(options), options.reservations, options.delay)
    machine, obstacle = schedule_files.Machine(options.units), ""
    if options.platform is not None:
        scenario = load(options.platform)
        machine = schedule_files.Machine.of(scenario)
        if scenario.platform.drains or scenario.platform.failures:
            obstacle = "nodes of the platform go out of use (drains, failures)"
    workload = None if options.workload is None else schedule_files.read_workload(options.workload)[0]
    schedule = schedule_files.read_schedule(options.file, machine, workload)
    found = Findings(options.limit)
    judge_plain(schedule, found)
    if workload is not None:
        schedule_files.compare_workload(schedule, workload, found)
    return _facts(options, schedule, (rule, rule_walk.Reading.of(rule)), found, obstacle)


def _run_facts(options: _VerifyOptions) -> dict[str, Any]:
    from mlsim.record.parquet_tables import read_tables
    from mlsim.verify import laws
    from mlsim.verify.plain_schedules import Findings
    from mlsim.verify.run_schedule import Schedule, obstacles, schedule_of_run

    file = options.file
    assert file is not None
    if options.platform or options.units or options.workload:
        raise InputError(
            f"{file}: a run has its machine and workload; leave out --platform, --units, --workload"
        )
    if not (file / "scenario.yaml").is_file() or not (file / "jobs.parquet").is_file():
        raise InputError(f"{file}: is no run of jobs, which `mlsim run` writes; allowed: a run, or a file")
    scenario = load(file / "scenario.yaml")
    records = read_tables(file, without=("chunks", "pes", "loops", "messages", "passes", "solves"))
    batch = scenario.batch
    rules = {Backfill.NONE: "fcfs", Backfill.EASY: "easy", Backfill.CONSERVATIVE: "conservative"}
    by_queue = batch.dispatcher == Dispatcher.QUEUE
    name = options.rule or (rules.get(batch.backfill, "none") if by_queue else "none")
    run = Schedule(records, scenario)
    rule, reading = laws.rule_of(run, name)
    rule = replace(rule, reservations=max(options.reservations, rule.reservations), delay=options.delay)
    found = Findings(options.limit)
    for verdict in laws.judge_laws(run):
        for breach in verdict.breaches:
            names = [str(breach.job_id)]
            found.add("law", names, breach.time, "{} at {}: {} ({})", breach.text, verdict.law)
        found.counts["law"] += verdict.count - len(verdict.breaches)
    return _facts(options, schedule_of_run(run), (rule, reading), found, next(obstacles(run, name), ""))


def _facts(options: _VerifyOptions, schedule: Any, by: Any, found: Any, obstacle: str) -> dict[str, Any]:
    """Judge ``by`` a rule in a reading; return all facts as JSON has them."""
    from mlsim.verify.plain_schedules import KINDS
    from mlsim.verify.rule_walk import judge_rule
    from mlsim.verify.schedule_files import peak_of

    (rule, usual), notes, reading = by, list(schedule.notes), None
    if found.counts["capacity"]:
        notes.append(f"up to {peak_of(schedule):,} units are held at once; is the machine's size right?")
    if obstacle:
        what = "idle units are" if rule.name == "none" else f"{rule.name} is"
        notes.append(f"{what} not judged: {obstacle}")
    else:
        by_rule, reading = judge_rule(schedule, rule, options.limit, usual)
        found.join(by_rule)
    return {
        "schema_version": 1,
        "file": str(options.file),
        "jobs": len(schedule.job),
        "units": schedule.capacity,
        "rule": rule.name,
        "policy": rule.policy.value,
        "reading": str(reading) if reading else None,
        "is_usual_reading": reading in (None, usual),
        "notes": notes,
        "faults": found.faults,
        "counts": {kind: found.counts[kind] for kind in KINDS if found.counts[kind]},
        "findings": [
            {"kind": each.kind, "time": each.time, "jobs": list(each.jobs), "text": each.text}
            for each in sorted(found.described, key=lambda each: each.time)
        ],
    }


def _print(facts: dict[str, Any]) -> None:
    """Print findings by kind, then the sum."""
    from mlsim.verify.plain_schedules import KINDS, WARNING

    for note in facts["notes"]:
        print(f"mlsim: note: {note}", file=sys.stderr)
    order = f", queue by {facts['policy']}" if facts["policy"] != "FCFS" else ""
    print(f"{facts['file']}: {facts['jobs']:,} jobs on {facts['units']:,} units, rule {facts['rule']}{order}")
    if not facts["is_usual_reading"]:
        print(f"  read as: {facts['reading']}")
    for kind, count in facts["counts"].items():
        print(f"  {KINDS[kind]}: {count:,}")
        texts = [one["text"] for one in facts["findings"] if one["kind"] == kind]
        for text in texts:
            print(f"    {text}")
        if count > len(texts):
            print(f"    ... and {count - len(texts):,} more (--limit)")
    warnings = facts["counts"].get(WARNING, 0)
    words = "no fault" if not facts["faults"] else f"{facts['faults']:,} faults"
    print(f"{words}" + (f", {warnings:,} warnings" if warnings else ""))
