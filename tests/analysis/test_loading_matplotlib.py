"""How matplotlib is loaded: with its documentation for programs, without for commands."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import matplotlib
import pytest
from matplotlib import _docstring
from matplotlib.artist import Artist

from mlsim import _matplotlib

_LOAD = """
import hashlib, io, json, sys
from mlsim import _matplotlib
if sys.argv[1] == "command":
    _matplotlib.leave_out_documentation()
assert "matplotlib" not in sys.modules
_matplotlib.load()
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

class OfUser(Line2D):
    "A kind of line."

figure = Figure()
FigureCanvasAgg(figure)
axes = figure.add_axes((0.1, 0.1, 0.8, 0.8))
axes.add_line(OfUser([0, 1], [0, 1]))
axes.plot([0, 1], [1, 0], label="down")
axes.set(xlim=(0, 2), title="a title")
axes.legend()
picture = io.BytesIO()
figure.savefig(picture, format="png", metadata={"Software": None})
facts = {
    "picture": hashlib.sha256(picture.getvalue()).hexdigest(),
    "filled in": "%(" not in Axes.plot.__doc__,
    "properties": "linewidth" in (Line2D.set.__doc__ or ""),
    "of the user's class": "linewidth" in (OfUser.set.__doc__ or ""),
}
print(json.dumps(facts))
"""


def _loaded_by(who: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", _LOAD, who], capture_output=True, text=True, check=True)
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def test_only_commands_leave_documentation_out_and_pictures_are_the_same() -> None:
    program, command = _loaded_by("program"), _loaded_by("command")
    assert program["picture"] == command["picture"]
    assert program["filled in"]
    assert program["properties"]
    assert not command["filled in"]
    assert not command["properties"]
    assert command["of the user's class"], "what is made later has its documentation"


def test_what_was_replaced_meanwhile_is_there_again() -> None:
    names = [(Artist, "_update_set_signature_and_docstring"), (_docstring.Substitution, "__call__")]
    before = [vars(owner)[name] for owner, name in names]
    with _matplotlib._undocumented():
        assert all(vars(owner)[name] is not own for (owner, name), own in zip(names, before, strict=True))
    assert [vars(owner)[name] for owner, name in names] == before


def test_a_matplotlib_without_these_parts_is_loaded_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(_docstring, "Substitution")
    before = vars(Artist)["_update_set_signature_and_docstring"]
    with _matplotlib._undocumented():
        assert vars(Artist)["_update_set_signature_and_docstring"] is before
    assert matplotlib.__version__
