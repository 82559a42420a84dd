"""Pictures of costs: what they are made of, and that they show it."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from mlsim.analysis.plots import iteration_costs, write_picture
from mlsim.analysis.plots.loop_plots import cost_band, cost_bins, cost_facts

costs_of_any_sort = st.lists(st.floats(0, 1e6), min_size=1, max_size=200).map(np.array)


@settings(deadline=None)
@given(costs=costs_of_any_sort, bins=st.integers(1, 50))
def test_a_band_covers_every_iteration_once(costs, bins):
    band = cost_band(costs, bins)
    assert band.edges[0] == 0
    assert band.edges[-1] == len(costs)
    assert len(band.mean) == min(bins, len(costs))
    size = np.diff(band.edges)
    assert size.max() - size.min() <= 1
    assert (band.mean * size).sum() == pytest.approx(costs.sum())
    for bin_, (begin, end) in enumerate(zip(band.edges[:-1], band.edges[1:], strict=True)):
        part = costs[int(begin) : int(end)]
        assert (band.least[bin_], band.largest[bin_]) == (part.min(), part.max())


@settings(deadline=None)
@given(costs=costs_of_any_sort)
def test_a_histogram_has_room_for_every_cost(costs):
    edges, logarithmic = cost_bins(costs)
    assert (np.diff(edges) >= 0).all()
    assert edges[0] <= costs.min() * (1 + 1e-12)
    assert edges[-1] >= costs.max() * (1 - 1e-12)
    assert not logarithmic or costs.min() > 0


def test_a_histogram_of_costs_far_apart_is_logarithmic():
    assert cost_bins(np.append(np.ones(90), np.full(10, 1000.0)))[1]
    assert not cost_bins(np.append(np.ones(10), np.full(90, 1000.0)))[1]
    assert not cost_bins(np.arange(10.0))[1]


def test_facts():
    assert cost_facts(np.array([1.0, 3.0])) == {
        "count": 2, "mean": 2.0, "std": 1.0, "min": 1.0, "max": 3.0, "cov": 0.5,
    }  # fmt: skip
    assert cost_facts(np.zeros(3))["cov"] is None


@pytest.mark.parametrize(
    "costs",
    [
        np.zeros(1),
        np.zeros(5),
        np.full(3, 1e-9),
        np.arange(100.0),
        np.geomspace(1e-6, 1e6, 5000),
        np.append(np.zeros(1000), 1e9),
    ],
)
def test_costs_of_every_sort_are_drawn(costs):
    for image in (None, (0.0, 1.0, 0.0, 1.0)):
        if image is None or int(len(costs) ** 0.5) ** 2 == len(costs):
            file = io.BytesIO()
            write_picture(iteration_costs(costs, "some", image=image), file)
            file.seek(0)
            assert imread(file).shape[1] == 1500


def test_the_image_is_upright():
    # Only the pixel of the largest real and the least imaginary part is dear.
    costs = np.ones(9)
    costs[6] = 100.0
    figure = iteration_costs(costs, "image", "steps", (0.0, 3.0, 0.0, 3.0))
    axes = next(axes for axes in figure.axes if axes.get_xlabel() == "real part of c")
    shown = axes.images[0]
    assert list(shown.get_extent()) == [0.0, 3.0, 0.0, 3.0]
    assert shown.origin == "lower"
    assert np.argwhere(np.asarray(shown.get_array()) == 100.0).tolist() == [[0, 2]]
