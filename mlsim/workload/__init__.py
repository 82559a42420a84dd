"""Where jobs come from: workload logs, read, cleaned, sorted and selected."""

from mlsim.workload.clean import count_marks
from mlsim.workload.fields import Field
from mlsim.workload.jobs import JobBlock
from mlsim.workload.source import Workload, open_workload
from mlsim.workload.swf import SwfBlock, SwfReader, read_swf
from mlsim.workload.swf_writer import write_swf

__all__ = [
    "Field",
    "JobBlock",
    "SwfBlock",
    "SwfReader",
    "Workload",
    "count_marks",
    "open_workload",
    "read_swf",
    "write_swf",
]
