"""State shared by the SWF reader and its compiled kernel.

Apart from the kernel, so that the reader can be imported without numba.
"""

from __future__ import annotations

from mlsim.workload.fields import Field

__all__ = ["COLUMNS", "END", "FULL", "LINE", "LOOK", "POSITION", "ROW", "STATE_LENGTH", "WIDTH"]

COLUMNS = len(Field)

# What `scan` answers.
END = 0  # all bytes are used up
FULL = 1  # the columns are full
LOOK = 2  # the line at the position needs Python: header, broken, or a number of many digits

# What the state array holds.
POSITION = 0  # where the next line starts
ROW = 1  # rows filled so far
LINE = 2  # number of the next line, from 1
WIDTH = 3  # columns a line must have; 0 until the first line of numbers was seen
STATE_LENGTH = 4
