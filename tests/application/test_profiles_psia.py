"""The spin-image profile against plain Python, and its facts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlsim.application import CostProfiles
from mlsim.application.profiles import counted_costs
from mlsim.application.profiles.counted_costs import (
    Cloud,
    ImageCounter,
    SpinImage,
    generate_cloud,
    image_counts,
)
from mlsim.scenario.application_section import IterationsConfig
from mlsim.scenario.costs_section import CostsConfig
from tests.reference import applications as slow


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLSIM_CACHE", str(tmp_path_factory.mktemp("cache")))


def slow_counts(cloud: Cloud, image: SpinImage, of: range) -> list[int]:
    points, normals = cloud.position.T.tolist(), cloud.normal.T.tolist()
    images = (slow.spin_image(points, normals, i, image.width, image.bin_size, image.angle) for i in of)
    return [sum(map(sum, image)) for image in images]


@settings(deadline=None, max_examples=60)
@given(
    points=st.integers(1, 60),
    seed=st.integers(0, 99),
    width=st.integers(2, 9),
    bin_size=st.floats(0.001, 1.0),
    angle=st.floats(0.1, math.pi),
)
def test_counts_are_those_of_the_algorithm(
    points: int, seed: int, width: int, bin_size: float, angle: float
) -> None:
    cloud, image = generate_cloud(points, seed), SpinImage(width, bin_size, angle)
    counts = ImageCounter(cloud, image).count(np.arange(points))
    assert counts.tolist() == slow_counts(cloud, image, range(points))


def test_counts_of_a_denser_cloud_whose_images_span_few_cells() -> None:
    cloud, image = generate_cloud(3000, 1), SpinImage(5, 0.02, 1.0)
    counts = ImageCounter(cloud, image).count(np.arange(40))
    assert counts.tolist() == slow_counts(cloud, image, range(40))
    assert counts.max() > 5


def test_a_point_belongs_to_its_own_image() -> None:
    assert image_counts(1, SpinImage(2, 1e-6, 0.1), 1000, 0).tolist() == [1]


def test_points_are_on_a_closed_surface_with_outward_normals() -> None:
    cloud = generate_cloud(20_000, 7)
    assert (cloud.position.max(axis=1) - cloud.position.min(axis=1)).max() == pytest.approx(1.0)
    np.testing.assert_allclose((cloud.normal**2).sum(axis=0), 1.0, rtol=1e-12)
    assert ((cloud.position * cloud.normal).sum(axis=0) > 0).all()
    # Neighbours lie in each other's planes: the normals are those of the surface.
    away = cloud.position[:, 1:] - cloud.position[:, :1]
    near = np.argsort((away**2).sum(axis=0))[:5]
    height = np.abs(cloud.normal[:, 0] @ away[:, near])
    assert (height < 0.1 * np.sqrt((away[:, near] ** 2).sum(axis=0))).all()


def test_the_seed_decides_the_cloud() -> None:
    assert generate_cloud(10, 1).position.tobytes() == generate_cloud(10, 1).position.tobytes()
    assert generate_cloud(10, 1).position.tobytes() != generate_cloud(10, 2).position.tobytes()


def test_fewer_images_are_the_first_of_more_and_more_than_points_repeat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counted_costs, "_BLOCK", 64)
    image = SpinImage(5, 0.05, 2.0)
    whole = ImageCounter(generate_cloud(500, 3), image).count(np.arange(500))
    for n in (1, 63, 64, 65, 400, 500):
        assert np.array_equal(image_counts(n, image, 500, 3), whole[:n])
    assert np.array_equal(image_counts(1200, image, 500, 3), np.concatenate([whole, whole, whole[:200]]))


def profile(n: int, **costs: Any) -> CostProfiles:
    return CostProfiles(CostsConfig(profile="psia", points=2000, **costs), IterationsConfig(count=n), 1e9, 0)


def test_costs_are_counts_scaled_to_the_mean() -> None:
    counts = image_counts(300, SpinImage(4, 0.03, 1.5), 2000, 9)
    keys = {"image_width": 4, "bin_size": 0.03, "support_angle": 1.5, "cloud_seed": 9}
    costs = np.diff(profile(300, mean="0.2 s", **keys).prefix(1, 4, 0.0))
    np.testing.assert_allclose(costs, counts * (0.2 / counts.mean()), rtol=1e-9)


def test_points_that_are_only_looked_at_cost_their_share() -> None:
    counts = image_counts(300, SpinImage(), 2000, 0)
    costs = np.diff(profile(300, unit_cost="1 us", scan_cost=0.25).prefix(1, 4, 0.0))
    np.testing.assert_allclose(costs, (counts + 0.25 * 2000) * 1e-6, rtol=1e-9)
