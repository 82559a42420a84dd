"""Studies: many runs, of loops or of whole scenarios, stored one by one, compared in tables and pictures.

From the top down: ``study_runner`` runs a study, by the executors; ``study_results`` writes its results by
``study_tables`` and ``study_pictures``; ``study_plan`` makes tasks of a study; ``study_store`` keeps their
results; ``study_loading`` reads a study by ``study_file``. The ``search_*`` modules do the same for searches.
"""

from typing import TYPE_CHECKING

from mlsim._runtime.late import late

if TYPE_CHECKING:
    from mlsim.experiment.study.study_loading import load_study
    from mlsim.experiment.study.study_model import Study
    from mlsim.experiment.study.study_plan import StudyRow
    from mlsim.experiment.study.study_results import StudyTables, read_study
    from mlsim.experiment.study.study_runner import run_study

__all__ = ["Study", "StudyRow", "StudyTables", "load_study", "read_study", "run_study"]

__getattr__ = late(
    __name__,
    {
        "study_loading": "load_study",
        "study_model": "Study",
        "study_plan": "StudyRow",
        "study_results": "read_study StudyTables",
        "study_runner": "run_study",
    },
)
