"""What makes commands begin quickly: names that are loaded on first use."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import pytest

PACKAGES = ("mlsim", *(f"mlsim.{room}" for room in ("analysis", "application", "experiment", "workload")))


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_of_a_package_is_there_and_no_module_stands_in_its_place(name: str) -> None:
    package = import_module(name)
    for public in package.__all__:
        if name == "mlsim" and public.endswith("Error"):
            continue
        assert find_spec(f"{name}.{public}") is None, public
        assert not isinstance(getattr(package, public), ModuleType)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        _ = package.nothing


def test_a_replay_loads_no_applications_and_no_clock_of_simpy() -> None:
    program = (
        "import sys; import mlsim.cosim.simulation\n"
        "print([name for name in sys.modules if name.startswith(('simpy', 'matplotlib', 'numba', 'rich', "
        "'mlsim.application', 'mlsim.batch.batch_system'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
