"""Laws that every schedule keeps, judged from the tables of a run alone, by slow and obvious rules."""

from mlsim.verify.laws import judge
from mlsim.verify.run_schedule import Breach, Verdict

__all__ = ["Breach", "Verdict", "judge"]
