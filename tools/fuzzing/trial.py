"""One case carried out and judged: a clean success, a clean refusal, or a failure."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click
import numpy as np

from mlsim.errors import MlsimError
from tools.fuzzing.rooms import ROOMS, Room

__all__ = ["Trial", "Verdict", "draw_of"]

CPU_SECONDS = 20.0
_CONTROL_SECONDS = 600.0  # kernels may be compiled
_NOISE = (
    "Traceback (most recent call last)",
    "panicked at",
    "internal error",
    "Exception ignored",
    "Warning:",
)
_LONGEST_MESSAGE = 20_000
_OUTPUTS = {"out", "out.csv", "out.png", "out.swf", "out.parquet"}


@dataclass(frozen=True)
class Verdict:
    """How a case ended: ``done``, ``refused``, or what is wrong."""

    word: str
    detail: str = ""

    @property
    def failed(self) -> bool:
        """Whether it is neither a success nor a refusal."""
        return self.word not in ("done", "refused")


class _TooLongError(BaseException):
    """A case took more processor time than any such small input may."""


def draw_of(room: str, seed: int, number: int) -> np.random.Generator:
    """Return the random numbers of one case, the same whatever others there are."""
    return np.random.default_rng([seed, number, *room.encode()])


class Trial:
    """Carries out the cases of a room.

    Parameters
    ----------
    name
        The room.
    directory
        Where supports and cases are written.
    controls
        Whether to see first that the valid inputs succeed, without which failures would show nothing.
    """

    def __init__(self, name: str, directory: Path, *, controls: bool = True) -> None:
        self._name = name
        self._room: Room = ROOMS[name]
        self._base = directory / "base"
        self._case = directory / "case"
        self._base.mkdir()
        self._room.prepare(self._base)
        self._fresh()
        for arguments in self._room.controls(self._case) if controls else ():
            verdict, said = self._executed(arguments, _CONTROL_SECONDS)
            if verdict.word != "done":
                raise RuntimeError(f"a valid input fails: {arguments}: {verdict.detail}\n{said}")
            self._fresh()

    def _fresh(self) -> None:
        """Lay out the directory of a case anew."""
        shutil.rmtree(self._case, ignore_errors=True)
        shutil.copytree(self._base, self._case, copy_function=_linked)

    def __call__(self, number: int, seed: int, keep: Path | None = None) -> Verdict:
        """Carry out a case; if it fails, its directory is kept."""
        self._fresh()
        arguments = self._room.case(self._case, draw_of(self._name, seed, number))
        before = _tree(self._case)
        verdict, said = self._executed(arguments)
        verdict = self._judged(verdict, said, before)
        if verdict.failed and keep is not None:
            self._save(keep / f"{self._name}-{seed}-{number}", arguments, verdict, said)
        return verdict

    def _executed(self, arguments: list[str], seconds: float = CPU_SECONDS) -> tuple[Verdict, str]:
        here = Path.cwd()
        os.chdir(self._case)
        with tempfile.TemporaryFile() as said:
            with _output_to(said.fileno()):
                try:
                    with _limited(seconds):
                        verdict = _outcome(self._room, arguments)
                except _TooLongError:
                    verdict = Verdict("hang", f"more than {seconds:g} s of processor time")
            os.chdir(here)
            said.seek(0)
            return verdict, said.read().decode("utf-8", "replace")

    def _judged(self, verdict: Verdict, said: str, before: dict[str, tuple[int, int]]) -> Verdict:
        if verdict.failed:
            return verdict
        noise = next((word for word in _NOISE if word in said), None)
        if noise is not None:
            return Verdict("noise", f"{noise!r} in what was printed: {said[-2000:]}")
        if len(verdict.detail) > _LONGEST_MESSAGE:
            return Verdict("long", f"a message of {len(verdict.detail)} letters: {verdict.detail[:500]}")
        after = _tree(self._case)
        allowed = _OUTPUTS if verdict.word == "done" else set()
        left = {name for name in after if name not in before and name.split("/")[0] not in allowed}
        if left:
            return Verdict("left-over", ", ".join(sorted(left)[:5]))
        changed = [name for name, status in before.items() if after.get(name) != status]
        return Verdict("changed", ", ".join(changed[:5])) if changed else verdict

    def _save(self, place: Path, arguments: list[str], verdict: Verdict, said: str) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self._case, place, copy_function=shutil.copy2)
        lines = [f"mlsim {' '.join(map(ascii, arguments))}", verdict.word, verdict.detail, said[-4000:]]
        (place / "VERDICT").write_text("\n".join(lines), encoding="utf-8", errors="backslashreplace")


def _outcome(room: Room, arguments: list[str]) -> Verdict:
    try:
        room.execute(arguments)
    except (MlsimError, click.ClickException) as error:
        return Verdict("refused", str(error))
    except (click.exceptions.Exit, click.Abort):
        return Verdict("done")
    except _TooLongError:
        raise
    except BaseException as error:  # whatever comes out is what is looked for
        if isinstance(error.__context__, _TooLongError):
            raise _TooLongError from error
        return Verdict("traceback", "".join(traceback.format_exception(error))[-6000:])
    return Verdict("done")


def _linked(source: str, target: str) -> Any:
    return os.link(source, target)


def _tree(directory: Path) -> dict[str, tuple[int, int]]:
    return {
        path.relative_to(directory).as_posix(): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in directory.rglob("*")
        if not path.is_dir()
    }


@contextlib.contextmanager
def _output_to(descriptor: int) -> Iterator[None]:
    """Have Python's and the process' own output go to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    streams = sys.stdout, sys.stderr
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    try:
        with open(1, "w", closefd=False, encoding="utf-8", errors="backslashreplace") as out:
            sys.stdout = sys.stderr = out
            yield
    finally:
        sys.stdout, sys.stderr = streams
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        for old in kept:
            os.close(old)


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Interrupt what takes too much processor time; a busy machine changes nothing."""

    def stop(*_: object) -> NoReturn:
        raise _TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
