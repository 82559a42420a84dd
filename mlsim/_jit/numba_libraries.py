"""Compiled kernels as machine code: libraries, and C functions that call kernels without Numba."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, ClassVar, cast
from weakref import WeakValueDictionary

from llvmlite import binding, ir
from llvmlite.binding import Linkage
from numba.core import cgutils, config
from numba.core import types as numba_types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.environment import lookup_environment
from numba.core.errors import NumbaRuntimeError
from numba.core.lowering import Lower
from numba.core.runtime.nrt import rtsys
from numba.core.typed_passes import IRLegalization, NativeLowering
from numba.np.arrayobj import populate_array

from mlsim._jit.numba_passes import NaturalIndices, is_of_package, owns_nothing
from mlsim._jit.object_cache import Entry, array_kind, tuple_kind

types: Any = numba_types  # it is not typed itself

_WORD = ir.IntType(64)
_NUMBERS = (types.Boolean, types.Integer, types.Float)
_LARGEST = 64


class Draft:
    """An entry whose code is not there yet."""

    def __init__(self, kinds: list[str], symbol: str, returns: list[str], together: bool) -> None:
        self._kinds, self._symbol = tuple(kinds), symbol
        self._returns, self._together = tuple(returns), together

    def entry(self, needs: list[str], code: bytes) -> Entry:
        """Return the entry."""
        return Entry(self._kinds, self._symbol, self._returns, self._together, tuple(needs), code)


def draft(context: Any, library: Any, described: Any) -> Draft | None:
    """Add the entry to a library of a kernel; None if it takes or returns what words cannot hold."""
    kinds: list[str] = []
    if not all(_name(kind, kinds) for kind in described.argtypes):
        return None
    result = described.restype
    together = isinstance(result, types.BaseTuple)
    parts = list(result) if together else [] if result == types.none else [result]
    returns: list[str] = []
    if isinstance(result, types.BaseNamedTuple) or any(isinstance(part, types.BaseTuple) for part in parts):
        return None
    if not all(_name(kind, returns) for kind in parts):
        return None
    returns = [kind.removesuffix(" read-only") for kind in returns]
    symbol = f"mlsim.{described.llvm_func_name}"
    _generate(context, library, described, symbol, parts)
    return Draft(kinds, symbol, returns, together)


def _name(kind: Any, names: list[str]) -> bool:
    """Add the name of a type, and of the types of a tuple's items; return whether words can hold it."""
    if isinstance(kind, types.BaseTuple):
        names.append(tuple_kind(getattr(kind, "instance_class", tuple), len(kind)))
        return all(_name(item, names) for item in kind)
    if isinstance(kind, types.Array):
        names.append(array_kind(str(kind.dtype), kind.ndim, kind.mutable))
        return kind.layout == "C" and kind.aligned and isinstance(kind.dtype, _NUMBERS)
    names.append(str(kind))
    fits = not isinstance(kind, types.Literal) and getattr(kind, "bitwidth", 0) <= _LARGEST
    return isinstance(kind, _NUMBERS) and fits


def _generate(context: Any, library: Any, described: Any, symbol: str, parts: list[Any]) -> None:
    """Generate ``int32 symbol(int64 *words)``."""
    module = library.create_ir_module(symbol)
    function = ir.Function(module, ir.FunctionType(ir.IntType(32), [_WORD.as_pointer()]), symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    words = _Words(builder, function.args[0])
    arguments = [_read(context, builder, kind, words) for kind in described.argtypes]
    kernel = context.declare_function(module, described)
    status, result = context.call_conv.call_function(
        builder, kernel, described.restype, described.argtypes, arguments
    )
    with builder.if_then(builder.not_(status.is_ok), likely=False):
        words.write(builder.ptrtoint(status.excinfoptr, _WORD))
        builder.ret(status.code)
    together = isinstance(described.restype, types.BaseTuple)
    for place, kind in enumerate(parts):
        value = builder.extract_value(result, place) if together else result
        for word in _written(context, builder, kind, value):
            words.write(word)
            words.place += 1
    builder.ret(ir.IntType(32)(0))
    library.add_ir_module(module)


def without_python() -> None:
    """Compile kernels from now on for calls with words alone: their code names nothing of Python."""
    _Lower.for_python = False


def shared_machine() -> Any:
    """Return LLVM's target for code of shared libraries, of the processor that Numba compiles for."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_triple(binding.get_process_triple())
    processor = {"cpu": _settings.CPU_NAME, "features": _settings.CPU_FEATURES}
    return target.create_target_machine(**processor, opt=int(_settings.OPT), reloc="pic", codemodel="default")


def signature_of(kinds: Sequence[str]) -> tuple[Any, ...]:
    """Return the types of arguments whose kinds are named as in the manifest of kernels."""
    left = list(kinds)
    found = []
    while left:
        found.append(_type_of(left))
    return tuple(found)


def _type_of(kinds: list[str]) -> Any:
    """Return the type of the first kind, and drop what it takes from the list."""
    kind = kinds.pop(0)
    if of_tuple := re.fullmatch(r"([\w.]+)\.(\w+)\((\d+)\)", kind):
        cls = getattr(import_module(of_tuple[1]), of_tuple[2])
        return types.BaseTuple.from_types([_type_of(kinds) for _ in range(int(of_tuple[3]))], cls)
    element, _, rest = kind.partition("[")
    number = types.boolean if element == "bool" else getattr(types, element)
    if not rest:
        return number
    return types.Array(number, int(rest.partition("]")[0]), "C", readonly=kind.endswith(" read-only"))


class _Words:
    """Words in memory, one after the other."""

    def __init__(self, builder: Any, address: Any) -> None:
        self._builder, self._address, self.place = builder, address, 0

    def _next(self) -> Any:
        return self._builder.gep(self._address, [ir.IntType(32)(self.place)])

    def read(self) -> Any:
        """Generate the code that reads the next word."""
        word = self._builder.load(self._next())
        self.place += 1
        return word

    def write(self, value: Any) -> None:
        """Generate the code that writes the next word."""
        self._builder.store(value, self._next())


def _read(context: Any, builder: Any, kind: Any, words: _Words) -> Any:
    """Generate the code that makes an argument of words."""
    if isinstance(kind, types.BaseTuple):
        items = [_read(context, builder, item, words) for item in kind]
        return context.make_tuple(builder, kind, items)
    if isinstance(kind, types.Array):
        return _read_array(context, builder, kind, words)
    word = words.read()
    if isinstance(kind, types.Float):
        value = builder.bitcast(word, ir.DoubleType())
        return builder.fptrunc(value, ir.FloatType()) if kind == types.float32 else value
    if isinstance(kind, types.Boolean):
        return builder.icmp_unsigned("!=", word, _WORD(0))
    return word if kind.bitwidth == _LARGEST else builder.trunc(word, ir.IntType(kind.bitwidth))


def _read_array(context: Any, builder: Any, kind: Any, words: _Words) -> Any:
    array = context.make_array(kind)(context, builder)
    size = _WORD(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    data = builder.inttoptr(words.read(), array.data.type)
    shape = [words.read() for _ in range(kind.ndim)]
    strides = [size]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    populate_array(array, data=data, shape=shape, strides=strides[: kind.ndim], itemsize=size, meminfo=None)
    return array._getvalue()


def _written(context: Any, builder: Any, kind: Any, value: Any) -> Iterator[Any]:
    """Generate the code that makes words of a result."""
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        yield builder.ptrtoint(array.meminfo, _WORD)
        yield builder.ptrtoint(array.data, _WORD)
        yield from cgutils.unpack_tuple(builder, array.shape, kind.ndim)
    elif isinstance(kind, types.Float):
        value = builder.fpext(value, ir.DoubleType()) if kind == types.float32 else value
        yield builder.bitcast(value, _WORD)
    elif isinstance(kind, types.Boolean):
        yield builder.zext(value, _WORD)
    elif kind.bitwidth == _LARGEST:
        yield value
    else:
        yield (builder.sext if kind.signed else builder.zext)(value, _WORD)


_ENVIRONMENT = "_ZN08NumbaEnv"
"""Prefix of Numba's names of the variables by which kernels find their Python environment."""


class _Unused:
    """Substitute for the code generator of a kernel without machine code of its own: no environment."""

    def set_env(self, _name: str, _environment: Any) -> None:
        """Set nothing: the kernels that call it do."""


_settings: Any = config  # mypy does not see the names that numba fills in later


class InnerLibrary(JITCodeLibrary):
    """Compiled code of a kernel that only kernels call: part of theirs, without machine code of its own.

    Numba would optimize each kernel together with all that it calls, and make machine code of it, once for
    the kernel itself and again for everyone who calls it. It would also copy all that a kernel calls into its
    library; here a library has the code of its kernel alone, and knows those of what it calls.
    """

    codegen = _Unused()
    environments: Sequence[Any] = ()
    """Python environments of its code that were read back; they live as long as this object."""
    _bitcode: bytes | None = None
    _known: ClassVar[WeakValueDictionary[bytes, InnerLibrary]] = WeakValueDictionary()

    def finalize(self) -> None:
        """Leave what remains to do to the kernels that call it, which are looked at as a whole."""
        self._codegen._check_llvm_bugs()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.external:
                function.linkage = "linkonce_odr"  # several may be linked to what calls them
        self._finalize_dynamic_globals()
        for library in self._linking_libraries:
            _inherit(self, library)
            self._dynamic_globals.extend(library._dynamic_globals)
        self._finalized = True

    @property
    def own_module(self) -> Any:
        """The code of the kernel without what it calls."""
        self._ensure_finalized()
        return self._final_module

    def _get_module_for_linking(self) -> Any:
        """Return the code with all that it calls: what Numba's own libraries link."""
        if self._shared_module is None:
            whole = self.own_module.clone()
            _link_called(whole, self)
            self._shared_module = whole
        return self._shared_module

    def get_pointer_to_function(self, _name: str) -> int:
        """Return 0: there is nothing that Python could call."""
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self) -> tuple[str, str, Any]:
        """Keep what it compiled to, as there is no object code, and all that this calls."""
        kept = [library for library in [self, *_called(self)] if library is not rtsys.library]
        places = {library: place for place, library in enumerate(kept)}
        parts = []
        for library in kept:
            links = [places[linked] for linked in _links(library) if linked in places]
            parts.append((_bitcode_of(library), links))
        return self.name, "parts", (parts, [one for library in kept for one in _environments(library)])

    @classmethod
    def read_back(cls, codegen: Any, state: tuple[str, str, Any]) -> InnerLibrary:
        """Read what was kept; code that several kernels call is read once."""
        name, _, (parts, environments) = state
        libraries: list[InnerLibrary] = []
        for bitcode, links in reversed(parts):
            library = cls._known.get(bitcode)
            if library is None:
                library = cls(codegen, name)
                library._final_module, library._bitcode = binding.parse_bitcode(bitcode), bitcode
                library._linking_libraries = [libraries[len(parts) - 1 - place] for place in links]
                library._linking_libraries.append(rtsys.library)
                library.finalize()
                cls._known[bitcode] = library
            libraries.append(library)
        libraries[-1].environments = environments
        return libraries[-1]


def _environments(library: Any) -> Iterator[Any]:
    """Yield what the code of a library needs of Python, as far as that can be kept."""
    for variable in library._final_module.global_variables:
        if variable.name.startswith(_ENVIRONMENT):
            environment = lookup_environment(variable.name)
            if environment is not None and environment.can_cache():
                yield environment


def _inherit(library: Any, linked: Any) -> None:
    """Add the reload initializers of a linked library to a library; a no-op for old versions of Numba."""
    if hasattr(library, "_reload_init"):
        library._reload_init.update(linked._reload_init)


def _links(library: Any) -> list[Any]:
    """List the libraries that a library needs by its own code; one of Numba's has all in itself."""
    return library._linking_libraries if isinstance(library, InnerLibrary) else []


def _called(first: Any) -> list[Any]:
    """List the libraries that a library needs, and those that these need: who calls before what is called.

    Of a module that is linked, LLVM takes what is named by then.
    """
    found: dict[Any, None] = {}

    def visit(library: Any) -> None:
        for linked in reversed(library._linking_libraries if library is first else _links(library)):
            if linked not in found:
                visit(linked)
                found[linked] = None

    visit(first)
    return list(reversed(found))


def _link_called(module: Any, first: Any) -> None:
    """Link all that a library calls to a module."""
    for library in _called(first):
        module.link_in(_linkable(library), preserve=True)


def _linkable(library: Any) -> Any:
    return library.own_module if isinstance(library, InnerLibrary) else library._get_module_for_linking()


_CONTENT = re.compile("v[0-9a-f]{32}")
"""The mark in the name of code that is named by the key of its kernel."""


def _counted(module: Any) -> Iterator[Any]:
    """Yield the functions of a module that Numba named by a count of this process, but for Numba's own.

    Those of two processes may have one name, as two lambdas of one module that each was the fifth to be
    compiled: linked together, LLVM would take one for the other. Of Numba's own, equal names and types of
    arguments are equal code.
    """
    for function in module.functions:
        name = function.name
        named_by_numba = name.startswith("_ZN") and not name.startswith("_ZN5numba")
        if named_by_numba and not function.is_declaration and not _CONTENT.search(name):
            yield function


def has_counted_names(library: Any) -> bool:
    """Whether a library or one that it needs has code of users' own functions of Numba's."""
    return any(True for one in (library, *_called(library)) for _ in _counted(_linkable(one)))


def _bitcode_of(library: Any) -> bytes:
    if not isinstance(library, InnerLibrary):
        return cast(bytes, library._get_module_for_linking().as_bitcode())
    if library._bitcode is None:
        library._bitcode = library.own_module.as_bitcode()
    return library._bitcode


class _OuterLibrary(JITCodeLibrary):
    """Compiled code of a kernel that Python calls, with all that it calls and their environments."""

    draft: Draft | None = None
    """Call interface without Numba, if there is one."""

    def finalize(self) -> None:
        """Make machine code of the kernel together with all that it calls."""
        self._codegen._check_llvm_bugs()
        self._raise_if_finalized()
        for library in self._linking_libraries:
            _inherit(self, library)
        own = {function.name for function in self._final_module.functions if not function.is_declaration}
        _link_called(self._final_module, self)
        for function in _counted(self._final_module):
            if function.name not in own:
                function.linkage = "internal"  # LLVM would take one of this name in other machine code for it
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()

    def _finalize_specific(self) -> None:
        super()._finalize_specific()
        codegen: Any = self._codegen
        for variable in self._final_module.global_variables:
            if variable.name.startswith(_ENVIRONMENT):
                environment = lookup_environment(variable.name)
                if environment is not None:
                    codegen.set_env(variable.name, environment)

    @property
    def entry(self) -> Entry | None:
        """The compiled entry for calls without Numba; None if there is none."""
        if self.draft is None:
            return None
        module = self._final_module
        names = [item.name for item in (*module.functions, *module.global_variables) if item.is_declaration]
        needs = [name for name in names if not name.startswith("llvm.")]
        return self.draft.entry(needs, self._get_compiled_object())


class _Lower(Lower):
    """Numba's code generator, which adds how a kernel is called without numba."""

    for_python: ClassVar[bool] = True

    def create_cpython_wrapper(self, release_gil: bool = False) -> None:
        self.context = self.context.subtarget(enable_nrt=True)  # arrays of Python's are counted
        if self.for_python:
            super().create_cpython_wrapper(release_gil)
        self.library.draft = draft(self.context, self.library, self.fndesc)


@register_pass(mutates_CFG=True, analysis_only=False)
class _InnerLowering(NativeLowering):
    """The pass that generates code, which counts references only where a kernel may own an array."""

    _name = "mlsim_inner_lowering"

    def run_pass(self, state: Any) -> bool:
        counting = state.targetctx
        if is_of_package(state) and counting.enable_nrt and owns_nothing(state):
            state.targetctx = counting.subtarget(enable_nrt=False)
            try:
                return bool(super().run_pass(state))
            except NumbaRuntimeError:  # Numba counts within what is done to an array, such as to set a row
                state.targetctx = counting
        return bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class _OuterLowering(_InnerLowering):
    """The same, for kernels that Python calls."""

    _name = "mlsim_outer_lowering"

    @property
    def lowering_class(self) -> type:
        return _Lower


class OuterCompiler(Compiler):
    """Numba's compiler, into a library of ours."""

    library: ClassVar[type] = _OuterLibrary
    lowering: ClassVar[type] = _OuterLowering
    key: ClassVar[str | None] = None
    """The key of the kernel, by which its code is named."""

    def _compile_bytecode(self) -> Any:
        if self.key is not None:  # not by Numba's count, which another process gives to another function
            identity = self.state.func_id
            identity.unique_id = self.key
            identity.unique_name = f"{identity.func_qualname}${self.key}"
        return super()._compile_bytecode()

    def define_pipelines(self) -> Any:
        state = self.state
        if state.library is None:
            state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library.enable_object_caching()
        return [self._with_own_passes(usual) for usual in super().define_pipelines()]

    def _with_own_passes(self, usual: Any) -> Any:
        passes: Any = PassManager(usual.pipeline_name)
        for one, why in usual.passes:
            if one is IRLegalization:
                passes.add_pass(NaturalIndices, "natural indices")
            passes.add_pass(self.lowering if one is NativeLowering else one, why)
        passes.finalize()
        return passes


class InnerCompiler(OuterCompiler):
    library = InnerLibrary
    lowering = _InnerLowering
