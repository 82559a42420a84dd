"""The build of the kernel library: every kernel of the manifest, compiled for each level of the processor.

Numba compiles for a baseline in place of this machine's processor, and for callers other than Python. The C
compiler links the object code, each kernel's symbols its own, with ``runtime.c`` to one shared library.
"""

import json
import os
import platform
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from mlsim import __version__
from mlsim._jit import object_cache
from mlsim._jit.kernel_identity import digest_of
from mlsim._jit.kernel_library import (
    FOLDER,
    FORMAT,
    INDEX,
    LIBRARY,
    PACKAGE,
    key_of_call,
    name_of,
    source_digest,
)
from mlsim._runtime.processes import call, python

MANIFEST = Path(__file__).with_name("manifest.txt")
_RUNTIME = Path(__file__).with_name("runtime.c")
BASELINES = {"x86_64": {3: "x86-64-v3", 2: "x86-64-v2"}, "aarch64": {1: "generic"}}
"""Numba's names of processors, by level: the highest that a processor has is called."""
_HEAD = "# Kernels that are built ahead of time, with the kinds of their arguments, and seconds of compiling."
_LEAST_SECONDS = 0.5
"""Least seconds that the manifest has."""
_LINES = "lines"
_LONGEST = 3600.0
"""Seconds that a share of the kernels may take to compile."""
_CODE = "from mlsim._jit.library_build import compile_share; compile_share(*sys.argv[1:])"


def manifest() -> dict[str, float]:
    """Return the manifest: seconds of compiling by line, which has a kernel's name and kinds of arguments."""
    found = {}
    for text in MANIFEST.read_text().splitlines():
        line, _, seconds = text.partition(" # ")
        if line and not line.startswith("#"):
            found[line] = float(seconds or 0.0)
    return found


def seconds_to_compile(kernels: Iterable[str]) -> float:
    """Return how long kernels took to compile on the machine that recorded the manifest (CPU seconds)."""
    known: dict[str, float] = {}
    for line, seconds in manifest().items():
        name = parsed(line)[0]
        known[name] = max(seconds, known.get(name, 0.0))
    return sum(known.get(name, 0.0) for name in kernels)


def line_of(kernel: Any, kinds: Sequence[str]) -> str:
    """Return the line of a kernel in the manifest: of tuples it has no fields, which their class knows."""
    short = [re.sub(r"\([^()]*\)(?=\(\d+\)$)", "", kind) for kind in kinds]
    return f"{name_of(kernel)}: {', '.join(short)}"


def recorded() -> dict[str, float]:
    """Return what :func:`manifest` does, of the entries on disk of kernels as they are now.

    Entries that only tests and users need are left out: a kernel, or a class of tuples, is not of mlsim.
    """
    found: dict[str, float] = {}
    for file, about in object_cache.kept_entries():
        kinds = about["kinds"]
        try:
            kernel = kernel_named(about["kernel"])
        except (ImportError, AttributeError, KeyError):  # of another package, or of an older mlsim
            continue
        foreign = [
            kind for kind in kinds if "(" in kind and not kind.startswith(("mlsim.", "builtins.tuple"))
        ]
        if not foreign and object_cache.entry_file(kernel, kinds) == file:
            found[line_of(kernel, kinds)] = about["seconds"]
    return found


def record() -> int:
    """Add the entries on disk to the manifest, drop kernels that are gone; return how many are new."""
    known = {line: seconds for line, seconds in manifest().items() if _exists(line)}
    found = recorded()
    lines = [
        f"{line} # {seconds:.1f}" if seconds >= _LEAST_SECONDS else line
        for line, seconds in sorted((known | found).items())
    ]
    MANIFEST.write_text("\n".join([_HEAD, *lines]) + "\n")
    return len(set(found) - set(known))


def _exists(line: str) -> bool:
    """Whether a kernel is there, with as many parameters as in the manifest."""
    from mlsim._jit import numba_libraries

    name, kinds = parsed(line)
    try:
        function = kernel_named(name).py_func
        return len(numba_libraries.signature_of(kinds)) == len(signature(function).parameters)
    except (ImportError, AttributeError):
        return False


def parsed(line: str) -> tuple[str, list[str]]:
    """Return the kernel's name and the kinds of its arguments of a line of the manifest."""
    name, _, kinds = line.partition(":")
    return name, [kind.strip() for kind in kinds.split(",") if kind.strip()]


def build(
    lines: Iterable[str] | None = None, folder: Path = FOLDER, levels: Mapping[int, str] | None = None
) -> Path:
    """Build the library of the manifest's kernels, and its index, on all cores; return the library's file.

    ``lines`` are those of the manifest (default: all), ``levels`` Numba's names of processors by level
    (default: all of this architecture). Raises RuntimeError if a kernel cannot be compiled or linked.
    """
    levels = levels or BASELINES.get(platform.machine())
    if levels is None:
        raise RuntimeError(f"kernels cannot be built for {platform.machine()}: {', '.join(BASELINES)} only")
    jobs = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="mlsim-build-") as name:
        place = Path(name)
        (place / _LINES).write_text("\n".join(manifest() if lines is None else lines))
        shares = [(processor, level, part) for level, processor in levels.items() for part in range(jobs)]
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(lambda share: _compile(place, share, jobs), shares))
        kernels: dict[str, Any] = {}
        for part in sorted(place.glob("*.json")):
            kernels |= json.loads(part.read_text())
        folder.mkdir(exist_ok=True)
        _link(place, place / LIBRARY)
        content = (place / LIBRARY).read_bytes()
        index = {
            "format": FORMAT,
            "version": __version__,
            "levels": list(levels),
            "glibc": _least_glibc(place / LIBRARY),
            "digest": digest_of(content),
            "modules": {name: source_digest(path) for name, path in _sources()},
            "kernels": kernels,
        }
        _replace(folder / LIBRARY, content)
        _replace(folder / INDEX, json.dumps(index, indent=0).encode())
    return folder / LIBRARY


def _sources() -> Iterator[tuple[str, Path]]:
    """Yield the package's modules, and their files."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_suffix(".partial")
    partial.write_bytes(content)
    partial.replace(path)


def _compile(place: Path, share: tuple[str, int, int], shares: int) -> None:
    """Compile a share of the kernels for a level, in a process whose Numba knows of no other processor."""
    processor, level, part = share
    settings = {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""}
    settings["NUMBA_CACHE_DIR"] = str(place / "cache")
    words = [str(place), str(level), str(part), str(shares)]
    done = call(python(_CODE, *words), _LONGEST, environment=settings)
    if done.code:
        raise RuntimeError(f"kernels for {processor} cannot be compiled:\n{done.err}")


def compile_share(place: str, level: str, part: str, parts: str) -> None:
    """Compile every ``parts``-th kernel of the manifest, in a process of :func:`build`."""
    from mlsim._jit import numba_libraries

    numba_libraries.without_python()
    machine = numba_libraries.shared_machine()
    found: dict[str, Any] = {}
    for number, line in enumerate((Path(place) / _LINES).read_text().splitlines()):
        if number % int(parts) != int(part):
            continue
        name, kinds = parsed(line)
        kernel = kernel_named(name)
        types = numba_libraries.signature_of(kinds)
        kernel.dispatcher.compile(types)
        library = kernel.dispatcher.overloads[types].library
        entry = library.entry
        if entry is None:
            raise RuntimeError(f"{line}: words cannot hold what it takes or returns")
        symbol = f"mlsim_{number}"
        path = Path(place) / f"{symbol}_{level}.o"
        path.write_bytes(machine.emit_object(library._final_module))
        renamed = ["--redefine-sym", f"{entry.symbol}={symbol}_{level}"]
        _do(["objcopy", *renamed, "--keep-global-symbol", f"{symbol}_{level}", str(path)])
        found[key_of_call(name, entry.kinds)] = {
            "symbol": symbol,
            "returns": entry.returns,
            "together": entry.together,
        }
    (Path(place) / f"{level}-{part}.json").write_text(json.dumps(found))


def kernel_named(name: str) -> Any:
    """Return the kernel of a name as :func:`.kernel_library.name_of` gives it."""
    module, _, function = name.rpartition(".")
    return getattr(import_module(f"mlsim.{module}"), function)


def _link(place: Path, library: Path) -> None:
    objects = [str(path) for path in sorted(place.glob("*.o"))]
    (place / "objects").write_text("\n".join(objects))
    compiler = os.environ.get("CC", "cc")
    (place / "exports").write_text("{ global: mlsim_*; NRT_MemInfo_release; local: *; };")
    options = ["-O2", "-shared", "-fPIC", "-s", "-Wl,-z,defs", "-Wl,-z,noexecstack"]
    options.append(f"-Wl,--version-script={place / 'exports'}")
    _do([compiler, *options, "-o", str(library), str(_RUNTIME), f"@{place / 'objects'}", "-lm"])


def _least_glibc(library: Path) -> str:
    """Return the least version of the C library that has all that a library needs."""
    needed = _do(["objdump", "-T", str(library)])
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", needed)
    return ".".join(map(str, max((int(major), int(minor)) for major, minor in versions)))


def _do(command: list[str]) -> str:
    try:
        done = call(command, _LONGEST)
    except FileNotFoundError:
        raise RuntimeError(f"{command[0]} is missing: a C compiler with binutils builds kernels") from None
    if done.code:
        raise RuntimeError(f"{' '.join(command)[:300]} ended with {done.code}:\n{done.err[-3000:]}")
    return done.out
