"""Pictures of one run alone, which are drawn right after it: nodes or PEs over time."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mlsim.experiment.study.model import Study
from mlsim.experiment.study.pictures import PictureSpec
from mlsim.experiment.study.points import Point
from mlsim.experiment.study.tasks import OwnPicture

__all__ = ["MEANS", "file_name", "gantt_file", "own_pictures", "picture_title", "timeline_file"]


MEANS = " (means with their 95 % intervals)"
"""What titles of pictures of repetitions end with."""


def own_pictures(study: Study, point: Point) -> dict[str, OwnPicture]:
    """Return the pictures of one combination alone, by the names of their files."""
    found = {
        gantt_file(picture, point.labels): OwnPicture(
            "gantt", picture_title(study.name, point.labels), picture.span
        )
        for picture in study.pictures
        if picture.kind == "gantt" and picture.shows(point.labels)
    }
    if study.drawn(point):
        title = f"{study.name}: {', '.join(point.labels.values())}"
        found[timeline_file(point)] = OwnPicture("timeline", title)
    return {
        f"{name.removesuffix('.png')}.{suffix}": picture
        for name, picture in found.items()
        for suffix in study.formats
    }


def gantt_file(picture: PictureSpec, labels: Mapping[str, str]) -> str:
    """Return the name of the file that shows the nodes of one run over time."""
    part = [] if picture.span is None else [f"{second:g}" for second in picture.span]
    return f"{file_name('gantt', *labels.values(), *part)}.png"


def timeline_file(point: Point) -> str:
    """Return the name of the file that shows the PEs of one combination over time."""
    words = re.sub(r"[^\w+.-]+", "-", ", ".join(point.labels.values()))
    return f"pes-{words.strip('-.')}.png"


def picture_title(study: str, labels: Mapping[str, str]) -> str:
    """Return the title of a picture of what has some labels in common."""
    words = ", ".join(f"{name} {label}" for name, label in labels.items())
    return f"{study}: {words}" if words else study


def file_name(*words: str) -> str:
    """Return words as the name of a file, without suffix."""
    return re.sub(r"[^\w+.-]+", "-", " ".join(words)).strip("-.")
