"""Traces in the Open Trace Format 2, which Vampir and other tools open.

What writes them needs the package otf2 and is loaded on first use: checks of a scenario do not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlsim._late import late
from mlsim.record.otf2.layout import LATEST

if TYPE_CHECKING:
    from mlsim.record.otf2.writer import Level, Rows, Selection, Service, TraceInfo, write_otf2

__all__ = ["LATEST", "Level", "Rows", "Selection", "Service", "TraceInfo", "write_otf2"]

__getattr__ = late(__name__, {"writer": "Level Rows Selection Service TraceInfo write_otf2"})
