"""Workloads: logs that are read, cleaned, sorted and selected, and models that generate jobs."""

from typing import TYPE_CHECKING

from mlsim._runtime.late import late

if TYPE_CHECKING:
    from mlsim.workload.derived_logs import resample, scale
    from mlsim.workload.generated_jobs import generate
    from mlsim.workload.log_facts import describe
    from mlsim.workload.log_fields import Field, Rates, names_of
    from mlsim.workload.log_source import Workload, count_marks, open_workload
    from mlsim.workload.models.model_fit import fit
    from mlsim.workload.swf_log import SwfReader, read_swf, write_swf
    from mlsim.workload.workload_jobs import JobBlock

__all__ = [
    "Field",
    "JobBlock",
    "Rates",
    "SwfReader",
    "Workload",
    "count_marks",
    "describe",
    "fit",
    "generate",
    "names_of",
    "open_workload",
    "read_swf",
    "resample",
    "scale",
    "write_swf",
]

__getattr__ = late(
    __name__,
    {
        "generated_jobs": "generate",
        "log_facts": "describe",
        "log_fields": "Field Rates names_of",
        "log_source": "Workload count_marks open_workload",
        "models.model_fit": "fit",
        "derived_logs": "resample scale",
        "swf_log": "read_swf write_swf SwfReader",
        "workload_jobs": "JobBlock",
    },
)
