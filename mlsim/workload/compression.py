"""Read and write files that may be compressed: gzip, bzip2, xz, Zstandard or plain.

Reading goes by the first bytes, never by the file's name. A stream that ends early or does not
decompress is an error that names the file, so that half a download never passes for a short log.
"""

import bz2
import gzip
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from mlsim._files import bounded_lines, expanded, most_held, named, open_file, reason_of
from mlsim.errors import InputError, OutputError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


_READ_BYTES = 1 << 17  # compressed; typical logs grow about eightfold
_PLAIN_BYTES = 1 << 20
_STEP_BYTES = 1 << 20  # what one step may give, decompressed
_XZ_MEMORY = 1 << 29  # the strongest preset takes an eighth of it


@dataclass(frozen=True, slots=True)
class _Format:
    name: str
    magic: bytes
    suffix: str
    decompressor: Callable[[], Any]
    writer: Callable[[IO[bytes]], Any]


_FORMATS = (
    # No name and no time in gzip's header: the same content gives the same bytes.
    _Format(
        *("gzip", b"\x1f\x8b", ".gz", lambda: zlib.decompressobj(wbits=31)),
        lambda file: gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0),
    ),
    _Format("bzip2", b"BZh", ".bz2", bz2.BZ2Decompressor, lambda file: bz2.BZ2File(file, "wb")),
    _Format(
        *("xz", b"\xfd7zXZ\x00", ".xz", lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY)),
        partial(lzma.LZMAFile, mode="wb"),
    ),
    _Format(
        *("Zstandard", b"\x28\xb5\x2f\xfd", ".zst", zstd.ZstdDecompressor),
        lambda file: zstd.ZstdFile(file, "wb", options={zstd.CompressionParameter.checksum_flag: 1}),
    ),
)

SUFFIXES = tuple(known.suffix for known in _FORMATS)  # Of compressed files
_FOREIGN = {b"\x1f\x9d": "compress (.Z)", b"PK\x03\x04": "zip", b"7z\xbc\xaf": "7-Zip"}
_ERRORS = (zlib.error, lzma.LZMAError, zstd.ZstdError, OSError, EOFError, ValueError)


def read_chunks(path: str | Path, what: str = "workload") -> Iterator[bytes]:
    """Yield the decompressed bytes of a file piece by piece, in constant memory; ``what``: its kind."""
    path = expanded(path)
    with open_file(path, what) as file:
        head = _head(path, file)
        known = next((known for known in _FORMATS if head.startswith(known.magic)), None)
        if known is None:
            yield from _pieces(path, file, _PLAIN_BYTES)
        else:
            yield from _joined(_decompressed(path, _pieces(path, file, _READ_BYTES), known))


def read_whole(path: str | Path, *, lines: bool = False, what: str = "workload") -> bytes:
    """Return all decompressed bytes of a file, if memory holds them; ``lines``: a text of bounded lines."""
    pieces, size, most = [], 0, most_held()
    chunks = read_chunks(path, what)
    for piece in bounded_lines(Path(path), chunks, what) if lines else chunks:
        size += len(piece)
        if size > most:
            raise InputError(
                f"{named(path)}: is more than {most / 1e6:,.0f} MB when decompressed, which this format "
                "would need in memory at once\n  convert it to SWF, which is read piece by piece, or cut it"
            )
        pieces.append(piece)
    return b"".join(pieces)


def compressed_writer(path: Path, file: IO[bytes]) -> IO[bytes]:
    """Wrap an open binary file, which stays open, in the compression of the suffix of `path`, if any."""
    known = next((known for known in _FORMATS if known.suffix == path.suffix.lower()), None)
    return known.writer(file) if known else file


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing, compressed according to its suffix; it is renamed when complete."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as raw, compressed_writer(path, raw) as packed:
            yield packed
        partial.replace(path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


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
    """Yield raw pieces of the file until its end."""
    while True:
        try:
            piece = file.read(size)
        except OSError as err:
            raise InputError(f"{named(path)}: {reason_of(err)}") from err
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
            yield from _stepped(path, decompressor, rest, known)
            rest = decompressor.unused_data if decompressor.eof else b""
    if not decompressor.eof:
        raise InputError(
            f"{path}: ends in the middle of the compressed data ({known.name}); is the download complete?"
        )


def _joined(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join small pieces, of which each would cost its reader some time."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= _STEP_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if size:
        yield b"".join(held)


def _stepped(path: Path, decompressor: Any, data: bytes, known: _Format) -> Iterator[bytes]:
    """Decompress some bytes, at most `_STEP_BYTES` per step."""
    by_tail = hasattr(decompressor, "unconsumed_tail")  # zlib's; the others keep the input that is left
    try:
        found = decompressor.decompress(data, _STEP_BYTES)
        yield found
        while not decompressor.eof and (
            decompressor.unconsumed_tail or len(found) == _STEP_BYTES
            if by_tail
            else not decompressor.needs_input
        ):
            found = decompressor.decompress(decompressor.unconsumed_tail if by_tail else b"", _STEP_BYTES)
            yield found
    except _ERRORS as err:
        raise InputError(
            f"{path}: the compressed data ({known.name}) is corrupt: {err}\n"
            "  is the download complete and of the right kind?"
        ) from err
