"""User-defined techniques: Python functions or classes in a file, compiled."""

from __future__ import annotations

import ctypes
import inspect
import json
import operator
import os
import runpy
from collections import namedtuple
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from mlsim._files import expanded, open_file, resolved
from mlsim.errors import InputError, user_code_error
from mlsim.plugins import resolve_parameters
from mlsim.techniques.technique_entry import RAISED, USER, USER_BY_STEP, USER_OBJECT
from mlsim.techniques.user_calls import BEGIN, LEARN, MOST_NUMBERS, NUMBERS, SIZE_OF


def compilable(place: str, value: Any) -> Any:
    """Return a parameter in a form that compiled code accepts; ``place`` is its key in the scenario."""
    if isinstance(value, bool | int | float | str):
        return value
    numbers = isinstance(value, list | tuple) and value
    if numbers and all(isinstance(item, int | float) and not isinstance(item, bool) for item in value):
        return np.array(value)
    raise InputError(
        f"{place}: {value!r:.60} cannot be compiled; allowed: a number, a boolean, a text, a list of numbers"
    )


def compiler_message(error: Exception) -> str:
    """Return the first lines of a compiler message that concern the user."""
    lines = [line.strip() for line in str(error).splitlines()]
    found = [line for line in lines if line and not line.startswith(("Failed in", "During:", "^", "See "))]
    return "; ".join(found[:3])


_PARAMETERS = ("n", "p", "remaining", "step", "pe")
_SIGNATURE = f"({', '.join(_PARAMETERS)})"


class CompiledTechnique(NamedTuple):
    """A user-defined technique as machine code."""

    address: int
    """Of a C function from five int64 to one; for a class see :mod:`.techniques.user_calls`."""
    code: int
    """``USER`` for a function that reads ``remaining``, ``USER_BY_STEP`` for one that does not and so has a
    straightforward form, ``USER_OBJECT`` for a class.
    """
    times_pieces: bool
    """Whether real runs time its chunks in pieces."""
    keep: Any
    """Keeps the machine code alive."""


def compile_technique(
    file: str, function: str, parameters: Mapping[str, Any] | None = None
) -> CompiledTechnique:
    """Compile ``function(n, p, remaining, step, pe)`` of a Python file, or a class, once per process.

    Parameters
    ----------
    file
        Path of the file, relative to the current directory.
    function
        Name of the function: it receives the iterations and PEs of the loop, the remaining iterations, the
        scheduling step from 0 and the requesting PE, and returns the chunk size. Or name of a class: see
        :mod:`mlsim.application.user_technique`.
    parameters
        Further arguments of the function or of the class's constructor, by name: numbers, booleans, texts,
        lists of numbers.

    Raises
    ------
    InputError
        If there is no such function, it does not accept the parameters, cannot be compiled, or does not
        return a whole number.
    """
    path = expanded(file)
    with open_file(path, f"technique {function!r}") as opened:
        changed = os.fstat(opened.fileno()).st_mtime_ns
    return _compiled(str(resolved(path)), function, changed, json.dumps(dict(parameters or {})))


@cache
def _compiled(file: str, function: str, _changed: int, given: str) -> CompiledTechnique:
    body = _load(file, function)
    name = f"technique {file}:{function}"
    if inspect.isclass(body):
        address, keep = compile_class(name, body, json.loads(given))
        return CompiledTechnique(address, USER_OBJECT, times_pieces(body), keep)
    own = _own_values(name, function, body, json.loads(given))
    import numba
    from numba.core.errors import NumbaError

    from mlsim._jit import INTERPRETED, compiling

    if INTERPRETED:
        return _as_python(body, own)
    whole = numba.types.int64
    dispatcher = numba.njit(nogil=True)(body)
    try:
        with compiling():
            dispatcher.compile((whole,) * len(_PARAMETERS) + tuple(map(numba.typeof, own)))
    except (NumbaError, NotImplementedError) as error:
        raise InputError(f"{name}: cannot be compiled: {compiler_message(error)}") from error
    result = dispatcher.nopython_signatures[0].return_type
    if not isinstance(result, numba.types.Integer):
        raise InputError(
            f"{name}: returns {_type_name(result)}; allowed: a whole number on every path, "
            "e.g. return int(size)"
        )

    technique = _bound(dispatcher, own)

    def call(n, p, remaining, step, pe):  # type: ignore[no-untyped-def]  # types are those of the C function
        try:
            return whole(technique(n, p, remaining, step, pe))
        except Exception:  # a C function cannot raise; the event loop stops at this value
            return whole(RAISED)

    with compiling():
        compiled = numba.cfunc(whole(*[whole] * len(_PARAMETERS)))(call)
    return CompiledTechnique(int(compiled.address or 0), _function_code(body), False, compiled)


def _own_values(name: str, function: str, body: Any, parameters: dict[str, Any]) -> tuple[Any, ...]:
    """Return the values of the arguments after the five of every technique, in order."""
    signature = inspect.signature(body)
    own = tuple(signature.parameters.values())[len(_PARAMETERS) :]
    if tuple(signature.parameters)[: len(_PARAMETERS)] != _PARAMETERS or any(
        each.kind is not each.POSITIONAL_OR_KEYWORD for each in own
    ):
        raise InputError(
            f"{name}: takes {signature}; allowed: {function}{_SIGNATURE}, and its own parameters after these"
        )
    parameters = resolve_parameters(name, "application.technique", body, parameters, len(_PARAMETERS))
    values = {each.name: parameters.get(each.name, each.default) for each in own}
    return tuple(compilable(f"{name}: application.technique.parameters.{key}", values[key]) for key in values)


def _bound(dispatcher: Any, own: tuple[Any, ...]) -> Any:
    """Return a compiled function of the five arguments; the others are constants of its code."""
    if not own:
        return dispatcher
    import numba

    constants = {f"own_{place}": value for place, value in enumerate(own)}
    arguments = ", ".join(_PARAMETERS)
    names = {"technique": dispatcher, **constants}
    text = f"def bound({arguments}):\n    return technique({arguments}, {', '.join(constants)})\n"
    exec(text, names)  # tuples of constants of several types cannot be compiled
    return numba.njit(nogil=True)(names["bound"])


def _as_python(body: Any, own: tuple[Any, ...]) -> CompiledTechnique:
    """Return a callback to the Python function itself, for runs without compiled kernels."""

    def call(*arguments: int) -> int:
        try:
            return operator.index(body(*arguments, *own))
        except Exception:  # as in compiled code
            return RAISED

    whole = ctypes.c_int64
    callback = ctypes.CFUNCTYPE(whole, *[whole] * len(_PARAMETERS))(call)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    return CompiledTechnique(int(address or 0), _function_code(body), False, callback)


def _function_code(body: Any) -> int:
    return USER if _reads(body, "remaining") else USER_BY_STEP


def _load(file: str, function: str) -> Any:
    try:
        names = runpy.run_path(file, run_name="mlsim_technique")
    except BaseException as error:  # whatever the user's file raises
        place = f"technique {file}:{function}: the file cannot be executed"
        raise user_code_error(place, error) from error
    body = names.get(function)
    if not (inspect.isfunction(body) or inspect.isclass(body)):
        functions = sorted(
            name
            for name, value in names.items()
            if (inspect.isfunction(value) or inspect.isclass(value)) and value.__module__ == "mlsim_technique"
        )
        raise InputError(
            f"technique {file}:{function}: there is no function {function!r}; the file has: "
            f"{', '.join(functions) or 'none'}"
        )
    return body


def _reads(body: Any, name: str) -> bool:
    """Whether a function reads one of its parameters."""
    import dis

    for instruction in dis.get_instructions(body):
        if not instruction.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE")):
            continue
        read = instruction.argval
        if name in (read if isinstance(read, tuple) else (read,)):
            return True
    return False


def _type_name(result: Any) -> str:
    import numba

    if isinstance(result, numba.types.NoneType):
        return "nothing"
    if isinstance(result, numba.types.Optional):
        return "nothing on some path"
    return f"values of type {result}"


class Executed(NamedTuple):
    """An executed chunk, from which a technique learns; times in s.

    Between nodes the executor is a node: it reports everything that its PEs executed since its last request
    as one chunk, with times divided by the number of its PEs.
    """

    pe: int
    """The executor: a PE, or a node."""
    step: int
    """Its scheduling step; −1 for a node, which reports several chunks as one."""
    size: int
    """Iterations, 1 or more."""
    pieces: int
    """Number of timed parts, see ``times_pieces``; in simulations one per iteration unless
    ``parameters.pieces`` is set."""
    seconds: float
    """Execution time."""
    overhead: float
    """Time from its request to its start; for a master's own chunk also the time of its breaks."""
    spread: float
    """Σ n_j·(x_j − x̄)² over the pieces of n_j iterations that took x_j each, x̄ being seconds / size."""


_METHODS = {
    "numbers": ("p",),
    "begin": ("memory", "n", "p"),
    "size": ("memory", "n", "p", "remaining", "step", "pe"),
    "learn": ("memory", "n", "p", "chunk"),
}


def times_pieces(kind: type) -> bool:
    """Whether the class asks real runs to time each chunk in pieces, as for AF."""
    return bool(getattr(kind, "times_pieces", False))


def compile_class(name: str, kind: type, parameters: Mapping[str, Any]) -> tuple[int, Any]:
    """Create an object of a class and compile its methods to one C function.

    Returns the function's address (its arguments: :mod:`mlsim.techniques.user_calls`), and an object that
    keeps its machine code alive.
    """
    parameters = resolve_parameters(name, "application.technique", kind, parameters)
    try:
        made = kind(**parameters)
    except BaseException as error:  # whatever the user's class raises
        raise user_code_error(f"{name}: cannot be made", error) from error
    methods = {method: _method(name, kind, method) for method in _METHODS}
    from mlsim._jit import INTERPRETED

    if INTERPRETED:
        return _class_as_python(made, methods)
    return _compiled_class(name, made, methods)


def _method(name: str, kind: type, method: str) -> Callable[..., Any] | None:
    """Return a method of the user's class, checked; None if it has none."""
    body = inspect.getattr_static(kind, method, None)
    arguments = ("self", *_METHODS[method])
    if body is None and method != "size":
        return None
    wanted = f"{method}({', '.join(arguments)})"
    if not inspect.isfunction(body):
        raise InputError(f"{name}: has no method {wanted}")
    if tuple(inspect.signature(body).parameters) != arguments:
        raise InputError(f"{name}: its {method} takes {inspect.signature(body)}; allowed: {wanted}")
    return body


def _compiled_class(
    name: str, made: object, methods: Mapping[str, Callable[..., Any] | None]
) -> tuple[int, Any]:
    import numba
    from numba.core.errors import NumbaError

    from mlsim._jit import compiling

    whole, real = numba.types.int64, numba.types.float64
    attributes = {key: compilable(f"{name}: its attribute {key}", value) for key, value in vars(made).items()}
    dispatchers = {key: numba.njit(nogil=True)(body) for key, body in methods.items() if body is not None}
    body = numba.njit(nogil=True)(_caller(attributes, dispatchers))
    place = numba.types.CPointer(real)  # type: ignore[no-untyped-call]  # numba has no types of its own
    types = (whole, place, *(whole,) * 7, *(real,) * 3)
    try:
        with compiling():
            body.compile(types)
    except (NumbaError, NotImplementedError) as error:
        raise InputError(f"{name}: cannot be compiled: {compiler_message(error)}") from error
    _check_results(name, dispatchers)

    def call(op, memory, words, n, p, what, step, pe, pieces, seconds, waited, spread):  # type: ignore[no-untyped-def]  # types are those of the C function
        try:
            return whole(body(op, memory, words, n, p, what, step, pe, pieces, seconds, waited, spread))
        except Exception:  # a C function cannot raise; the event loop stops at this value
            return whole(RAISED)

    with compiling():
        compiled = numba.cfunc(whole(*types))(call)
    return int(compiled.address or 0), compiled


def _caller(attributes: Mapping[str, Any], dispatchers: Mapping[str, Any]) -> Any:
    """Return the function that calls a method by its number; attributes are constants of its code."""
    from numba.np.numpy_support import carray

    constants = {f"own_{place}": value for place, value in enumerate(attributes.values())}
    names = {**constants, **dispatchers, "Executed": Executed, "carray": carray}
    instance = "0"
    if attributes:
        names["Self"] = namedtuple("Self", tuple(attributes))
        instance = f"Self({', '.join(constants)})"
    arguments = "op, place, words, n, p, what, step, pe, pieces, seconds, waited, spread"
    lines = [f"def caller({arguments}):", f"    me = {instance}"]
    if "numbers" in dispatchers:
        lines += [f"    if op == {NUMBERS}:", "        return numbers(me, p)"]
    lines += [
        "    memory = carray(place, words)",
        f"    if op == {SIZE_OF}:",
        "        return size(me, memory, n, p, what, step, pe)",
    ]
    if "begin" in dispatchers:
        lines += [f"    if op == {BEGIN}:", "        begin(me, memory, n, p)"]
    if "learn" in dispatchers:
        chunk = "Executed(pe, step, what, pieces, seconds, waited, spread)"
        lines += [f"    if op == {LEARN}:", f"        learn(me, memory, n, p, {chunk})"]
    exec("\n".join([*lines, "    return 0"]), names)  # named tuples of several types cannot be constants
    return names["caller"]


def _check_results(name: str, dispatchers: Mapping[str, Any]) -> None:
    """Check that ``size`` and ``numbers`` return whole numbers."""
    import numba

    for method in ("size", "numbers"):
        for signature in dispatchers[method].nopython_signatures if method in dispatchers else ():
            if not isinstance(signature.return_type, numba.types.Integer):
                raise InputError(
                    f"{name}: its {method} returns values of type {signature.return_type}; allowed: a whole "
                    "number on every path, e.g. return int(size)"
                )


def _class_as_python(made: Any, methods: Mapping[str, Callable[..., Any] | None]) -> tuple[int, Any]:
    """Return a callback to the Python methods, for runs without compiled kernels."""
    whole, real = ctypes.c_int64, ctypes.c_double

    def call(
        op: int, place: int, words: int, n: int, p: int, what: int, step: int, pe: int, *rest: Any
    ) -> int:
        pieces, seconds, waited, spread = rest
        try:
            if op == NUMBERS:
                wanted = 0 if methods["numbers"] is None else operator.index(made.numbers(p))
                return wanted if wanted <= MOST_NUMBERS else RAISED
            memory = np.zeros(0)
            if words:
                memory = np.ctypeslib.as_array(ctypes.cast(place, ctypes.POINTER(real)), (words,))
            if op == SIZE_OF:
                return operator.index(made.size(memory, n, p, what, step, pe))
            if op == BEGIN and methods["begin"] is not None:
                made.begin(memory, n, p)
            if op == LEARN and methods["learn"] is not None:
                made.learn(memory, n, p, Executed(pe, step, what, pieces, seconds, waited, spread))
            return 0
        except Exception:  # as in compiled code
            return RAISED

    callback = ctypes.CFUNCTYPE(whole, whole, ctypes.c_void_p, *[whole] * 7, *[real] * 3)(call)
    return int(ctypes.cast(callback, ctypes.c_void_p).value or 0), callback
