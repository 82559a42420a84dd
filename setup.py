"""The wheel: for one platform where it has the kernel library, for any where Numba has to compile.

``python -m mlsim._jit build`` builds the library beforehand, where there are Numba and a C compiler.
"""

import hashlib
import json
import platform
import shutil
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

INDEX = Path(__file__).with_name("mlsim") / "_jit" / "built" / "kernels.json"


def is_of_these_sources() -> bool:
    """Whether the built library is that of the sources beside it."""
    modules = json.loads(INDEX.read_text())["modules"]
    for name, digest in modules.items():
        place = INDEX.parents[3].joinpath(*name.split("."))
        path = next(
            (path for path in (place.with_suffix(".py"), place / "__init__.py") if path.exists()), None
        )
        if path is None or hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest() != digest:
            return False
    return True


class Wheel(bdist_wheel):
    """A wheel that names the platform of the library in it."""

    def finalize_options(self) -> None:
        """Refuse a library of other sources."""
        super().finalize_options()
        if INDEX.exists() and not is_of_these_sources():
            sys.exit("the kernel library is not of these sources; build it anew: python -m mlsim._jit build")

    def get_tag(self) -> tuple[str, str, str]:
        """Return for which Pythons, interfaces and platforms the wheel is."""
        if not INDEX.exists():
            return super().get_tag()
        glibc = json.loads(INDEX.read_text())["glibc"].replace(".", "_")
        return "py3", "none", f"manylinux_{glibc}_{platform.machine()}"


class Packages(Distribution):
    """Packages of one platform if the library is among them, so that a wheel has them at its root."""

    def has_ext_modules(self) -> bool:
        """Whether a part is compiled."""
        return INDEX.exists()


class Build(build_py):
    """A package with the scenarios of the repository, which ``mlsim init`` writes."""

    def run(self) -> None:
        """Copy them among the templates; an editable installation reads them where they are."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "mlsim" / "cli" / "templates" / "scenarios"
            shutil.rmtree(target, ignore_errors=True)
            left_out = shutil.ignore_patterns("*.md", "*.png", "*.swf.gz", "__pycache__", "runs")
            shutil.copytree(Path(__file__).with_name("scenarios"), target, ignore=left_out)


setup(distclass=Packages, cmdclass={"bdist_wheel": Wheel, "build_py": Build})
