"""Energy profiles of jobs: read, cleaned, classified, and made into power over time (Zrigui 2021, ch. 7).

``samples`` reads files of measured power, ``tree`` cleans and classifies, ``steps`` gives what a run takes
(``workload.power``), ``made`` makes profiles of known classes, on which thresholds are tried.
"""

from mlsim.learning.energy.energy_classes import Cleaning, EnergyClass, Profile, Tree, classify, cleaned
from mlsim.learning.energy.energy_samples import (
    JobPower,
    MadeProfiles,
    Measured,
    Samples,
    made_profiles,
    power_steps,
    read_samples,
    write_samples,
    write_steps,
)

__all__ = [
    "Cleaning",
    "EnergyClass",
    "JobPower",
    "MadeProfiles",
    "Measured",
    "Profile",
    "Samples",
    "Tree",
    "classify",
    "cleaned",
    "made_profiles",
    "power_steps",
    "read_samples",
    "write_samples",
    "write_steps",
]
