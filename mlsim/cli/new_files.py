"""New files of a command: all of them whole, or none."""

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path

from mlsim._runtime.places import unfinished
from mlsim.errors import InputError, OutputError


@contextmanager
def new_files(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield temporary names for new files, renamed to their own when the block ends without an error.

    Nothing is overwritten (InputError). If a file of that name appears meanwhile, the new files get numbered
    names (OutputError); if one cannot be written, none is left (OutputError).
    """
    from mlsim.experiment.manifest import Owner

    token = Owner.this_process().token
    places = [path.parent.resolve() / path.name for path in paths]
    for path, place in zip(paths, places, strict=True):
        _check(path)
        if places.count(place) > 1:
            raise InputError(f"{path}: is asked for twice; give each file a name of its own")
        _clear(path)
    names = [(path, *_split(path)) for path in paths]
    partial = [path.with_name(f".{stem}.{token}.partial{suffix}") for path, stem, suffix in names]
    numbered = (
        [path.with_name(f"{stem}-{number:03d}{suffix}") for path, stem, suffix in names]
        for number in count(1)
    )
    try:
        with unfinished(*partial):
            yield partial
        kept = next(free for free in chain([list(paths)], numbered) if _rename(partial, free))
    except OutputError as error:
        text = str(error)
        for hidden, path in zip(partial, paths, strict=True):
            text = text.replace(str(hidden), str(path))
        raise OutputError(text) from error
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(f"{paths[0]}: cannot be written: {reason}. Nothing was kept.") from error
    finally:
        for left in partial:
            left.unlink(missing_ok=True)
    if kept != list(paths):
        raise OutputError(
            f"{', '.join(map(str, paths))}: appeared meanwhile, and is left as it is. What was written is in "
            f"{', '.join(map(str, kept))}"
        )


def _split(path: Path) -> tuple[str, str]:
    """Return the name without its suffix, and the suffix: of a compressed file both, such as ``.swf.gz``."""
    from mlsim.workload.format_record import SUFFIXES

    inner = Path(path.stem).suffix if path.suffix in SUFFIXES else ""
    return path.name.removesuffix(inner + path.suffix), inner + path.suffix


def _rename(partial: Sequence[Path], names: Sequence[Path]) -> bool:
    """Rename the files, all or none; return whether all names were free."""
    done: list[Path] = []
    try:
        for source, path in zip(partial, names, strict=True):
            try:
                os.link(source, path)
            except FileExistsError:
                raise
            except OSError:  # a file system without hard links
                if os.path.lexists(path):
                    raise FileExistsError(path) from None
                source.rename(path)
            done.append(path)
    except BaseException as error:
        for path in done:
            path.unlink()
        if isinstance(error, FileExistsError):
            return False
        raise
    return True


def _check(path: Path) -> None:
    try:
        if path.exists() or path.is_symlink():
            raise InputError(
                f"{path}: already exists; nothing is overwritten. Give another name, or move it away."
            )
        if not path.parent.is_dir():
            raise InputError(f"{path}: there is no directory {path.parent}; make it, or give another name")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{str(path)[:200]!r}: {reason}. Give another name.") from error
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError(f"{path}: no permission to write in {path.parent}; give another name")


def _clear(path: Path) -> None:
    """Remove and report what processes left that have ended without finishing the file."""
    from mlsim.experiment.manifest import Owner

    stem, suffix = _split(path)
    # A writer may have had a further name for it, before it was renamed to ours.
    pattern = rf"\.?\.{re.escape(stem)}\.([^.]+)\.partial{re.escape(suffix)}(?:\.\d+\.partial)?"
    for name in sorted(os.listdir(path.parent)):
        match = re.fullmatch(pattern, name)
        owner = None if match is None else Owner.of_token(match[1])
        if owner is not None and owner.lives() is False:
            left = path.with_name(name)
            left.unlink(missing_ok=True)
            logging.getLogger("mlsim").warning(
                "%s: left over by process %d on %s, which ended without finishing it; removed",
                left,
                owner.pid,
                owner.host,
            )
