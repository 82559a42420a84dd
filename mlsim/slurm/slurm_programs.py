"""The installed Slurm: calls of its programs, and the controller's plugin, which is built for it."""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mlsim._files import read_bytes
from mlsim._runtime.places import user_cache
from mlsim._runtime.processes import call
from mlsim.errors import InputError, MlsimError

NAME = "slurmctld_rca.so"
_PACKAGES = "Debian and its kin: apt-get install slurmctld slurmd slurm-client"
_SYSTEM_PLACES = "/usr/sbin:/sbin:/usr/local/sbin"
_SECONDS, _LONG = 60.0, 900.0
_CODE = Path(__file__).parent / "plugin"
_CONFIGURE = ("--disable-debug", "--enable-multiple-slurmd", "--disable-dependency-tracking")
_ORIGINS = ("Debian", "Debian Security", "Raspbian", "Ubuntu")
_TARGETS = "$(CREATED_BY)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(SIGNED_BY)|$(ORIGIN)"

Say = Callable[[str], None]


def find_program(name: str) -> str:
    """Return the path of a program; InputError if it is not installed."""
    found = shutil.which(name) or shutil.which(name, path=_SYSTEM_PLACES)
    if found is None:
        raise InputError(f"{name}: not found; {_PACKAGES}")
    return found


def installed_version() -> str:
    """Return the version of the installed controller, such as ``22.05.8``."""
    text = called([find_program("slurmctld"), "-V"])
    found = re.search(r"(\d+\.\d+\.\d+)", text)
    if found is None:
        raise MlsimError(f"slurmctld -V: no version in {text.strip()!r}")
    return found.group(1)


def plugin_directory() -> Path:
    """Return the directory of Slurm's own plugins; the controller's library lies there."""
    found = re.search(r"libslurmfull\.so\S* => (\S+)", called(["ldd", find_program("slurmctld")]))
    if found is None:
        raise MlsimError("ldd slurmctld: no libslurmfull.so; the plugins of this Slurm cannot be found")
    return Path(found.group(1)).parent


def called(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    seconds: float = _SECONDS,
    text: str | None = None,
) -> str:
    """Call a program; return its output. MlsimError, with the end of it, on failure or timeout."""
    try:
        content = None if text is None else text.encode()
        done = call(command, seconds, environment=environment, directory=directory, content=content)
    except TimeoutError as error:
        raise MlsimError(f"{' '.join(command)}: {error}") from error
    except OSError as error:
        raise MlsimError(f"{command[0]}: cannot be started: {error.strerror}") from error
    if done.code:
        said = (done.err or done.out).strip().splitlines()[-8:]
        raise MlsimError(f"{' '.join(command)}: exit code {done.code}\n" + "\n".join(said))
    return done.out


_UNKNOWN = ("", "(null)", "N/A", "Unknown")


_COLUMNS = {
    "JobIDRaw": "JobId",
    "Submit": "SubmitTime",
    "Start": "StartTime",
    "End": "EndTime",
    "Elapsed": "RunTime",
    "Timelimit": "TimeLimit",
    "ReqCPUS": "NumCPUs",
    "State": "JobState",
    "User": "UserId",
    "Group": "GroupId",
    **{name: name for name in ("Account", "Partition", "QOS", "JobName", "NodeList")},
}
"""Columns of sacct, each with the field of scontrol."""


def as_sacct(shown: str, released: Mapping[str, int] | None = None) -> str:
    """Convert the output of ``scontrol --oneliner show job`` to the form of ``sacct --parsable2``.

    The controller knows the CPUs that jobs kept; ``released`` ones are added.

    Examples
    --------
    >>> print(as_sacct("JobId=7 JobName=a UserId=ada(1000) JobState=RUNNING RunTime=00:00:02"))
    JobIDRaw|Submit|Start|End|Elapsed|Timelimit|ReqCPUS|State|User|Group|Account|Partition|QOS|JobName|NodeList
    7||||00:00:02|||RUNNING|ada|||||a|
    <BLANKLINE>
    """
    lines = ["|".join(_COLUMNS)]
    for line in shown.splitlines():
        fields = dict(word.partition("=")[::2] for word in line.split())
        if "JobId" in fields:
            given = (released or {}).get(fields["JobId"], 0)
            if given:
                fields["NumCPUs"] = str(int(fields["NumCPUs"]) + given)
            lines.append("|".join(_cell(fields, column) for column in _COLUMNS.values()))
    return "\n".join(lines) + "\n"


def _cell(fields: dict[str, str], field: str) -> str:
    text = fields.get(field, "")
    if field in ("UserId", "GroupId"):  # ada(1000)
        text = text.partition("(")[0]
    return "" if text in _UNKNOWN else text.replace("|", "_")


_JOB, _NODE = re.compile(r"[0-9]+(_[0-9]+)?"), re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def give_back(job: str, node: str) -> str:
    """Release a node of a job; return a report. InputError, with the reason, if that is not possible."""
    if not _JOB.fullmatch(job) or not _NODE.fullmatch(node):
        raise InputError(
            f"job {job!r}, node {node!r}: not of Slurm; allowed: a job id and the name of a node"
        )
    scontrol = find_program("scontrol")
    try:
        told = called([scontrol, "--oneliner", "show", "job", job])
    except MlsimError as error:
        raise InputError(f"job {job}: {error}") from error
    known = dict(word.partition("=")[::2] for word in told.split())
    nodes = called([scontrol, "show", "hostnames", known.get("NodeList", "")]).split()
    if known.get("JobState") != "RUNNING" or node not in nodes:
        raise InputError(f"job {job}: does not run on {node} (state {known.get('JobState')}, nodes {nodes})")
    if len(nodes) < 2:
        raise InputError(f"job {job}: {node} is its last node")
    if node == known.get("BatchHost"):
        raise InputError(f"job {job}: its batch script runs on {node}; only the plugin can give it back")
    kept = ",".join(other for other in nodes if other != node)
    try:
        called([scontrol, "update", f"JobId={job}", f"NodeList={kept}"])
    except MlsimError as error:
        raise InputError(f"job {job}: {node} cannot be given back: {error}") from error
    return f"node {node} is free for other jobs, job {job} keeps {len(nodes) - 1}"


# The plugin


def build_plugin(target: Path | None = None, source: Path | None = None, say: Say = lambda _: None) -> Path:
    """Build ``slurmctld_rca.so`` in ``target``, by default in the user's cache by version and code.

    ``source``: Slurm's source tree of the installed version, by default of the distribution's source package.
    """
    import fcntl  # Windows has none, and no Slurm

    version = installed_version()
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise InputError("no C compiler (cc, gcc); Debian and its kin: apt-get install gcc libc6-dev")
    found = user_cache()
    if found is None:
        raise InputError("no home directory is known for the plugin; set HOME or XDG_CACHE_HOME")
    cache = found / "slurm" / (_package_version() or version).replace("=", "-")
    cache.mkdir(parents=True, exist_ok=True)
    made = cache / _digest_of_code() / NAME
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one build at a time
        if source is not None or not made.exists():
            _compile(compiler, _headers(cache, version, source, say), made, say)
    if target is None:
        return made
    try:
        target.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy2(made, target / NAME))
    except OSError as error:
        raise InputError(f"{target}: the plugin cannot be written there: {error.strerror}") from error


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
