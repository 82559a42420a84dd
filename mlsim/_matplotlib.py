"""Lazy import of Matplotlib, with garbage collection paused during the import."""

from __future__ import annotations

import sys

from mlsim._memory import importing


def load() -> None:
    """Import what draws a picture, if it is not there yet."""
    if "matplotlib.figure" in sys.modules:
        return
    with importing():
        import matplotlib.backends.backend_agg
        import matplotlib.figure  # noqa: F401 - the rest follows from it
