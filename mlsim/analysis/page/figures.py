"""Still pictures as SVG inside a page, with a text alternative each."""

from __future__ import annotations

import io
import re
from html import escape

from matplotlib.figure import Figure

from mlsim.analysis.plots.paper import paper_style

__all__ = ["inline_picture"]


def inline_picture(figure: Figure, name: str, words: str, wide: bool = False) -> str:
    """Return a figure element with a picture.

    Parameters
    ----------
    figure
        The picture.
    name
        Unlike that of any other picture of the page: keeps the names inside of it apart.
    words
        What it shows: caption and text alternative.
    wide
        Whether it takes the whole width.
    """
    buffer = io.StringIO()
    with paper_style():
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|xlink:href="#|url\(#)', rf"\g<1>{name}-", svg)
    label = f'role="img" aria-label="{escape(words, quote=True)}" '
    svg = svg.replace("<svg ", f"<svg {label}", 1)
    return f"<figure{' class=wide' if wide else ''}>{svg}<figcaption>{escape(words)}</figcaption></figure>"
