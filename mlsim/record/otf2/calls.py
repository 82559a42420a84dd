"""Calls of the OTF2 event writer from compiled code, through the addresses of its C functions.

The addresses are arguments, not constants, so compiled code can be kept on disk although the library
lies elsewhere in every process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from llvmlite import ir
from numba import types as numba_types
from numba.extending import intrinsic

from mlsim.record.otf2.library import address

__all__ = [
    "Api",
    "add_double",
    "add_int",
    "add_string",
    "add_uint",
    "close_writer",
    "enter",
    "find_api",
    "get_writer",
    "leave",
    "message",
    "metric",
]


types: Any = numba_types  # it is not typed itself


class Api(NamedTuple):
    """Addresses of the C functions that the kernels call, named after them."""

    get_evt_writer: int
    close_evt_writer: int
    get_def_writer: int
    close_def_writer: int
    enter: int
    leave: int
    metric: int
    mpi_send: int
    mpi_recv: int
    add_uint64: int
    add_int64: int
    add_double: int
    add_string: int


def find_api() -> Api:
    """Look up the addresses in this process."""
    return Api(
        address("Archive_GetEvtWriter"),
        address("Archive_CloseEvtWriter"),
        address("Archive_GetDefWriter"),
        address("Archive_CloseDefWriter"),
        address("EvtWriter_Enter"),
        address("EvtWriter_Leave"),
        address("EvtWriter_Metric"),
        address("EvtWriter_MpiSend"),
        address("EvtWriter_MpiRecv"),
        address("AttributeList_AddUint64"),
        address("AttributeList_AddInt64"),
        address("AttributeList_AddDouble"),
        address("AttributeList_AddStringRef"),
    )


def _build_call(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Turn the first argument into a function pointer and call it with the items of the second."""
    values = [builder.extract_value(arguments[1], item) for item in range(len(signature.args[1]))]
    result = context.get_value_type(signature.return_type)
    kind = ir.FunctionType(result, [value.type for value in values])
    return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), values)


def _caller(result: Any, *parameters: Any) -> Callable[..., int]:
    """Make ``call(address, argument, ...)`` of a C function, for use in kernels.

    Arguments are converted to the widths of the C parameters. Handles and pointers are integers.
    """

    def declare(_context: Any, _address: Any, *_arguments: Any) -> tuple[Any, Any]:
        return result(types.intp, types.Tuple(parameters)), _build_call

    return cast(Callable[..., int], intrinsic(declare))


_status, _handle, _pointer = types.int32, types.intp, types.intp
_reference, _number, _value, _time = types.uint32, types.uint32, types.uint64, types.uint64
# Of the archive: (archive, location), and (archive, writer).
get_writer = _caller(_handle, _handle, _value)
close_writer = _caller(_status, _handle, _handle)
# Of an event writer: (writer, attribute list or 0, time, ...). An attribute list is empty afterwards.
enter = _caller(_status, _handle, _handle, _time, _reference)
leave = _caller(_status, _handle, _handle, _time, _reference)
# ..., metric class, members, their type codes, their values
metric = _caller(_status, _handle, _handle, _time, _reference, _number, _pointer, _pointer)
# ..., rank of the peer, communicator, tag, bytes
message = _caller(_status, _handle, _handle, _time, _number, _reference, _number, _value)
# Of an attribute list: (list, attribute, value).
add_uint = _caller(_status, _handle, _reference, types.uint64)
add_int = _caller(_status, _handle, _reference, types.int64)
add_double = _caller(_status, _handle, _reference, types.float64)
add_string = _caller(_status, _handle, _reference, _reference)
