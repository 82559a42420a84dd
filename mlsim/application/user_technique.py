"""Techniques of the user: a Python function or class in a file, compiled when a loop needs it."""

from __future__ import annotations

import ctypes
import inspect
import json
import operator
import os
import runpy
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from mlsim._files import expanded, open_file, resolved
from mlsim.application.settings import RAISED, USER, USER_BY_STEP, USER_OBJECT
from mlsim.application.user_code import compilable, compiler_message
from mlsim.errors import InputError, user_code_error
from mlsim.plugins import resolve_parameters

__all__ = ["CompiledTechnique", "compile_technique"]

_PARAMETERS = ("n", "p", "remaining", "step", "pe")
_SIGNATURE = f"({', '.join(_PARAMETERS)})"


class CompiledTechnique(NamedTuple):
    """A technique of the user as machine code."""

    address: int
    """Of a C function from five int64 to one; of a class see :mod:`mlsim.application.techniques.user`."""
    code: int
    """Which sort it is to kernels: ``USER`` where the Python function reads ``remaining``, ``USER_BY_STEP``
    where it does not and so has a straightforward form, ``USER_OBJECT`` for a class.
    """
    times_pieces: bool
    """Whether it wants chunks to be timed in pieces."""
    keep: Any
    """Keeps the machine code alive."""


def compile_technique(
    file: str, function: str, parameters: Mapping[str, Any] | None = None
) -> CompiledTechnique:
    """Compile ``function(n, p, remaining, step, pe)`` of a Python file, or a class, once a process.

    Parameters
    ----------
    file
        Path of the file, seen from the current directory.
    function
        Its name there. Iterations and PEs of the loop, iterations left, scheduling step from 0 and the PE
        that asks come in; the chunk size comes out. Or a class: see :mod:`mlsim.application.technique_class`.
    parameters
        What the function takes beside these, or the class, by name: numbers, booleans, texts, lists of
        numbers.

    Raises
    ------
    InputError
        If there is no such function, it does not take the parameters, it cannot be compiled, or gives
        something else than a whole number.
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
        from mlsim.application.technique_class import compile_class, times_pieces

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
            f"{name}: gives {_in_words(result)}; allowed: a whole number on every path, e.g. return int(size)"
        )

    technique = _bound(dispatcher, own)

    def call(n, p, remaining, step, pe):  # type: ignore[no-untyped-def]  # types are those of the C function
        try:
            return whole(technique(n, p, remaining, step, pe))
        except Exception:  # a C function cannot raise; the event loop stops at this value
            return whole(RAISED)

    with compiling():
        compiled = numba.cfunc(whole(*[whole] * len(_PARAMETERS)))(call)
    return CompiledTechnique(int(compiled.address or 0), _code_of(body), False, compiled)


def _own_values(name: str, function: str, body: Any, parameters: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a function takes after the five arguments of every technique, in its order."""
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
    """Return a compiled function of the five arguments alone; the others are constants of its code."""
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
    """Return a stand-in that calls the Python function itself, where kernels are Python functions too."""

    def call(*arguments: int) -> int:
        try:
            return operator.index(body(*arguments, *own))
        except Exception:  # as in compiled code
            return RAISED

    whole = ctypes.c_int64
    callback = ctypes.CFUNCTYPE(whole, *[whole] * len(_PARAMETERS))(call)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    return CompiledTechnique(int(address or 0), _code_of(body), False, callback)


def _code_of(body: Any) -> int:
    """Return the code of a function."""
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


def _in_words(result: Any) -> str:
    import numba

    if isinstance(result, numba.types.NoneType):
        return "nothing"
    if isinstance(result, numba.types.Optional):
        return "nothing on some path"
    return f"values of type {result}"
