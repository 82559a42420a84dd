"""``mlsim doctor``: what is installed here, and what the parts that are missing are needed for."""

import os
import platform
import re
import shutil
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from mlsim import __version__, _files
from mlsim._jit import kernel_library, kernel_store
from mlsim._runtime.processes import call
from mlsim.cli.command_options import Json
from mlsim.cli.command_output import print_json
from mlsim.mpi.launch import find_launchers

# Needs for each extra of the package.
PURPOSES = {
    "cp": "dispatchers that plan by constraint programming (batch.dispatcher: hcp19, pcp19 ...)",
    "dask": "studies on many machines (mlsim study --executor dask)",
    "docs": "building the documentation site (make docs)",
    "energy": "energy profiles of jobs in HDF5 (mlsim learn energy)",
    "jit": "user-defined techniques and models, and mlsim's kernels where none are built (a checkout)",
    "learning": "predictors and classes learned by scikit-learn (forest-mean, batch.classifier)",
    "mpi": "real runs beside an MPI that is there (mlsim mpi run)",
    "mpich": "real runs, with an MPI for this machine (mlsim mpi run)",
    "optuna": "searches by tree-structured Parzen estimators (search.method: optuna)",
    "otf2": "traces (output.trace)",
    "pandas": "data frames of pandas as workloads and results",
    "search": "searches by CMA-ES (search.method: cma-es)",
    "study": "Sobol samples and Student's intervals of studies",
}


def doctor(json_: Json = False) -> None:
    """Show what is installed: packages and extras, MPI, kernels, OTF2 tools, directories of logs."""
    found = findings()
    if json_:
        print_json(found)
        return
    print(f"mlsim {found['mlsim']}, Python {found['python']}, {found['system']}")
    for title, lines in _lines(found).items():
        print(f"\n{title}")
        for mark, text in lines:
            print(f"  {mark:4} {text}")


def findings() -> dict[str, Any]:
    """Return what is installed, as ``--json`` prints it."""
    core, extras = _packages()
    return {
        "schema_version": 1,
        "mlsim": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": core,
        "extras": extras,
        "mpi": _mpi(),
        "kernels": _kernels(),
        "otf2": {"package": _version("otf2"), "tools": _programs("otf2-print", "otf2-config")},
        "slurm": _programs("sbatch", "srun", "sacct", "slurmctld"),
        "logs": _logs(),
        "memory_limit": _files.memory_limit(),
    }


def _packages() -> tuple[dict[str, str | None], dict[str, dict[str, Any]]]:
    """Return the versions of what mlsim needs, and of what each extra does; None where one is missing."""
    core: dict[str, str | None] = {}
    extras: dict[str, dict[str, Any]] = {}
    try:
        needed = [Requirement(line) for line in requires("mlsim") or []]
    except PackageNotFoundError:  # a checkout on the path that is not installed
        needed = []
    for name, marker in ((requirement.name, requirement.marker) for requirement in needed):
        if marker is None or marker.evaluate({"extra": ""}):
            core[name] = _version(name)
            continue
        for extra in PURPOSES:
            if marker.evaluate({"extra": extra}):
                entry: dict[str, Any] = {
                    "for": PURPOSES[extra],
                    "packages": {},
                    "install": f"pip install 'mlsim[{extra}]'",
                }
                extras.setdefault(extra, entry)["packages"][name] = _version(name)
    for entry in extras.values():
        entry["installed"] = None not in entry["packages"].values()
    return core, dict(sorted(extras.items()))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _programs(*names: str) -> dict[str, str | None]:
    return {name: shutil.which(name) for name in names}


def _mpi() -> dict[str, Any]:
    found = {}
    for name, launcher in find_launchers().items():
        mpiexec, srun = launcher.words[0], ["pmi2"]
        try:
            done = call([mpiexec, "--version"], 20.0)
            lines = [" ".join(line.split()) for line in (done.out + done.err).splitlines() if line.strip()]
            said = next((line for line in lines if re.search(r"\d+\.\d+", line)), lines[0] if lines else "")
        except OSError as error:
            said = f"cannot be started: {error}"
        if name == "openmpi":  # the values of srun's --mpi by which its ranks find each other, the best first
            program = shutil.which(str(Path(mpiexec).parent / "ompi_info")) or shutil.which("ompi_info")
            try:
                srun = pmi_of(call([program], 20.0).out) if program else []
            except OSError:
                srun = []
        found[name] = {"command": " ".join(launcher.words), "version": said, "srun": srun}
    return found


def pmi_of(printed: str) -> list[str]:
    """Return how an Open MPI talks to srun, by what its ompi_info prints: Debian's knows PMIx only."""
    found = re.findall(r"MCA pmix: (\w+)", printed)
    pmix = any(name.startswith(("ext", "pmix")) for name in found)
    return ["pmix"] * pmix + ["pmi2"] * ("s2" in found)


def _kernels() -> dict[str, Any]:
    library = kernel_library.library_file()
    found = {str(directory): count for directory, count in kernel_store.kept_kernels().items()}
    return {
        "library": None if library is None else str(library),
        "directories": found,
        "kept": sum(found.values()),
        "compiled": os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0"),
    }


def _logs() -> dict[str, int | None]:
    """Return how many files each directory of $MLSIM_TRACES holds; None where it is not there."""
    names = [name for name in os.environ.get("MLSIM_TRACES", "").split(os.pathsep) if name]
    places = {name: Path(name).expanduser() for name in names}
    return {
        str(Path(name)): sum(1 for _ in place.iterdir()) if place.is_dir() else None
        for name, place in places.items()
    }


def _lines(found: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Return lines of a mark and a text, by their titles."""
    packages, kernels, srun = found["packages"], found["kernels"], found["slurm"]["srun"]
    core = ", ".join(f"{name} {v}" for name, v in packages.items() if v)
    missing = [("NO", f"{name}: pip install {name}") for name, v in packages.items() if v is None]
    mpi = []
    for name, entry in found["mpi"].items():
        words = " or ".join(f"--mpi={option}" for option in entry["srun"])
        words = words or "not possible, it was built without PMI; use its mpiexec"
        ranks = f"; ranks under srun: {words}" if srun else ""
        mpi.append(("yes", f"{name}: {entry['version']} ({entry['command']}){ranks}"))
    extras = []
    for name, entry in found["extras"].items():
        has = ", ".join(f"{package} {version}" for package, version in entry["packages"].items())
        missing_extra = ("no", f"{name}: {entry['install']}, for {entry['for']}")
        extras.append(("yes", f"{name}: {has}") if entry["installed"] else missing_extra)
    built = [("yes", f"built ahead of time: {kernels['library']}")] if kernels["library"] else []
    built += [("yes", f"{count} in {place}") for place, count in kernels["directories"].items() if count]
    if not built:
        built = [("no", "none are kept yet; the first run compiles, for a minute or two")]
    if not kernels["compiled"]:
        built = [("no", "NUMBA_DISABLE_JIT is set: kernels run as Python, slowly"), *built]
    tools = found["otf2"]["tools"] | found["slurm"]
    logs = [
        ("no", f"{place}: is not there") if count is None else ("yes", f"{place}: {count} files")
        for place, count in found["logs"].items()
    ]
    return {
        "Packages": [("yes", core), *missing],
        "Extras": extras,
        "MPI": mpi or [("no", "no mpiexec; pip install 'mlsim[mpich]', or load the site's")],
        "Compiled kernels": built,
        "Tools of others": [
            ("yes", f"{name}: {place}") if place else ("no", name) for name, place in tools.items()
        ],
        "Logs ($MLSIM_TRACES)": logs
        or [("no", "not set; logs are looked up beside the scenario and in ./traces")],
        "Memory": [("", f"{found['memory_limit'] / 1e9:.1f} GB may be used")],
    }
