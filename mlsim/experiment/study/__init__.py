"""Studies: many runs, of loops or of whole scenarios, kept one by one, compared in tables and pictures.

From the top down: ``engine`` does a study; ``results`` writes what it leaves, by ``tables``, ``drawing``
and ``loop_pictures``; ``executors`` run tasks here or elsewhere, each by ``executing``; ``store`` keeps what
they give; ``planning`` makes tasks of a study; ``loading`` reads a study from its ``file``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlsim._late import late

if TYPE_CHECKING:
    from mlsim.experiment.study.engine import run_study
    from mlsim.experiment.study.loading import load_study
    from mlsim.experiment.study.model import Study
    from mlsim.experiment.study.reading import StudyTables, read_study
    from mlsim.experiment.study.rows import StudyRow

__all__ = ["Study", "StudyRow", "StudyTables", "load_study", "read_study", "run_study"]

__getattr__ = late(
    __name__,
    {
        "engine": "run_study",
        "loading": "load_study",
        "model": "Study",
        "reading": "StudyTables read_study",
        "rows": "StudyRow",
    },
)
