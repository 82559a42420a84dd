"""A dispatcher of the user's own may ask to be woken at a time."""

from __future__ import annotations

from textwrap import dedent

import pytest

from mlsim.batch.state import node_passes
from mlsim.errors import InputError
from tests.batch.hardware import jobs_with_requests, machine, simulate

HARDWARE = machine((2, 4, 8, {}))


@pytest.fixture
def plugin(tmp_path):
    """Write a dispatcher into a file; give the name by which a scenario knows it."""

    def write(text: str) -> str:
        file = tmp_path / "own.py"
        lines = "import math\nfrom mlsim.batch.view import Reject, Start, Wake\nclass Mine:\n    seen = []\n"
        file.write_text(lines + "    def dispatch(self, view):\n" + dedent(text).replace("\n", "\n        "))
        return f"{file}:Mine"

    return write


def rows():
    return jobs_with_requests(
        HARDWARE, [0.0, 0.0, 30.0], [10.0, 5.0, 2.0], [20.0, 6.0, 3.0], [2, 1, 1], [[4, 0]] * 3
    )


NIGHTS = """
        if view.now % 100 < 50:
            yield Wake(at=view.now - view.now % 100 + 50)
        elif view.running.job_id.size == 0:
            yield Start(0)
"""


def test_jobs_start_at_times_at_which_nothing_else_happens(plugin):
    _, done, _ = simulate(HARDWARE, rows(), dispatcher=plugin(NIGHTS))
    assert done.start_time.tolist() == [50.0, 60.0, 65.0]


def test_every_time_that_was_asked_for_gets_its_pass(plugin, tmp_path):
    text = f"""
        with open({str(tmp_path / "asked")!r}, "a") as file:
            print(view.now, file=file)
        if view.now == 0:
            yield Wake(at=40.0)
            yield Wake(at=7)
            yield Wake(at=40.0)
        if view.now == 40:
            yield from map(Start, range(1))
            yield Reject(1, "late")
            yield Reject(2, "late")
"""
    _, done, _ = simulate(HARDWARE, rows(), dispatcher=plugin(text))
    assert (tmp_path / "asked").read_text().split() == ["0.0", "7.0", "30.0", "40.0"]
    assert done.start_time[0] == 40.0


def test_a_pass_interval_delays_it(plugin):
    _, done, _ = simulate(HARDWARE, rows(), dispatcher=plugin(NIGHTS), pass_interval=40.0)
    assert done.start_time.tolist() == [80.0, 160.0, 280.0]


@pytest.mark.parametrize("at", ["view.now", "view.now - 1", "math.inf", "math.nan", "True", "'soon'", "None"])
def test_only_times_to_come_can_be_asked_for(plugin, at):
    with pytest.raises(InputError, match=r"wants to be woken at .* at 0 s; allowed: seconds, more than now"):
        simulate(HARDWARE, rows(), dispatcher=plugin(f"\n        yield Wake(at={at})\n"))


def test_who_only_asks_to_be_woken_is_stopped(plugin, monkeypatch):
    monkeypatch.setattr(node_passes, "_MOST_IDLE_WAKES", 100)
    with pytest.raises(InputError, match="asked to be woken 100 times in a row while nothing ran"):
        simulate(HARDWARE, rows(), dispatcher=plugin("\n        yield Wake(at=view.now + 1)\n"))


def test_who_starts_nothing_leaves_jobs_unstarted(plugin):
    system, _, _ = simulate(
        HARDWARE, rows(), dispatcher=plugin("\n        if view.now < 5:\n            yield Wake(at=90)\n")
    )
    assert system.rejections().job.tolist() == [0, 1, 2]
