"""Predictors on a recorded log: no queue is simulated, jobs end as recorded."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mlsim._runtime.arrays import Floats
from mlsim.batch.predictors import JobNames, SubmittedJob, make_predictor
from mlsim.batch.predictors.run_time_predictors import SHORTEST, cut, submitted_jobs
from mlsim.batch.predictors.weekly_forests import WEEKLY, RunTimeLearner
from mlsim.scenario import BatchConfig, WorkloadConfig
from mlsim.scenario.words import Predictor, WorkloadFormat
from mlsim.workload.format_record import Reading
from mlsim.workload.job_selection import WEEK_SECONDS
from mlsim.workload.log_fields import local_times
from mlsim.workload.log_formats import LogReader
from mlsim.workload.log_source import Cleaner
from mlsim.workload.workload_jobs import JobBlock

_ANY_SIZE = 1 << 62
_END, _SUBMISSION, _END_OF_NO_LENGTH = range(3)


@dataclass(frozen=True, slots=True)
class History:
    """Jobs of a log with their ends."""

    jobs: JobBlock  # in order of (submit_time, place in the log)
    end_time: Floats  # submission, wait and run time of the log (s)
    executable_names: list[str]  # names behind the codes of executables
    local: Floats  # submit times as seconds since 1970 on the clocks of the log's time zone
    unknown_waits: int  # jobs whose wait is not in the log: taken as 0


def read_history(path: Path, lenient: bool = False) -> History:
    """Read a log, and clean it by default options; raise InputError with the reason if it is unreadable."""
    reader = LogReader(path, WorkloadFormat.AUTO, Reading(lenient))
    cleaner: Cleaner | None = None
    blocks, waits, ids, n_jobs = [], [], [], 0
    for log in reader.blocks():
        if cleaner is None:
            asked_for = () if log.asked is None else log.asked.names
            cleaner = Cleaner(WorkloadConfig(path="log"), _ANY_SIZE, asked_for)
        # Cleaning drops rows: with places for identifiers, those that stay are known again.
        blocks.append(cleaner.clean(replace(log, job_id=np.arange(n_jobs, n_jobs + len(log)))))
        waits.append(log.wait_time)
        ids.append(log.job_id)
        n_jobs += len(log)
    jobs = JobBlock.concatenate(blocks)
    jobs = jobs.select(jobs.arrival_order())
    wait = np.concatenate([*waits, np.empty(0)])[jobs.job_id]
    job_id = np.concatenate([*ids, np.empty(0, np.int64)])[jobs.job_id]
    names: Any = reader.header.get("executable_names", [])
    return History(
        replace(jobs, job_id=job_id),
        jobs.submit_time + np.maximum(wait, 0.0) + jobs.run_time,
        [] if isinstance(names, str) else list(names),
        local_times(jobs.submit_time, reader.header, path),
        int(np.sum(wait < 0)),
    )


def predictions(history: History, name: str) -> Floats:
    """Return the prediction of each job (s), in order; the predictor learns at the recorded ends.

    Predictions are cut to [1 s, walltime]; those of the oracle are run times. Raises InputError if a
    user-defined predictor cannot be made.
    """
    jobs = history.jobs
    if name == Predictor.WALLTIME:
        return jobs.estimate
    if name == Predictor.ACTUAL:
        return np.maximum(jobs.run_time, SHORTEST)
    if name in WEEKLY:
        return _weekly(history, name)
    return _walk(history, submitted_jobs(jobs, JobNames(history.executable_names)), name)


def _weekly(history: History, name: str) -> Floats:
    """Predict week by week: jobs that ended before a week are known in it."""
    jobs, learner = history.jobs, RunTimeLearner(name, BatchConfig().quantile_or_default, 0)
    zero = float(jobs.submit_time[0]) if len(jobs) else 0.0
    learner.history.admit(jobs, np.arange(len(jobs)), history.local)
    week = ((jobs.submit_time - zero) // WEEK_SECONDS).astype(np.int64)
    by_end = np.argsort(history.end_time, kind="stable")
    ended, answers = 0, np.empty(len(jobs))
    for number in np.unique(week).tolist():
        while ended < len(jobs) and history.end_time[by_end[ended]] - zero <= number * WEEK_SECONDS:
            job = int(by_end[ended])
            learner.history.end(job, float(history.end_time[job]) - zero, float(jobs.run_time[job]))
            ended += 1
        learner.begin(number)
        rows = np.flatnonzero(week == number)
        answers[rows] = learner.predict(rows, jobs.walltime[rows])
        learner.history.submit(rows)
    return answers


def _walk(history: History, seen: list[SubmittedJob], name: str) -> Floats:
    """Predict and learn in order of time: ends first, except those of jobs of no length."""
    n = len(seen)
    run = history.jobs.run_time
    order = np.concatenate([np.full(n, _SUBMISSION), np.where(run > 0, _END, _END_OF_NO_LENGTH)])
    times = np.concatenate([history.jobs.submit_time, history.end_time])
    events = np.lexsort((np.tile(np.arange(n), 2), order, times))
    run_times = run.tolist()
    predictor = make_predictor(name)
    answers = np.empty(n)
    for event in events.tolist():
        if event < n:
            job = seen[event]
            answers[event] = cut(predictor.predict(job), job.walltime)
        else:
            predictor.learn(seen[event - n], run_times[event - n])
    return answers
