"""Bounded, validated reading of all input files.

Defects in a user's file raise an :class:`~mlsim.errors.InputError` that names the file, whichever library
detects them. ``opening`` opens files and limits their size, ``decoding`` turns bytes into text and JSON,
``memory`` limits memory use. Separate modules, as they load large libraries: ``npy`` reads NumPy columns,
``parquet`` Parquet columns.
"""

from mlsim._files.decoding import decode, json_of, read_json, read_text
from mlsim._files.opening import (
    expanded,
    is_directory,
    is_file,
    is_there,
    memory_limit,
    most_held,
    named,
    open_file,
    read_bytes,
    reason_of,
    resolved,
)

__all__ = [
    "decode",
    "expanded",
    "is_directory",
    "is_file",
    "is_there",
    "json_of",
    "memory_limit",
    "most_held",
    "named",
    "open_file",
    "read_bytes",
    "read_json",
    "read_text",
    "reason_of",
    "resolved",
]
