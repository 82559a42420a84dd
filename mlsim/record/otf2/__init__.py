"""Traces in the Open Trace Format 2, which Vampir and other tools open."""

from mlsim.record.otf2.layout import LATEST
from mlsim.record.otf2.writer import Level, Selection, Service, TraceInfo, write_otf2

__all__ = ["LATEST", "Level", "Selection", "Service", "TraceInfo", "write_otf2"]
