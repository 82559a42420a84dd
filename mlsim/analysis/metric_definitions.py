"""The metrics of a run and of a loop, with unit, formula and source."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from mlsim.analysis.job_metrics import JOB_METRICS


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, or some that are defined by one sentence."""

    keys: tuple[str, ...]  # dotted, of summary.json; of an aggregate its name, without .mean and the like
    definition: str
    unit: str = ""  # of several keys in their order
    source: str = ""  # of the definition; empty if it is mlsim's own or obvious


def _read(text: str) -> tuple[Metric, ...]:
    """Read lines of keys | definition | unit | source; an indented line continues the one before."""
    lines = re.sub(r"\n +", " ", text).strip().splitlines()
    rows = ([cell.strip() for cell in line.split("|")] for line in lines)
    return tuple(Metric(tuple(keys.split(", ")), *cells) for keys, *cells in rows)


_BEFORE_JOBS = """
schema_version | version of this contract, 1
scenario, seed, technique | which run this is; `technique` is null where jobs ran no loop, or where
    applications have several
jobs.submitted | jobs submitted to the batch system | jobs
jobs.completed, jobs.killed, jobs.failed, jobs.rejected | how they ended; the four, and `jobs.withdrawn`,
    add up to `submitted` | jobs
jobs.withdrawn | only if a job was: jobs that left the queue before they started, as in the log
    (`workload.never_ran`); no other metric counts them | jobs
rejected_because | how many jobs were rejected, by reason; empty if none was | jobs
jobs.backfilled | jobs started ahead of the queue's order | jobs | Mu'alem and Feitelson 2001
backfilled_share | backfilled jobs / started jobs | share of 1 | Zrigui 2021, §4.3.4
"""
_AFTER_JOBS = """
slowdown.undefined | started jobs with p = 0, which have no slowdown | jobs
bounded_slowdown.tau | τ, 10 by default | s | Feitelson and Rudolph 1998
slowdown_histogram.slowdown, slowdown_histogram.bounded_slowdown | started jobs with a slowdown of 1, in (1,
    10], (10, 100], above 100 | jobs | Zrigui 2021, Fig. 4.3
queue_length.mean | waiting jobs, averaged over the time from the first submission to the last start: Σ w /
    (max s - min r), w without attempts that failed | jobs
queue_length.max | most jobs waiting at once; a job that starts when it is submitted never waits | jobs
queue_length.std, queue_length.median, queue_length.p90, queue_length.p99 | time-weighted over the same
    time; percentiles are the least lengths not exceeded for that share of it | jobs
passes.count | passes of the dispatcher; `passes` is null unless `output.passes` is on | passes
passes.queue_length | aggregate of the waiting jobs when a pass began, those submitted at its time included;
    every pass counts once | jobs | Galleguillos et al. 2020, §7.2
makespan | T_batch = max C - min s | s | Eleliemy 2021, Eq. 2.17
makespan_from_submit | max C - min r | s | Eleliemy 2021, §3.3
utilization.busy | Σ_k T_k / (P T_batch), T_k = time PE k computed | share of 1 | Eleliemy 2021, Eq. 6.1
utilization.allocated | the same with T_k = time core k was held by a job | share of 1
throughput | completed jobs / T_batch | jobs/h | Eleliemy 2021, §2.2.5
estimates.predictor | the source of estimates, `batch.predictor`
estimates.prediction, estimates.walltime | the estimates that the dispatcher saw, and the walltimes, against
    p, over jobs that completed or were killed:
estimates.prediction.jobs, estimates.walltime.jobs, estimates.prediction.mae, estimates.walltime.mae | how
    many; mean of abs(estimate - p) | jobs, s | Galleguillos 2020, §4.1.2
estimates.prediction.under, estimates.walltime.under, estimates.prediction.over, estimates.walltime.over |
    `share` of estimates below and above p, and the `mean` by how much, over these | share of 1, s
estimates.prediction.exact, estimates.walltime.exact, estimates.prediction.within_25,
    estimates.walltime.within_25 | share with estimate = p; share with 0.75 <= p / estimate <= 1.25 | share
    of 1 | Galleguillos 2020, §4.1.2
loops.count, loops.iterations, loops.steps | loops executed, their iterations, assigned chunks
loops.t_loop | aggregate of the parallel loop time: the last PE's finish - s | s | Eleliemy 2021, §2.1.3
loops.cov | aggregate of σ/μ of the PEs' finish times | 1 | Eleliemy 2021, Eq. 2.15
loops.imbalance | aggregate of (1 - μ/max) · 100 of the PEs' finish times | % | Eleliemy 2021, Eq. 2.16
loops.max_over_mean | aggregate of max/μ of the PEs' finish times | 1 | Eleliemy 2021, §2.1.3
loops.busy, loops.overhead, loops.idle | time PEs executed chunks; from asking for a chunk to starting it;
    the rest until the loop's end; summed over loops | PE s
coordination.messages | messages between applications and batch system | messages
coordination.releases | nodes released before their job's end | nodes | Eleliemy 2021, ch. 6
coordination.jobs_releasing | jobs that released at least one node | jobs
coordination.released_node_seconds, coordination.released_core_seconds | Σ (C - release) over these nodes,
    and over their cores the job had held | node s, core s
failures.node_failures, failures.node_drains | outages of nodes that began before the last job ended;
    announced drains are drains
failures.restarts, failures.jobs_restarted | how often jobs started again after a failure, and how many did
failures.lost_core_seconds | Σ over jobs: everything they held, if they failed; else the lost part of
    earlier attempts | core s
failures.node_downtime | node-seconds out of service, from the first submission to the last end; overlaps
    count once | node s
failures.availability | 1 - downtime / (nodes · that time) | share of 1
classes.jobs, classes.small | only with `batch.classifier`: jobs that ran and had a divider, and those of
    them whose run time was below it | jobs
classes.accuracy, classes.precision, classes.recall | shares of these with the right class; of those
    classified as small that are small; of small ones that are classified as small | share of 1 | Zrigui
    2021, Eqs. 6.1 to 6.3
classes.precision_large, classes.recall_large | the last two with large jobs for small ones | share of 1
classes.false_small, classes.false_large | shares of these wrongly classified as small, as large | share of
    1
classes.bounded_slowdown_small, classes.bounded_slowdown_large | mean bounded slowdown of small jobs, of
    large jobs | 1
classes.killed, classes.lost_core_seconds | attempts that the safeguard ended, and their core-seconds |
    jobs, core s | Zrigui 2021, Algorithm 4
applications.<name>.jobs, applications.<name>.techniques | only with `applications`: jobs of the application
    by end, as under `jobs`; how many of its jobs had each technique | jobs
applications.<name>.core_seconds, applications.<name>.run_time, applications.<name>.wait_time,
    applications.<name>.bounded_slowdown | Σ cores at the start · p; aggregates over its jobs | core s, s,
    s, 1
applications.<name>.loops | `count`, `t_loop`, `imbalance`, `busy`, `overhead` and `idle` of its loops, as
    under `loops`
applications.<name>.coordination.releases, applications.<name>.coordination.requests,
    applications.<name>.coordination.rejections, applications.<name>.coordination.nodes_accepted | nodes that
    its jobs released early; requests for nodes to them; refused ones; nodes that they agreed to release |
    nodes, messages, messages, nodes
dependencies.held | only with `workload.dependencies`: jobs whose eligible time is not their submit time;
    for them, and in all that follows from w, r is the eligible time | jobs
dependencies.held_time | aggregate of eligible time - submit time over these | s
dependencies.never | jobs that never became eligible, because of a job they depend on | jobs
workflows.count, workflows.unfinished | only with `workload.dependencies`, if the log has a column `workflow`:
    workflows, and those of them with a job that did not complete | workflows
workflows.makespan | aggregate over the others: last end - first submission | s
workflows.critical_path | aggregate: the same on a machine without limits, with the run times of the run | s
workflows.stretch | aggregate of makespan / critical path | 1
shared.<name>.capacity, shared.<name>.unit | only with `platform.shared`: how much there is, counted in what
shared.<name>.utilization | ∫ held dt / (capacity · makespan) | share of 1
shared.<name>.max | the most that jobs held at a time | its unit
energy | null where the power of nodes is not known
energy.total | jobs + idle + off: the power of all nodes, integrated from the first submission to the last
    end | J
energy.jobs, energy.idle, energy.off | busy power by cores held, or measured power of the job; idle power of
    cores without a job; power of nodes out of service | J
energy.mean_power, energy.max_power | total / time; maximum | W
energy.per_job | aggregate of the energy of the jobs that started | J
energy.measured_jobs | how many jobs' power over time is their own (`workload.power`)
workload.log | how many jobs of the whole log met each cleaning rule or fallback | jobs
workload.simulated | the same over the jobs simulated | jobs
workload.largest_request | the most processors a job could request | processors
workload.replaced | only with `applications`: columns of the workload that replaced keys of applications
workload.recorded.starts | only with `batch.dispatcher: recorded`, as all of `workload.recorded`: jobs with a
    recorded start | jobs
workload.recorded.late, workload.recorded.late_mean, workload.recorded.late_max | jobs that started after
    their recorded start; mean and maximum of their delays | jobs, s, s
workload.recorded.first_late | the first five: `job_id`, `recorded` start, `start` | s
workload.recorded.over_allocated | `seconds` in which jobs of the log hold more cores than the machine has,
    by recorded starts and run times; at most how many more (`cores`); `first` time
workload.recorded.elsewhere, workload.recorded.unknown_nodes | only if the log names nodes: jobs that started
    on others; jobs with names that the platform lacks | jobs
workload.calibrate, workload.calibrate_to | only if jobs executed loops: `costs.calibrate`, and with
    `recorded` the loop that run times of the log are assumed to have been measured with
workload.start, workload.time_zone | only if the log has dates: date of time 0, on the log's clocks; zone of
    these, if the log's header has it
self | the simulator's own time and memory
self.checksum | of all else in `summary.json`, where it was written
self.pass_time | `count`, `total` and aggregate of the wall time of passes; compiling kernels is not in it,
    loading them is in the first unless passes or their times are kept | s | Galleguillos et al. 2020, §7.2
"""
SUMMARY = (
    *_read(_BEFORE_JOBS),
    *(
        Metric((key,), f"aggregate of {metric.formula}", metric.unit, metric.source)
        for key, metric in JOB_METRICS.items()
    ),
    *_read(_AFTER_JOBS),
)
"""Of a run, in the order of ``summary.json``."""

LOOP = _read(
    """
technique, model | words of the scenario
nodes, pes, iterations, steps | size of the machine and of the loop; assigned chunks
t_loop | when the last PE finished its last chunk | s | Eleliemy 2021, §2.1.3
mean_finish | mean of the PEs' finish times | s
cov, imbalance, max_over_mean | of the PEs' finish times, as above | 1, %, 1 | Eleliemy 2021, Eq. 2.15, 2.16
busy, overhead, idle | as above, until the last PE learned that there is no more work | PE s
efficiency | busy / (pes · t_loop) | share of 1
"""
)
"""Of a loop alone: what ``mlsim loop`` writes for each, in ``loops``."""


def table(metrics: Iterable[Metric]) -> list[str]:
    """Return the lines of a table in Markdown."""
    rows = (
        f"| {', '.join(f'`{key}`' for key in m.keys)} | {m.definition} | {m.unit} | {m.source} |"
        for m in metrics
    )
    return ["| key | definition | unit | source |", "| --- | --- | --- | --- |", *rows]
