"""What MkDocs calls while it builds the site (``hooks`` of ``mkdocs.yml``)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from mkdocs.structure.files import File, Files  # noqa: E402

from tools.site import gallery, reference  # noqa: E402
from tools.site.links import Pages  # noqa: E402

_GALLERY = "gallery.md"
_made: dict[str, Any] = {}


def on_files(files: Files, config: Any) -> Files:
    """Add what lies elsewhere in the repository, and what is made from the code and from runs."""
    directory = _made.setdefault("directory", tempfile.TemporaryDirectory(prefix="mlsim-site-"))
    if "drawn" not in _made:  # once a process: mkdocs serve calls this at every change
        _made["drawn"] = gallery.draw(REPOSITORY, Path(directory.name))
    drawn = _made["drawn"]
    texts = {**reference.pages(), _GALLERY: drawn.page}
    pages = Pages(REPOSITORY, (*texts, *drawn.pictures))
    for uri, text in texts.items():
        pages.follow(f"docs/{uri}", text)
        files.append(File.generated(config, uri, content=text))
    for name, path in drawn.pictures.items():
        files.append(File.generated(config, name, abs_src_path=str(path)))
    for file in files.documentation_pages():
        if file.abs_src_path and Path(file.abs_src_path).is_relative_to(REPOSITORY / "docs"):
            pages.add(f"docs/{file.src_uri}")
    for uri, path in pages.elsewhere().items():
        files.append(File.generated(config, uri, abs_src_path=str(path)))
    _made["pages"] = pages
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links lead to pages of the site."""
    return _made["pages"].for_site(page.file.src_uri, markdown)


def on_post_build(**_: Any) -> None:
    """Take the runs away."""
    if directory := _made.pop("directory", None):
        directory.cleanup()
        _made.clear()
