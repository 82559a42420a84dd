"""Pages of the site that lie elsewhere in the repository, and links between all of them.

A page's links are written for the repository, where an editor follows them. Here they are followed from the
pages of ``docs/``: each page of the repository that one leads to becomes a page of the site, each other file a
file that can be loaded, and the link leads there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

__all__ = ["Pages", "outside_of_code"]

_LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^()\s]+)\)")
_FENCE = re.compile(r"(^ *(```+|~~~+).*?^ *\2 *$)", re.MULTILINE | re.DOTALL)


def outside_of_code(text: str, change: Callable[[str], str]) -> str:
    """Return a page with its text changed, and its blocks of code as they were."""
    parts: list[str] = []
    end = 0
    for block in _FENCE.finditer(text):
        parts += [change(text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, change(text[end:])])


class Pages:
    """Which file of the repository is which page, or which file, of the site.

    Parameters
    ----------
    repository
        Its root.
    own
        Pages that the site writes itself: they are linked to as though they lay in ``docs/``.
    """

    def __init__(self, repository: Path, own: Iterable[str]) -> None:
        self._repository = repository
        self._own = {f"docs/{page}" for page in own}
        self._uris: dict[str, str] = {}
        self._read: set[str] = set()

    def add(self, page: str) -> None:
        """Take up a page of the repository, and whatever its links lead to."""
        if page in self._read:
            return
        self._read.add(page)
        self._uris.setdefault(page, self._uri(page))
        text = (self._repository / page).read_text(encoding="utf-8")
        self.follow(page, text)

    def follow(self, page: str, text: str) -> None:
        """Take up what the links of a text lead to, which is written for the place of this page."""
        outside_of_code(text, lambda part: _LINK.sub(lambda link: self._note(page, link), part))

    def _note(self, page: str, link: re.Match[str]) -> str:
        target = self._target(page, link[2])
        if target is None or target in self._own:
            return link[0]
        if target.endswith(".md"):
            self.add(target)
        else:
            self._uris.setdefault(target, self._uri(target))
        return link[0]

    def _target(self, page: str, link: str) -> str | None:
        """Return the file that a link leads to, from the root; None of links out of the repository."""
        place = link.partition("#")[0]
        if not place or "://" in place or place.startswith(("mailto:", "/")):
            return None
        target = os.path.normpath(PurePosixPath(page).parent / place)
        if (self._repository / target).is_dir():
            target = f"{target}/README.md"
        if target not in self._own and not (self._repository / target).is_file():
            raise FileNotFoundError(f"{page}: link to {link}: there is no {target}")
        return target

    @staticmethod
    def _uri(target: str) -> str:
        return target.removeprefix("docs/") if target.startswith("docs/") else f"repository/{target}"

    def elsewhere(self) -> dict[str, Path]:
        """Return what the site shows that does not lie in ``docs/``: address to file."""
        return {
            uri: self._repository / target
            for target, uri in sorted(self._uris.items())
            if not target.startswith("docs/")
        }

    def page_of(self, uri: str) -> str:
        """Return the place of a page of the site in the repository."""
        return uri.removeprefix("repository/") if uri.startswith("repository/") else f"docs/{uri}"

    def for_site(self, uri: str, text: str) -> str:
        """Return a page whose links lead to pages of the site."""
        page = self.page_of(uri)

        def lead(link: re.Match[str]) -> str:
            target = self._target(page, link[2])
            if target is None:
                return link[0]
            there = self._uri(target)
            place = os.path.relpath(there, PurePosixPath(uri).parent)
            _, mark, anchor = link[2].partition("#")
            return f"{link[1]}({place}{mark}{anchor})"

        return outside_of_code(text, lambda part: _LINK.sub(lead, part))
