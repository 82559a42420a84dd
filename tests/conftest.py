"""Fixtures that tests of several rooms use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.effort import THOROUGH

REPOSITORY = Path(__file__).resolve().parent.parent

# Whether a commit passes depends on the commit alone; a thorough run draws examples that nobody has tried.
# No deadlines: a first example may load kernels, and machines are shared.
settings.register_profile("same examples", derandomize=not THOROUGH, deadline=None)
settings.load_profile("same examples")
# For tools/mutants.py: it is enough to know that a test fails.
settings.register_profile(
    "first failure", derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate]
)


@pytest.fixture(scope="session")
def logs_dir() -> Path:
    """A directory with real workload logs, for tests marked `logs`."""
    named = [Path(name) for name in os.environ.get("MLSIM_TRACES", "").split(os.pathsep) if name]
    for directory in [*named, REPOSITORY.parent / "shared" / "traces"]:
        if any(directory.glob("*.swf*")):
            return directory
    pytest.skip("no workload logs: set MLSIM_TRACES to a directory that holds them (see traces/README.md)")
