"""OTF2 traces, of mlsim or of others: their content, their defects, other formats, parts."""

from mlsim.traces.trace_conversion import FORMATS, convert, cut, move_apart
from mlsim.traces.trace_reader import Survey, anchor_of, opened, problems_of, survey

__all__ = [
    "FORMATS",
    "Survey",
    "anchor_of",
    "convert",
    "cut",
    "move_apart",
    "opened",
    "problems_of",
    "survey",
]
