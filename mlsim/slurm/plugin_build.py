"""Builds the controller's plugin against the installed Slurm."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mlsim._files import read_bytes
from mlsim._runtime.places import user_cache
from mlsim.errors import InputError, MlsimError
from mlsim.slurm.slurm_programs import called, find_program, installed_version

NAME = "slurmctld_rca.so"
_CODE = Path(__file__).parent / "plugin"
_CONFIGURE = ("--disable-debug", "--enable-multiple-slurmd", "--disable-dependency-tracking")
_LONG = 900.0
_ORIGINS = ("Debian", "Debian Security", "Raspbian", "Ubuntu")
_TARGETS = "$(CREATED_BY)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(SIGNED_BY)|$(ORIGIN)"

Say = Callable[[str], None]


def build_plugin(target: Path | None = None, source: Path | None = None, say: Say = lambda _: None) -> Path:
    """Build ``slurmctld_rca.so`` in ``target``; return the file.

    By default it is in the user's cache, by version and code, and an existing one is reused. ``source`` is
    Slurm's source tree of the installed version, by default of the distribution's source package. ``say``
    receives each long step. Raises InputError, with what to do, if Slurm, a compiler or the matching source
    is missing.
    """
    version = installed_version()
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise InputError("no C compiler (cc, gcc); Debian and its kin: apt-get install gcc libc6-dev")
    cache = _cache() / (_package_version() or version).replace("=", "-")
    made = cache / _digest_of_code() / NAME
    with _one_at_a_time(cache):
        if source is not None or not made.exists():
            _compile(compiler, _headers(cache, version, source, say), made, say)
    if target is None:
        return made
    try:
        target.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy2(made, target / NAME))
    except OSError as error:
        raise InputError(f"{target}: the plugin cannot be written there: {error.strerror}") from error


@contextmanager
def _one_at_a_time(cache: Path) -> Iterator[None]:
    import fcntl

    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _compile(compiler: str, headers: tuple[Path, Path], made: Path, say: Say) -> None:
    say("compiling the plugin")
    made.parent.mkdir(parents=True, exist_ok=True)
    partial = made.with_suffix(f".{os.getpid()}")
    build, tree = headers
    includes = [f"-I{place}" for place in (build, build / "src", tree)]
    flags = ["-O2", "-fPIC", "-shared", "-Wall", "-DHAVE_CONFIG_H", "-D_GNU_SOURCE"]
    files = [str(file) for file in sorted(_CODE.glob("*.c"))]
    called([compiler, *flags, *includes, *files, "-lm", "-ldl", "-o", str(partial)], seconds=_LONG)
    if _digest_of_code() != made.parent.name:  # else it would be taken for what the old sources make
        partial.unlink(missing_ok=True)
        raise InputError("the plugin's sources were changed while it was compiled: build it again")
    partial.replace(made)


def _cache() -> Path:
    found = user_cache()
    if found is None:
        raise InputError("no home directory is known for the plugin; set HOME or XDG_CACHE_HOME")
    return found / "slurm"


def _digest_of_code() -> str:
    digest = hashlib.sha256()
    for file in sorted(_CODE.glob("*.[ch]")):
        digest.update(file.name.encode() + b"\0" + read_bytes(file))
    return digest.hexdigest()[:16]


def _headers(cache: Path, version: str, source: Path | None, say: Say) -> tuple[Path, Path]:
    """Return the configured tree and the source tree."""
    if source is not None:
        return _configured(source, Path(tempfile.mkdtemp(prefix="mlsim-slurm-")), version, say), source
    tree, build = cache / "source", cache / "build"
    if not (tree / "configure").exists():
        _fetch_source(tree, version, say)
    if not (build / "config.status").exists():
        partial = Path(tempfile.mkdtemp(prefix="build-", dir=cache))
        _configured(tree, partial, version, say)
        partial.replace(build)
    return build, tree


def _configured(source: Path, build: Path, version: str, say: Say) -> Path:
    if not (source / "configure").exists():
        raise InputError(f"{source}: no configure script; allowed: the top directory of Slurm's source")
    meta = source / "META"
    if not meta.exists() or version not in read_bytes(meta).decode(errors="replace"):
        raise InputError(f"{source}: not the source of Slurm {version}, the version installed")
    say("configuring Slurm's headers")
    called(["sh", str(source.resolve() / "configure"), *_CONFIGURE], directory=build, seconds=_LONG)
    return build


def _package_version() -> str:
    """Return the version of the source package of the installed controller, empty if it is of no package."""
    if shutil.which("dpkg-query") is None:
        return ""
    try:
        text = called(["dpkg-query", "-S", str(Path(find_program("slurmctld")).resolve())])
        package = text.split(":")[0].split(",")[0].strip()
        return called(["dpkg-query", "-W", "-f", "${source:Package}=${source:Version}", package]).strip()
    except MlsimError:
        return ""  # installed by hand


def _fetch_source(tree: Path, version: str, say: Say) -> None:
    """Get the source package by apt, with lists of our own: the system's are left as they are."""
    package = _package_version()
    missing = [name for name in ("apt-get", "dpkg-source") if shutil.which(name) is None]
    if not package or missing:
        why = f"{missing[0]} is missing" if package else "it was not installed by dpkg"
        raise InputError(
            f"the headers of Slurm {version} cannot be fetched, since {why}; give its source: "
            f"mlsim slurm build-plugin --source DIR (slurm-{version}.tar.bz2, unpacked)"
        )
    say(f"fetching the source of {package}")
    tree.parent.mkdir(parents=True, exist_ok=True)
    problems = []
    # One archive after the other: an archive may name a version in its index that it no longer has.
    for lines in _archives():
        with tempfile.TemporaryDirectory(prefix="fetch-", dir=tree.parent) as place:
            own = Path(place)
            options = _apt_options(own, lines)
            try:
                called(["apt-get", *options, "update", "-qq"], seconds=_LONG)
                called(["apt-get", *options, "source", "-qq", package], directory=own, seconds=_LONG)
            except MlsimError as error:
                problems.append(str(error).splitlines()[-1])
                continue
            for file in own.glob("*/configure"):
                file.parent.replace(tree)
                return
            problems.append("no configure script in it")
    raise InputError(
        f"the source of {package} cannot be fetched; see to that the distribution's archive can be reached, "
        f"or give the source by --source DIR\n" + "\n".join(problems)
    )


def _archives() -> list[list[str]]:
    """Return the machine's own archives of the distribution, each as lines of a list of sources."""
    archives: dict[str, list[str]] = {}
    for line in called(["apt-get", "indextargets", "--format", _TARGETS]).splitlines():
        kind, address, release, component, signed_by, origin = line.split("|")
        if kind == "Packages" and origin in _ORIGINS:
            signed = f"[signed-by={signed_by}] " if signed_by.startswith("/") else ""
            lines = archives.setdefault(address, [])
            lines.append(f"deb-src {signed}{address} {release} {component}\n")
    if not archives:
        raise InputError("apt knows no archive of the distribution; give Slurm's source by --source DIR")
    return [list(dict.fromkeys(lines)) for lines in archives.values()]


def _apt_options(own: Path, lines: list[str]) -> list[str]:
    """Return options of apt-get that keep it to these archives, and to files of our own."""
    for name in ("lists/partial", "archives/partial"):
        (own / name).mkdir(parents=True)
    (own / "sources.list").write_text("".join(lines))
    settings = {
        "Dir::Etc::SourceList": own / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": own / "lists",
        "Dir::Cache::Archives": own / "archives",
        "Dir::Cache::SrcPkgCache": "",
        "Dir::Cache::PkgCache": "",
        "APT::Sandbox::User": "",
    }
    return [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]
