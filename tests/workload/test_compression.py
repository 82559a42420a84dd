from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
from pathlib import Path

import pytest

from mlsim.errors import InputError
from mlsim.workload.format_record import compressed_writer, read_chunks

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CONTENT = b"".join(b"%d some line of text\n" % number for number in range(40_000))
PACKERS = {
    "plain": lambda data: data,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "Zstandard": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),
}
PACKED = [name for name in PACKERS if name != "plain"]


def read(path: Path) -> bytes:
    return b"".join(read_chunks(path))


@pytest.mark.parametrize("name", PACKERS)
def test_content_decides_not_the_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(PACKERS[name](CONTENT))
    assert read(path) == CONTENT


@pytest.mark.parametrize("name", PACKED)
def test_streams_set_end_to_end_with_padding(tmp_path: Path, name: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(PACKERS[name](CONTENT) + PACKERS[name](b"second") + bytes(8))
    assert read(path) == CONTENT + b"second"


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("missing", [1, 5, 1000])
def test_truncation_is_told(tmp_path: Path, name: str, missing: int) -> None:
    path = tmp_path / "half.swf.gz"
    path.write_bytes(PACKERS[name](CONTENT)[:-missing])
    with pytest.raises(
        InputError, match=r"half\.swf\.gz: ends in the middle of the compressed data.*download"
    ):
        read(path)


@pytest.mark.parametrize("name", PACKED)
def test_only_the_magic_bytes_are_there(tmp_path: Path, name: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(PACKERS[name](CONTENT)[:6])
    with pytest.raises(InputError, match="ends in the middle"):
        read(path)


@pytest.mark.parametrize("name", PACKED)
def test_corruption_is_told(tmp_path: Path, name: str) -> None:
    data = bytearray(PACKERS[name](CONTENT))
    middle = len(data) // 2
    data[middle : middle + 40] = bytes(255 - byte for byte in data[middle : middle + 40])
    path = tmp_path / "bad.swf"
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"bad\.swf: (the compressed data .* is corrupt|ends in the middle)"):
        read(path)


@pytest.mark.parametrize("name", PACKED)
def test_something_else_after_the_end_is_told(tmp_path: Path, name: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(PACKERS[name](CONTENT) + b"plain text that does not belong here")
    with pytest.raises(InputError, match="corrupt"):
        read(path)


def test_checksum_is_checked(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(CONTENT))
    data[-5] ^= 1
    path = tmp_path / "log.gz"
    path.write_bytes(data)
    with pytest.raises(InputError, match="corrupt"):
        read(path)


@pytest.mark.parametrize(("magic", "word"), [(b"PK\x03\x04rest", "zip"), (b"\x1f\x9drest", "compress")])
def test_other_packings_are_named(tmp_path: Path, magic: bytes, word: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(magic)
    with pytest.raises(InputError, match=word):
        read(path)


def test_missing_files_and_directories(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "none.swf")
    with pytest.raises(InputError, match="not a regular file"):
        read(tmp_path)


def test_empty_file_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    assert read(path) == b""


@pytest.mark.parametrize(
    ("suffix", "name"), [(".gz", "gzip"), (".bz2", "bzip2"), (".xz", "xz"), (".zst", "Zstandard")]
)
def test_writer_follows_the_suffix_and_is_deterministic(tmp_path: Path, suffix: str, name: str) -> None:
    results = []
    for _ in range(2):
        file = io.BytesIO()
        writer = compressed_writer(Path(f"log{suffix}"), file)
        writer.write(CONTENT)
        writer.close()
        results.append(file.getvalue())
    path = tmp_path / "log"
    path.write_bytes(results[0])
    assert results[0] == results[1]
    assert read(path) == CONTENT
