"""Outages as hatched rectangles of time and nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from mlsim._arrays import Floats
from mlsim.analysis.plots.style import INK, VERMILION, TimeAxis
from mlsim.record import OutageKind, Outages
from mlsim.record.outages import out_of_use_spans

__all__ = ["draw_outages", "out_of_use_boxes"]


_LOOKS = {
    OutageKind.FAILED: ("failed", "xxxx", VERMILION),
    OutageKind.DRAINED: ("drained", "////", INK),
    OutageKind.ANNOUNCED_DRAIN: ("drained, announced", "\\\\\\\\", INK),
}
_HATCHED = 3000
"""Up to so many rectangles of a kind are hatched; more are tinted, which takes a tenth of the time."""


def draw_outages(axes: Axes, axis: TimeAxis, outages: Outages) -> list[Patch]:
    """Draw when which nodes were out of use, a hatch a kind; give what a legend says of them.

    Nodes are drawn from their number to the next; what jobs still held there shows through.
    """
    handles = []
    for kind, (label, hatch, colour) in _LOOKS.items():
        of_kind = outages.kind == kind
        some = Outages(*(getattr(outages, name)[of_kind] for name in ("node", "kind", "start", "end")))
        boxes = out_of_use_boxes(some, axis.begin, axis.end)
        if not len(boxes):
            continue
        is_hatched = len(boxes) <= _HATCHED
        hatched: dict[str, Any] = {"hatch": hatch, "facecolor": "none"}
        look = hatched if is_hatched else {"facecolor": colour, "alpha": 0.35}
        look |= {"edgecolor": colour, "linewidth": 0.0}
        begin, end, first, last = boxes.T
        corners = [[begin, first], [end, first], [end, last], [begin, last]]
        scaled = np.array([[times / axis.seconds, nodes] for times, nodes in corners])
        axes.add_collection(PolyCollection(list(scaled.transpose(2, 0, 1)), **look), autolim=False)
        handles.append(Patch(label=label, **look))
    return handles


def out_of_use_boxes(outages: Outages, begin: float, end: float) -> Floats:
    """Return the outages within [begin, end] as rectangles: begin, end, first node, last node + 1.

    Neighbouring nodes that are out of use for the same time are one.
    """
    node, start, stop = out_of_use_spans(outages, begin, end)
    order = np.lexsort((node, stop, start))
    node, start, stop = node[order], start[order], stop[order]
    new = (np.diff(node) != 1) | (np.diff(start) != 0) | (np.diff(stop) != 0)
    first = np.flatnonzero(np.append(True, new)[: len(node)])
    last = np.append(first[1:], len(node))[: len(first)] - 1
    return np.column_stack([start[first], stop[first], node[first], node[last] + 1.0])
