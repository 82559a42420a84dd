"""Mandelbrot and spin images in plain Python: slow, and as close to the algorithms as can be."""

from __future__ import annotations

import math
from collections.abc import Sequence

Point = Sequence[float]


def power(z: complex, exponent: int) -> complex:
    """z to a whole power by its binary digits; Python multiplies complex numbers as in school."""
    result = z
    for digit in bin(exponent)[3:]:
        result *= result
        if digit == "1":
            result *= z
    return result


def escape_counts(
    size: int, limit: int, exponent: int, x_min: float, x_max: float, y_min: float, y_max: float
) -> list[int]:
    """Eleliemy 2021, Alg. 4.2, with the loop test that it means."""
    counts = []
    for counter in range(size * size):
        x, y = counter // size, counter % size
        c = complex(x_min + x * (x_max - x_min) / size, y_min + y * (y_max - y_min) / size)
        z = complex(0, 0)
        k = 0
        while k < limit and z.real * z.real + z.imag * z.imag < 4.0:
            z = power(z, exponent) + c
            k += 1
        counts.append(k)
    return counts


def dot(one: Point, other: Point) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def spin_image(
    points: Sequence[Point], normals: Sequence[Point], i: int, width: int, bin_size: float, angle: float
) -> list[list[int]]:
    """One pass of the loop of Eleliemy 2021, Alg. 4.1, with W/2 taken in bins."""
    image = [[0] * width for _ in range(width)]
    for point, normal in zip(points, normals, strict=True):
        if math.acos(max(-1.0, min(1.0, dot(normals[i], normal)))) <= angle:
            away = [a - b for a, b in zip(point, points[i], strict=True)]
            beta = dot(normals[i], away)
            alpha = math.sqrt(max(dot(away, away) - beta**2, 0.0))
            row = math.ceil(width / 2 - beta / bin_size)
            column = math.ceil(alpha / bin_size)
            if 0 <= row < width and 0 <= column < width:
                image[row][column] += 1
    return image
