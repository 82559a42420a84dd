"""What makes commands begin quickly: names that are loaded on first use, and memory that is let go of."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

import pytest

from mlsim import _memory

PACKAGES = (
    "mlsim",
    *(f"mlsim.{room}" for room in ("analysis", "application", "cosim", "experiment", "workload")),
)


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
        "import sys; import mlsim.cosim.replaying\n"
        "print([name for name in sys.modules if name.startswith(('simpy', 'matplotlib', 'numba', 'rich', "
        "'mlsim.application', 'mlsim.batch.simulator'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_what_the_loader_has_not_written_is_let_go_of() -> None:
    """The addresses of a library as Linux tells them: its part right before the data is relocated."""
    lines = [
        "10000-20000 r--p 00000000 fe:00 7 /lib/libllvmlite.so",
        "20000-40000 r-xp 00010000 fe:00 7 /lib/libllvmlite.so",
        "40000-50000 r--p 00030000 fe:00 7 /lib/libllvmlite.so",
        "50000-58000 r--p 00040000 fe:00 7 /lib/libllvmlite.so",
        "58000-60000 rw-p 00048000 fe:00 7 /lib/libllvmlite.so",
        "60000-70000 rw-p 00000000 00:00 0",
        "70000-80000 r-xp 00000000 fe:00 8 /lib/libother.so",
    ]
    found = list(_memory._unwritten(lines, "libllvmlite"))
    assert found == [(0x10000, 0x20000), (0x20000, 0x40000), (0x40000, 0x50000)]
    assert list(_memory._unwritten(lines, "libnone")) == []


def test_what_is_let_go_of_comes_back() -> None:
    program = (
        "from llvmlite import binding; from mlsim import _memory\n"
        "before = binding.get_host_cpu_features().flatten()\n"
        "assert _memory._compiler() or __import__('sys').platform != 'linux'\n"
        "_memory.let_go_of_compiler()\n"
        "assert binding.get_host_cpu_features().flatten() == before\n"
        "binding.initialize_native_target(); binding.initialize_native_asmprinter()\n"
        "machine = binding.Target.from_default_triple().create_target_machine()\n"
        "module = binding.parse_assembly('define i32 @f() { ret i32 7 }')\n"
        "_memory.let_go_of_compiler()\n"
        "print(len(machine.emit_object(module)) > 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
