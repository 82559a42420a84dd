"""What a process writes to a terminal is what it says, also where colorama is installed."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

PROGRAM = """
from mlsim._runtime.memory import without_colours
without_colours()  # as commands and ranks do
import numba
print("said")
"""


def test_no_codes_for_colours_are_written_at_the_end() -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run([sys.executable, "-c", PROGRAM], stdout=theirs, timeout=120, check=False)
    os.close(theirs)
    written = os.read(ours, 1000)
    os.close(ours)
    assert done.returncode == 0
    assert written.split() == [b"said"]
