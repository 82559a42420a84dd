"""Studies: many runs, of loops or of whole scenarios, kept one by one, compared in tables and pictures.

From the top down: ``engine`` does a study; ``results`` writes what it leaves, by ``tables``, ``drawing``
and ``loop_pictures``; ``executors`` run tasks here or elsewhere, each by ``executing``; ``store`` keeps what
they give; ``planning`` makes tasks of a study; ``loading`` reads a study from its ``file``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlsim._late import late

if TYPE_CHECKING:
    from mlsim.experiment.study.study_engine import run_study
    from mlsim.experiment.study.study_loading import load_study
    from mlsim.experiment.study.study_model import Study
    from mlsim.experiment.study.study_plan import StudyRow
    from mlsim.experiment.study.study_results import StudyTables, read_study

__all__ = ["Study", "StudyRow", "StudyTables", "load_study", "read_study", "run_study"]

__getattr__ = late(
    __name__,
    {
        "study_engine": "run_study",
        "study_loading": "load_study",
        "study_model": "Study",
        "study_plan": "StudyRow",
        "study_results": "read_study StudyTables",
    },
)
