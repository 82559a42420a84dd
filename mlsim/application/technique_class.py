"""Techniques of the user that remember: a Python class in a file, whose methods are compiled.

Such a class has ``size(self, memory, n, p, remaining, step, pe)``, and, if it likes, ``numbers(self, p)``,
``begin(self, memory, n, p)`` and ``learn(self, memory, n, p, chunk)``; see "Your own technique" in
``docs/reference/loops.md``. An object of it is made once, in Python, with the scenario's parameters; in the
compiled methods ``self`` is a named tuple of its attributes, which stay as they are. ``memory`` is all that
changes.
"""

from __future__ import annotations

import ctypes
import inspect
import operator
from collections import namedtuple
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from mlsim.application.settings import RAISED
from mlsim.application.techniques.user import BEGIN, LEARN, MOST_NUMBERS, NUMBERS, SIZE_OF
from mlsim.application.user_code import compilable, compiler_message
from mlsim.errors import InputError, user_code_error
from mlsim.plugins import resolve_parameters

__all__ = ["Executed", "compile_class", "times_pieces"]


class Executed(NamedTuple):
    """An executed chunk, of which a technique learns; times in s.

    Between nodes, whoever executes is a node: it tells of all that its PEs executed since its last request
    as of one chunk, with times divided by the number of its PEs.
    """

    pe: int
    """Who executed it: a PE, or a node."""
    step: int
    """Its scheduling step; −1 of a node, which tells of several chunks."""
    size: int
    """Iterations, 1 or more."""
    pieces: int
    """In how many parts it was timed, see ``times_pieces``; in simulations each iteration unless
    ``execution.pieces`` says otherwise."""
    seconds: float
    """Executing it."""
    overhead: float
    """From asking for it to starting it; of a master's own chunk also the time of its breaks."""
    spread: float
    """Σ n_j·(x_j − x̄)² over the pieces of n_j iterations that took x_j each, x̄ being seconds / size."""


_METHODS = {
    "numbers": ("p",),
    "begin": ("memory", "n", "p"),
    "size": ("memory", "n", "p", "remaining", "step", "pe"),
    "learn": ("memory", "n", "p", "chunk"),
}


def times_pieces(kind: type) -> bool:
    """Whether real runs are to time each chunk in pieces, as for AF, since the class says so."""
    return bool(getattr(kind, "times_pieces", False))


def compile_class(name: str, kind: type, parameters: Mapping[str, Any]) -> tuple[int, Any]:
    """Make an object of a class and compile its methods to one C function.

    Parameters
    ----------
    name
        What messages begin with.
    kind
        The class.
    parameters
        What its constructor gets, by name.

    Returns
    -------
    address
        Of the function; see :mod:`mlsim.application.techniques.user` for what it takes.
    keep
        Keeps its machine code alive.

    Raises
    ------
    InputError
        If it takes other parameters, lacks ``size``, or cannot be compiled.
    """
    parameters = resolve_parameters(name, "application.technique", kind, parameters)
    try:
        made = kind(**parameters)
    except BaseException as error:  # whatever the user's class raises
        raise user_code_error(f"{name}: cannot be made", error) from error
    methods = {method: _method(name, kind, method) for method in _METHODS}
    from mlsim._jit import INTERPRETED

    if INTERPRETED:
        return _as_python(made, methods)
    return _compiled(name, made, methods)


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


def _compiled(name: str, made: object, methods: Mapping[str, Callable[..., Any] | None]) -> tuple[int, Any]:
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
    myself = "0"
    if attributes:
        names["Self"] = namedtuple("Self", tuple(attributes))
        myself = f"Self({', '.join(constants)})"
    arguments = "op, place, words, n, p, what, step, pe, pieces, seconds, waited, spread"
    lines = [f"def caller({arguments}):", f"    me = {myself}"]
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
                    f"{name}: its {method} gives values of type {signature.return_type}; allowed: a whole "
                    "number on every path, e.g. return int(size)"
                )


def _as_python(made: Any, methods: Mapping[str, Callable[..., Any] | None]) -> tuple[int, Any]:
    """Return a stand-in that calls the Python methods, where kernels are Python functions too."""
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
