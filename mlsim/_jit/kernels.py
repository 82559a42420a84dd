"""The decorators of kernels, and what they make of a function."""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, TypeVar, cast, overload

from mlsim._jit import object_cache
from mlsim._jit.kernel_identity import key_of
from mlsim._jit.kernel_library import name_of
from mlsim._jit.mode import INTERPRETED, require_numba
from mlsim._runtime import interpreted

F = TypeVar("F", bound=Callable[..., Any])


class Kernel:
    """A function that is compiled when it is first called; numba is loaded where that, or a call, needs it.

    ``options`` are those of ``numba.njit``; ``inner``: only kernels call it.
    """

    def __init__(self, body: Callable[..., Any], options: dict[str, Any], inner: bool) -> None:
        update_wrapper(self, body)
        self.py_func, self.options, self.inner = body, options, inner
        self._dispatcher: Any = None
        self._part: Any = None
        self._entries = None if inner or not options.get("cache", True) else object_cache.Entries(self)

    @property
    def dispatcher(self) -> Any:
        """Numba's object for it."""
        if self._dispatcher is None:
            require_numba(f"kernel {name_of(self)}")
            from mlsim._jit.numba_compiler import dispatcher_of

            self._dispatcher = dispatcher_of(self, self.inner)
        return self._dispatcher

    @property
    def part(self) -> Any:
        """Numba's object for it as a part of those kernels that call it.

        What Python and kernels call is compiled for each when it does: most kernels have one kind of callers
        in a run, and machine code of its own takes longer to make than anything else.
        """
        if self._part is None:
            if self.inner or self._entries is None or "inline" in self.options:
                self._part = self.dispatcher
            else:
                from mlsim._jit.numba_compiler import dispatcher_of

                self._part = dispatcher_of(self, True)
        return self._part

    @property
    def key(self) -> str | None:
        """The key under which it is kept, of the code that it is made of; None: it cannot be."""
        return key_of(self)

    @property
    def _numba_type_(self) -> Any:
        """The type by which kernels know it."""
        return self.part._numba_type_

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Run it: what is kept of it while numba is not needed for another reason, else by numba."""
        if self._dispatcher is None and self._entries is not None and not named:
            answer = self._entries.call(arguments)
            if answer is not object_cache.MISSING:
                return answer
        return self.dispatcher(*arguments, **named)

    @property
    def targetoptions(self) -> dict[str, Any]:
        """The options by which numba sees whether it becomes part of the source of what calls it."""
        return self.options

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of Numba's dispatcher, such as its compiled overloads."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__


@overload
def kernel(function: F, /) -> F: ...
@overload
def kernel(**options: Any) -> Callable[[F], F]: ...
def kernel(function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
    """Compile a function over numbers and arrays on its first call, and keep the machine code on disk.

    ``options`` are further ones of ``numba.njit``, such as ``inline="always"``. Division follows NumPy's
    rules (no exception on zero). Floating point is strict: no reordering, so that results are the same bytes
    on every run.
    """
    if function is None:
        return lambda body: _kernel(body, options, False)
    return _kernel(function, options, False)


def _kernel(body: F, options: dict[str, Any], inner: bool) -> F:
    if INTERPRETED:
        return body if inner or "inline" in options else interpreted.with_error_model(body)
    return cast(F, Kernel(body, options, inner))


def inner_kernel(function: F) -> F:
    """Compile a kernel that only kernels call, and that becomes machine code with them alone."""
    return _kernel(function, {}, True)


def apart_kernel(function: F) -> F:
    """Compile an inner kernel of which LLVM decides whether its code becomes part of those that call it.

    That of an :func:`inner_kernel` does where numba first compiles it for a :func:`leaf_kernel`, which hands
    this on to all below it. Such code is fast and takes long to compile, as there are many copies of it.
    """
    return _kernel(function, {"forceinline": False}, True)


def inlined(function: F) -> F:
    """Make a function part of the source of each kernel that calls it: it is compiled with them alone."""
    return _kernel(function, {"inline": "always"}, False)


def leaf_kernel(function: F) -> F:
    """Compile a small kernel whose machine code becomes part of each kernel that calls it."""
    return _kernel(function, {"forceinline": True}, True)
