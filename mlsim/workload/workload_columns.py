"""The columns of a workload directory's ``jobs.parquet``: one declaration for converters, schema and page."""

from typing import Any, Final, NamedTuple

from mlsim.scenario.assignment_section import OF_JOB


class WorkloadColumn(NamedTuple):
    """A column of jobs, one value per job."""

    name: str
    kind: str  # integer, number or string, as JSON schema calls them, or "integer or string"
    unit: str
    least: str  # of known values
    meaning: str

    @property
    def required(self) -> bool:
        """Whether every workload has it."""
        return self.name in _REQUIRED


_REQUIRED = ("job_id", "submit_time", "run_time")
_MAY_BE_UNKNOWN = ("run_time", "walltime", "processors")  # cleaning decides, as of SWF logs
_TABLE = """
job_id | integer or string | | 0 | identifier, below 2^63, or a name
submit_time | number | s | 0 | submission, in a time of the workload's own
run_time | number | s | 0 | recorded run time
walltime | number | s | 0 | run time that the user requested
processors | integer | | 1 | requested processors
status | integer | | 0 | end of the job: 1 completed, 0 failed, 5 cancelled
user | integer or string | | 0 | its user, a number or a name
group | integer or string | | 0 | its group, a number or a name
executable | integer or string | | 0 | its executable, a number or a name
queue | integer or string | | 0 | its queue, a number or a name
partition | integer or string | | 0 | its partition, a number or a name
qos | integer or string | | 0 | its qos, a number or a name
dependencies | string | | | jobs that it waits for, as Slurm writes them: `afterok:3,afterany:4+60s`
withdraw_time | number | s | 0 | time at which it leaves the queue unless it runs
workflow | string | | | name of the workflow that it is a task of
recorded_start | number | s | 0 | start in the log
recorded_nodes | string | | | names of its nodes in the log, as Slurm writes them: `n[1-3,7]`
node_count | integer | | 1 | requested nodes
units | integer | | 1 | identical units of the job, each on one node
request_<resource> | number | | 0 | amount that all units ask for; memory in MB of 10^6 B; a share of a device
loop_iterations | integer | | 1 | iterations of its loop, with any application
loop_limit | integer | | 1 | most steps of a pixel, where its loop is a Mandelbrot image
application | string | | | name of its application, one of the scenario's `applications`
technique | string | | | technique of its loop, such as GSS
model | string | | | `rigid`, `loop`, or the execution model of its loop, such as `cca`
steps | integer | | 1 | time steps, each of which executes the loop
variation | number | 1 | 0 | coefficient of variation of its iteration costs
costs | string | | | file of its iteration costs, .npy or .csv, relative to the directory
iterations | integer | | 1 | iterations of its loop, per time step
"""
_ROWS = _TABLE.strip().splitlines()
WORKLOAD_COLUMNS: Final = tuple(WorkloadColumn(*map(str.strip, row.split("|"))) for row in _ROWS)
APPLICATION_COLUMNS: Final = (*OF_JOB, "iterations")


def workload_schema() -> dict[str, Any]:
    """Return the JSON schema of a row of ``jobs.parquet``; ``unit`` is an annotation."""
    properties: dict[str, Any] = {}
    patterns: dict[str, Any] = {}
    for column in WORKLOAD_COLUMNS:
        first, *others = column.kind.split(" or ")
        least = {"minimum": int(column.least)} if column.least else {}
        kinds: list[dict[str, Any]] = [{"type": first} | least, *({"type": other} for other in others)]
        if not column.required:
            kinds.append({"type": "null"})
        if (not column.required and least) or column.name in _MAY_BE_UNKNOWN:
            kinds.append({"const": -1})
        entry = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        entry = {"description": column.meaning, **({"unit": column.unit} if column.unit else {}), **entry}
        if column.name.startswith("request_"):
            patterns["^request_.+$"] = entry
        else:
            properties[column.name] = entry
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Job",
        "description": "A row of jobs.parquet in a workload directory.",
        "type": "object",
        "required": [column.name for column in WORKLOAD_COLUMNS if column.required],
        "properties": properties,
        "patternProperties": patterns,
    }
