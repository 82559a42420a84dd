"""Where jobs come from: workload logs, read, cleaned, sorted and selected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlsim._late import late

if TYPE_CHECKING:
    from mlsim.workload.clean import count_marks
    from mlsim.workload.csv_writer import write_csv
    from mlsim.workload.describing.facts import Description, describe
    from mlsim.workload.esp import EspApplication, EspCalibration, EspWorkload
    from mlsim.workload.fields import Field
    from mlsim.workload.generation import Generated, generate
    from mlsim.workload.jobs import JobBlock
    from mlsim.workload.names import names_of
    from mlsim.workload.rates import Rates
    from mlsim.workload.resampling import Resampled, resample
    from mlsim.workload.scaling import Scaled, scale
    from mlsim.workload.source import Workload, open_workload
    from mlsim.workload.swf import SwfBlock, SwfReader, read_swf
    from mlsim.workload.swf_writer import write_swf

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
        "clean": "count_marks",
        "csv_writer": "write_csv",
        "describing.facts": "Description describe",
        "esp": "EspApplication EspCalibration EspWorkload",
        "fields": "Field",
        "generation": "Generated generate",
        "jobs": "JobBlock",
        "names": "names_of",
        "rates": "Rates",
        "resampling": "Resampled resample",
        "scaling": "Scaled scale",
        "source": "Workload open_workload",
        "swf": "SwfBlock SwfReader read_swf",
        "swf_writer": "write_swf",
    },
)
