"""The parallel spin-image algorithm, one image an iteration; the result is all images.

The cloud is generated (see ``mlsim.application.profiles.cloud``), the same on every rank.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from mpi4py import MPI

from mlsim.application.profiles.cloud import generate_cloud
from mlsim.application.profiles.psia import SpinImage
from mlsim.errors import InputError
from mlsim.mpi.apps.common import Application, main, summed
from mlsim.scenario import Scenario

__all__ = ["Psia"]


class Psia(Application):
    """Makes spin images.

    Parameters
    ----------
    n
        Images; image i is that of point i mod ``points``.
    points, seed
        Of the cloud.
    image
        Shape of the images.
    """

    name = "psia"

    def __init__(self, n: int, points: int, seed: int, image: SpinImage) -> None:
        from mlsim.mpi.apps.spin_images import make_images

        self.n, self._points, self._seed, self._image = n, points, seed, image
        self._make = make_images
        cloud = generate_cloud(points, seed)
        self._position, self._normal = (
            np.ascontiguousarray(cloud.position),
            np.ascontiguousarray(cloud.normal),
        )
        self.images = np.zeros((n, image.width, image.width), np.int32)
        self.execute(0, 0)  # loads the kernel

    def begin(self) -> None:
        """Clear the images."""
        self.images[:] = 0

    def execute(self, first: int, size: int) -> None:
        """Make some images."""
        image, part = self._image, self.images[first : first + size]
        cosine = math.cos(image.angle)
        self._make(self._position, self._normal, first, image.width, image.bin_size, cosine, part)

    def result(self, comm: MPI.Intracomm) -> bytes | None:
        """Return all images, reduced to rank 0."""
        return summed(comm, self.images)

    def expected(self) -> bytes:
        """Make all images here."""
        alone = Psia(self.n, self._points, self._seed, self._image)
        alone.execute(0, self.n)
        return alone.images.tobytes()


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, help="images (default 2000)")
    parser.add_argument("--points", type=int, help="points of the cloud (default 2000)")


def _make(arguments: argparse.Namespace, scenario: Scenario | None) -> Psia:
    n, points, seed, image = 2000, 2000, 0, SpinImage()
    if scenario is not None and scenario.application.costs.profile.value == "psia":
        costs, iterations = scenario.application.costs, scenario.application.iterations
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
