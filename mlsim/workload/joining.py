"""Joining blocks of jobs: their columns, and what only some logs have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from mlsim.workload.log_dependencies import LogDependencies, join_dependencies
from mlsim.workload.own import OwnColumns, joined_own
from mlsim.workload.resource_requests import ResourceRequests, join_requests

__all__ = ["joined_columns"]


class _Block(Protocol):
    @property
    def asked(self) -> ResourceRequests | None: ...
    @property
    def after(self) -> LogDependencies | None: ...
    @property
    def own(self) -> OwnColumns | None: ...
    def __len__(self) -> int: ...


def joined_columns(blocks: Sequence[_Block], names: Sequence[str]) -> dict[str, Any]:
    """Return the columns of these names end to end, and ``asked``, ``after`` and ``own`` of all blocks."""
    sizes = list(map(len, blocks))
    asked = join_requests([block.asked for block in blocks], sizes)
    after = join_dependencies([block.after for block in blocks], sizes)
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(block, name) for block in blocks]) for name in names
    }
    return columns | {"asked": asked, "after": after, "own": joined_own([block.own for block in blocks])}
