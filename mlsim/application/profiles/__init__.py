"""Profiles of iteration costs.

Importing this package loads no kernel; the profiles that need one do when they are computed.
"""

from mlsim.application.profiles.profile_costs import (
    PROFILES,
    ProfileEntry,
    Request,
    fixed_length,
    image_size,
    iteration_costs,
    read_costs,
)

__all__ = [
    "PROFILES",
    "ProfileEntry",
    "Request",
    "fixed_length",
    "image_size",
    "iteration_costs",
    "read_costs",
]
