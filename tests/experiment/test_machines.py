import pytest

from mlsim.errors import InputError
from mlsim.experiment.loops import node_groups


def rows(pes, speeds=None):
    return [(group["count"], group["cores"], group["speed"] / 1e9) for group in node_groups(pes, speeds)]


@pytest.mark.parametrize(
    ("pes", "speeds", "groups"),
    [
        ("16x16", None, [(16, 16, 1)]),
        ("8", None, [(1, 8, 1)]),
        ("4x48, 6x16", "1.3x4,2.4x6", [(4, 48, 1.3), (6, 16, 2.4)]),
        ("4x8", "1,1,.5x2", [(2, 8, 1), (2, 8, 0.5)]),
        ("2x8,2x8", None, [(4, 8, 1)]),
        ("2×8", "0.5×2", [(2, 8, 0.5)]),
        ("3x8,2x4", "1x4,2", [(3, 8, 1), (1, 4, 1), (1, 4, 2)]),
    ],
)
def test_equal_neighbours_are_one_group(pes, speeds, groups):
    assert rows(pes, speeds) == groups
    assert len({group["name"] for group in node_groups(pes, speeds)}) == len(groups)


@pytest.mark.parametrize("pes", ["", "x", "4x", "x4", "-4", "0", "4x0", "1.5x2", "4x4,", "9999999x9999", "a"])
def test_wrong_machines_are_refused(pes):
    with pytest.raises(InputError, match="--pes"):
        node_groups(pes)


@pytest.mark.parametrize("speeds", ["", "0", "-1x4", "1x5", "1x3", "nan", "inf", "1x4,", "1x0", "1e3x4"])
def test_wrong_speeds_are_refused(speeds):
    with pytest.raises(InputError, match="--speeds"):
        node_groups("4x4", speeds)
