"""The OTF2 library: functions, archives, and event writers for compiled code."""

import ctypes
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import _otf2

from mlsim._jit import c_function
from mlsim.errors import MlsimError, OutputError

TRACE_NAME = "traces"
# Buffers in bytes. Every location's is cleared when it is opened, which with thousands of locations is
# what takes the time; but one definition has to fit in one buffer.
_EVENT_CHUNK = 1 << 18
_DEFINITION_CHUNK = 1 << 20
_LARGEST_CHUNK = 16 << 20
ROWS_AN_ARCHIVE = 2000
"""Beyond so many rows the events of these many at a time are written by an archive of their own."""
_HANDLED = (_otf2.ErrorCodes.WARNING.value, _otf2.ErrorCodes.DEPRECATED.value)

# A handle of our own: the package sets argument types on the functions of its one at every call.
_library = ctypes.CDLL(_otf2.Config.lib_path())

_ErrorCallback = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.c_uint64,
    ctypes.c_char_p,
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_void_p,
)


class CallFailed(Exception):  # noqa: N818 - it never leaves `failures`
    """A call from compiled code returned a failure, which the error callback has received."""


def function(name: str, *argument_types: Any) -> Any:
    """Get the library's function ``OTF2_<name>``, which returns a status (0: success)."""
    found = getattr(_library, f"OTF2_{name}")
    found.argtypes = argument_types
    found.restype = ctypes.c_int
    return found


def address(of: Any) -> int:
    """Get the address of a library function (by its name after ``OTF2_``) or of what a pointer points to."""
    pointer = getattr(_library, f"OTF2_{of}") if isinstance(of, str) else of
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0


@contextmanager
def failures(directory: Path) -> Iterator[None]:
    """Raise OutputError for the first failure that the library reports within the block.

    It reports some failed writes only to its error callback, which also keeps it from printing.
    """
    codes: list[int] = []
    cause: Exception | None = None
    with _noting(codes):
        try:
            yield
        except (CallFailed, _otf2.Error) as error:
            cause = error
            codes.append(getattr(error, "code", _otf2.ErrorCodes.ERROR_INVALID).value)
    if codes:
        raise OutputError(_message(directory, codes[0])) from cause


@contextmanager
def noted_errors() -> Iterator[list[int]]:
    """Keep the library from printing, inside the block; yield a list that gets the code of its failure."""
    codes: list[int] = []
    with _noting(codes):
        yield codes


@contextmanager
def _noting(codes: list[int]) -> Iterator[None]:
    """Record the first failure that the library reports instead of printing it."""

    def note(_data: int, _file: bytes, _line: int, _name: bytes, code: int, _text: bytes, _rest: int) -> int:
        if code not in _HANDLED and not codes:
            codes.append(code)
        return code

    callback = _ErrorCallback(note)
    register = _library.OTF2_Error_RegisterCallback
    register.argtypes, register.restype = (ctypes.c_void_p, ctypes.c_void_p), ctypes.c_void_p
    previous = register(ctypes.cast(callback, ctypes.c_void_p), None)
    try:
        yield
    finally:
        register(previous, None)


def errno_of(code: int) -> int:
    """Return the system's number of a failure; 0 for one of the library's own."""
    name = str(_otf2.Error_GetName(_otf2.ErrorCode(code)))
    return int(getattr(errno, name.rpartition("_")[2], 0))


def reason_of(code: int) -> str:
    """Return the library's words for a failure."""
    reason = str(_otf2.Error_GetDescription(_otf2.ErrorCode(code)))
    return reason[:1].lower() + reason[1:]


def _message(directory: Path, code: int) -> str:
    """Return a message with what could not be written, why, and what to try."""
    return (
        f"cannot write the OTF2 trace in {directory}: {reason_of(code)}; "
        "check that the directory is new and writable, and the space and quota left"
    )


# The package's own class wraps a Python function in another one; the library asks at every file.
_PreFlush = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_uint8, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_bool
)


class _FlushCallbacks(ctypes.Structure):
    _fields_ = (("pre_flush", _PreFlush), ("post_flush", ctypes.c_void_p))


_FLUSH = _otf2.FLUSH.value
_flush_always = _FlushCallbacks(_PreFlush(lambda *_: _FLUSH), None)
"""Answers the library that a full buffer is to be written to its file."""


@contextmanager
def new_attributes() -> Iterator[Any]:
    """Make an attribute list for the block."""
    attributes = _otf2.AttributeList_New()
    try:
        yield attributes
    finally:
        _otf2.AttributeList_Delete(attributes)


@contextmanager
def open_archive(directory: Path, scenario: str, *, largest_definition: int) -> Iterator[Any]:
    """Open a new archive of definitions of at most so many bytes; close it also where the block fails."""
    definition_chunk = min(max(_DEFINITION_CHUNK, 2 * largest_definition), _LARGEST_CHUNK)
    archive = _otf2.Archive_Open(
        _utf8_path(directory),
        TRACE_NAME,
        _otf2.FILEMODE_WRITE,
        _EVENT_CHUNK,
        definition_chunk,
        _otf2.SUBSTRATE_POSIX,
        _otf2.COMPRESSION_NONE,
    )
    scenario = scenario.encode("utf-8", "replace").decode("utf-8")
    try:
        set_flush = function("Archive_SetFlushCallbacks", *[ctypes.c_void_p] * 3)
        if set_flush(address(archive), ctypes.addressof(_flush_always), None) != 0:
            raise CallFailed
        _otf2.Archive_SetSerialCollectiveCallbacks(archive)
        _otf2.Archive_SetMachineName(archive, scenario)
        _otf2.Archive_SetDescription(archive, scenario)
        _otf2.Archive_SetCreator(archive, "mlsim")
        yield archive
    except BaseException:
        with suppress(_otf2.Error):  # the first failure is the one to report
            _otf2.Archive_Close(archive)
        raise
    _otf2.Archive_Close(archive)


@contextmanager
def apart(directory: Path) -> Iterator[Any]:
    """Open an archive for some rows of the trace in a directory, and put their event files into the trace's.

    At every location the library looks through all that its archive has already, which with 80,000 of them
    takes longer than all else. An event file is the same in any archive.
    """
    with tempfile.TemporaryDirectory(prefix=".rows-", dir=directory) as place:
        with open_archive(Path(place), "", largest_definition=0) as archive:
            _otf2.Archive_OpenEvtFiles(archive)
            yield archive
            _otf2.Archive_CloseEvtFiles(archive)
        with os.scandir(Path(place) / TRACE_NAME) as files:
            for file in files:
                os.rename(file.path, directory / TRACE_NAME / file.name)


def write_local_definitions(archive: Any, directory: Path, locations: Sequence[int]) -> None:
    """Write the empty files of local definitions that readers look for: links to one where links work."""
    _otf2.Archive_CloseDefWriter(archive, _otf2.Archive_GetDefWriter(archive, locations[0]))
    inner = directory / TRACE_NAME
    last = inner / f"{locations[0]}.def"
    for location in locations[1:]:
        file = f"{inner}/{location}.def"
        try:
            os.link(last, file)
        except OSError:  # no links here, or too many of one file
            last = Path(shutil.copyfile(last, file))


def _utf8_path(path: Path) -> str:
    """Get a path as text, for the library takes no other paths than those in UTF-8."""
    try:
        return path.as_posix().encode("utf-8").decode("utf-8")
    except UnicodeEncodeError as error:
        raise OutputError(f"cannot write an OTF2 trace in {str(path)!r}: its name is not in UTF-8") from error


def fix_trace_id(directory: Path) -> None:
    """Replace the trace's random identifier, in its anchor file, by a digest of its definitions.

    The library draws it when it closes the archive, and offers no way to choose it.
    """
    anchor = directory / f"{TRACE_NAME}.otf2"
    reader = _otf2.Reader_Open(_utf8_path(anchor))
    try:
        drawn: int = _otf2.Reader_GetTraceId(reader)
    finally:
        _otf2.Reader_Close(reader)
    try:
        digest = hashlib.blake2b((directory / f"{TRACE_NAME}.def").read_bytes(), digest_size=8).digest()
        anchor.write_bytes(_replaced(anchor.read_bytes(), drawn, digest))
    except OSError as error:
        raise OutputError(f"cannot write {anchor}: {error.strerror}") from error


def _replaced(content: bytes, drawn: int, digest: bytes) -> bytes:
    """Replace the drawn identifier by the digest, in either byte order."""
    orders: tuple[Literal["little", "big"], ...] = ("little", "big")
    for order in orders:
        old = drawn.to_bytes(8, order)
        if content.count(old) == 1:
            return content.replace(old, digest)
    raise MlsimError("internal error: the trace identifier is not where OTF2 keeps it in the anchor file")


class Api(NamedTuple):
    """Addresses of the C functions that the kernels call, named after them, in the order of ``find_api``."""

    get_evt_writer: int
    close_evt_writer: int
    enter: int
    leave: int
    metric: int
    mpi_send: int
    mpi_recv: int
    rma_atomic: int
    rma_completed: int
    add_uint8: int
    add_uint16: int
    add_uint32: int
    add_uint64: int
    add_int64: int
    add_double: int
    add_string: int


def find_api() -> Api:
    """Return the addresses in this process."""
    names = (
        "Archive_GetEvtWriter Archive_CloseEvtWriter EvtWriter_Enter EvtWriter_Leave EvtWriter_Metric "
        "EvtWriter_MpiSend EvtWriter_MpiRecv EvtWriter_RmaAtomic EvtWriter_RmaOpCompleteBlocking "
        "AttributeList_AddUint8 AttributeList_AddUint16 AttributeList_AddUint32 AttributeList_AddUint64 "
        "AttributeList_AddInt64 AttributeList_AddDouble AttributeList_AddStringRef"
    )
    return Api(*map(address, names.split()))


# Handles and pointers are whole numbers.
_status, _handle, _pointer = "int32", "intp", "intp"
_reference, _number, _value, _time = "uint32", "uint32", "uint64", "uint64"
# Of the archive: (archive, location), and (archive, writer).
get_writer = c_function(_handle, _handle, _value)
close_writer = c_function(_status, _handle, _handle)
# Of an event writer: (writer, attribute list or 0, time, ...). An attribute list is empty afterwards.
enter = c_function(_status, _handle, _handle, _time, _reference)
leave = c_function(_status, _handle, _handle, _time, _reference)
# ..., metric class, members, their type codes, their values
metric = c_function(_status, _handle, _handle, _time, _reference, _number, _pointer, _pointer)
# ..., rank of the peer, communicator, tag, bytes
message = c_function(_status, _handle, _handle, _time, _number, _reference, _number, _value)
# ..., window, rank of its owner, what the atomic does, bytes sent, bytes received, number of the operation
atomic = c_function(_status, _handle, _handle, _time, _reference, _number, "uint8", _value, _value, _value)
# ..., window, number of the operation
completed = c_function(_status, _handle, _handle, _time, _reference, _value)
# Of an attribute list: (list, attribute, value).
add_uint8 = c_function(_status, _handle, _reference, "uint8")
add_uint16 = c_function(_status, _handle, _reference, "uint16")
add_uint32 = c_function(_status, _handle, _reference, "uint32")
add_uint = c_function(_status, _handle, _reference, "uint64")
add_int = c_function(_status, _handle, _reference, "int64")
add_double = c_function(_status, _handle, _reference, "float64")
add_string = c_function(_status, _handle, _reference, _reference)
