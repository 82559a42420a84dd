"""Calls of compiled kernels from disk, without Numba."""

from __future__ import annotations

import ctypes
import json
import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from itertools import combinations, islice
from pathlib import Path
from struct import Struct
from struct import error as struct_error
from typing import Any, Final

import numpy as np

from mlsim._jit import kernel_library
from mlsim._jit.kernel_identity import named_tuple, stamp
from mlsim._jit.kernel_library import BuiltKernel
from mlsim._jit.kernel_store import file_name, kept_files, read, room_of, wait_for_room, write
from mlsim._jit.mode import is_usual

MISSING: Final = object()
"""Marks a kernel without an entry for the given arguments."""

_MOST_WORDS = 500_000
"""Words of arguments after which numba is loaded, which takes as long as some hundred thousand of them."""
_FEW_ARRAYS = 6
"""Largest number of arrays for which all choices are searched on disk."""
_SCALARS: dict[type, tuple[str, str]] = {
    bool: ("bool", "q"),
    int: ("int64", "q"),
    float: ("float64", "d"),
    np.bool_: ("bool", "q"),
    np.float32: ("float32", "d"),
    np.float64: ("float64", "d"),
    np.uint64: ("uint64", "Q"),
    **{kind: (kind.__name__, "q") for kind in (np.int8, np.int16, np.int32, np.int64)},
    **{kind: (kind.__name__, "q") for kind in (np.uint8, np.uint16, np.uint32)},
}
_NUMBERS = {name for name, _ in _SCALARS.values()} - {"bool"}
_ARRAYS = (np.ndarray, np.memmap)
_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400
_FIT = _CONTIGUOUS | _ALIGNED
_WORD = Struct("q")


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel's machine code with a C function that takes words: ``int32 (int64 *words)``.

    The function returns 0, unless the kernel raised; what the kernel returns stands behind the arguments.
    """

    kinds: tuple[str, ...]  # types of the arguments, in words
    symbol: str  # name of the C function
    returns: tuple[str, ...]  # kinds of numbers and arrays that it returns
    together: bool  # whether these are the items of a tuple
    needs: tuple[str, ...]  # names that the code asks for
    code: bytes  # object code


class _UnfitError(Exception):
    """An argument is of a type that entries do not take."""


def array_kind(dtype: str, dimensions: int, writeable: bool) -> str:
    """Name a kind of arrays, as arguments."""
    return f"{dtype}[{dimensions}]{'' if writeable else ' read-only'}"


def tuple_kind(kind: type, length: int) -> str:
    """Name a kind of tuples, whose items follow."""
    return f"{named_tuple(kind)}({length})"


class _Budget:
    """Remaining argument words that may be passed without Numba to kernels that Numba calls faster."""

    left = _MOST_WORDS


def by_numba() -> None:
    """Force kernel calls through Numba from now on: slower to start, faster per call."""
    _Budget.left = 0


class Entries:
    """The entries of a kernel that are kept, by types of the arguments."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._loaded: dict[tuple[Any, ...], _Loaded | None] = {}
        self._of_numbers: dict[tuple[type, ...], _Loaded] = {}

    def call(self, arguments: tuple[Any, ...]) -> Any:
        """Run the kernel; return :data:`MISSING` if there is no entry for these arguments."""
        loaded = self._of_numbers.get(tuple(map(type, arguments)))
        words: list[Any] | tuple[Any, ...] = arguments
        try:
            if loaded is None:
                words = []
                loaded = self._found(arguments, words)
            if loaded is None or (_Budget.left <= 0 and not loaded.is_built):
                return MISSING
            packed = loaded.packed(words)
        except (_UnfitError, struct_error):  # or a whole number of more than 64 bits
            return MISSING
        _Budget.left -= len(words)
        return loaded.run(packed)

    def _found(self, arguments: tuple[Any, ...], words: list[Any]) -> _Loaded | None:
        """Return the entry for arguments of these types, and write the arguments down as words."""
        kinds: list[Any] = []
        _write_down(arguments, kinds, words)
        key = tuple(kinds)
        if key not in self._loaded:
            self._loaded[key] = _load(self._kernel, arguments)
        loaded = self._loaded[key]
        if loaded is not None and all(kind in _SCALARS and kind is not np.bool_ for kind in kinds):
            self._of_numbers[key] = loaded  # the words are the arguments themselves
        return loaded


def _write_down(arguments: Sequence[Any], kinds: list[Any], words: list[Any]) -> None:
    for argument in arguments:
        kind = type(argument)
        if kind in _SCALARS:
            kinds.append(kind)
            words.append(argument if kind is not np.bool_ else bool(argument))
        elif kind in _ARRAYS:
            flags = argument.flags.num
            if flags & _FIT != _FIT:
                raise _UnfitError
            kinds.append((argument.dtype, argument.ndim, flags & _WRITEABLE))
            words.append(_address(argument, flags))
            words.extend(argument.shape)
        elif isinstance(argument, tuple):
            kinds.append((kind, len(argument)))
            _write_down(argument, kinds, words)
        else:
            raise _UnfitError


def _address(array: Any, flags: int) -> int:
    """Return where an array's elements are."""
    if flags & _WRITEABLE and array.size:
        try:
            return ctypes.addressof(ctypes.c_char.from_buffer(array))  # a fifth of the time of the other way
        except ValueError:  # of a kind that no buffer has
            raise _UnfitError from None
    address: int = array.__array_interface__["data"][0]
    return address


def _named(arguments: Sequence[Any]) -> tuple[list[str], str]:
    """Name the kinds of arguments, and lay out their words."""
    kinds: list[str] = []
    layout = ""
    for argument in arguments:
        kind = type(argument)
        if kind in _SCALARS:
            kinds.append(_SCALARS[kind][0])
            layout += _SCALARS[kind][1]
        elif kind in _ARRAYS:
            if argument.dtype.byteorder not in "=|" or argument.dtype.kind not in "biuf":
                raise _UnfitError
            kinds.append(array_kind(argument.dtype.name, argument.ndim, argument.flags.writeable))
            layout += "q" * (1 + argument.ndim)
        else:
            kinds.append(tuple_kind(kind, len(argument)))
            inner, more = _named(argument)
            kinds += inner
            layout += more
    return kinds, layout


class _Loaded:
    """An entry that can be called."""

    def __init__(self, entry: Entry | BuiltKernel, address: int, layout: str) -> None:
        self.is_built = isinstance(entry, BuiltKernel)
        self._release = kernel_library.release if self.is_built else _release
        self._layout = Struct(layout)
        self._function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(address)
        self._returns, self._together = entry.returns, entry.together
        self._results = Struct("".join(map(_layout_of, entry.returns)))
        self._is_number = len(entry.returns) == 1 and not self._together and entry.returns[0] in _NUMBERS
        self._begin = self._layout.size
        self._words = ctypes.c_char * (self._begin + max(self._results.size, 8))

    def packed(self, values: Sequence[Any]) -> ctypes.Array[ctypes.c_char]:
        """Write arguments down as words; ``struct.error`` where one does not fit."""
        words = self._words()
        self._layout.pack_into(words, 0, *values)
        return words

    def run(self, words: ctypes.Array[ctypes.c_char]) -> Any:
        """Call it with arguments in words."""
        if self._function(ctypes.addressof(words)) != 0:
            _raise(_WORD.unpack_from(words, self._begin)[0])
        if not self._returns:
            return () if self._together else None
        if self._is_number:
            return self._results.unpack_from(words, self._begin)[0]
        found = iter(self._results.unpack_from(words, self._begin))
        values = [_value(kind, found, self._release) for kind in self._returns]
        return tuple(values) if self._together else values[0]


def _layout_of(kind: str) -> str:
    if kind.endswith("]"):
        return "q" * (2 + _dimensions(kind))
    return next(letter for name, letter in _SCALARS.values() if name == kind)


def _dimensions(kind: str) -> int:
    return int(kind[kind.index("[") + 1 : -1])


def _value(kind: str, words: Any, release: Callable[[int], None]) -> Any:
    if not kind.endswith("]"):
        word = next(words)
        return bool(word) if kind == "bool" else word
    owner, address = next(words), next(words)
    shape = tuple(islice(words, _dimensions(kind)))
    array = np.empty(shape, kind[: kind.index("[")])
    ctypes.memmove(array.ctypes.data, address, array.nbytes)
    release(owner)
    return array


class _Raised(ctypes.Structure):
    """Numba's record of an exception; only one with constant arguments is self-contained."""

    _fields_ = (
        ("pickled", ctypes.c_void_p),
        ("size", ctypes.c_int32),
        ("hash", ctypes.c_void_p),
        ("dynamic", ctypes.c_void_p),
        ("n_dynamic", ctypes.c_int32),
    )


def _raise(address: int) -> None:
    """Raise the exception of a kernel, such as that there is no memory."""
    raised = _Raised.from_address(address)
    kind, arguments, _ = pickle.loads(ctypes.string_at(raised.pickled, raised.size))
    raise kind(*arguments)


def save(kernel: Any, entry: Entry, seconds: float) -> None:
    """Keep an entry of a kernel, which took so many seconds to compile; OSError if it cannot be written."""
    key = kernel.key
    if key is None or not is_usual():
        return
    about = {
        "kernel": kernel_library.name_of(kernel),
        "kinds": entry.kinds,
        "symbol": entry.symbol,
        "returns": entry.returns,
        "together": entry.together,
        "needs": entry.needs,
        "seconds": round(seconds, 1),
    }
    write(_name(kernel, key, entry.kinds), json.dumps(about).encode() + b"\n" + entry.code)


def kept_entries() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the files of entries on disk, and what is known of each: kernel, kinds of arguments, seconds."""
    for name, content in kept_files("entry"):
        yield name, json.loads(content.split(b"\n", 1)[0])


def entry_file(kernel: Any, kinds: Sequence[str]) -> str:
    """Return the name of the file of a kernel's entry; nothing if it cannot be kept."""
    return "" if kernel.key is None else _name(kernel, kernel.key, kinds)


def _name(kernel: Any, key: str, kinds: Sequence[str]) -> str:
    return file_name(kernel.__module__, kernel.__qualname__, key, (stamp(), *kinds), "entry")


def _read(name: str, kinds: tuple[str, ...]) -> Entry | None:
    """Read an entry; None if there is none for these kinds."""
    kept = read(name)
    if kept is None:
        return None
    about, code = kept.split(b"\n", 1)
    known = json.loads(about)
    if tuple(known["kinds"]) != kinds:
        return None
    returns, needs = tuple(known["returns"]), tuple(known["needs"])
    return Entry(kinds, known["symbol"], returns, known["together"], needs, code)


_lock = threading.Lock()


def _load(kernel: Any, arguments: tuple[Any, ...]) -> _Loaded | None:
    """Load the entry for arguments of these types, if there is one that can be used."""
    kinds, layout = _named(arguments)
    with _lock:
        for some in (kinds, *_reading(kinds)) if is_usual() else ():
            if (ready := kernel_library.built(kernel, tuple(some))) is not None:
                return _Loaded(ready, ready.address, layout)
        if not _is_known():
            return None
        key = kernel.key
        if key is None:
            return None
        entry = _find(kernel, key, kinds)
        if entry is None and wait_for_room(room_of(kernel)):
            entry = _find(kernel, key, kinds)
        return None if entry is None else _loaded(entry, layout)


def _is_known() -> bool:
    """Whether :func:`stamp` identifies everything that determines the generated code."""
    try:
        return is_usual() and bool(stamp())
    except (ImportError, OSError, RuntimeError):
        return False


def _find(kernel: Any, key: str, kinds: Sequence[str]) -> Entry | None:
    """Find the entry for arguments of these kinds, or one that reads arrays that might be written.

    Numba, too, calls what was compiled for arrays that are read with others, and compiles nothing for these.
    """
    for some in (kinds, *_reading(kinds)):
        entry = _read(_name(kernel, key, some), tuple(some))
        if entry is not None:
            return entry
    return None


def _reading(kinds: Sequence[str]) -> Iterator[list[str]]:
    """Yield the kinds with some arrays that may be written as such that are read; of many arrays all."""
    written = [place for place, kind in enumerate(kinds) if kind.endswith("]")]
    least = 1 if len(written) <= _FEW_ARRAYS else len(written)
    for number in range(len(written), least - 1, -1):
        for places in combinations(written, number) if number else ():
            yield [f"{kind} read-only" if place in places else kind for place, kind in enumerate(kinds)]


@cache
def _numba() -> Path:
    """Find numba without loading it."""
    spec = find_spec("numba")
    if spec is None or spec.origin is None:
        raise ImportError("numba")
    return Path(spec.origin).parent


@cache
def _engine() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(codemodel="jitdefault", jit=True)
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


def _loaded(entry: Entry, layout: str) -> _Loaded | None:
    """Load an entry by LLVM; return None if a symbol that its code needs is missing."""
    from llvmlite import binding

    engine = _engine()
    if not all(map(_is_there, entry.needs)):
        return None
    engine.add_object_file(binding.object_file.ObjectFileRef.from_data(entry.code))
    engine.finalize_object()
    return _Loaded(entry, int(engine.get_function_address(entry.symbol)), layout)


def _is_there(name: str) -> bool:
    """Whether a name that code asks for is known to LLVM now; else it would end the process."""
    from llvmlite import binding

    if not binding.address_of_symbol(name) and name in _helpers():
        binding.add_symbol(name, _helpers()[name])
    return bool(binding.address_of_symbol(name))


@cache
def _helpers() -> dict[str, int]:
    """Return the addresses of numba's C functions that kernels call, by the names they call them by."""
    found = {"_Py_NoneStruct": id(None)}
    for module, prefix in (("_helperlib", "numba_"), ("core.runtime._nrt_python", "NRT_")):
        helpers = _extension(f"numba.{module}").c_helpers
        found |= {name if name.startswith("_") else prefix + name: at for name, at in helpers.items()}
    return found


def _extension(name: str) -> Any:
    """Load a C module of numba without numba."""
    if "numba" in sys.modules:
        from importlib import import_module

        return import_module(name)
    *folders, last = name.split(".")[1:]
    path = _numba().joinpath(*folders, last + EXTENSION_SUFFIXES[0])
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _releasing() -> Any:
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_helpers()["NRT_MemInfo_release"])


def _release(owner: int) -> None:
    """Release the memory of an array that a kernel allocated; 0: it belongs to an argument."""
    if owner:
        _releasing()(owner)
