"""Compiled kernels: one decorator, one place that says when a machine compiles them.

Numba takes a kernel from its cache if the kernel's own file has not changed, even where a kernel it
calls has. So the cache has a directory for each state of all the kernels of a room together; kernels
call none of another room.

With ``NUMBA_DISABLE_JIT=1`` kernels are the Python functions that they were written as: slow, but a
debugger stops in them, they can print, and a change of one compiles nothing. What Python has no
equivalent of is then done by :mod:`mlsim._interpreted`.
"""

from __future__ import annotations

import gc
import hashlib
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar, cast, overload

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, config, event, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.environment import lookup_environment
from numba.core.imputils import impl_ret_new_ref
from numba.core.typing.npydecl import parse_dtype
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model
from numba.np import arrayobj
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

from mlsim import _interpreted

__all__ = [
    "INTERPRETED",
    "PACKED_WORDS",
    "borrowed",
    "by_last_type",
    "c_function",
    "compile_seconds",
    "fetch_add",
    "inlined",
    "inner_kernel",
    "kernel",
    "last_bit",
    "leaf_kernel",
    "load_acquire",
    "next_bit",
    "quiet",
    "shared",
    "store_release",
    "unpacker",
    "zeros",
]

F = TypeVar("F", bound=Callable[..., Any])
Array = TypeVar("Array")
Content = TypeVar("Content", bound=tuple[Any, ...])

_numba: Any = config  # mypy does not see the names that numba fills in later
INTERPRETED = bool(_numba.DISABLE_JIT)
"""Whether kernels run as Python functions, for ``NUMBA_DISABLE_JIT=1``."""
if INTERPRETED:
    _interpreted.follow_the_error_model()

_ENVIRONMENT = "_ZN08NumbaEnv"
"""How numba names the variables by which kernels find what they need of Python."""

_PACKAGE = Path(__file__).parent
_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
_LEVEL = 2
"""How hard LLVM tries, at most."""
PACKED_WORDS: Final = 4
"""Numbers by which an array is written down: its address, and lengths of up to three dimensions."""
_IMPORTS = re.compile(r"^[ \t]*from (mlsim[\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


@cache
def _state_of_kernels(room: str) -> str:
    """Fingerprint what the kernels of a room, that is of a folder of the package, are made of."""
    return _fingerprint(_PACKAGE, room)


def _fingerprint(package: Path, room: str) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for _, source in sorted(_made_of(package, room).items()):
        digest.update(source)
    return digest.hexdigest()


def _made_of(package: Path, room: str) -> dict[Path, bytes]:
    """Read the sources of a room's kernels, and of the modules whose constants are compiled into them.

    Those are what kernels import, and, inside the room, what that imports in turn.
    """
    inside = package / room
    sources = {path: path.read_bytes() for path in inside.rglob("*.py")}
    waiting = [path for path, source in sources.items() if b"mlsim._jit" in source]
    found = {package / "_jit.py": (package / "_jit.py").read_bytes()}
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = sources[path] if path in sources else path.read_bytes()
            if path.is_relative_to(inside):
                waiting += _imported(package, found[path].decode())
    return found


def _imported(package: Path, source: str, of: Collection[str] | None = None) -> list[Path]:
    """List the files of the package that a source imports; with ``of``, those that give it these names."""
    files = []
    head = source.split("\n__all__", 1)[0]  # imports stand before it, and looking at it alone is quick
    for module, imported in _IMPORTS.findall(head):
        names = set(re.findall(r"\w+", imported))
        if of is not None and names.isdisjoint(of):
            continue
        place = package.joinpath(*module.split(".")[1:])
        files += [place.with_suffix(".py"), *(place / f"{name}.py" for name in sorted(names))]
        if of is None and (room := place / "__init__.py").is_file():
            files += [room, *_imported(package, room.read_text(encoding="utf-8"), names)]
    return [path for path in files if path.is_file()]


@cache
def _cache_directory(room: str) -> str:
    """Return the first writable one of NUMBA_CACHE_DIR, a directory beside the package, the user's cache."""
    name = f"kernels-{room}-{_state_of_kernels(room)}"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    places = [_PACKAGE / "__pycache__", home / "mlsim"]
    if given := os.environ.get("NUMBA_CACHE_DIR"):
        places.insert(0, Path(given))
    for place in places:
        directory = place / name
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue  # a read-only installation; the next place will do
        if os.access(directory, os.W_OK | os.X_OK):
            return str(directory)
    return tempfile.mkdtemp(prefix="mlsim-kernels-")


def _room_of(function: Callable[..., Any]) -> str:
    parts = function.__module__.split(".")
    return parts[1] if parts[0] == "mlsim" and len(parts) > 2 else ""


class _Announcer(event.Listener):
    """Announces once per process that kernels are being compiled, and sums up the time spent."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.quiet = False
        self._depth = 0
        self._began = 0.0
        self._told = False
        self._warned = False

    def on_start(self, event: event.Event) -> None:  # noqa: ARG002 - the listener's signature
        if self._depth == 0:
            self._began = time.perf_counter()
            if not self._told and not self.quiet:
                self._told = True
                print("Compiling kernels (once per machine, kept on disk) ...", file=sys.stderr, flush=True)
        self._depth += 1

    def cannot_keep(self, error: OSError) -> None:
        """Warn once that compiled kernels cannot be written to disk."""
        if not self._warned and not self.quiet:
            self._warned = True
            print(
                f"Compiled kernels cannot be kept ({error.strerror}); the next run compiles again",
                file=sys.stderr,
            )

    def on_end(self, event: event.Event) -> None:  # noqa: ARG002 - the listener's signature
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._began


_announcer = _Announcer()
event.register("numba:compile", _announcer)


class _Unused:
    """Stands for the code generator where a kernel gets no machine code of its own: it has no environment."""

    def set_env(self, _name: str, _environment: Any) -> None:
        """Set nothing: the kernels that call it do."""


class _InnerLibrary(JITCodeLibrary):
    """What a kernel compiles to that only kernels call: parts of them, and no machine code of its own.

    Numba would optimize each kernel together with all that it calls, and make machine code of it, once for
    the kernel itself and again for everyone who calls it.
    """

    codegen = _Unused()

    def _optimize_final_module(self) -> None:
        """Leave it to the kernels that call it, which are looked at as a whole."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, _name: str) -> int:
        """Return 0: there is nothing that Python could call."""
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        """Keep what it compiled to, as there is no object code."""
        return cast(tuple[str, str, bytes], self.serialize_using_bitcode())


class _OuterLibrary(JITCodeLibrary):
    """What a kernel compiles to that Python calls, with all that it calls and their environments."""

    def _finalize_specific(self) -> None:
        super()._finalize_specific()
        codegen: Any = self._codegen
        for variable in self._final_module.global_variables:
            if variable.name.startswith(_ENVIRONMENT):
                environment = lookup_environment(variable.name)
                if environment is not None:
                    codegen.set_env(variable.name, environment)


class _OuterCompiler(Compiler):
    """Numba's compiler, into a library of ours."""

    library: ClassVar[type] = _OuterLibrary

    def define_pipelines(self) -> Any:
        state = self.state
        if state.library is None:
            state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
        return super().define_pipelines()


class _InnerCompiler(_OuterCompiler):
    library = _InnerLibrary


@overload
def kernel(function: F, /) -> F: ...
@overload
def kernel(**options: Any) -> Callable[[F], F]: ...
def kernel(function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
    """Compile a function to machine code on its first call and keep the result on disk.

    Parameters
    ----------
    function
        A function over numbers and NumPy arrays.
    **options
        Further options of ``numba.njit``, such as ``inline="always"``.

    Notes
    -----
    Division follows NumPy's rules (no exception on zero). Floating point is strict: no reordering,
    so that results are the same bytes on every run.
    """

    def compile_later(body: F) -> F:
        if INTERPRETED:
            return body
        _numba.CACHE_DIR = _cache_directory(_room_of(body))  # looked at when a function is decorated
        compiled = numba.njit(**{**_OPTIONS, "pipeline_class": _OuterCompiler, **options})(body)
        _take_constants_as_numbers(compiled)
        _forgive_full_disk(compiled)
        _compile_sparingly(compiled)
        return cast(F, compiled)

    return compile_later if function is None else compile_later(function)


def _compile_sparingly(compiled: Any) -> None:
    """Have a kernel compiled with less effort than numba's.

    The most that LLVM can do, level 3, takes longer than level 2, and event loops and passes are not faster
    for it. And to collect garbage while numba's objects grow in number takes a tenth of the time, and finds
    little before the kernel is ready.
    """
    compile_all = compiled.compile

    def compile_sparingly(signature: Any) -> Any:
        level, collects = _numba.OPT, gc.isenabled()
        _numba.OPT = type(level)(min(level, _LEVEL))
        gc.disable()
        try:
            return compile_all(signature)
        finally:
            _numba.OPT = level
            if collects:
                gc.enable()

    compiled.compile = compile_sparingly


def _take_constants_as_numbers(compiled: Any) -> None:
    """Have a kernel that is called with constants compiled once, not once more for each."""
    template_for = compiled.get_call_template

    def template_for_numbers(arguments: Any, keywords: Any) -> Any:
        return template_for(tuple(map(types.unliteral, arguments)), keywords)

    compiled.get_call_template = template_for_numbers


def _inner(function: F, **options: Any) -> F:
    """Compile a kernel that lacks the wrappers by which Python calls it, and machine code."""
    compiled = kernel(
        no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=_InnerCompiler, **options
    )(function)
    if not INTERPRETED:
        _load_as_inner(compiled)
        _refuse_python(compiled)
    return compiled


def _load_as_inner(compiled: Any) -> None:
    """Have what was kept of a kernel without machine code loaded without making any."""
    keeper = compiled._cache._impl
    rebuild = keeper.rebuild

    def rebuild_as_inner(context: Any, kept: Any) -> Any:
        codegen = context.codegen()
        usual, codegen._library_class = codegen._library_class, _InnerLibrary
        try:
            return rebuild(context, kept)
        finally:
            codegen._library_class = usual

    keeper.rebuild = rebuild_as_inner


def _refuse_python(compiled: Any) -> None:
    """Have a kernel that only kernels can call say so; numba would jump to address 0."""

    def refuse(*_arguments: Any, **_options: Any) -> Any:
        name = compiled.py_func.__name__
        raise TypeError(f"{name} is called from Python; only kernels can call it: declare yours with @kernel")

    compiled._compile_for_args = refuse
    compiled._insert = lambda *_arguments, **_options: None  # else Python's calls would find it


def inner_kernel(function: F) -> F:
    """Compile a kernel that only kernels call, and that becomes machine code with them alone."""
    return _inner(function)


def inlined(function: F) -> F:
    """Make a function part of the source of each kernel that calls it: it is compiled with them alone."""
    return kernel(inline="always")(function)


def leaf_kernel(function: F) -> F:
    """Compile a small kernel whose machine code becomes part of each kernel that calls it."""
    return _inner(function, forceinline=True)


def by_last_type(answers: Mapping[type, Callable[..., Any]]) -> Callable[[F], F]:
    """Have a declared function answered, in kernels, by the kernel for the type of its last argument.

    The choice is made when the calling kernel is compiled, and costs nothing when it runs.

    Parameters
    ----------
    answers
        Kernels by type of named tuple; all take what the declaration does.

    Returns
    -------
    callable
        A decorator for the declaration, whose body is never run.
    """

    def declare(declared: F) -> F:
        if INTERPRETED:

            @wraps(declared)
            def ask(*arguments: Any) -> Any:
                return answers[type(arguments[-1])](*arguments)

            return cast(F, ask)
        _declare(declared, answers)
        return declared

    return declare


def _declare(declared: Callable[..., Any], answers: Mapping[type, Callable[..., Any]]) -> None:
    """Register with numba the kernel that stands for a function."""

    def chosen(arguments: Any) -> Any:
        return answers[arguments[-1].instance_class]

    class Choice(AbstractTemplate):
        key = declared

        def generic(self, args: Any, kws: Any) -> Any:
            assert not kws, "by position only"
            return types.Dispatcher(chosen(args)).get_call_type(self.context, args, kws)

        def get_impl_key(self, sig: Any) -> Any:
            return chosen(sig.args).get_overload(sig.args)

    infer_global(declared, types.Function(Choice))


def _forgive_full_disk(compiled: Any) -> None:
    """Use a kernel that cannot be kept on disk all the same; numba would raise."""
    cache = compiled._cache
    save = cache.save_overload

    def save_if_possible(signature: Any, data: Any) -> None:
        try:
            save(signature, data)
        except OSError as error:
            _announcer.cannot_keep(error)

    cache.save_overload = save_if_possible


def _for_kernels(typed: Callable[..., Any], in_python: Callable[..., Any]) -> Any:
    """Make an intrinsic: numba's stubs know it as the function that types it, not as what kernels call."""
    return in_python if INTERPRETED else intrinsic(typed)


def c_function(result: Any, *parameters: Any) -> Callable[..., int]:
    """Make ``call(address, argument, ...)`` of a C function that gives a whole number, for use in kernels.

    The address is an argument and no constant, so that compiled code can be kept on disk although the
    function lies elsewhere in every process.

    Parameters
    ----------
    result, *parameters
        Types of numba: whole numbers of any width and, for parameters, float64. Handles and pointers are
        ``intp``.
        Arguments are converted to the widths of the C parameters.
    """

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = [builder.extract_value(arguments[1], item) for item in range(len(signature.args[1]))]
        returned = context.get_value_type(signature.return_type)
        kind = ir.FunctionType(returned, [value.type for value in values])
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), values)

    def declare(_typing: Any, _address: Any, *_arguments: Any) -> Any:
        together = types.Tuple(parameters)
        return result(types.intp, together), make

    names = [str(parameter) for parameter in parameters]
    return cast(Callable[..., int], _for_kernels(declare, _interpreted.c_function(str(result), names)))


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    view = context.make_array(kind)(context, builder, value)
    view.meminfo = context.get_constant_null(types.voidptr)
    return view._getvalue()


def _borrowed(_typing: Any, array: Any) -> Any:

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without_owner(context, builder, signature.args[0], arguments[0])

    return array(array), make


borrowed: Callable[[Array], Array] = _for_kernels(_borrowed, _interpreted.borrowed)
"""Return an array inside a kernel as one that is not reference-counted; its owner must outlive the call.

Kernels count the references to every array that they hand to each other, with atomic additions. Where
many small kernels share many arrays, that costs more than their work; borrowed arrays are not counted.
"""


def _read_by_name(kind: type[types.Type]) -> None:
    """Have kernels read fields of a type that is an address; its ``field(name)`` returns a field's type."""
    register_model(kind)(models.OpaqueModel)

    @infer_getattr
    class Fields(AttributeTemplate):
        key = kind

        def generic_resolve(self, found: Any, name: str) -> Any:  # type: ignore[override]  # of NotImplemented
            return found.field(name)


class _Shared(types.Type):
    """A named tuple that lies in memory, of which kernels are given the address."""

    def __init__(self, content: Any) -> None:
        self.content = content
        super().__init__(f"Shared({content})")

    def field(self, name: str) -> Any:
        """Return the type of a field, None if there is none; a named tuple inside is an address, too."""
        if name not in self.content.fields:
            return None
        kind = self.content.types[self.content.fields.index(name)]
        return _Shared(kind) if isinstance(kind, types.BaseNamedTuple) else kind


_read_by_name(_Shared)


@lower_getattr_generic(_Shared)
def _read_field(context: Any, builder: Any, shared: Any, value: Any, name: str) -> Any:
    content = shared.content
    place = content.fields.index(name)
    kind = content.types[place]
    memory = builder.bitcast(value, context.get_value_type(content).as_pointer())
    field = builder.gep(memory, [ir.IntType(32)(0), ir.IntType(32)(place)], inbounds=True)
    if isinstance(kind, types.BaseNamedTuple):
        return builder.bitcast(field, context.get_value_type(shared))
    loaded = builder.load(field)
    return _without_owner(context, builder, kind, loaded) if isinstance(kind, types.Array) else loaded


class _Packed(types.Type):
    """A named tuple of arrays, of which kernels are given where it is written down where these are.

    ``instance_class`` is called as that of numba's own types of named tuples.
    """

    def __init__(self, instance_class: type, arrays: Mapping[str, Any]) -> None:
        self.instance_class = instance_class
        self.arrays = dict(arrays)
        super().__init__(f"Packed({instance_class.__module__}.{instance_class.__name__})")

    def field(self, name: str) -> Any:
        """Return the type of an array, None if there is none."""
        return self.arrays.get(name)


_read_by_name(_Packed)


@lower_getattr_generic(_Packed)
def _unpack_array(context: Any, builder: Any, packed: Any, value: Any, name: str) -> Any:
    first = PACKED_WORDS * list(packed.arrays).index(name)
    words = builder.bitcast(value, ir.IntType(64).as_pointer())
    never_changes = builder.module.add_metadata([])

    def word(place: int) -> Any:
        found = builder.load(builder.gep(words, [ir.IntType(32)(first + place)], inbounds=True))
        found.set_metadata("invariant.load", never_changes)  # so that it is read once, whatever is written
        return found

    kind = packed.arrays[name]
    view = context.make_array(kind)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    shape = [word(1 + axis) for axis in range(kind.ndim)]
    strides = [ir.IntType(64)(size)]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    populate_array(
        view,
        data=builder.inttoptr(word(0), view.data.type),
        shape=shape,
        strides=strides,
        itemsize=ir.IntType(64)(size),
        meminfo=None,
    )
    return view._getvalue()


def unpacker(kind: type[Content], fields: Sequence[tuple[str, str, int]]) -> Callable[[int], Content]:
    """Make the function by which a kernel reads a named tuple of arrays whose places are written down.

    Arrays are looked up where they are used, so a tuple of many is one word to every kernel that takes it.
    They are borrowed: the caller goes on owning them, and what is written down.

    Parameters
    ----------
    kind
        The named tuple.
    fields
        Name, dtype and number of dimensions of its arrays.

    Returns
    -------
    callable
        It takes the address of ``int64[len(fields), PACKED_WORDS]``: each array's address and shape.
    """
    arrays = {name: types.Array(from_dtype(np.dtype(dtype)), n, "C") for name, dtype, n in fields}
    packed = _Packed(kind, arrays)

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    def typed(_typing: Any, address: Any) -> Any:
        return packed(address), make

    return cast(Callable[[int], Content], _for_kernels(typed, _interpreted.unpacker(kind, fields)))


def _shared(_typing: Any, content: Any) -> Any:

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        memory = cgutils.alloca_once_value(builder, arguments[0])
        return builder.bitcast(memory, context.get_value_type(signature.return_type))

    return _Shared(content)(content), make


shared: Callable[[Array], Array] = _for_kernels(_shared, _interpreted.borrowed)
"""Put a named tuple inside a kernel where kernels that it calls find it, by one address.

A tuple of many arrays is many arguments, each of several words, and each array's references are counted.
Fields of what this returns, and of named tuples in it, are read as those of the tuple, and arrays in it
are borrowed: the caller must go on owning the tuple, and use it once more when all is done.
"""


def _zeros(_typing: Any, shape: Any, kind: Any) -> Any:
    array = types.Array(parse_dtype(kind), getattr(shape, "count", 1), "C")

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lengths = arrayobj._parse_shape(context, builder, signature.args[0], arguments[0])
        made = arrayobj._empty_nd_impl(context, builder, array, lengths)
        size = builder.mul(made.itemsize, made.nitems)
        cgutils.memset(builder, made.data, size, 0)
        return impl_ret_new_ref(context, builder, array, made._getvalue())

    return array(types.unliteral(shape), kind), make


zeros: Callable[..., Any] = _for_kernels(_zeros, np.zeros)
"""Return a new array of zeros inside a kernel, as ``numpy.zeros(shape, dtype)`` does.

For that, numba compiles three functions for each number of dimensions and each type, a quarter of a second
of work.
"""


def _masked(builder: Any, word: Any, place: Any, above: bool) -> Any:
    """Return the bits of a word above a place, or all others."""
    mask = builder.shl(ir.IntType(64)(-2), place)
    return builder.and_(word, mask if above else builder.not_(mask))


def _next_bit(_typing: Any, word: Any, place: Any) -> Any:

    def make(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(_masked(builder, arguments[0], arguments[1], above=True), ir.IntType(1)(0))

    return types.int64(word, place), make


def _last_bit(_typing: Any, word: Any, place: Any) -> Any:

    def make(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        masked = _masked(builder, arguments[0], arguments[1], above=False)
        zeros_before = builder.ctlz(masked, ir.IntType(1)(0))
        return builder.sub(ir.IntType(64)(63), zeros_before)

    return types.int64(word, place), make


next_bit: Callable[[int, int], int] = _for_kernels(_next_bit, _interpreted.next_bit)
"""Return the place of the first bit set of an int64 above a place (0 to 63); 64 if there is none."""
last_bit: Callable[[int, int], int] = _for_kernels(_last_bit, _interpreted.last_bit)
"""Return the place of the last bit set of an int64 up to a place (0 to 63); -1 if there is none."""


def _place(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, ir.IntType(64).as_pointer())


def _load_acquire(_typing: Any, address: Any) -> Any:

    def make(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_place(builder, arguments[0]), "acquire", 8)

    return types.int64(address), make


def _store_release(_typing: Any, address: Any, value: Any) -> Any:

    def make(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[1], _place(builder, arguments[0]), "release", 8)
        return context.get_dummy_value()

    return types.void(address, value), make


def _fetch_add(_typing: Any, address: Any, value: Any) -> Any:

    def make(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", _place(builder, arguments[0]), arguments[1], "acq_rel")

    return types.int64(address, value), make


load_acquire: Callable[[int], int] = _for_kernels(_load_acquire, _interpreted.refuse_atomics)
"""Read, in a kernel, an int64 at an address that another process may write; see :data:`store_release`."""
store_release: Callable[[int, int], None] = _for_kernels(_store_release, _interpreted.refuse_atomics)
"""Write an int64 at an address; who reads it with :data:`load_acquire` sees all that was written before."""
fetch_add: Callable[[int, int], int] = _for_kernels(_fetch_add, _interpreted.refuse_atomics)
"""Add atomically to an int64 at an address, and return its former value."""


def compile_seconds() -> float:
    """Return the wall-clock seconds that this process spent compiling kernels (0: all from the cache)."""
    return _announcer.seconds


def quiet() -> None:
    """Do not announce compilation on standard error."""
    _announcer.quiet = True
