"""Calls of the OTF2 event writer from compiled code, through the addresses of its C functions.

The addresses are arguments, not constants, so compiled code can be kept on disk although the library
lies elsewhere in every process.
"""

from __future__ import annotations

from typing import NamedTuple

from mlsim._jit import c_function
from mlsim.record.otf2.library import address

__all__ = [
    "Api",
    "add_double",
    "add_int",
    "add_string",
    "add_uint",
    "add_uint8",
    "add_uint16",
    "add_uint32",
    "atomic",
    "close_writer",
    "completed",
    "enter",
    "find_api",
    "get_writer",
    "leave",
    "message",
    "metric",
]


class Api(NamedTuple):
    """Addresses of the C functions that the kernels call, named after them."""

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
    """Look up the addresses in this process."""
    return Api(
        address("Archive_GetEvtWriter"),
        address("Archive_CloseEvtWriter"),
        address("EvtWriter_Enter"),
        address("EvtWriter_Leave"),
        address("EvtWriter_Metric"),
        address("EvtWriter_MpiSend"),
        address("EvtWriter_MpiRecv"),
        address("EvtWriter_RmaAtomic"),
        address("EvtWriter_RmaOpCompleteBlocking"),
        address("AttributeList_AddUint8"),
        address("AttributeList_AddUint16"),
        address("AttributeList_AddUint32"),
        address("AttributeList_AddUint64"),
        address("AttributeList_AddInt64"),
        address("AttributeList_AddDouble"),
        address("AttributeList_AddStringRef"),
    )


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
