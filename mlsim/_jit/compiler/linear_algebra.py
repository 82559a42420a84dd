"""Numba's look at SciPy, put off until a kernel asks for linear algebra.

When Numba loads what it knows of NumPy it imports ``scipy.linalg``, which takes as long as NumPy and Numba
together, only to see whether it is there. No kernel of ours has linear algebra; one that does, of a user,
is checked by Numba once more when it is compiled.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

__all__ = ["load_without_scipy"]


def load_without_scipy() -> None:
    """Import what Numba knows of NumPy's arrays; SciPy, if it is installed, is taken to be of use."""
    linalg: Any = import_module("numba.np.linalg")
    check = getattr(linalg, "ensure_blas", None)
    if check is None or find_spec("scipy") is None:
        return
    linalg.ensure_blas = lambda: None
    try:
        user: Any = import_module("numba.np.arraymath")
        user.ensure_blas = check
    finally:
        linalg.ensure_blas = check
