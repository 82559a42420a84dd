"""The columns of a workload directory's ``jobs.parquet``: one declaration for converters, schema and page."""

from typing import Any, Final, NamedTuple

from mlsim.scenario.assignment_section import OF_JOB


class WorkloadColumn(NamedTuple):
    """A column of jobs, one value per job; ``least`` is that of known values."""

    name: str
    kind: str  # integer, number or string, as JSON schema calls them
    unit: str
    meaning: str
    required: bool = False
    least: int | None = None
    may_be_name: bool = False  # texts as well as numbers


def _whole(name: str, meaning: str, least: int = 1) -> WorkloadColumn:
    return WorkloadColumn(name, "integer", "", meaning, least=least)


def _code(name: str, meaning: str) -> WorkloadColumn:
    return WorkloadColumn(name, "integer", "", meaning, least=0, may_be_name=True)


def _text(name: str, meaning: str) -> WorkloadColumn:
    return WorkloadColumn(name, "string", "", meaning)


_APPLICATION = {
    "application": _text("application", "name of its application, one of the scenario's `applications`"),
    "technique": _text("technique", "technique of its loop, such as GSS"),
    "model": _text("model", "`rigid`, `loop`, or the execution model of its loop, such as `cca`"),
    "steps": _whole("steps", "time steps, each of which executes the loop"),
    "variation": WorkloadColumn(
        "variation", "number", "1", "coefficient of variation of its iteration costs", least=0
    ),
    "costs": _text("costs", "file of its iteration costs, .npy or .csv, relative to the directory"),
    "iterations": _whole("iterations", "iterations of its loop, per time step"),
}

WORKLOAD_COLUMNS: Final = (
    WorkloadColumn("job_id", "integer", "", "identifier, below 2^63, or a name", True, 0, True),
    WorkloadColumn("submit_time", "number", "s", "submission, in a time of the workload's own", True, 0),
    WorkloadColumn("run_time", "number", "s", "recorded run time", True, 0),
    WorkloadColumn("walltime", "number", "s", "run time that the user requested", True, 0),
    WorkloadColumn("processors", "integer", "", "requested processors", True, 1),
    _whole("status", "end of the job: 1 completed, 0 failed, 5 cancelled", 0),
    *(_code(name, f"its {name}, a number or a name") for name in ("user", "group", "executable")),
    *(_code(name, f"its {name}, a number or a name") for name in ("queue", "partition", "qos")),
    _text("dependencies", "jobs that it waits for, as Slurm writes them: `afterok:3,afterany:4+60s`"),
    WorkloadColumn(
        "withdraw_time", "number", "s", "time at which it leaves the queue unless it runs", least=0
    ),
    _whole("node_count", "requested nodes"),
    _whole("units", "identical units of the job, each on one node"),
    _whole("request_<resource>", "amount that all units request together; memory in MB of 10^6 B", 0),
    _whole("loop_iterations", "iterations of its loop, with any application"),
    _whole("loop_limit", "most steps of a pixel, where its loop is a Mandelbrot image"),
    *(_APPLICATION[name] for name in (*OF_JOB, "iterations")),
)
APPLICATION_COLUMNS: Final = tuple(_APPLICATION)


def workload_schema() -> dict[str, Any]:
    """Return the JSON schema of a row of ``jobs.parquet``; ``unit`` is an annotation."""
    properties: dict[str, Any] = {}
    patterns: dict[str, Any] = {}
    for column in WORKLOAD_COLUMNS:
        known: dict[str, Any] = {"type": column.kind}
        if column.least is not None:
            known["minimum"] = column.least
        kinds = [known, *([{"type": "string"}] if column.may_be_name else [])]
        if not column.required:
            kinds.append({"type": "null"})
        if (not column.required and column.least is not None) or column.name in _MAY_BE_UNKNOWN:
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


_MAY_BE_UNKNOWN = ("run_time", "walltime", "processors")  # cleaning decides, as of SWF logs


def workload_table() -> list[str]:
    """Return the lines of the page's table of columns."""
    rows = [
        f"| `{each.name}` | {each.kind}{' or string' if each.may_be_name else ''} | {each.unit} | "
        f"{'yes' if each.required else ''} | {each.meaning} |"
        for each in WORKLOAD_COLUMNS
    ]
    return ["| column | type | unit | required | meaning |", "| --- | --- | --- | --- | --- |", *rows]
