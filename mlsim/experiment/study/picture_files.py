"""Which pictures a study has, and the names of their files; known before anything is drawn, or simulated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, TypeVar

from mlsim.experiment.study.own_pictures import file_name, gantt_file
from mlsim.experiment.study.pictures import PictureSpec
from mlsim.experiment.study.tables import relative_title

if TYPE_CHECKING:
    from mlsim.experiment.study.model import Study
    from mlsim.experiment.study.points import Point
    from mlsim.experiment.study.rows import StudyRow

__all__ = ["picture_files", "pictures_of"]

Labelled = TypeVar("Labelled", "StudyRow", "Point")


def picture_files(study: Study, points: Sequence[Point]) -> Iterator[tuple[PictureSpec, list[str]]]:
    """Yield each picture entry of a study with the names of its files."""
    for picture in study.pictures:
        if picture.kind == "gantt":
            shown = [point for point in points if picture.shows(point.labels)]
            yield picture, [gantt_file(picture, point.labels) for point in shown]
            continue
        first = picture.kind
        if picture.kind == "metric":
            first = relative_title(study) if picture.relative else picture.metric or next(iter(study.metrics))
        yield (
            picture,
            [
                f"{file_name(first, *labels.values())}.{study.formats[0]}"
                for labels, _ in pictures_of(study, picture, points)
            ],
        )


def pictures_of(
    study: Study, picture: PictureSpec, rows: Sequence[Labelled]
) -> Iterator[tuple[dict[str, str], list[Labelled]]]:
    """Yield the pictures of one entry: labels in common, and what is in them, of some runs or points."""
    inside = {picture.lines, picture.panels, picture.along}
    if picture.kind == "metric":
        inside.add(study.repetitions or "")
    axes = [axis for axis in study.axes if axis.name not in inside]
    for labels in product(*(axis.points for axis in axes)):
        common = dict(zip([axis.name for axis in axes], labels, strict=True))
        part = [row for row in rows if picture.shows(row.labels) and common.items() <= row.labels.items()]
        if part:
            yield common, part
