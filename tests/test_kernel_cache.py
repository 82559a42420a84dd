"""Kernels on disk: kept by the code that was compiled, believed only if this user alone wrote them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest

import mlsim
from mlsim._jit import INTERPRETED, kernel_identity, kernel_store
from mlsim._jit.kernel_store import announcer
from mlsim._jit.kernels import Kernel
from tests.effort import THOROUGH

REPOSITORY = Path(__file__).resolve().parent.parent
needs_numba = pytest.mark.skipif(INTERPRETED, reason="kernels are not compiled: NUMBA_DISABLE_JIT is set")

GIVEN = """
from given_constants import STEP
from mlsim._jit import inner_kernel, kernel

@inner_kernel
def part(value):
    return value * {factor}

@kernel
def whole(value):
    return part(value) + STEP
"""


def write_sources(place: Path, factor: int = 1, step: float = 1.0) -> None:
    (place / "given.py").write_text(GIVEN.format(factor=factor))
    (place / "given_constants.py").write_text(f"STEP = {step}\n")


def process(place: Path, program: str, **settings: str) -> subprocess.Popen[str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    paths = {"PYTHONPATH": f"{place}:{REPOSITORY}", "NUMBA_CACHE_DIR": str(place / "kept")}
    return subprocess.Popen(
        [sys.executable, "-B", "-c", program],
        env=known | paths | settings,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(running: subprocess.Popen[str], told: str = "") -> tuple[str, str]:
    said, problems = running.communicate(told, timeout=600)
    assert running.returncode == 0, problems
    return said.strip(), problems


CALL = "import sys, given; print(given.whole(0.0), 'numba' in sys.modules)"
WAIT_AND_CALL = "import given; print('loaded', flush=True); input(); print(given.whole(0.0))"


@pytest.mark.slow
@needs_numba
@pytest.mark.parametrize("settings", [{}, {"NUMBA_NUM_THREADS": "1"}], ids=["entries", "numba"])
def test_sources_that_change_under_a_process_leave_no_old_code_for_the_next(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    write_sources(tmp_path)
    running = process(tmp_path, WAIT_AND_CALL, **settings)
    assert running.stdout is not None
    assert running.stdout.readline() == "loaded\n"
    write_sources(tmp_path, step=1001.0)
    assert answer(running, "\n")[0] == "1.0"
    assert answer(process(tmp_path, CALL, **settings))[0].startswith("1001.0")


@pytest.mark.slow
@needs_numba
def test_what_is_compiled_into_a_kernel_is_part_of_its_key(tmp_path: Path) -> None:
    expected = []
    for factor, step in ((1, 1.0), (1, 2.0), (3, 2.0), (1, 1.0)):
        write_sources(tmp_path, factor, step)
        said, _ = answer(process(tmp_path, CALL.replace("0.0", "7.0")))
        expected.append(7.0 * factor + step)
        assert said == f"{expected[-1]} {expected[-1] not in expected[:-1]}"  # the last one was kept


@needs_numba
def test_every_kernel_of_the_package_has_a_key() -> None:
    kernels = set()
    rooms = (
        "application",
        "execution_models",
        "techniques",
        "batch",
        "record",
        "workload",
        "analysis",
        "verify",
    )
    for module in walk_packages(mlsim.__path__, "mlsim."):
        if module.name.split(".")[1] in rooms:
            kernels |= {one for one in vars(import_module(module.name)).values() if isinstance(one, Kernel)}
    assert len(kernels) > 300
    assert [kernel.__qualname__ for kernel in kernels if kernel.key is None] == []
    assert len({kernel.key for kernel in kernels}) == len(kernels)


def made(source: str, **names: Any) -> Any:
    names["__name__"] = "given"
    exec(source, names)
    return names["f"]


BODY = "def f(x):\n    return x + g(x) + S\n"


def key(function: Any) -> str | None:
    return kernel_identity.key_of(function, fresh=True)


@pytest.mark.parametrize(
    ("body", "other"),
    [
        ({}, {"source": BODY.replace("+ g", "- g")}),
        ({"S": 1}, {"S": 2}),
        ({"S": 1}, {"S": 1.0}),
        ({"g": made("def f(x):\n    return x\n")}, {"g": made("def f(x):\n    return -x\n")}),
        ({"S": (1, 2.0)}, {"S": (1, 3.0)}),
        ({"S": frozenset("ab")}, {"S": frozenset("ac")}),
    ],
)
def test_keys_differ_with_code_constants_and_what_is_called(
    body: dict[str, Any], other: dict[str, Any]
) -> None:
    usual = {"source": BODY, "S": 0, "g": abs}
    assert key(made(**(usual | body))) == key(made(**(usual | body)))
    assert key(made(**(usual | body))) != key(made(**(usual | other)))


def test_functions_that_call_each_other_have_keys_that_know_both() -> None:
    def pair(change: str) -> dict[str, Any]:
        names: dict[str, Any] = {"__name__": "given"}
        exec(f"def f(x):\n    return g(x - 1)\ndef g(x):\n    return f(x{change})\n", names)
        return names

    for name in ("f", "g"):
        assert key(pair("")[name]) == key(pair("")[name])
        assert key(pair("")[name]) != key(pair(" - 2")[name])


def test_the_key_of_a_function_does_not_depend_on_which_was_asked_for_before() -> None:
    source = "def f(x):\n    return g(x)\ndef g(x):\n    return f(x)\ndef h(x):\n    return f(x) + g(x)\n"
    found = set()
    for order in ("fgh", "gfh", "hgf", "hfg"):
        names: dict[str, Any] = {"__name__": "given"}
        exec(source, names)
        keys = {name: kernel_identity.key_of(names[name]) for name in order}
        found.add(tuple(keys[name] for name in "fgh"))
    assert len(found) == 1


def test_what_is_known_by_its_address_alone_has_no_key() -> None:
    assert key(made(BODY, S=object(), g=abs)) is None


def test_nothing_is_kept_where_the_compiler_has_changed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernel_identity.is_as_loaded()
    with monkeypatch.context() as patch:
        patch.setattr(kernel_identity, "_AT_FIRST", "another")
        assert not kernel_identity.is_as_loaded()

    def gone() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(kernel_identity, "_compiler_files", gone)
    assert not kernel_identity.is_as_loaded()


def test_an_editors_lock_is_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.py").write_text("")
    monkeypatch.setattr(kernel_identity, "_COMPILER", tmp_path)
    before = kernel_identity._compiler_files()
    (tmp_path / ".#x.py").symlink_to("nobody@nowhere.1234")
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    assert kernel_identity._compiler_files() == before


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory in which this process keeps kernels."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(announcer, "_warned", False)
    monkeypatch.setattr(announcer, "quiet", False)  # a test before may have run a quiet command
    kernel_store._directory.cache_clear()
    yield tmp_path / "kept" / kernel_store._NAME
    kernel_store._directory.cache_clear()


def test_what_is_written_is_read_and_its_directory_is_the_users_alone(place: Path) -> None:
    assert kernel_store.read("name") is None
    kernel_store.write("name", b"code\n\0")
    assert kernel_store.read("name") == b"code\n\0"
    assert kernel_store.is_shared()
    assert place.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in place.iterdir()] == ["name"]


def _swap(path: Path) -> None:
    kernel_store.write("other", b"other code")
    os.replace(path.parent / "other", path)


def _link(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


DAMAGES = {
    "flip": lambda path: path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])),
    "cut": lambda path: os.truncate(path, 20),
    "swap": _swap,
    "empty": lambda path: os.truncate(path, 0),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "link": _link,
    "link to nothing": lambda path: (path.unlink(), path.symlink_to("nothing")),
    "directory": lambda path: (path.unlink(), path.mkdir()),
    "pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "others": lambda path: path.chmod(0o666),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_a_miss_with_one_line_and_replaced(
    place: Path, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel_store.write("name", b"code")
    DAMAGES[damage](place / "name")
    assert kernel_store.read("name") is None
    told = capsys.readouterr().err
    assert told.startswith(str(place / "name")), told
    assert told.count("\n") == 1
    assert kernel_store.read("name") is None
    assert capsys.readouterr().err == ""
    kernel_store.write("name", b"code again")
    assert kernel_store.read("name") == b"code again"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("of", ["file", "directory"])
def test_what_belongs_to_another_user_is_not_read(
    place: Path, of: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel_store.write("name", b"code")
    os.chown(place / "name" if of == "file" else place, 12345, -1)
    kernel_store._directory.cache_clear()
    assert kernel_store.read("name") is None
    assert "belongs to another user" in capsys.readouterr().err
    kernel_store.write("name", b"code again")
    assert kernel_store.read("name") == b"code again"


def test_a_directory_that_others_could_write_to_is_replaced(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel_store.write("name", b"code")
    place.chmod(0o777)
    kernel_store._directory.cache_clear()
    assert kernel_store.read("name") is None
    assert "others can write to it" in capsys.readouterr().err
    assert list(place.iterdir()) == []
    assert place.stat().st_mode & 0o777 == 0o700


def test_a_user_without_a_home_has_one_place_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    assert Path("/home/me/.cache/mlsim") in kernel_store._places()
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda _: {}["no such user"])
    assert [place for place in kernel_store._places() if place.name == "mlsim"] == []


def test_where_no_place_is_writable_a_directory_of_ones_own_goes_with_the_process(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no directory")
    at_exit: list[tuple[Any, ...]] = []
    monkeypatch.setattr(kernel_store, "_places", lambda: [tmp_path / "file"])
    monkeypatch.setattr(kernel_store.atexit, "register", lambda *call, **_: at_exit.append(call))
    kernel_store.write("name", b"code")
    assert kernel_store.read("name") == b"code"
    assert not kernel_store.is_shared()
    ((remove, directory),) = at_exit
    assert remove is shutil.rmtree
    assert kernel_store._directory() == Path(directory)
    remove(directory)


MANY = r"""
import contextlib, io, json, os, pickle, random, sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from mlsim._jit import kernel_store, object_cache
from mlsim._jit.kernel_store import announcer

place, number, marker = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
draw = random.Random(int(sys.argv[4]))

class Evil:
    def __reduce__(self):
        return Path.touch, (marker,)

def damage(path, others):
    content = path.read_bytes()
    at = draw.randrange(len(content) or 1)
    kind = draw.choice(["flip", "cut", "swap", "empty", "zeros", "link", "dangling", "pickle"])
    if kind == "swap":
        path.write_bytes(draw.choice(others).read_bytes())
    elif kind in ("link", "dangling"):
        path.unlink()
        path.symlink_to(draw.choice(others) if kind == "link" else "nowhere")
    else:
        path.write_bytes({
            "flip": content[:at] + bytes(one ^ 16 for one in content[at:at + 1]) + content[at + 1:],
            "cut": content[:at], "empty": b"", "zeros": bytes(len(content)), "pickle": pickle.dumps(Evil()),
        }[kind])
    return kind

def called(by_numba):
    object_cache._Budget.left = 0 if by_numba else 10**9
    spec = spec_from_file_location("given", place / "given.py")
    module = sys.modules["given"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return [module.whole(2.0), module.whole(3), module.more(2.0), module.more(3)]

expected = [called(False), called(True)][0]
wrong, kinds, told, misses = [], {}, 0, 0
for turn in range(number):
    kept = kernel_store._directory().iterdir()
    files = sorted(path for path in kept if path.is_file() and not path.is_symlink())
    chosen = draw.choice(files)
    kind = damage(chosen, [path for path in files if path != chosen])
    kinds[kind] = kinds.get(kind, 0) + 1
    announcer._warned = False
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        answers = [called(turn % 2 == 0), called(turn % 2 == 1)]
    told += said.getvalue().count("\n")
    wrong += [turn, kind, chosen.name] if any(found != expected for found in answers) else []
print(json.dumps({"wrong": wrong, "kinds": kinds, "told": told, "executed": marker.exists()}))
"""


@needs_numba
def test_random_damages_leave_right_results(tmp_path: Path) -> None:
    write_sources(tmp_path, 3, 2.0)
    with (tmp_path / "given.py").open("a") as file:
        file.write("\n@kernel\ndef more(value):\n    return whole(value) * part(value)\n")
    number = 500 if THOROUGH else 16
    command = [sys.executable, "-c", MANY, str(tmp_path), str(number), str(tmp_path / "executed"), "7"]
    paths = {"PYTHONPATH": f"{tmp_path}:{REPOSITORY}", "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    known = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    done = subprocess.run(
        command, env=known | paths, capture_output=True, text=True, timeout=3000, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert not found["executed"]
    assert found["told"] > number / 3  # not all that is damaged is asked for
