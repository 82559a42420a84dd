"""Read and write files that may be compressed: gzip, bzip2, xz, Zstandard or plain.

Reading goes by the first bytes, never by the file's name. A stream that ends early or does not
decompress is an error that names the file, so that half a download never passes for a short log.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, cast

import zstandard

from mlsim.errors import InputError

__all__ = ["compressed_writer", "compression_of", "read_chunks"]

_READ_BYTES = 1 << 17  # compressed; typical logs grow about eightfold
_PLAIN_BYTES = 1 << 20


class _Decompressor(Protocol):
    """What the decompressors of all four libraries have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class _Format:
    name: str
    magic: bytes
    suffix: str
    decompressor: Callable[[], _Decompressor]
    writer: Callable[[IO[bytes]], IO[bytes]]


def _zstandard_decompressor() -> _Decompressor:
    return cast(_Decompressor, zstandard.ZstdDecompressor().decompressobj())


def _gzip_writer(file: IO[bytes]) -> IO[bytes]:
    # No name and no time in the header: the same content gives the same bytes.
    return cast(IO[bytes], gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0))


def _bzip2_writer(file: IO[bytes]) -> IO[bytes]:
    return bz2.BZ2File(file, "wb")


def _xz_writer(file: IO[bytes]) -> IO[bytes]:
    return lzma.LZMAFile(file, "wb")


def _zstandard_writer(file: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], zstandard.ZstdCompressor(write_checksum=True).stream_writer(file, closefd=False))


_FORMATS = (
    _Format("gzip", b"\x1f\x8b", ".gz", lambda: zlib.decompressobj(wbits=31), _gzip_writer),
    _Format("bzip2", b"BZh", ".bz2", bz2.BZ2Decompressor, _bzip2_writer),
    _Format("xz", b"\xfd7zXZ\x00", ".xz", lzma.LZMADecompressor, _xz_writer),
    _Format("Zstandard", b"\x28\xb5\x2f\xfd", ".zst", _zstandard_decompressor, _zstandard_writer),
)
_FOREIGN = {b"\x1f\x9d": "compress (.Z)", b"PK\x03\x04": "zip", b"7z\xbc\xaf": "7-Zip"}
_ERRORS: tuple[type[Exception], ...] = (
    zlib.error,
    lzma.LZMAError,
    zstandard.ZstdError,
    OSError,
    EOFError,
    ValueError,
)


def _format_of(head: bytes) -> _Format | None:
    return next((known for known in _FORMATS if head.startswith(known.magic)), None)


def compression_of(path: Path) -> str:
    """Name the compression of a file by its first bytes: gzip, bzip2, xz, Zstandard or plain.

    Raises
    ------
    InputError
        The file cannot be read, or is packed in a way that is not supported.
    """
    with _open(path) as file:
        known = _format_of(_head(path, file))
    return known.name if known else "plain"


def read_chunks(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file piece by piece, in constant memory.

    Raises
    ------
    InputError
        The file cannot be read, ends in the middle of the compressed data, or is corrupt.
    """
    with _open(path) as file:
        known = _format_of(_head(path, file))
        if known is None:
            yield from _pieces(path, file, _PLAIN_BYTES)
        else:
            yield from _decompressed(path, _pieces(path, file, _READ_BYTES), known)


def compressed_writer(path: Path, file: IO[bytes]) -> IO[bytes]:
    """Wrap an open binary file in the compression that the suffix of `path` names.

    Closing the result finishes the compressed stream and leaves `file` open. For any other suffix
    the file itself is returned.
    """
    known = next((known for known in _FORMATS if known.suffix == path.suffix.lower()), None)
    return known.writer(file) if known else file


def _open(path: Path) -> IO[bytes]:
    if not path.exists():
        raise InputError(f"{path}: there is no such file")
    if not path.is_file():
        raise InputError(f"{path}: is not a regular file; a workload is a file, compressed or not")
    try:
        return path.open("rb")
    except OSError as err:
        raise InputError(f"{path}: cannot be read: {err.strerror or err}") from err


def _head(path: Path, file: IO[bytes]) -> bytes:
    """Return the first bytes of the file, which stays at its start."""
    head = next(_pieces(path, file, 8), b"")
    file.seek(0)
    foreign = next((name for magic, name in _FOREIGN.items() if head.startswith(magic)), None)
    if foreign:
        raise InputError(
            f"{path}: is packed with {foreign}, which is not supported\n"
            "  allowed: plain text, or gzip, bzip2, xz or Zstandard; unpack it and try again"
        )
    return head


def _pieces(path: Path, file: IO[bytes], size: int) -> Iterator[bytes]:
    """Raw pieces of the file until its end."""
    while True:
        try:
            piece = file.read(size)
        except OSError as err:
            raise InputError(f"{path}: cannot be read: {err.strerror or err}") from err
        if not piece:
            return
        yield piece


def _decompressed(path: Path, pieces: Iterator[bytes], known: _Format) -> Iterator[bytes]:
    """Decompress one stream after the other: a file may be several, set end to end."""
    decompressor: Any = known.decompressor()
    for piece in pieces:
        rest = piece
        while rest:
            if decompressor.eof:
                rest = rest.lstrip(b"\x00")  # padding between and after streams is legal
                if not rest:
                    break
                decompressor = known.decompressor()
            yield _step(path, decompressor, rest, known)
            rest = decompressor.unused_data if decompressor.eof else b""
    if not decompressor.eof:
        raise InputError(
            f"{path}: ends in the middle of the compressed data ({known.name}); is the download complete?"
        )


def _step(path: Path, decompressor: _Decompressor, data: bytes, known: _Format) -> bytes:
    try:
        return decompressor.decompress(data)
    except _ERRORS as err:
        raise InputError(
            f"{path}: the compressed data ({known.name}) is corrupt: {err}\n"
            "  is the download complete and of the right kind?"
        ) from err
