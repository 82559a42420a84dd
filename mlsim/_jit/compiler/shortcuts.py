"""Work of Numba's that compiling a kernel does not need, or needs once: left out, or remembered.

Numba is made to be looked into: it tells of each lock and pass, and works out the life of every variable
after each pass. What it makes of a kernel is the same without; `tests/test_shortcuts.py` compares them.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding
from numba.core import ir as numba_ir
from numba.core import types as numba_types
from numba.core.caching import _CacheLocator
from numba.core.compiler_machinery import PassManager, _pass_registry, register_pass
from numba.core.postproc import PostProcessor
from numba.core.targetconfig import TargetConfig
from numba.core.transforms import canonicalize_cfg
from numba.core.typed_passes import AnnotateTypes, NopythonRewrites
from numba.core.untyped_passes import InlineClosureLikes

__all__ = ["QuickPasses", "take_shortcuts"]

ir: Any = numba_ir  # it is not typed itself
types: Any = numba_types
_CLOSURES = {"make_function", "build_list"}
_OVER_ARRAYS = {"unary", "binop", "inplace_binop", "call"}


class QuickPasses(PassManager):
    """Numba's passes over a kernel, without word of each, and without those that change nothing of it."""

    def _runPass(self, _index: int, one: Any, state: Any) -> None:  # noqa: N802 - Numba's name
        one.analysis = self._analysis
        one.run_initialization(state)
        one.run_pass(state)
        one.run_finalizer(state)
        if _pass_registry.get(type(one)).mutates_CFG:
            state.func_ir.blocks = canonicalize_cfg(state.func_ir.blocks)


@register_pass(mutates_CFG=False, analysis_only=False)
class _NoAnnotation(AnnotateTypes):
    """Stands for the pass that writes down, with the source, which types were found."""

    _name = "mlsim_no_annotation"

    def run_pass(self, state: Any) -> bool:
        state.type_annotation = ""
        return False


@register_pass(mutates_CFG=True, analysis_only=False)
class _Closures(InlineClosureLikes):
    """Put functions inside a kernel, and lists of its comprehensions, in their places, if there are any."""

    _name = "mlsim_closures"

    def run_pass(self, state: Any) -> bool:
        found = any(expression.op in _CLOSURES for _, expression in _expressions(state.func_ir))
        return (
            bool(super().run_pass(state)) if found or _names(state.func_ir, {"reduce", "stencil"}) else False
        )


@register_pass(mutates_CFG=True, analysis_only=False)
class _ArrayExpressions(NopythonRewrites):
    """Join expressions over whole arrays to one loop, if there are any."""

    _name = "mlsim_array_expressions"

    def run_pass(self, state: Any) -> bool:
        for target, expression in _expressions(state.func_ir):
            if expression.op in _OVER_ARRAYS and isinstance(state.typemap.get(target), types.Array):
                return bool(super().run_pass(state))
        return False


QUICK = {AnnotateTypes: _NoAnnotation, InlineClosureLikes: _Closures, NopythonRewrites: _ArrayExpressions}
"""What stands for passes of Numba's."""


def _expressions(function: Any) -> Any:
    """Yield what is assigned in a function, with the name that it is assigned to."""
    for block in function.blocks.values():
        for statement in block.body:
            if type(statement) is ir.Assign and type(statement.value) is ir.Expr:
                yield statement.target.name, statement.value


def _names(function: Any, names: set[str]) -> bool:
    return not names.isdisjoint(function.func_id.code.co_names)


def take_shortcuts(target: Any) -> None:
    """Have Numba, with a context in which code is generated, take them all."""
    _tell_nobody_of_locks()
    _compare_settings_quickly()
    _list_variables_quickly()
    _follow_variables_when_asked()
    _check_directories_once()
    _remember_sizes(target)
    _import_registries_once(target)


def _tell_nobody_of_locks() -> None:
    """Have LLVM's lock taken without an event: it is taken a hundred thousand times."""
    lock = binding.ffi.lib._lock
    for entered, left in list(getattr(lock, "_cblist", ())):
        if entered.__module__ == left.__module__ == "numba.core.base":
            lock.unregister(entered, left)


def _compare_settings_quickly() -> None:
    """Compare the settings under which kernels are compiled by what was set; by all where that differs."""
    compare = TargetConfig.__eq__

    def equal(one: Any, other: Any) -> Any:
        if type(one) is type(other) and one._values == other._values:
            return True
        return compare(one, other)

    def code_of(one: Any) -> int:
        return hash(type(one))

    changed: Any = TargetConfig
    changed.__eq__, changed.__hash__ = equal, code_of


def _list_variables_quickly() -> None:
    """List the variables of a statement into one list, not into one for each part of it."""

    def listed(_statement: Any, value: Any) -> list[Any]:
        found: list[Any] = []
        collect(value, found)
        return found

    def collect(value: Any, found: list[Any]) -> None:
        kind = type(value)
        if kind is ir.Var:
            found.append(value)
        elif value is None or kind is ir.Loc or kind is str:
            return
        elif isinstance(value, ir.Inst):
            found.extend(value.list_vars())
        elif isinstance(value, list | tuple):
            for item in value:
                collect(item, found)
        elif isinstance(value, dict):
            for item in value.values():
                collect(item, found)

    ir.Inst._rec_list_vars = listed


def _follow_variables_when_asked() -> None:
    """Work out the lives of variables where something depends on them: dels, generators, ``with``."""
    run = PostProcessor.run

    def run_if_asked(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
        function = self.func_ir
        if emit_dels or extend_lifetimes or function.is_generator or _has_with(function):
            run(self, emit_dels, extend_lifetimes)
        else:
            function.blocks = canonicalize_cfg(function.blocks)
            function.generator_info = None

    changed: Any = PostProcessor
    changed.run = run_if_asked


def _has_with(function: Any) -> bool:
    return any(type(one) is ir.EnterWith for block in function.blocks.values() for one in block.body)


def _check_directories_once() -> None:
    """Try once whether a file can be written where kernels are kept, not for each kernel and each time."""
    check = _CacheLocator.ensure_cache_path
    checked: set[str] = set()

    def check_once(self: Any) -> None:
        directory = self.get_cache_path()
        if directory not in checked:
            check(self)
            checked.add(directory)

    changed: Any = _CacheLocator
    changed.ensure_cache_path = check_once


def _remember_sizes(target: Any) -> None:
    """Remember the sizes of types: to ask LLVM for one, a module is written and read."""
    size_of = target.get_abi_sizeof
    known: dict[str, int] = {}

    def remembered(kind: Any) -> int:
        name = str(kind)
        if name not in known:
            known[name] = size_of(kind)
        return known[name]

    target.get_abi_sizeof = remembered


def _import_registries_once(target: Any) -> None:
    """Import all that Numba can compile once; then look only for what was added to it."""
    load = target.load_additional_registries
    loaded: list[Any] = []

    def load_once() -> None:
        if not loaded:
            load()
            loaded.extend(target._registries)
        for registry in loaded:
            target.install_registry(registry)

    target.load_additional_registries = load_once
    target.refresh()
