"""Traces in the Open Trace Format 2, which Vampir and other tools open.

What writes them needs the package otf2 and is loaded on first use: checks of a scenario do not need it.
"""

from typing import TYPE_CHECKING

from mlsim._runtime.late import late
from mlsim.record.otf2.trace_layout import LATEST, Level

if TYPE_CHECKING:
    from mlsim.record.otf2.trace_content import Selection, Service, TraceOptions
    from mlsim.record.otf2.trace_writer import TraceInfo, write_otf2

__all__ = ["LATEST", "Level", "Selection", "Service", "TraceInfo", "TraceOptions", "write_otf2"]

__getattr__ = late(
    __name__, {"trace_content": "Selection Service TraceOptions", "trace_writer": "TraceInfo write_otf2"}
)
