"""The parallel spin-image algorithm, one image per iteration."""

import argparse
import math

import numpy as np
from numpy.typing import NDArray

from mlsim._jit import kernel
from mlsim._runtime.arrays import Floats
from mlsim.application.profiles.counted_costs import SpinImage, generate_cloud
from mlsim.errors import InputError
from mlsim.mpi.apps.common import Application, main
from mlsim.scenario import Scenario


class Psia(Application):
    """Spin images of a random cloud; image i is that of point i mod ``points``."""

    name = "psia"

    def __init__(self, n: int, points: int, seed: int, image: SpinImage) -> None:
        self.n, self._points, self._seed, self._image = n, points, seed, image
        cloud = generate_cloud(points, seed)
        self._position, self._normal = map(np.ascontiguousarray, (cloud.position, cloud.normal))
        self.out = np.zeros((n, image.width, image.width), np.int32)
        self.execute(0, 0)  # loads the kernel

    def execute(self, first: int, size: int) -> None:
        """Make some images."""
        image, part = self._image, self.out[first : first + size]
        cosine = math.cos(image.angle)
        make_images(self._position, self._normal, first, image.width, image.bin_size, cosine, part)

    def alone(self) -> Application:
        """Return the same images."""
        return Psia(self.n, self._points, self._seed, self._image)


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, help="images (default 2000)")
    parser.add_argument("--points", type=int, help="points of the cloud (default 2000)")


def _make(arguments: argparse.Namespace, scenario: Scenario | None) -> Psia:
    n, points, seed, image = 2000, 2000, 0, SpinImage()
    if scenario is not None and scenario.application.costs.profile.value == "psia":
        costs, iterations = scenario.application.costs.parameters, scenario.application.iterations
        points, seed = costs.points, costs.cloud_seed
        image = SpinImage(costs.image_width, costs.bin_size, costs.support_angle)
        n = points if iterations is None or iterations.count is None else iterations.count
    n = arguments.size if arguments.size is not None else n
    points = arguments.points if arguments.points is not None else points
    if n < 0 or points < 1:
        raise InputError(f"psia: {n} images of {points} points; allowed: 0 or more, of 1 or more")
    return Psia(n, points, seed, image)


if __name__ == "__main__":
    main("Spin images of a cloud of points, self-scheduled.", _add, _make)


@kernel
def make_images(
    position: Floats,
    normal: Floats,
    first: int,
    width: int,
    bin_size: float,
    cosine: float,
    images: NDArray[np.int32],
) -> None:
    """Fill the images of the points from ``first`` on, modulo the points of the cloud.

    ``position`` and ``normal`` are float64[3, points]; ``width`` bins per axis have ``bin_size`` each, in the
    cloud's unit; ``cosine`` is that of the largest angle between the normals of two points of one image.
    ``images``, int32[size, width, width], receives the number of points per bin.
    """
    points = position.shape[1]
    for row in range(len(images)):
        images[row] = 0
        own = (first + row) % points
        px, py, pz = position[0, own], position[1, own], position[2, own]
        u, v, w = normal[0, own], normal[1, own], normal[2, own]
        for k in range(points):
            if u * normal[0, k] + v * normal[1, k] + w * normal[2, k] < cosine:
                continue
            dx, dy, dz = position[0, k] - px, position[1, k] - py, position[2, k] - pz
            height = u * dx + v * dy + w * dz
            distance2 = max(dx * dx + dy * dy + dz * dz - height * height, 0.0)
            line = math.ceil(0.5 * width - height / bin_size)
            column = math.ceil(math.sqrt(distance2) / bin_size)
            if 0 <= line < width and 0 <= column < width:
                images[row, line, column] += 1
