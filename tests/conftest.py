"""Fixtures that tests of several rooms use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def logs_dir() -> Path:
    """A directory with real workload logs, for tests marked `logs`."""
    named = [Path(name) for name in os.environ.get("MLSIM_TRACES", "").split(os.pathsep) if name]
    for directory in [*named, REPOSITORY.parent / "shared" / "traces"]:
        if any(directory.glob("*.swf*")):
            return directory
    pytest.skip("no workload logs: set MLSIM_TRACES to a directory that holds them (see traces/README.md)")
