"""Whether kernels are compiled, and what stands for a compiled function where they are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import config
from numba.extending import intrinsic

from mlsim import _interpreted

__all__ = ["INTERPRETED", "for_kernels", "numba_config"]

numba_config: Any = config
"""Settings of numba; mypy does not see the names that numba fills in later."""
INTERPRETED = bool(numba_config.DISABLE_JIT)
"""Whether kernels run as Python functions, for ``NUMBA_DISABLE_JIT=1``."""
if INTERPRETED:
    _interpreted.follow_the_error_model()


def for_kernels(typed: Callable[..., Any], in_python: Callable[..., Any]) -> Any:
    """Make an intrinsic: numba's stubs know it as the function that types it, not as what kernels call."""
    return in_python if INTERPRETED else intrinsic(typed)
