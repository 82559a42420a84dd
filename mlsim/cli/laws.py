"""``mlsim check RUN --laws``: whether the schedule of a run keeps the laws of scheduling."""

from __future__ import annotations

from pathlib import Path

__all__ = ["check_laws"]


def check_laws(path: Path, promise: str | None) -> None:
    """Judge the runs at a path by every law, and print each verdict.

    Parameters
    ----------
    path
        The directory of a run, or one of such directories; their files have been compared with their
        manifests.
    promise
        A promise of backfilling that is judged whatever dispatcher made the schedule.

    Raises
    ------
    InputError
        If a run breaks a law, or there is no run of jobs.
    """
    from mlsim.cli.results import directories_of
    from mlsim.errors import InputError

    runs = [directory for directory in directories_of(path) if (directory / "scenario.yaml").is_file()]
    if not runs:
        raise InputError(f"{path}: no run of jobs, whose schedule could be judged; `mlsim run` writes one")
    broken = sum(_judge(directory, promise) for directory in runs)
    if broken:
        laws = "1 law is" if broken == 1 else f"{broken} laws are"
        raise InputError(f"{path}: {laws} broken")


def _judge(directory: Path, promise: str | None) -> int:
    """Judge one run and print its verdicts; return how many laws it breaks."""
    from mlsim.record.reading import read_tables
    from mlsim.scenario import load
    from mlsim.verify import judge

    # Only tables that a law reads: those of loops may be large.
    records = read_tables(directory, without=("chunks", "pes", "loops", "messages", "passes", "solves"))
    broken = 0
    for verdict in judge(records, load(directory / "scenario.yaml"), promise):
        broken += not verdict.is_kept
        if verdict.reason:
            print(f"  {verdict.law}: not judged: {verdict.reason}")
            continue
        state = "kept" if verdict.is_kept else f"BROKEN, {verdict.count} breaches"
        print(f"  {verdict.law}: {state}; {verdict.judged}")
        for breach in verdict.breaches:
            print(f"    {breach}")
        if verdict.count > len(verdict.breaches):
            print(f"    ... and {verdict.count - len(verdict.breaches)} more")
    return broken
