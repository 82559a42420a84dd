"""A Mandelbrot image, one pixel per iteration (Eleliemy 2021, Alg. 4.2); the result: an image of counts."""

import argparse

import numpy as np

from mlsim.application.profiles.counted_costs import MandelbrotImage, count_every_step, count_steps
from mlsim.errors import InputError
from mlsim.mpi.apps.common import Application, main
from mlsim.scenario import Scenario


class Mandelbrot(Application):
    """Number of steps of every pixel until it escapes; after ``limit`` steps it belongs to the set.

    With ``every_step`` points of the set execute all steps, so that pixels cost as in the profile
    ``mandelbrot``. Otherwise a point ends when its orbit is a cycle.
    """

    name = "mandelbrot"

    def __init__(self, image: MandelbrotImage, limit: int, every_step: bool = False) -> None:
        self.image, self.limit, self.n = image, limit, image.size**2
        self._count = count_every_step if every_step else count_steps
        rows = np.arange(image.size)
        self._imaginary = image.y_min + rows * (image.y_max - image.y_min) / image.size
        self.out = np.zeros(self.n, np.int64)
        self._count(2.0, self._imaginary[:1], image.exponent, limit, np.zeros(1, np.int64))  # loads it

    def execute(self, first: int, size: int) -> None:
        """Compute some pixels, which may be of several columns."""
        image, width, end = self.image, self.image.size, first + size
        while first < end:
            x, y = divmod(first, width)
            stop = min(end, (x + 1) * width)
            real = image.x_min + x * (image.x_max - image.x_min) / width
            part = self._imaginary[y : y + stop - first]
            self._count(real, part, image.exponent, self.limit, self.out[first:stop])
            first = stop

    def alone(self) -> Application:
        """Return the same image."""
        return Mandelbrot(self.image, self.limit)


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, help="width and height in pixels (default 256)")
    parser.add_argument("--limit", type=int, help="most steps (default 1000)")
    parser.add_argument(
        "--every-step",
        action="store_true",
        help="do all steps of points of the set, so that costs are counts",
    )


def _make(arguments: argparse.Namespace, scenario: Scenario | None) -> Mandelbrot:
    image, limit = MandelbrotImage(256), 1000
    if scenario is not None and scenario.application.costs.profile.value == "mandelbrot":
        costs, iterations = scenario.application.costs.parameters, scenario.application.iterations
        window = costs.window
        count = None if iterations is None else iterations.count
        size = costs.size or round((count or 1152**2) ** 0.5)
        image = MandelbrotImage(size, costs.exponent, window.x_min, window.x_max, window.y_min, window.y_max)
        limit = costs.limit
    if arguments.size is not None:
        image = image._replace(size=arguments.size)
    limit = arguments.limit if arguments.limit is not None else limit
    if image.size < 1 or limit < 1:
        raise InputError(f"mandelbrot: size {image.size}, limit {limit}; allowed: 1 or more")
    return Mandelbrot(image, limit, arguments.every_step)


if __name__ == "__main__":
    main("A Mandelbrot image, its pixels self-scheduled.", _add, _make)
