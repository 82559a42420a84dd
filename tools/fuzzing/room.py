"""What a room of the fuzzer is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tools.fuzzing.inputs import write_supports

__all__ = ["Arguments", "Draw", "Room"]

Draw = np.random.Generator
Arguments = list[str]


class Room(ABC):
    """One kind of input."""

    def prepare(self, directory: Path) -> None:
        """Write what every case needs beside its own input."""
        write_supports(directory)

    @abstractmethod
    def controls(self, directory: Path) -> Iterator[Arguments]:
        """Write valid inputs one after the other, and give the command that must succeed with each."""

    @abstractmethod
    def case(self, directory: Path, draw: Draw) -> Arguments:
        """Write one case's input into a directory, and give the command that reads it."""

    def execute(self, arguments: Arguments) -> None:
        """Carry out a case in this process; what is wrong with the input is raised."""
        from mlsim.cli.main import app

        app(arguments, standalone_mode=False)
