"""Profiles of iteration costs, one module a family.

Importing this package loads no kernel; the profiles that need one do when they are computed.
"""

from mlsim.application.profiles.files import read_costs
from mlsim.application.profiles.making import fixed_length, image_size, iteration_costs
from mlsim.application.profiles.registry import PROFILES, ProfileEntry
from mlsim.application.profiles.request import Request

__all__ = [
    "PROFILES",
    "ProfileEntry",
    "Request",
    "fixed_length",
    "image_size",
    "iteration_costs",
    "read_costs",
]
