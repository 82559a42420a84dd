"""Word that kernels are being compiled: said once, where it takes long, and never where it does not."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from mlsim._jit.kernel_store import PATIENCE, Announcer


class Clockwork:
    """A clock that is put forward by hand, and timers that it sets off."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[Timer] = []

    def timer(self, delay: float, act: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now + delay, act))
        return self.timers[-1]

    def forward(self, seconds: float) -> None:
        self.now += seconds
        for timer in self.timers:
            if timer.running and timer.due <= self.now:
                timer.running = False
                timer.act()


class Timer:
    daemon = False

    def __init__(self, due: float, act: Callable[[], None]) -> None:
        self.due, self.act, self.running = due, act, False

    def start(self) -> None:
        assert self.daemon  # or Python would wait for it after an error
        self.running = True

    def cancel(self) -> None:
        self.running = False

    def join(self) -> None:
        assert not self.running


@pytest.fixture
def clockwork() -> Clockwork:
    return Clockwork()


@pytest.fixture
def announcer(clockwork) -> Announcer:
    return Announcer(lambda: clockwork.now, clockwork.timer)


def compile_for(seconds: float, announcer: Announcer, clockwork: Clockwork) -> None:
    announcer.begin()
    announcer.begin()  # a kernel that the kernel calls
    clockwork.forward(seconds)
    announcer.end()
    announcer.end()


def test_a_kernel_or_two_are_compiled_without_a_word(announcer, clockwork, capsys):
    compile_for(0.9 * PATIENCE, announcer, clockwork)
    clockwork.forward(60)
    assert capsys.readouterr().err == ""
    assert announcer.seconds == pytest.approx(0.9 * PATIENCE)


def test_who_waits_is_told_while_the_compiler_is_at_work(announcer, clockwork, capsys):
    announcer.begin()
    clockwork.forward(0.9 * PATIENCE)
    assert capsys.readouterr().err == ""
    clockwork.forward(0.2 * PATIENCE)
    assert capsys.readouterr().err == "Compiling kernels (once per machine, kept on disk) ...\n"
    announcer.end()


def test_the_message_has_the_share_done_and_an_estimate(announcer, clockwork, capsys):
    compile_for(0.5 * PATIENCE, announcer, clockwork)
    announcer.seconds_left = lambda: 10.0  # as the manifest says, of what is not on disk
    announcer.begin()
    clockwork.forward(0.5 * PATIENCE)
    announcer.end()
    left = 10.0 - 0.5 * PATIENCE
    share = PATIENCE / (PATIENCE + left)
    said = f"Compiling kernels (once per machine, kept on disk): {share:.0%} done, about {left:.0f} s left"
    assert capsys.readouterr().err == f"{said} ...\n"


def test_an_estimate_that_is_exceeded_is_left_out(announcer, clockwork, capsys):
    announcer.seconds_left = lambda: 0.1
    announcer.begin()
    clockwork.forward(2 * PATIENCE)
    announcer.end()
    assert "left" not in capsys.readouterr().err


def test_many_short_ones_add_up_and_are_told_of_once(announcer, clockwork, capsys):
    for _ in range(4):
        compile_for(0.3 * PATIENCE, announcer, clockwork)
        clockwork.forward(60)  # work between them does not count
    assert capsys.readouterr().err.count("Compiling") == 1
    compile_for(60, announcer, clockwork)
    assert capsys.readouterr().err == ""
    assert announcer.seconds == pytest.approx(1.2 * PATIENCE + 60)


def test_one_more_kernel_after_long_compiling_is_told_of_at_once(announcer, clockwork, capsys):
    compile_for(PATIENCE, announcer, clockwork)
    assert capsys.readouterr().err.count("Compiling") == 1
    late = Announcer(lambda: clockwork.now, clockwork.timer)
    late.seconds = 2 * PATIENCE
    late.begin()
    clockwork.forward(0)
    assert capsys.readouterr().err.count("Compiling") == 1


def test_a_quiet_command_is_not_told(announcer, clockwork, capsys):
    announcer.begin()
    announcer.quiet = True  # also where the timer runs already
    clockwork.forward(60)
    announcer.end()
    compile_for(60, announcer, clockwork)
    assert capsys.readouterr().err == ""


def test_the_usual_timer_is_gone_when_compiling_has_ended():
    announcer = Announcer()
    before = threading.active_count()
    announcer.begin()
    assert threading.active_count() == before + 1
    announcer.end()
    assert threading.active_count() == before
