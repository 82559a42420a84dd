"""User-defined techniques and execution models: Python functions or classes, found, compiled and checked."""

import ctypes
import dis
import inspect
import json
import math
import operator
import os
import runpy
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from mlsim._files import expanded, is_file, open_file, resolved
from mlsim._jit import INTERPRETED, compiling, require_numba
from mlsim.errors import InputError, user_code_error
from mlsim.execution_models import ModelEntry, ModelProperties
from mlsim.execution_models.loop_state import Inputs
from mlsim.plugins import Family, make_callable, resolve_parameters
from mlsim.scenario.application_section import ApplicationConfig, ExecutionConfig
from mlsim.scenario.section_base import parameters_of, user_function
from mlsim.scenario.technique_section import ParametersConfig, wrong_levels
from mlsim.scenario.words import ExecutionModel
from mlsim.techniques.rule_layout import RAISED, USER, USER_BY_STEP, USER_OBJECT
from mlsim.techniques.technique_rules import BEGIN, LEARN, MOST_NUMBERS, NUMBERS, SIZE_OF, Executed


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
# Arguments of the C function of a class, see ``technique_rules``: 9 whole numbers, of which the second is an
# address, and 3 reals.
_OF_CLASS = ("op", "place", "words", "n", "p", "what", "step", "pe", "pieces", "seconds", "waited", "spread")
_METHODS = {
    "numbers": ("p",),
    "begin": ("memory", "n", "p"),
    "size": ("memory", "n", "p", "remaining", "step", "pe"),
    "learn": ("memory", "n", "p", "chunk"),
}


class CompiledTechnique(NamedTuple):
    """A user-defined technique as machine code."""

    address: int  # of a C function from five int64 to one; for a class see ``technique_rules``
    code: int  # USER for a function that reads ``remaining``, else USER_BY_STEP; USER_OBJECT for a class
    times_pieces: bool  # whether real runs time its chunks in pieces
    keep: Any  # keeps the machine code alive


def compile_technique(
    file: str, function: str, parameters: Mapping[str, Any] | None = None
) -> CompiledTechnique:
    """Compile ``function(n, p, remaining, step, pe)`` of a Python file, or a class, once per process.

    The function receives the iterations and PEs of the loop, the remaining iterations, the scheduling step
    from 0 and the requesting PE, and returns the chunk size. ``parameters`` are further arguments of it or of
    the class's constructor: numbers, booleans, texts, lists of numbers. InputError if there is no such
    function, it does not accept the parameters, cannot be compiled, or does not return a whole number.
    """
    path = expanded(file)
    with open_file(path, f"technique {function!r}") as opened:
        changed = os.fstat(opened.fileno()).st_mtime_ns
    return _compiled(str(resolved(path)), function, changed, json.dumps(dict(parameters or {})))


@cache
def _compiled(file: str, function: str, _changed: int, given: str) -> CompiledTechnique:
    body = _load(file, function)
    name, parameters = f"technique {file}:{function}", json.loads(given)
    if inspect.isclass(body):
        address, keep = _class_code(name, body, parameters)
        return CompiledTechnique(address, USER_OBJECT, bool(getattr(body, "times_pieces", False)), keep)
    address, keep = _function_code(name, body, _own_values(name, function, body, parameters))
    return CompiledTechnique(address, USER if _reads(body, "remaining") else USER_BY_STEP, False, keep)


def _function_code(name: str, body: Any, own: tuple[Any, ...]) -> tuple[int, Any]:
    """Return the address of a function's C function, and an object that keeps its machine code alive."""
    if INTERPRETED:
        return _callback(lambda *arguments: operator.index(body(*arguments, *own)), len(_PARAMETERS))
    require_numba(name)
    import numba

    whole = numba.types.int64
    dispatcher = numba.njit(nogil=True)(body)
    _compile(name, dispatcher, (whole,) * len(_PARAMETERS) + tuple(map(numba.typeof, own)))
    result = dispatcher.nopython_signatures[0].return_type
    if not isinstance(result, numba.types.Integer):
        found = {"NoneType": "nothing", "Optional": "nothing on some path"}.get(
            type(result).__name__, f"values of type {result}"
        )
        raise InputError(
            f"{name}: returns {found}; allowed: a whole number on every path, e.g. return int(size)"
        )
    return _c_function(dispatcher, _PARAMETERS, own, (whole,) * len(_PARAMETERS))


def _compile(name: str, dispatcher: Any, types: Sequence[Any]) -> None:
    from numba.core.errors import NumbaError

    try:
        with compiling():
            dispatcher.compile(tuple(types))
    except (NumbaError, NotImplementedError) as error:
        raise InputError(f"{name}: cannot be compiled: {compiler_message(error)}") from error


def _c_function(
    dispatcher: Any, arguments: Sequence[str], own: Sequence[Any], types: Sequence[Any]
) -> tuple[int, Any]:
    """Compile a C function that calls a compiled one with further arguments, constants of its code."""
    import numba

    constants = {f"own_{place}": value for place, value in enumerate(own)}
    names: dict[str, Any] = {"technique": dispatcher, "whole": numba.types.int64, "raised": RAISED}
    names |= constants
    listed = ", ".join(arguments)
    text = (
        f"def call({listed}):\n"
        "    try:\n"
        f"        return whole(technique({', '.join((listed, *constants))}))\n"
        "    except Exception:\n"  # a C function cannot raise; the event loop stops at this value
        "        return whole(raised)\n"
    )
    exec(text, names)  # tuples of constants of several types cannot be compiled
    with compiling():
        compiled = numba.cfunc(numba.types.int64(*types))(names["call"])
    return int(compiled.address or 0), compiled


def _callback(call: Callable[..., int], wholes: int, reals: int = 0) -> tuple[int, Any]:
    """Return the address of a C function that calls Python, for runs without compiled kernels."""

    def guarded(*arguments: Any) -> int:
        try:
            return call(*arguments)
        except Exception:  # as in compiled code
            return RAISED

    whole, real = ctypes.c_int64, ctypes.c_double
    callback = ctypes.CFUNCTYPE(whole, *[whole] * wholes, *[real] * reals)(guarded)
    return int(ctypes.cast(callback, ctypes.c_void_p).value or 0), callback


def _own_values(name: str, function: str, body: Any, parameters: dict[str, Any]) -> tuple[Any, ...]:
    """Return the values of the arguments after the five of every technique, in order."""
    signature = inspect.signature(body)
    own = tuple(signature.parameters.values())[len(_PARAMETERS) :]
    if tuple(signature.parameters)[: len(_PARAMETERS)] != _PARAMETERS or any(
        each.kind is not each.POSITIONAL_OR_KEYWORD for each in own
    ):
        raise InputError(
            f"{name}: takes {signature}; allowed: {function}({', '.join(_PARAMETERS)}), and its own "
            "parameters after these"
        )
    parameters = resolve_parameters(name, "application.technique", body, parameters, len(_PARAMETERS))
    values = {each.name: parameters.get(each.name, each.default) for each in own}
    return tuple(compilable(f"{name}: application.technique.parameters.{key}", values[key]) for key in values)


def _load(file: str, function: str) -> Any:
    try:
        names = runpy.run_path(file, run_name="mlsim_technique")
    except BaseException as error:  # whatever the user's file raises
        place = f"technique {file}:{function}: the file cannot be executed"
        raise user_code_error(place, error) from error
    code = {key: value for key, value in names.items() if inspect.isfunction(value) or inspect.isclass(value)}
    if function not in code:
        functions = sorted(key for key, value in code.items() if value.__module__ == "mlsim_technique")
        raise InputError(
            f"technique {file}:{function}: there is no function {function!r}; the file has: "
            f"{', '.join(functions) or 'none'}"
        )
    return code[function]


def _reads(body: Any, name: str) -> bool:
    """Whether a function reads one of its parameters."""
    for instruction in dis.get_instructions(body):
        if not instruction.opname.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE")):
            continue
        read = instruction.argval
        if name in (read if isinstance(read, tuple) else (read,)):
            return True
    return False


def _class_code(name: str, kind: type, parameters: Mapping[str, Any]) -> tuple[int, Any]:
    """Create an object of a class and compile its methods to one C function; see :func:`_function_code`."""
    parameters = resolve_parameters(name, "application.technique", kind, parameters)
    try:
        made = kind(**parameters)
    except BaseException as error:  # whatever the user's class raises
        raise user_code_error(f"{name}: cannot be made", error) from error
    methods = {method: _method(name, kind, method) for method in _METHODS}
    if INTERPRETED:
        return _callback(_method_caller(made, methods), 9, 3)
    require_numba(name)
    import numba

    whole, real = numba.types.int64, numba.types.float64
    attributes = {key: compilable(f"{name}: its attribute {key}", value) for key, value in vars(made).items()}
    dispatchers = {key: numba.njit(nogil=True)(body) for key, body in methods.items() if body is not None}
    body = numba.njit(nogil=True)(_caller(attributes, dispatchers))
    place = numba.types.CPointer(real)  # type: ignore[no-untyped-call]  # numba has no types of its own
    types = (whole, place, *(whole,) * 7, *(real,) * 3)
    _compile(name, body, types)
    for method in ("size", "numbers"):
        for signature in dispatchers[method].nopython_signatures if method in dispatchers else ():
            if not isinstance(signature.return_type, numba.types.Integer):
                raise InputError(
                    f"{name}: its {method} returns values of type {signature.return_type}; allowed: a whole "
                    "number on every path, e.g. return int(size)"
                )
    return _c_function(body, _OF_CLASS, (), types)


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


def _caller(attributes: Mapping[str, Any], dispatchers: Mapping[str, Any]) -> Any:
    """Return the function that calls a method by its number; attributes are constants of its code."""
    from numba.np.numpy_support import carray

    constants = {f"own_{place}": value for place, value in enumerate(attributes.values())}
    names = {**constants, **dispatchers, "Executed": Executed, "carray": carray}
    instance = "0"
    if attributes:
        names["Self"] = namedtuple("Self", tuple(attributes))
        instance = f"Self({', '.join(constants)})"
    lines = [f"def caller({', '.join(_OF_CLASS)}):", f"    me = {instance}"]
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


def _method_caller(made: Any, methods: Mapping[str, Callable[..., Any] | None]) -> Callable[..., int]:
    """Return the same for runs without compiled kernels."""

    def call(
        op: int, place: int, words: int, n: int, p: int, what: int, step: int, pe: int, *rest: Any
    ) -> int:
        if op == NUMBERS:
            wanted = 0 if methods["numbers"] is None else operator.index(made.numbers(p))
            return wanted if wanted <= MOST_NUMBERS else RAISED
        memory = np.zeros(0)
        if words:
            memory = np.ctypeslib.as_array(ctypes.cast(place, ctypes.POINTER(ctypes.c_double)), (words,))
        if op == SIZE_OF:
            return operator.index(made.size(memory, n, p, what, step, pe))
        if op == BEGIN and methods["begin"] is not None:
            made.begin(memory, n, p)
        if op == LEARN and methods["learn"] is not None:
            made.learn(memory, n, p, Executed(pe, step, what, *rest))
        return 0

    return call


USER_MODELS: Final = Family(
    "execution model",
    "application.execution.model",
    "mlsim.models",
    ("run",),
    (*ExecutionModel, *ExecutionModel.aliases()),
    "docs/reference/loops.md",
    arguments=1,
)
PROPERTIES: Final = "mlsim_properties"  # attribute of a declared model with its properties


def model_entry(model: str) -> ModelEntry:
    """Return the record of a model; a user-defined one (file or entry point) is loaded once per process.

    Raises InputError if it is missing, or not declared an execution model.
    """
    if isinstance(model, ExecutionModel):
        return model.entry
    file = user_function(model)
    path = None if file is None else expanded(file[0])
    changed = os.stat(path).st_mtime_ns if path is not None and is_file(path) else 0
    # Beside the name, as 1 and true are equal.
    return _loaded(model, json.dumps(parameters_of(model), default=str), changed)


@cache
def _loaded(name: str, _parameters: str, _changed: int) -> ModelEntry:
    title = f"{USER_MODELS.name} {name}"
    model = make_callable(USER_MODELS, name)
    # The declaration is on the object of a bound method, or below a partial.
    declared = getattr(model, "__self__", None) or getattr(model, "func", model)
    properties = getattr(declared, PROPERTIES, None)
    if not isinstance(properties, ModelProperties):
        raise InputError(
            f"{title}: is not declared an execution model; write @execution_model(levels=1) above it, with "
            f"its other properties; see {USER_MODELS.page}"
        )
    signature = inspect.signature(model)
    try:
        signature.bind(None)
    except TypeError:
        raise InputError(
            f"{title}: takes {signature}; allowed: one argument, inputs, and its own parameters after it"
        ) from None

    def run(inputs: Inputs) -> int:
        return _checked(title, inputs, _called(title, model, inputs))

    return ModelEntry(name=name, meaning="", reference="", properties=properties, run=run)


def _called(title: str, model: Callable[..., Any], inputs: Inputs) -> Any:
    n, p = len(inputs.prefix) - 1, len(inputs.speed)
    try:
        with compiling():
            return model(inputs)
    except InputError:
        raise
    except BaseException as error:  # whatever the user's code raises
        if isinstance(error, Exception) and type(error).__module__ == "numba.core.errors":
            raise InputError(f"{title}: cannot be compiled: {compiler_message(error)}") from error
        raise user_code_error(f"{title}: failed in a loop of {n} iterations on {p} PEs", error) from error


def _checked(title: str, inputs: Inputs, returned: Any) -> int:
    """Check the return value of a model, and, as far as visible, that all iterations were executed."""
    n, p = len(inputs.prefix) - 1, len(inputs.speed)
    place = f"{title}: in a loop of {n} iterations on {p} PEs it"
    if isinstance(returned, bool) or not isinstance(returned, int | np.integer) or not -2 <= returned <= n:
        raise InputError(f"{place} returns {returned!r:.60}; allowed: the number of chunks, or -1 or -2")
    if returned < 0:
        return int(returned)
    times, counts = inputs.stats
    if not np.isfinite(times).all() or (times < 0.0).any() or (counts < 0).any():
        raise InputError(f"{place} gives a PE a time that is negative or not finite")
    if returned <= len(inputs.rows.pe):  # else none are kept, or they are counted first
        _check_rows(place, inputs, int(returned))
    return int(returned)


def _check_rows(place: str, inputs: Inputs, count: int) -> None:
    """Check that chunks with rows lie in the loop, do not overlap, and cover it if all have rows."""
    rows, n = inputs.rows, len(inputs.prefix) - 1
    first, size = rows.numbers[1, :count], rows.numbers[2, :count]
    order = np.argsort(first, kind="stable")
    begin, end = first[order], (first + size)[order]
    wrong = (size < 1) | (first < 0) | (first + size > n)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise InputError(f"{place} executes {size[row]} iterations from {first[row]} on")
    if (begin[1:] < end[:-1]).any():
        row = int(np.flatnonzero(begin[1:] < end[:-1])[0])
        raise InputError(f"{place} executes iteration {begin[row + 1]} twice")
    has_all = inputs.until == math.inf and rows.since == -math.inf and not len(inputs.pe_unavailability.begin)
    if has_all and size.sum() != n:
        raise InputError(f"{place} executes {size.sum()} of them")


def check_model(config: ApplicationConfig) -> None:
    """Load the user-defined model of a scenario, if any, and check that it can run the techniques."""
    if not isinstance(config.execution.model, ExecutionModel):
        for technique in config.techniques:
            check_levels(technique, config.execution, config.parameters)


def check_levels(
    technique: str, execution: ExecutionConfig, parameters: ParametersConfig, learners: tuple[str, ...] = ()
) -> None:
    """Check that a model can run a technique, or two as X+Y; ``learners``: user-defined classes by name."""
    for message in wrong_levels(
        technique,
        execution.model,
        execution.nowait,
        model_entry(execution.model).properties,
        execution.global_p,
        learners,
        parameters.compat,
        execution.request_ahead,
    ):
        raise InputError(f"technique: {message}")
