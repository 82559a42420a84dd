"""Where jobs come from: workload logs, read, cleaned, sorted and selected."""

from mlsim.workload.clean import count_marks
from mlsim.workload.csv_writer import write_csv
from mlsim.workload.esp import EspApplication, EspCalibration, EspWorkload, esp
from mlsim.workload.eurora import eurora
from mlsim.workload.fields import Field
from mlsim.workload.jobs import JobBlock
from mlsim.workload.kit import kit
from mlsim.workload.names import names_of
from mlsim.workload.rates import Rates
from mlsim.workload.source import Workload, open_workload
from mlsim.workload.swf import SwfBlock, SwfReader, read_swf
from mlsim.workload.swf_writer import write_swf

__all__ = [
    "EspApplication",
    "EspCalibration",
    "EspWorkload",
    "Field",
    "JobBlock",
    "Rates",
    "SwfBlock",
    "SwfReader",
    "Workload",
    "count_marks",
    "esp",
    "eurora",
    "kit",
    "names_of",
    "open_workload",
    "read_swf",
    "write_csv",
    "write_swf",
]
