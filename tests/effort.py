"""How much the tests try: what fits into minutes, or with ``MLSIM_THOROUGH=1`` all there is."""

from __future__ import annotations

import os

THOROUGH = os.environ.get("MLSIM_THOROUGH", "") not in ("", "0")


def examples(usual: int) -> int:
    """Give how many random examples a slow test takes: ten times as many in a thorough run."""
    return 10 * usual if THOROUGH else usual
