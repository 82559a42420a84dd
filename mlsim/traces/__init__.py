"""OTF2 traces, of mlsim or of others: what is in them, what is wrong with them, other formats, parts."""

from mlsim.traces.checking import problems_of
from mlsim.traces.converting import FORMATS, convert
from mlsim.traces.cutting import cut
from mlsim.traces.reading import anchor_of, opened
from mlsim.traces.surveying import Survey, survey

__all__ = ["FORMATS", "Survey", "anchor_of", "convert", "cut", "opened", "problems_of", "survey"]
