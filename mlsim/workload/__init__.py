"""Workloads: logs that are read, cleaned, sorted and selected, and models that generate jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlsim._runtime.late import late

if TYPE_CHECKING:
    from mlsim.workload.csv_log import write_csv
    from mlsim.workload.derived_logs import Resampled, Scaled, resample, scale
    from mlsim.workload.esp_workload import EspApplication, EspCalibration, EspWorkload
    from mlsim.workload.generated_jobs import Generated, generate
    from mlsim.workload.log_cleaning import count_marks
    from mlsim.workload.log_facts import Description, describe
    from mlsim.workload.log_source import Workload, open_workload
    from mlsim.workload.log_times import Rates
    from mlsim.workload.models.model_fit import fit
    from mlsim.workload.swf_fields import Field, names_of
    from mlsim.workload.swf_log import SwfBlock, SwfReader, read_swf, write_swf
    from mlsim.workload.workload_jobs import JobBlock

__all__ = [
    "Description",
    "EspApplication",
    "EspCalibration",
    "EspWorkload",
    "Field",
    "Generated",
    "JobBlock",
    "Rates",
    "Resampled",
    "Scaled",
    "SwfBlock",
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
    "write_csv",
    "write_swf",
]

__getattr__ = late(
    __name__,
    {
        "csv_log": "write_csv",
        "esp_workload": "EspApplication EspCalibration EspWorkload",
        "generated_jobs": "generate Generated",
        "log_cleaning": "count_marks",
        "log_facts": "describe Description",
        "log_source": "open_workload Workload",
        "log_times": "Rates",
        "models.model_fit": "fit",
        "derived_logs": "resample Resampled scale Scaled",
        "swf_fields": "Field names_of",
        "swf_log": "read_swf write_swf SwfBlock SwfReader",
        "workload_jobs": "JobBlock",
    },
)
