"""Everything that is read from disk: of another kind, too large, damaged, nested, or at no path at all."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from mlsim._files import (
    expanded,
    is_file,
    json_of,
    memory_limit,
    named,
    open_file,
    parquet,
    read_bytes,
    read_npy,
    read_npz,
    read_text,
)
from mlsim._files.parquet import read_columns, read_schema, refusing_damage
from mlsim.errors import InputError
from mlsim.experiment.stored_runs import find_runs
from mlsim.scenario import from_mapping, load
from mlsim.scenario.scenario_paths import resolve_path
from mlsim.workload import read_swf
from mlsim.workload.csv_log import read_csv

LEAST = {"platform": {"nodes": [{"name": "n", "count": 1, "cores": 1}]}, "workload": {"path": "x.swf"}}


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/dev/zero", "is a device, not a regular file"),
        ("a" * 5000, "the name is too long"),
        ("x\0y", "NUL byte"),
        ("none", "there is no such file"),
        ("/etc/passwd/x", "a part of its path is no directory"),
        ("", "is a directory"),
    ],
)
@pytest.mark.parametrize("reader", [load, read_swf, read_csv, lambda path: find_runs([path])])
def test_paths_that_are_no_files(path: str, words: str, reader: Callable[[str], object]) -> None:
    with pytest.raises(InputError) as info:
        reader(path)
    assert words in str(info.value) or reader.__name__ == "<lambda>"
    assert len(str(info.value)) < 1000


def test_pipes_sockets_and_loops_of_links_are_refused_at_once(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
    Path("a").symlink_to("b")
    Path("b").symlink_to("a")
    for name, words in (("pipe", "is a pipe"), ("socket", "is a socket"), ("a", "loop of symbolic links")):
        assert not is_file(Path(name))
        for reader in (open_file, read_bytes, load, read_swf):
            with pytest.raises(InputError, match=words):
                reader(Path(name))


def test_a_home_of_nobody() -> None:
    for reader in (expanded, load, read_swf, lambda path: resolve_path(from_mapping(LEAST), path)):
        with pytest.raises(InputError, match="there is no such user"):
            reader("~nosuchuser/x")


def test_own_descriptors_are_read_up_to_a_bound(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"name: a\n")
    os.close(writing)
    assert read_bytes(Path(f"/dev/fd/{reading}")) == b"name: a\n"
    os.close(reading)
    endless = os.open("/dev/zero", os.O_RDONLY)
    with pytest.raises(InputError, match="this is too large for a scenario file; allowed: 4 MB"):
        load(f"/dev/fd/{endless}")
    os.close(endless)


def test_files_are_bounded_by_kind_and_by_memory(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x" * 3_000_000)
    with pytest.raises(InputError, match="3 MB is too large for a thing; allowed: 2 MB"):
        read_bytes(path, "thing", 2_000_000)
    monkeypatch.setenv("MLSIM_MEMORY", "0.01")
    assert memory_limit() == 10_000_000
    with pytest.raises(InputError, match="3 MB is too large"):
        read_bytes(path)
    monkeypatch.setenv("MLSIM_MEMORY", "much")
    assert memory_limit() > 100_000_000


def test_names_in_messages_are_short_and_on_one_line() -> None:
    assert named("a\nb") == "a\\nb"
    assert len(named("x" * 5000)) < 350


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("[" * 100 + "]" * 100, "nested too deeply; allowed: 64 levels"),
        ('{"a":' * 70 + "1" + "}" * 70, "nested too deeply"),
        ("1" * 5000, "a number of too many digits"),
        ('{"a": "\\ud800"}', "half a letter"),
        ('{"\\udfff": 1}', "half a letter"),
        ("{", "cannot be read as JSON"),
    ],
)
def test_json_that_no_program_can_take(text: str, words: str) -> None:
    with pytest.raises(InputError, match=f"here: .*{words}"):
        json_of(text, "here")


def test_json_keeps_what_it_says() -> None:
    assert json_of('{"a": [1, 2.5, "\\ud83d\\ude00", null]}', "") == {"a": [1, 2.5, "😀", None]}
    assert json_of("[" * 64 + "]" * 64, "") is not None


def _npy(shape: str, dtype: str = "<f8", data: bytes = b"\0" * 80) -> bytes:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (_npy("(1000000000000,)"), "says 8,000,000,000,000 bytes of values, and the file has 80"),
        (_npy("(-1,)"), r"says shape \(-1,\)"),
        (_npy("(" * 200 + ")" * 200), "not a NumPy file"),
        (_npy("(10,)", "|O"), "Python objects"),
        (_npy("(10,)")[:-1], "and the file has 79"),
        (b"PK\x03\x04", "not a NumPy file"),
        (b"", "not a NumPy file"),
        (_npy("(10,").replace(b"}", b" "), "not a NumPy file"),
        (b"\x93NUMPY\x09\x00", "version 9.0"),
    ],
)
def test_npy_headers_are_held_against_the_file(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_npy(path)


def test_npz_files_come_back_without_python_objects(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, a=np.arange(3), names=np.array(["x", "yy"]), one=2.5)
    found = read_npz(path)
    assert found["a"].tolist() == [0, 1, 2]
    assert found["names"].tolist() == ["x", "yy"]
    assert float(found["one"]) == 2.5
    np.savez(path, a=np.array([object()]))
    with pytest.raises(InputError, match="not a NumPy file of columns: Object arrays"):
        read_npz(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"PK\x05\x06" + b"\0" * 17, b"x" * 100])
def test_npz_files_that_are_none_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a NumPy file of loops"):
        read_npz(path, "loops")


def test_npz_files_that_are_cut_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, a=np.arange(1000))
    whole = path.read_bytes()
    for at in range(0, len(whole), 97):
        path.write_bytes(whole[:at])
        with pytest.raises(InputError, match=r"not a NumPy file"):
            read_npz(path)


@pytest.mark.parametrize(
    ("places", "value", "words"), [((6, 8), 1, "encrypted"), ((8, 10), 99, "compression method")]
)
def test_npz_files_that_are_encrypted_or_packed_in_another_way_are_refused(
    tmp_path: Path, places: tuple[int, int], value: int, words: str
) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, a=np.arange(3))
    whole = bytearray(path.read_bytes())
    # The same field in the head of the array's entry, and in the archive's list of entries.
    for head, place in zip((b"PK\x03\x04", b"PK\x01\x02"), places, strict=True):
        whole[whole.index(head) + place] = value
    path.write_bytes(whole)
    with pytest.raises(InputError, match=f"not a NumPy file of columns: .*{words}"):
        read_npz(path)


def test_npz_files_that_would_fill_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, a=np.zeros(100_000))
    monkeypatch.setattr("mlsim._files.most_held", lambda: 10_000)
    with pytest.raises(InputError, match=r"1 MB of values; allowed here: 0 MB"):
        read_npz(path)


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_files_come_back(tmp_path: Path, order: str) -> None:
    values = np.asarray(np.arange(6, dtype=np.int32).reshape(2, 3), order=order)
    np.save(tmp_path / "x.npy", values)
    found = read_npy(tmp_path / "x.npy")
    assert np.array_equal(found, values)
    assert found.dtype == values.dtype


def _panic() -> None:
    """Do what a panic of Polars does: its text goes straight to the process' standard error."""
    os.write(2, b"thread '<unnamed>' panicked at core.rs\n")
    raise pl.exceptions.PanicException("out of bounds\nnote: more")


def test_a_panic_is_an_error_and_says_nothing_else(capfd) -> None:
    with (
        pytest.raises(InputError, match=r"^x: broken: the file is damaged \(out of bounds"),
        refusing_damage("x: broken"),
    ):
        _panic()
    assert capfd.readouterr().err == ""


def _fail() -> None:
    os.write(2, b"another\n")
    raise OverflowError("too much\nof it")


def test_what_others_write_meanwhile_is_not_lost(capfd) -> None:
    with refusing_damage("x"):
        os.write(2, b"a warning\n")
    with pytest.raises(InputError, match="x: too much"), refusing_damage("x"):
        _fail()
    assert capfd.readouterr().err == "a warning\nanother\n"


def test_a_signal_passes_through() -> None:
    with pytest.raises(KeyboardInterrupt), refusing_damage("x"):
        raise KeyboardInterrupt


@pytest.mark.parametrize("as_file", [False, True])
def test_parquet_that_would_end_the_process_ends_another(tmp_path: Path, monkeypatch, as_file: bool) -> None:
    """Polars asks for what a damaged length says, and whoever does not get that is ended."""
    monkeypatch.setattr(parquet, "_READ_ALL", "import os; os.abort()")
    path = tmp_path / "jobs.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(path)
    with pytest.raises(InputError, match=r"jobs\.parquet: .*the file is damaged .* ended by signal 6"):
        parquet.check_apart(path, path if as_file else path.read_bytes())


def test_parquet_that_is_whole_or_refused_in_words_ends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "jobs.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(path)
    parquet.check_apart(path, path)
    parquet.check_apart(path, b"no table at all")
    with pytest.raises(InputError, match=r"no\.parquet"):
        parquet.check_apart(path, tmp_path / "no.parquet")


def test_parquet_from_files_and_from_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pl.DataFrame({"a": [1, 2], "b": ["x", "y"]}).write_parquet(path)
    assert list(read_schema(path, path)) == ["a", "b"]
    assert read_columns(path.read_bytes(), path, ["b"])["b"].to_list() == ["x", "y"]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"x\.parquet: cannot be read as Parquet: "):
        read_columns(path, path, ["b"])
    with pytest.raises(InputError, match="is a device"):
        read_schema(Path("/dev/zero"), Path("/dev/zero"))


def test_texts_in_other_encodings_are_told_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"\xef\xbb\xbfa\nb\n")
    assert read_text(path) == "a\nb\n"
    path.write_bytes(b"a\n\xe9\n")
    with pytest.raises(InputError, match=r"x:2: is not UTF-8 text \(byte 0xe9\); is it a thing"):
        read_text(path, "thing")


def test_only_here_files_are_opened_for_reading() -> None:
    """Whoever reads a file in another way reads /dev/zero without end."""
    import mlsim

    package = Path(mlsim.__file__).parent
    allowed = {
        "_jit/kernel_identity.py": (3, "its own sources; files of numba's"),
        "_jit/kernel_library.py": (3, "its own sources; the library that was built of them"),
        "_jit/library_build.py": (4, "its own sources; what it has just written"),
        "_jit/kernel_store.py": (1, "what it has written, with a checksum"),
        "application/profiles/counted_costs.py": (1, "bytes whose fingerprint is right"),
        "_runtime/forks.py": (1, "/proc"),
        "_runtime/processes.py": (1, "/proc"),
        "experiment/manifest.py": (2, "/proc"),
        "slurm/trial_cluster.py": (2, "/proc"),
        "mpi/rank_waiting.py": (1, "/proc"),
        "analysis/page/report_page.py": (1, "its own sources"),
        "mpi/calibrate.py": (2, "what its parent has just written"),
        "mpi/real_validation.py": (1, "what its child has just written"),
        "mpi/rca/wire.py": (1, "a secret that only its owner can write"),
        "record/otf2/otf2_library.py": (2, "what it has just written"),
    }
    ways = re.compile(
        r"\.read_(text|bytes)\(|np\.load\(|pl\.(read_parquet|scan_)|json\.load\(|\bYAML\(|open\(.*[\"']r"
    )
    for path in package.rglob("*.py"):
        name = path.relative_to(package).as_posix()
        found = [line for line in path.read_text(encoding="utf-8").splitlines() if ways.search(line)]
        most, _ = allowed.get(name, (0, ""))
        assert len(found) <= most or name.startswith("_files/"), (name, found)


def test_a_summary_of_a_run_may_be_hostile(tmp_path: Path) -> None:
    from mlsim.experiment.stored_runs import read_run

    (tmp_path / "summary.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"summary\.json: nested too deeply"):
        read_run(tmp_path)
    (tmp_path / "summary.json").write_text(json.dumps({"schema_version": 1}) + " " * 70_000_000)
    with pytest.raises(InputError, match=r"summary\.json: 70 MB is too large"):
        read_run(str(tmp_path))


def test_what_does_not_end_as_parquet_is_not_read_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "jobs.parquet"
    pl.DataFrame({"a": [1, 2]}).write_parquet(path)
    whole = path.read_bytes()
    read: list[bytes] = []
    monkeypatch.setattr(parquet, "call", lambda *_, content: read.append(content) or SimpleNamespace(code=0))
    for content in (b"", b"PAR1", whole[:-1], whole[:-8] + b"\xff\xff\xff\x7fPAR1"):
        parquet.check_apart(path, content)
        with pytest.raises(InputError, match="cannot be read as Parquet"):
            read_schema(content, path)
    assert not read
    parquet.check_apart(path, whole)
    parquet.check_apart(path, whole[1:])
    assert read == [whole, whole[1:]]
