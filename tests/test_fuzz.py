"""A few damaged and hostile inputs of every kind; `tools/fuzz.py` tries thousands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlsim.errors import InputError
from tests.effort import examples
from tools.fuzzing.mutate import mutated
from tools.fuzzing.rooms import ROOMS, Room
from tools.fuzzing.trial import Trial, draw_of

SLOW = {"study", "cp", "scenario"}
"""Rooms whose valid inputs take seconds to simulate or to solve."""


@pytest.mark.parametrize(
    "room", [pytest.param(room, marks=[pytest.mark.slow] * (room in SLOW)) for room in ROOMS]
)
def test_a_few_of_each(tmp_path: Path, room: str) -> None:
    trial = Trial(room, tmp_path, controls=False)
    verdicts = [trial(number, seed=2026) for number in range(examples(5))]
    assert [verdict for verdict in verdicts if verdict.failed] == []
    assert {verdict.word for verdict in verdicts} <= {"done", "refused"}


class _Wrong(Room):
    """Does wrong what is asked of it."""

    def controls(self, directory: Path):
        return iter(())

    def case(self, directory: Path, draw: np.random.Generator) -> list[str]:
        (directory / "x").write_text("")
        return [
            ("crash", "traceback", "leave", "change", "refuse", "panic", "work")[
                int(draw.integers(1 << 30)) % 7
            ]
        ]

    def execute(self, arguments: list[str]) -> None:
        match arguments[0]:
            case "crash":
                raise RecursionError
            case "traceback":
                print("Traceback (most recent call last):")
            case "panic":
                raise BaseException("panicked")
            case "leave":
                Path("left").write_text("")
            case "change":
                Path("x").write_text("changed")
            case "refuse":
                raise InputError("no")


def test_the_fuzzer_sees_what_goes_wrong(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(ROOMS, "wrong", _Wrong())
    (tmp_path / "fuzz").mkdir()
    trial = Trial("wrong", tmp_path / "fuzz")
    words = {trial(number, 1, tmp_path / "kept").word for number in range(60)}
    assert words == {"traceback", "noise", "left-over", "changed", "refused", "done"}
    kept = next((tmp_path / "kept").iterdir())
    assert (kept / "VERDICT").read_text().startswith("mlsim ")


def test_cases_are_those_of_room_seed_and_number() -> None:
    seed = b"a: 1\nb: [2, 3]\n"
    once, again = ([mutated(seed, draw_of("set", 1, k), text=True) for k in range(40)] for _ in range(2))
    assert once == again
    assert len(set(once)) > 20
    assert once[0] != mutated(seed, draw_of("set", 2, 0), text=True)
