"""Energy profiles of jobs: read, cleaned, classified, and made into power over time (Zrigui 2021, ch. 7).

``samples`` reads files of measured power, ``tree`` cleans and classifies, ``steps`` gives what a run takes
(``workload.power``), ``made`` makes profiles of known classes, on which thresholds are tried.
"""

from mlsim.learning.energy.made import MadeProfiles, made_profiles
from mlsim.learning.energy.samples import Measured, Samples, read_samples, write_samples
from mlsim.learning.energy.steps import JobPower, power_steps, write_steps
from mlsim.learning.energy.tree import Cleaning, EnergyClass, Profile, Tree, classify, cleaned

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
